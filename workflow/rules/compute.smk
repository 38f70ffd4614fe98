# What needs no chance: exact solutions and fluid limits.


rule compute:
    output:
        f"{RESULTS}/computed/{{experiment}}.csv",
    params:
        spec=specifications,
        engine=lambda wildcards: RUN.experiments[wildcards.experiment].engine,
        metrics=metrics,
    resources:
        mem_mb=2000,
        runtime=60,
    shell:
        "{STEP} compute --engine {params.engine} --spec {params.spec:q} --metrics {params.metrics:q} --output {output:q}"
