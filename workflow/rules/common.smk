# The configuration, validated, and the names of files; no rule.
import json
import os
import signal
import sys
from pathlib import Path

from snakemake.caching.local import OutputFileCache
from snakemake.exceptions import WorkflowError

from elastiqueue.errors import ConfigError, refuse
from elastiqueue.results.files import fits, text_digest
from elastiqueue.workflow.experiments import chunks, experiment_specification, load, outdated, write_specifications
from elastiqueue.workflow.figures import caption
from elastiqueue.workflow.runs import composed, given
from elastiqueue.workflow.slurm_queue import end_never_starting_jobs
from elastiqueue.sources import source_digest


# A file given by --configfile is a run of its own, or is laid over the papers' run (`extends: papers`).
def papers(name):
    """A file of the papers' run: where the rules are on this machine itself, so that its name is that of the last run."""
    path = Path(workflow.current_basedir.get_path_or_uri(secret_free=True), "..", "..", "config", name)
    return os.path.relpath(path) if path.is_file() else workflow.source_path(f"../../config/{name}")


try:
    settings = workflow.config_settings
    config = given(config, settings.configfiles, settings.config, settings.overwrite_config)
    RUN = load(composed(config, papers("config.yaml"), papers("claims.yaml")))
    CHUNKS = {name: {chunk.name: chunk for chunk in chunks(RUN, name)} for name in RUN.experiments}
except ConfigError as error:
    refuse(error)

# Jobs run with the interpreter that runs snakemake, whether or not its environment is activated, and import nothing from
# the folder in which they run.
path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
os.environ.update(PATH=path, PYTHONSAFEPATH="1")

RESULTS = f"results/{RUN.run}"
OUTPUT = RUN.output

# Specifications by their digests, which are the parameters of the jobs; these read them from files, which may be longer
# than a command line. They are written when jobs start, not in a dry run, and in one folder for all runs: a parameter
# that names the run would keep runs from sharing a cache.
SPECIFICATIONS = "results/.specifications"
TEXTS = {}


def kept(text):
    name = text_digest(text)[:32]
    TEXTS[name] = text
    return name


EXPERIMENT = {name: kept(experiment_specification(RUN, name, own.values())) for name, own in CHUNKS.items()}
CHUNK = {name: {each: kept(chunk.specification()) for each, chunk in own.items()} for name, own in CHUNKS.items()}
if not workflow.is_main_process or not workflow.modifier.is_main_snakefile():  # on a node; within another workflow
    write_specifications(SPECIFICATIONS, TEXTS)


onstart:
    write_specifications(SPECIFICATIONS, TEXTS)
    if not workflow.local_exec:
        end_never_starting_jobs()
        # as Ctrl-C does: jobs in the queue are cancelled, where Snakemake's own answer is to wait until they are done
        signal.signal(signal.SIGTERM, signal.default_int_handler)


# A cache (SNAKEMAKE_OUTPUT_CACHE) whose disk is full fails a job by one line with the file, not by a traceback.
store = OutputFileCache.store


async def store_or_say(cache, job):
    try:
        await store(cache, job)
    except OSError as error:
        raise WorkflowError(f"elastiqueue: {error.filename2 or error.filename}: {error.strerror}") from None


OutputFileCache.store = store_or_say

FIGURES = [f"{OUTPUT}/{name}.{kind}" for name in RUN.figures for kind in ("pdf", "png")]
DATA = [f"{OUTPUT}/data/{name}.csv" for name, spec in RUN.figures.items() if spec.experiments]


wildcard_constraints:
    experiment="[A-Za-z][A-Za-z0-9_]*",
    figure="[A-Za-z][A-Za-z0-9_]*",
    chunk="[0-9a-f]{16}",
    first="[0-9]{7}",
    last="[0-9]{7}",


# Without a shared file system the steps that also read files of the checkout are done where Snakemake runs.
STORED_ELSEWHERE = bool(workflow.storage_settings.default_storage_provider)
if STORED_ELSEWHERE:

    localrules:
        claims,
        page,
        verify,
        evaluate,
        manifest,


def of_checkout(path):
    """A file of the checkout, which is in no storage."""
    return local(path) if STORED_ELSEWHERE else path


