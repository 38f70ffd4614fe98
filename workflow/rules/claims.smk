# The papers' claims judged on the run; the run compared with the reference results; its checksums.
from elastiqueue.claims.verdicts import read_claims

CLAIMS = RUN.claims or []
VERDICTS = [f"{OUTPUT}/claims.{kind}" for kind in ("json", "md", "html") if CLAIMS]
try:
    JUDGED = read_claims(CLAIMS).experiments() if CLAIMS else []
except ConfigError as error:
    refuse(error)


rule claims:
    input:
        claims=CLAIMS,
        tables=[table(name) for name in JUDGED if name in RUN.experiments],
    output:
        f"{OUTPUT}/claims.json",
        f"{OUTPUT}/claims.md",
        report(
            f"{OUTPUT}/claims.html",
            category="Claims",
            caption="../report/figure.rst",
            labels={"table": "verdicts on the papers' claims"},
        ),
    log:
        f"{RESULTS}/logs/claims.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=10,
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        caption="What the papers claim, and the verdicts on this run; claims.md gives every test.",
        sources=source_digest("elastiqueue.claims.verdicts"),
    shell:
        "python -m elastiqueue claims --run {params.run} --claims {input.claims:q} --output {params.output:q} 2>&1 | tee {log:q}"


rule verify:
    input:
        reference=lambda wildcards: "paper_figures/reference/machine.json",
        data=lambda wildcards: [f"{OUTPUT}/data/{name}.csv" for name, spec in RUN.figures.items() if spec.experiments],
    output:
        f"{OUTPUT}/verification.json",
        f"{OUTPUT}/verification.md",
    log:
        f"{RESULTS}/logs/verify.log",
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=10,
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        sources=source_digest("elastiqueue.results.reference"),
    shell:
        "python -m elastiqueue verify --run {params.run} --output {params.output:q} --reference paper_figures/reference 2>&1 | tee {log:q}"


rule manifest:
    input:
        FIGURES,
        VERDICTS,
    output:
        f"{OUTPUT}/manifest.json",
    log:
        f"{RESULTS}/logs/manifest.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=10,
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        sources=source_digest("elastiqueue.results.reference"),
    shell:
        "python -m elastiqueue manifest --run {params.run} --output {params.output:q} 2>&1 | tee {log:q}"
