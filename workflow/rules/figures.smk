# The figures, each with the data behind it; a diagram has none.
DIAGRAMS = [name for name, spec in RUN.figures.items() if not spec.experiments]
NONE = "(?!)"  # matches nothing


rule draw:
    input:
        summaries,
    output:
        data=f"{OUTPUT}/data/{{figure}}.csv",
        pdf=f"{OUTPUT}/{{figure}}.pdf",
        png=picture(),
    log:
        f"{RESULTS}/logs/draw/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(name for name in RUN.figures if name not in DIAGRAMS) or NONE,
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        spec=drawing,
        caption=lambda wildcards: caption(RUN, wildcards.figure),
        sources=lambda wildcards: source_digest(
            "elastiqueue.results.tidy_tables",
            "elastiqueue.figures.schema",
            f"elastiqueue.figures.{RUN.figures[wildcards.figure].draw}",
        ),
    shell:
        "python -m elastiqueue.workflow.steps draw --spec {params.spec:q} --summaries {input:q} --data {output.data:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"


rule diagram:
    output:
        pdf=f"{OUTPUT}/{{figure}}.pdf",
        png=picture(),
    log:
        f"{RESULTS}/logs/diagram/{{figure}}.log",
    wildcard_constraints:
        figure="|".join(DIAGRAMS) or NONE,
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        spec=drawing,
        caption=lambda wildcards: caption(RUN, wildcards.figure),
        sources=lambda wildcards: source_digest(
            "elastiqueue.figures.schema", f"elastiqueue.figures.{RUN.figures[wildcards.figure].draw}"
        ),
    shell:
        "python -m elastiqueue.workflow.steps diagram --spec {params.spec:q} --pdf {output.pdf:q} --png {output.png:q} > {log:q} 2>&1"
