# The claims judged on the run, the page that says what was run and what it shows, the run compared with the reference
# results, its checksums; and `evaluate`: as much of the papers' run as ten minutes allow, with a page of its own.

from elastiqueue.claims.schema import read_claims

CLAIMS = RUN.claims or []
VERDICTS = [f"{OUTPUT}/claims.{kind}" for kind in ("json", "md") if CLAIMS]
PAGE = f"{OUTPUT}/index.html"
OPENING = f"{RESULTS}/report.rst"
EVALUATION = f"{OUTPUT}/evaluation"
# of the checkout, whatever the working folder
here = Path(workflow.current_basedir.get_path_or_uri(secret_free=True), "..", "..", "paper_figures", "reference")
REFERENCE = os.path.relpath(here) if here.is_dir() else "paper_figures/reference"
EVALUATED = [
    name
    for name in ("fig1", "fig3", "fig4", "fig5", "service_laws", "figB2", "figB3", "figB5", "cluster_stability")
    if name in RUN.figures
]
try:
    READ = {name: claim.experiments() for name, claim in read_claims(CLAIMS).claims.items()} if CLAIMS else {}
except ConfigError as error:
    refuse(error)
EVALUABLE = [
    name
    for name, experiments in READ.items()
    if experiments <= {each for figure in EVALUATED for each in RUN.figures[figure].experiments}
]


report: str(Path(OPENING).absolute())


rule claims:
    input:
        claims=of_checkout(CLAIMS),
        tables=judged(READ),
    output:
        f"{OUTPUT}/claims.json",
        f"{OUTPUT}/claims.md",
    log:
        f"{RESULTS}/logs/claims.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        root=root(f"{OUTPUT}/claims.json"),
        sources=source_digest("elastiqueue.claims.verdicts"),
    shell:
        "(cd {params.root:q} && python -m elastiqueue claims --run {params.run} --claims /dev/stdin --output {params.output:q})"
        " <{input.claims:q} > {log:q} 2>&1"


rule page:
    input:
        figures=FIGURES,
        verdicts=VERDICTS,
        tables=files_of([f"tables/{name}" for name in RUN.tables], ["md"]),
        provenance=provenance_files,
    output:
        report(
            PAGE,
            category="Results and claims",
            caption="../report/figure.rst",
            labels={"page": "what was run, claims, figures"},
        ),
        OPENING,
    log:
        f"{RESULTS}/logs/page.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        opening=lambda wildcards: OPENING,
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        root=root(PAGE),
        figures=lambda wildcards: captions(RUN.figures),
        tables=list(RUN.tables),
        caption="What was run, the verdicts on the claims with their parts, and every figure with its data and claims.",
        sources=source_digest("elastiqueue.claims.pages"),
    shell:
        "(cd {params.root:q} &&"
        " python -m elastiqueue page --run {params.run} --output {params.output:q} --figures {params.figures:q} --tables {params.tables} --opening {params.opening:q})"
        " > {log:q} 2>&1"


rule verify:
    input:
        reference=of_checkout(f"{REFERENCE}/machine.json"),
        data=DATA,
    output:
        f"{OUTPUT}/verification.json",
        f"{OUTPUT}/verification.md",
    log:
        f"{RESULTS}/logs/verify.log",
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        reference=lambda wildcards: REFERENCE,
        sources=source_digest("elastiqueue.results.reference"),
    shell:
        "python -m elastiqueue verify --run {params.run} --output {params.output:q} --reference {params.reference:q} > {log:q} 2>&1"


rule evaluate:
    input:
        files_of(EVALUATED),
        reference=of_checkout(f"{REFERENCE}/machine.json"),
        claims=CLAIMS,
        tables=judged(EVALUABLE),
    output:
        [f"{EVALUATION}/{name}" for name in ("claims.json", "claims.md", "verification.json", "verification.md")],
        page=f"{EVALUATION}/index.html",
    log:
        f"{RESULTS}/logs/evaluate.log",
    resources:
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        folder=lambda wildcards: EVALUATION,
        claims=EVALUABLE,
        names=EVALUATED,
        reference=lambda wildcards: REFERENCE,
        figures=lambda wildcards: captions(EVALUATED),
        sources=source_digest("elastiqueue.claims.pages", "elastiqueue.results.reference"),
    shell:
        "(python -m elastiqueue claims --run {params.run} --claims {input.claims:q} --only {params.claims} --output {params.folder:q}"
        " && python -m elastiqueue verify --run {params.run} --output {params.output:q} --reference {params.reference:q} --only {params.names} --into {params.folder:q}"
        " && python -m elastiqueue page --run {params.run} --output {params.output:q} --figures {params.figures:q} --into {params.folder:q})"
        " > {log:q} 2>&1"


rule manifest:
    input:
        FIGURES,
        DATA,
        VERDICTS,
        TABLES,
        [table(name) for name in RUN.experiments],
        provenance_files,
    output:
        f"{OUTPUT}/manifest.json",
    log:
        f"{RESULTS}/logs/manifest.log",
    resources:
        mem_mb=lambda wildcards, attempt: 700 * attempt,
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
    params:
        run=lambda wildcards: RUN.run,
        output=lambda wildcards: OUTPUT,
        root=root(f"{OUTPUT}/manifest.json"),
        sources=source_digest("elastiqueue.results.manifest"),
    shell:
        "(cd {params.root:q} && python -m elastiqueue manifest --run {params.run} --output {params.output:q}) > {log:q} 2>&1"