def root(file):
    """The folder that holds the run as a step sees it: `.`, or where its files were fetched to from their storage."""
    return lambda wildcards, output: output[0].removesuffix(file.format(**wildcards)).rstrip(os.sep) or "."


def simulated(name):
    return RUN.experiments[name].engine == "simulate"


def table(name):
    """The tidy table of an experiment."""
    return f"{RESULTS}/{'summaries' if simulated(name) else 'computed'}/{name}.csv"


# Made again, whatever the records in .snakemake say or if there are none: what another specification made, and what was
# edited by hand. Snakemake has no public way to say so: rerun triggers need its records, and `--forcerun FILE` makes a
# target of every file that it names. `_prepare_dag` is private; tests/workflow/test_workflow.py notices if it changes.
if workflow.is_main_process:
    prepare = workflow._prepare_dag

    def prepare_with_outdated(*arguments, **options):
        files = [path for path in DATA + TABLES + VERDICTS if not fits(path)]
        for name, parts in CHUNK.items():
            files += outdated(RESULTS, name, table(name), EXPERIMENT[name], parts)
        prepare(*arguments, **options)
        workflow.dag.forcefiles.update(files)

    workflow._prepare_dag = prepare_with_outdated


def specification(wildcards):
    return CHUNK[wildcards.experiment][wildcards.chunk]


def pilots(wildcards):
    chunk = CHUNKS[wildcards.experiment][wildcards.chunk]
    return f"{RESULTS}/pilots/{wildcards.experiment}/{wildcards.chunk}.json" if chunk.steady else []


def seconds(wildcards):
    """Run time of a block of replications, to within a factor of some three."""
    chunk = CHUNKS[wildcards.experiment][wildcards.chunk]
    return (int(wildcards.last) - int(wildcards.first)) * chunk.seconds


def minutes(wildcards, attempt):
    """Run time of a block to ask a batch system for: three times what its events take, and twice as much each time."""
    return (1 + int(3 * seconds(wildcards) / 60)) * 2 ** (attempt - 1)


def files_of_blocks(experiment, chunk, ranges):
    return [f"{RESULTS}/blocks/{experiment}/{chunk}/{first:07d}-{last:07d}.npz" for first, last in ranges]


def block_files(experiment):
    return [
        file for name, chunk in CHUNKS[experiment].items() for file in files_of_blocks(experiment, name, chunk.ranges)
    ]


def blocks_before(wildcards):
    """Of a run to a precision: the blocks of the rounds before, which tell what is still needed."""
    chunk = CHUNKS[wildcards.experiment][wildcards.chunk]
    return files_of_blocks(wildcards.experiment, wildcards.chunk, chunk.before(int(wildcards.first)))


def provenance_files(wildcards):
    """What made each pilot run, block of replications and computed table."""
    files = []
    for name, own in CHUNKS.items():
        if simulated(name):
            files += [f"{RESULTS}/pilots/{name}/{each}.provenance.json" for each in own if own[each].steady]
            files += [f"{file.removesuffix('.npz')}.provenance.json" for file in block_files(name)]
        else:
            files.append(f"{RESULTS}/computed/{name}.provenance.json")
    return files


def summaries(wildcards):
    return [table(name) for name in RUN.figures[wildcards.figure].experiments]


def drawing(wildcards):
    """The figure as data, but for its caption, which it does not show."""
    return RUN.figures[wildcards.figure].model_dump_json(exclude_unset=True, exclude={"caption", "paper"})


def picture():
    """The PNG of a figure, in the report: it shows images inline, but leaves a PDF to the viewer of the browser."""
    return report(
        f"{OUTPUT}/{{figure}}.png",
        category=lambda wildcards: f"Paper {paper}" if (paper := RUN.figures[wildcards.figure].paper) else "Figures",
        caption="../report/figure.rst",
        labels=lambda wildcards: {"figure": wildcards.figure},
    )


def judged(names):
    """Tables that some claims read."""
    return [table(name) for name in sorted(set().union(*(READ[name] for name in names))) if name in RUN.experiments]


def files_of(figures, kinds=("pdf", "png")):
    return [f"{OUTPUT}/{name}.{kind}" for name in figures for kind in kinds]


def captions(figures):
    return json.dumps({name: caption(RUN, name) for name in figures})
