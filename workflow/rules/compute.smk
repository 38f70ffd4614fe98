# What needs no chance: exact solutions and fluid limits.


rule compute:
    output:
        table=f"{RESULTS}/computed/{{experiment}}.csv",
        provenance=f"{RESULTS}/computed/{{experiment}}.provenance.json",
    log:
        f"{RESULTS}/logs/compute/{{experiment}}.log",
    priority: 1  # the longest job may be among them, and nothing waits for the simulations alone
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 2**attempt
        * (3 if RUN.experiments[wildcards.experiment].engine == "stability_map" else 1),
    params:
        spec=lambda wildcards: EXPERIMENT[wildcards.experiment],
    shell:
        "python -m elastiqueue.workflow.steps compute --spec results/.specifications/{params.spec}.json"
        " --output {output.table:q} --provenance {output.provenance:q} 2>&1 | tee {log:q}"
