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
        runtime=30,
    params:
        spec=specifications,
        engine=lambda wildcards: RUN.experiments[wildcards.experiment].engine,
        metrics=metrics,
    shell:
        "python -m elastiqueue.workflow.steps compute --engine {params.engine} --spec {params.spec:q} --metrics {params.metrics:q} --output {output.table:q} --provenance {output.provenance:q} 2>&1 | tee {log:q}"
