# The data behind each figure, and the figure.


rule figure_data:
    input:
        summaries,
    output:
        f"{OUTPUT}/data/{{figure}}.csv",
    log:
        f"{RESULTS}/logs/figure_data/{{figure}}.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=10,
    params:
        sources=source_digest("elastiqueue.summaries"),
    shell:
        "python -m elastiqueue.steps data --summaries {input:q} --output {output:q} |& tee {log:q}"


rule draw:
    input:
        data_of,
    output:
        pdf=f"{OUTPUT}/{{figure}}.pdf",
        # The report shows images inline; a PDF it would hand to the browser's viewer, which not every browser has.
        png=report(
            f"{OUTPUT}/{{figure}}.png",
            category=lambda wildcards: f"Paper {RUN.figures[wildcards.figure].paper}",
            caption="../report/figure.rst",
            labels=lambda wildcards: {"figure": wildcards.figure},
        ),
    log:
        f"{RESULTS}/logs/draw/{{figure}}.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=10,
    params:
        function=lambda wildcards: RUN.figures[wildcards.figure].draw,
        caption=lambda wildcards: RUN.figures[wildcards.figure].caption,
        sources=lambda wildcards: source_digest(f"elastiqueue.figures.{RUN.figures[wildcards.figure].draw}"),
    shell:
        "python -m elastiqueue.steps draw --figure {params.function} --data {input:q} --pdf {output.pdf:q} --png {output.png:q} |& tee {log:q}"
