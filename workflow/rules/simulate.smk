# Simulation: pilot runs fix the windows of steady-state scenarios, blocks of replications, summaries.


rule pilot:
    input:
        [],
    output:
        f"{RESULTS}/pilots/{{experiment}}/{{chunk}}.json",
    params:
        spec=specification,
    resources:
        mem_mb=700,
        runtime=20,
    shell:
        "{STEP} pilot --spec {params.spec:q} --output {output:q}"


rule simulate:
    input:
        pilots=pilots,
    output:
        multiext(f"{RESULTS}/blocks/{{experiment}}/{{chunk}}/{{first}}-{{last}}", blocks=".npz", provenance=".json"),
    params:
        spec=specification,
        first=lambda wildcards: int(wildcards.first),
        last=lambda wildcards: int(wildcards.last),
    resources:
        mem_mb=700,
        runtime=60,
    cache: True
    shell:
        "{STEP} block --spec {params.spec:q} --first {params.first} --last {params.last}"
        " --output {output.blocks:q} --provenance {output.provenance:q} --pilots {input.pilots:q}"


rule summarise:
    input:
        block_files,
    output:
        f"{RESULTS}/summaries/{{experiment}}.csv",
    params:
        spec=specifications,
        metrics=metrics,
        sources=source_digest("elastiqueue.summaries"),
    resources:
        mem_mb=1000,
        runtime=20,
    shell:
        "{STEP} summary --spec {params.spec:q} --files {input:q} --metrics {params.metrics:q} --output {output:q}"
