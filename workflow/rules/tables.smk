# Tables of paper B (facets of capacity regions, bounds against measurements), and those of the configuration. TABLES are
# the files that `all` wants.
CAPTIONS = {
    "facets": "Facets of the capacity regions, distances and projections of the arrival rates. Exact.",
    "bounds": "Bounds in heavy traffic against measurements, with 95 % intervals.",
}
TABLE_INPUTS = {
    "facets": [name for name, one in RUN.experiments.items() if one.engine == "capacity"],
    # simulated experiments NAME that have their bounds, NAME_bounds, beside them
    "bounds": [
        each
        for name, one in RUN.experiments.items()
        if one.engine == "bounds" and name.removesuffix("_bounds") in RUN.experiments
        for each in (name.removesuffix("_bounds"), name)
    ],
}
TABLES = [
    f"{OUTPUT}/tables/{table}.{kind}"
    for table in [*(name for name, read in TABLE_INPUTS.items() if read and name not in RUN.tables), *RUN.tables]
    for kind in ("csv", "md", "tex")
]


rule table:
    input:
        lambda wildcards: [table(name) for name in TABLE_INPUTS[wildcards.table]],
    output:
        csv=report(
            f"{OUTPUT}/tables/{{table}}.csv",
            category="Tables",
            caption="../report/figure.rst",
            labels=lambda wildcards: {"table": wildcards.table},
        ),
        md=f"{OUTPUT}/tables/{{table}}.md",
        tex=f"{OUTPUT}/tables/{{table}}.tex",
    log:
        f"{RESULTS}/logs/tables/{{table}}.log",
    wildcard_constraints:
        table="|".join(name for name in TABLE_INPUTS if name not in RUN.tables) or NONE,
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        caption=lambda wildcards: CAPTIONS[wildcards.table],
        sources=source_digest("elastiqueue.tables.__main__"),
    shell:
        "python -m elastiqueue.tables {wildcards.table} --inputs {input:q} --csv {output.csv:q} --md {output.md:q} --tex {output.tex:q} > {log:q} 2>&1"


rule tabulate:
    input:
        lambda wildcards: [table(name) for name in RUN.tables[wildcards.table].experiments],
    output:
        csv=report(
            f"{OUTPUT}/tables/{{table}}.csv",
            category="Tables",
            caption="../report/figure.rst",
            labels=lambda wildcards: {"table": wildcards.table},
        ),
        md=f"{OUTPUT}/tables/{{table}}.md",
        tex=f"{OUTPUT}/tables/{{table}}.tex",
    log:
        f"{RESULTS}/logs/tables/{{table}}.log",
    wildcard_constraints:
        table="|".join(RUN.tables) or NONE,
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        spec=lambda wildcards: RUN.tables[wildcards.table].model_dump_json(exclude_unset=True),
        caption=lambda wildcards: caption(RUN, wildcards.table, "tables"),
        sources=source_digest("elastiqueue.tables.own", "elastiqueue.tables.schema"),
    shell:
        "python -m elastiqueue.workflow.steps tabulate --spec {params.spec:q} --caption={params.caption:q} --summaries {input:q} --csv {output.csv:q} --md {output.md:q} --tex {output.tex:q} > {log:q} 2>&1"
