# The data behind each figure, and the figure.


def summaries(wildcards):
    return [
        f"{RESULTS}/{'summaries' if simulated(name) else 'computed'}/{name}.csv"
        for name in RUN.figures[wildcards.figure].experiments
    ]


def data_of(wildcards):
    return [f"{OUTPUT}/data/{wildcards.figure}.csv"] if RUN.figures[wildcards.figure].experiments else []


rule figure_data:
    input:
        summaries,
    output:
        f"{OUTPUT}/data/{{figure}}.csv",
    params:
        sources=source_digest("elastiqueue.summaries"),
    resources:
        mem_mb=700,
        runtime=10,
    shell:
        "{STEP} data --summaries {input:q} --output {output:q}"


rule draw:
    input:
        data_of,
    output:
        pdf=report(
            f"{OUTPUT}/{{figure}}.pdf",
            category=lambda wildcards: f"Paper {RUN.figures[wildcards.figure].paper}",
            caption="../report/figure.rst",
            labels=lambda wildcards: {"figure": wildcards.figure},
        ),
        png=f"{OUTPUT}/{{figure}}.png",
    params:
        function=lambda wildcards: RUN.figures[wildcards.figure].draw,
        caption=lambda wildcards: RUN.figures[wildcards.figure].caption,
        sources=lambda wildcards: source_digest(f"elastiqueue.figures.{RUN.figures[wildcards.figure].draw}"),
    resources:
        mem_mb=700,
        runtime=10,
    shell:
        "{STEP} draw --figure {params.function} --data {input:q} --pdf {output.pdf:q} --png {output.png:q}"
