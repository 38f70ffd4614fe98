# Simulation: pilot runs fix the windows of steady-state scenarios, blocks of replications, summaries.


rule pilot:
    output:
        multiext(f"{RESULTS}/pilots/{{experiment}}/{{chunk}}", windows=".json", provenance=".provenance.json"),
    log:
        f"{RESULTS}/logs/pilot/{{experiment}}/{{chunk}}.log",
    cache: True
    priority: 100  # the longest blocks wait for them
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        spec=specification,
    shell:
        "python -m elastiqueue.workflow.steps pilot --spec results/.specifications/{params.spec}.json"
        " --output {output.windows:q} --provenance {output.provenance:q} > {log:q} 2>&1"


rule simulate:
    input:
        pilots=pilots,
        before=blocks_before,
    output:
        multiext(
            f"{RESULTS}/blocks/{{experiment}}/{{chunk}}/{{first}}-{{last}}",
            blocks=".npz",
            provenance=".provenance.json",
        ),
    log:
        f"{RESULTS}/logs/simulate/{{experiment}}/{{chunk}}/{{first}}-{{last}}.log",
    cache: True
    priority: seconds  # the longest first, so that no core is idle at the end
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=minutes,
    params:
        spec=specification,
        first=lambda wildcards: int(wildcards.first),
        last=lambda wildcards: int(wildcards.last),
    shell:
        "python -m elastiqueue.workflow.steps block --spec results/.specifications/{params.spec}.json --first {params.first} --last {params.last}"
        " --output {output.blocks:q} --provenance {output.provenance:q} --pilots {input.pilots:q} --before {input.before:q} > {log:q} 2>&1"


rule summarise:
    input:
        lambda wildcards: block_files(wildcards.experiment),
    output:
        f"{RESULTS}/summaries/{{experiment}}.csv",
    log:
        f"{RESULTS}/logs/summarise/{{experiment}}.log",
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        results=lambda wildcards: RESULTS,
        spec=lambda wildcards: EXPERIMENT[wildcards.experiment],
        root=root(f"{RESULTS}/summaries/{{experiment}}.csv"),
        sources=source_digest("elastiqueue.workflow.summaries"),
    shell:
        "python -m elastiqueue.workflow.steps summary --spec results/.specifications/{params.spec}.json"
        " --blocks {params.root}/{params.results}/blocks/{wildcards.experiment} --output {output:q} > {log:q} 2>&1"
