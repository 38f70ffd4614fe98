# What is computed without random numbers: exact solutions and fluid limits.


MINUTES = {"stability_map": 6, "coverage": 60}  # the other engines take seconds


rule compute:
    output:
        table=f"{RESULTS}/computed/{{experiment}}.csv",
        provenance=f"{RESULTS}/computed/{{experiment}}.provenance.json",
    log:
        f"{RESULTS}/logs/compute/{{experiment}}.log",
    priority: 100  # seconds, as of blocks of replications: the longest job may be among them
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: MINUTES.get(RUN.experiments[wildcards.experiment].engine, 1)
        * 2 ** (attempt - 1),
    params:
        spec=lambda wildcards: EXPERIMENT[wildcards.experiment],
    shell:
        "python -m elastiqueue.workflow.steps compute --spec results/.specifications/{params.spec}.json"
        " --output {output.table:q} --provenance {output.provenance:q} > {log:q} 2>&1"
