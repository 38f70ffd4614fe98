"""Experiments as data: scenarios, grids and replications from the configuration, and the jobs they are cut into.

An experiment is a base scenario, a list of cases that each change some of its keys, and a grid of values; it stands for
every combination of case and grid point. A *chunk* holds the combinations that agree in the keys of `split_by`; a
*block* is a range of replications of a chunk. One chunk and block is one simulation job; its specification is a JSON
text that holds all that determines the result.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from elastiqueue.engines.registry import ENGINE_MODULES, check_served
from elastiqueue.figures.schema import FigureSpec, Name
from elastiqueue.models.registry import has_metric, metric_names, sources_of
from elastiqueue.results.files import fits, write_atomically
from elastiqueue.results.tidy_tables import FACTS, VALUES
from elastiqueue.sampling.streams import canonical_json, digest
from elastiqueue.scenarios.autoscaling import STEADY_RUNS, Precision, ServiceScenario, check_pair
from elastiqueue.scenarios.reading import KINDS, ConfigError, Scenario, Strict, one_line, scenario_from, set_key
from elastiqueue.sources import PACKAGE, file_digest, source_digest
from elastiqueue.tables.schema import TableSpec
from elastiqueue.workflow.figures import check_claims, check_figures

RESERVED = {"experiment", "label", *VALUES, *FACTS}  # columns of tables, beside those that tell scenarios apart
MAX_SCENARIOS, MAX_BLOCKS = 100_000, 20_000  # of an experiment; the workflow engine plans some hundred jobs a second


class Experiment(Strict):
    """A base scenario, cases and a grid; all combinations are run."""

    engine: Literal[tuple(ENGINE_MODULES)] = Field(  # type: ignore[valid-type]
        "simulate",
        description="simulate: the simulator; compare: metrics less those of another scenario (`against`), on common "
        "random clocks; exact: exact solver; coverage: how often intervals hold the exact value, in as many "
        "experiments as `replications` says; fluid: the fluid limit; fluid_stability: the fluid limit from "
        "as many starts as `replications` says, and the time of each to the fixed point; stability: verdict and drift; "
        "stability_map: the smallest stable number of servers; capacity: facets and distances of a cluster; bounds: "
        "its heavy-traffic bounds.",
    )
    scenario: dict[str, Any] = Field(description="Keys of the base scenario (config/README.md).")
    cases: list[dict[str, Any]] = Field(
        default=[{}],
        min_length=1,
        description="Each case sets keys of its own; `label` names it in tables and legends. Dotted keys reach inside.",
    )
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default_factory=dict, description="Key (dotted keys reach inside) -> values; every combination is run."
    )
    against: dict[str, Any] = Field(
        default_factory=dict,
        description="compare: keys (dotted keys reach inside) of the scenario whose metrics are taken off; the value "
        "`next` is the one that follows in the grid, where the last has none.",
    )
    metrics: list[str] | None = Field(
        None,
        description="Metrics that the summary keeps; null: all of them. sup_distance, where paths are recorded: the "
        "largest distance of each from the fluid path, kept in place of the paths.",
    )
    split_by: list[str] = Field(
        default_factory=list, description="Keys whose values are simulated by jobs of their own; [] is one chunk."
    )
    block: Annotated[int, Field(ge=1)] = Field(50, description="Replications per job.")
    precision: Precision | None = Field(
        None,
        description="{metric, relative}: as many replications as each scenario needs until the 95 % half-width of the "
        "metric is that narrow. They are added in rounds that double them, from 30 (steady states: 8) or the given "
        "number on.",
    )
    at_most: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        1000, description="Replications at which a run to a precision ends in any case."
    )


class RunConfig(Strict):
    """One run of the workflow."""

    extends: Literal["papers"] | None = Field(
        None, description="papers: what is set here changes the papers' run; without it a file stands alone."
    )
    run: Name = Field(description="Name of the run; its results go to results/<run>.")
    output: Annotated[str, Field(pattern=r"^[\w/][\w./-]*$")] = Field(
        description="Folder of figures, tables and the data behind them; letters, digits and . _ - / only."
    )
    seed: Annotated[int, Field(ge=0)] = Field(1, description="Root of all random streams.")
    replications: Annotated[int, Field(ge=2)] = Field(
        100, description="Replications where neither experiment nor case says otherwise."
    )
    experiments: dict[Name, Experiment] = Field(description="What is computed.")
    figures: dict[Name, FigureSpec] = Field(default_factory=dict, description="What is drawn.")
    tables: dict[Name, TableSpec] = Field(default_factory=dict, description="What is shown in tables.")
    claims: str | None = Field(None, description="File of the claims that are judged; none by default.")


@dataclass(frozen=True)
class Point:
    """One scenario of an experiment, the label of its case, and what it is compared with."""

    label: str
    scenario: Scenario
    other: Scenario | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells it from the others of its experiment."""
        return (self.label, *(one.digest() for one in (self.scenario, self.other) if one is not None))


def load(values: Mapping[str, Any]) -> RunConfig:
    """Validate a run configuration with every scenario in it; raises ConfigError with one line."""
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(one_line(error, values)) from None
    scenarios: dict[str, list[Point]] = {}
    for name, experiment in config.experiments.items():
        try:
            size = len(experiment.cases) * math.prod(map(len, experiment.grid.values()))
            if size > MAX_SCENARIOS:
                raise ConfigError(
                    f"grid: has {size:,} combinations with the cases: at most {MAX_SCENARIOS:,} are allowed"
                )
            if len(seeds := experiment.grid.get("seed", [])) > 1:  # one scenario for all of them
                raise ConfigError(f"grid.seed = {seeds}: must be one value; more replications are what more seeds give")
            keys = set().union(*(_settings(experiment, case, ()) for case in experiment.cases), experiment.grid)
            for key in experiment.split_by:
                if key not in keys:
                    raise ConfigError(f"split_by = {key}: must be a key of its cases or grid")
            if bool(experiment.against) != (experiment.engine == "compare"):
                raise ConfigError("against: must be given for the engine compare, and for no other")
            found = scenarios[name] = points(config, experiment)
            if not found:
                raise ConfigError("against: no value of the grid has a next one")
            for point in found:
                check_served(experiment.engine, point.scenario)
                for key in point.scenario.describe().keys() & RESERVED:
                    raise ConfigError(
                        f"model = {point.scenario.model}: its key {key} must be renamed; all tables have such a column"
                    )
                if point.other is not None:
                    check_pair((point.scenario, point.other))
                if experiment.engine == "simulate" and isinstance(point.scenario, ServiceScenario):
                    point.scenario.check_events()
                count = math.ceil(point.scenario.replications / experiment.block)
                if experiment.engine == "simulate" and count > MAX_BLOCKS:
                    raise ConfigError(f"block = {experiment.block}: {count:,} jobs: at most {MAX_BLOCKS:,} are allowed")
                if point.scenario.precision is not None:
                    raise ConfigError("scenario.precision: is for `elastiqueue simulate`; here it is a key beside it")
                if (wanted := experiment.precision) and not (
                    experiment.engine == "simulate" and has_metric(point.scenario, wanted.metric)
                ):
                    raise ConfigError(f"precision.metric = {wanted.metric}: must be one that all its scenarios have")
                if experiment.precision and getattr(point.scenario, "slots", None) == "auto":
                    raise ConfigError("precision: needs a number of slots; slots = auto goes by the replications")
            for metric in experiment.metrics or () if experiment.engine in ("simulate", "compare", "exact") else ():
                if not any(has_metric(point.scenario, metric) for point in found):
                    known = ", ".join(sorted({name for point in found for name in metric_names(point.scenario)}))
                    raise ConfigError(f"metrics = {metric}: must be one that a scenario of it has; there are {known}")
        except ConfigError as error:
            raise ConfigError(f"experiments.{name}: {error}") from None
    check_figures(config, scenarios)
    check_claims(config, scenarios)
    check_output(config.run, config.output)
    return config


# What an output must not lie in, in any checkout: sources and what belongs to other programs.
CLOSED = (
    "src",
    "workflow",
    "config",
    "tests",
    "profiles",
    "benchmarks",
    "container",
    ".git",
    ".github",
    ".ci",
    ".venv",
    ".snakemake",
    "paper_figures/reference",
)


def check_output(run: str, output: str) -> None:
    """Raise ConfigError where the output of a run would be written over sources, references or another run's."""
    head = f"output = {output if len(output) <= 200 else output[:200] + '...'}:"
    try:
        here, folder = Path.cwd().resolve(), Path(output).resolve()
        checkouts = [each for each in (folder, *folder.parents) if (each / "workflow/Snakefile").is_file()]
        file = next((str(each) for each in (folder, *folder.parents) if each.exists() and not each.is_dir()), None)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "links in a circle"
        raise ConfigError(f"{head} must be the name of a folder ({why})") from None
    if file:
        raise ConfigError(f"{head} must be a folder; {file} is a file")
    if folder == here or folder in here.parents or folder in checkouts:
        raise ConfigError(f"{head} must be a folder of its own, not the working folder, one above it or a checkout")
    beside = folder.is_relative_to(here / "results")  # an example's results stand beside its file, in config/
    for root in (here, *checkouts):
        closed = [root / name for name in CLOSED if not (name == "config" and beside)]
        if any(folder.is_relative_to(each) for each in (*closed, PACKAGE.resolve())):
            raise ConfigError(f"{head} must not lie in sources, settings or reference results")
        results, papers = root / "results", root / "paper_figures"
        if folder == results or (folder.is_relative_to(results) and not folder.is_relative_to(here / "results" / run)):
            raise ConfigError(f"{head} must not be the results of another run; results/{run} is this one's")
        if folder.is_relative_to(papers) and (run != "paper" or root != here):
            raise ConfigError(f"{head} is that of the papers' run; run {run} needs a folder of its own")
    try:
        other = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if other != run:
        raise ConfigError(f"{head} holds the results of the run {other}; run {run} needs another folder")


def _settings(experiment: Experiment, case: Mapping[str, Any], values: tuple[Any, ...]) -> dict[str, Any]:
    return {**experiment.scenario, **case, **dict(zip(experiment.grid, values, strict=False))}


def _combinations(config: RunConfig, experiment: Experiment) -> Iterator[dict[str, Any]]:
    for case in experiment.cases:
        for values in itertools.product(*experiment.grid.values()):
            settings = _settings(experiment, case, values)
            steady = settings.get("horizon") == "auto"  # few long runs
            replications = min(config.replications, STEADY_RUNS) if steady else config.replications
            against = _against(experiment, dict(zip(experiment.grid, values, strict=True)))
            if against is not None:
                settings |= {"against": against} if against else {}
                yield {"seed": config.seed, "replications": replications, **settings}


def _against(experiment: Experiment, at: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the scenario at these values of the grid is compared with; None where a value has no next one."""
    found = dict(experiment.against)
    for key in (key for key, value in found.items() if value == "next"):
        if key not in at:
            raise ConfigError(f"against.{key} = next: must be a key of the grid")
        values = experiment.grid[key]
        following = values.index(at[key]) + 1
        if following == len(values):
            return None
        found[key] = values[following]
    return found


def _scenario(settings: Mapping[str, Any]) -> Scenario:
    values: dict[str, Any] = {}
    for key, value in settings.items():
        set_key(values, key, value)
    return scenario_from(values)


def _point(settings: Mapping[str, Any]) -> Point:
    label = settings.get("label", "")
    if (
        isinstance(label, bool)
        or not isinstance(label, str | int | float)
        or label in (math.inf, -math.inf)
        or label != label
    ):
        raise ConfigError(f"label = {label!r}: must be a text")
    if not str(label).isprintable() or len(str(label)) > 200:
        raise ConfigError(f"label = {str(label)[:200]!r}: must be one line of at most 200 characters")
    keys = {key: value for key, value in settings.items() if key not in ("label", "against")}
    other = _scenario({**keys, **settings["against"]}) if "against" in settings else None
    return Point(str(label), _scenario(keys), other)


def points(config: RunConfig, experiment: Experiment) -> list[Point]:
    """All scenarios of an experiment; one that two combinations share (same sample paths, same label) is kept once."""
    found: dict[tuple[str, ...], Point] = {}
    for settings in _combinations(config, experiment):
        point = _point(settings)
        found.setdefault(point.identity, point)
    return list(found.values())


@dataclass(frozen=True)
class Chunk:
    """Scenarios that are simulated together: their settings (as in the configuration) and what lies behind them."""

    experiment: str
    settings: tuple[str, ...]  # canonical JSON of each scenario's settings
    sources: str  # digest of the code and of these files
    files: tuple[tuple[str, str], ...]  # that the scenarios name, with their digests
    replications: int
    steady: bool  # some scenario's window is fixed by a pilot run
    seconds: float  # that a replication of all of them takes, to within a factor of some three
    rounds: tuple[int, ...]  # replications after each round; of one to a precision there are several
    block: int
    precision: str = ""  # canonical JSON of what is to be reached; empty: all replications are simulated

    @property
    def name(self) -> str:
        """Digest of what determines the results, but of the number of replications and of what may be edited."""
        return digest({"settings": self.settings, **({"precision": self.precision} if self.precision else {})})[:16]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Ranges of replications, each of one job."""
        starts = (0, *self.rounds)
        return [
            (start + first, start + last)
            for start, end in itertools.pairwise(starts)
            for first, last in blocks(end - start, self.block)
        ]

    def before(self, first: int) -> list[tuple[int, int]]:
        """The ranges of the rounds before that of replication `first`: it tells from them what is still needed."""
        start = max((end for end in self.rounds if end <= first), default=0)
        return [pair for pair in self.ranges if pair[1] <= start]

    def specification(self) -> str:
        """JSON text from which a job can be run, with the digests of the code and files that it depends on."""
        wanted = {"precision": json.loads(self.precision)} if self.precision else {}
        rest = canonical_json({"files": dict(self.files), "sources": self.sources, **wanted})
        return f'{rest[:-1]},"settings":[{",".join(self.settings)}]}}'


def experiment_specification(config: RunConfig, name: str, parts: Iterable[Chunk]) -> str:
    """JSON text from which an experiment can be computed or summarised: its chunks, and what is kept of them."""
    experiment = config.experiments[name]
    head = {"engine": experiment.engine, "metrics": experiment.metrics or []}
    chunks = [{"name": part.name, "ranges": part.ranges, "specification": part.specification()} for part in parts]
    return canonical_json({**head, "chunks": chunks})


def specified_points(specification: str) -> list[Point]:
    """The scenarios of a chunk's specification; raises ConfigError where a file behind them was edited since."""
    values = json.loads(specification)
    for path, wanted in values.get("files", {}).items():
        if file_digest(path) != wanted:
            raise ConfigError(f"{path}: was edited after the run had begun; run again")
    return [_point(settings) for settings in values["settings"]]


def named_files(settings: Mapping[str, Any]) -> list[str]:
    """Files that the settings of a scenario name: traces of arrival rates, models in files of the user's own."""
    found = []
    for key, value in settings.items():
        last = key.rpartition(".")[2]
        if isinstance(value, str) and (last == "trace" or (last == "model" and value.endswith(".py"))):
            found.append(value)
        elif isinstance(value, Mapping):
            found.extend(named_files(value))
    return found


MAX_CHUNK, MAX_CHUNKS = 128, 128


def chunks(config: RunConfig, name: str) -> list[Chunk]:
    """The chunks of an experiment, in the order of the configuration.

    A chunk holds the scenarios that agree in the keys of `split_by`, at most MAX_CHUNK of them. Where that makes more
    than MAX_CHUNKS chunks, 2^k neighbours are one: the jobs of a large experiment follow its work, and a few scenarios
    more leave most chunks as they are.
    """
    experiment = config.experiments[name]
    groups: dict[str, dict[tuple[str, ...], tuple[dict[str, Any], Point]]] = {}
    for settings in _combinations(config, experiment):
        point = _point(settings)
        key = canonical_json([settings.get(part) for part in experiment.split_by])
        groups.setdefault(key, {}).setdefault(point.identity, (settings, point))
    pieces = [
        members[first : first + MAX_CHUNK]
        for members in (list(group.values()) for group in groups.values())
        for first in range(0, len(members), MAX_CHUNK)
    ]
    together = 1
    while len(pieces) > MAX_CHUNKS * together:
        together *= 2
    return [
        _chunk(name, experiment, [member for piece in pieces[first : first + together] for member in piece])
        for first in range(0, len(pieces), together)
    ]


def _chunk(name: str, experiment: Experiment, members: Sequence[tuple[dict[str, Any], Point]]) -> Chunk:
    engine = experiment.engine
    scenarios = [point.scenario for _, point in members]
    others = [point.other for _, point in members if point.other is not None]
    # elsewhere more replications leave the first ones as they are
    kept = [
        {
            key: value
            for key, value in settings.items()
            if key != "replications"
            or engine in ("compare", "coverage", "fluid_stability")
            or getattr(point.scenario, "slots", None) == "auto"
        }
        for settings, point in members
    ]
    files = {path: file_digest(path) for settings in kept for path in named_files(settings)}
    sources = source_digest(
        *ENGINE_MODULES[engine], *sorted({name for one in (*scenarios, *others) for name in sources_of(one)})
    )
    replications = max(scenario.replications for scenario in scenarios)
    steady = [getattr(scenario, "horizon", None) == "auto" for scenario in scenarios]
    rounds, precision = [replications], ""
    if experiment.precision is not None:
        precision = canonical_json(experiment.precision.model_dump())
        rounds = [min(max(replications, 8 if all(steady) else 30), experiment.at_most)]
        while rounds[-1] < experiment.at_most:
            rounds.append(min(2 * rounds[-1], experiment.at_most))
    return Chunk(
        name,
        tuple(canonical_json(settings) for settings in kept),
        digest({"sources": sources, "files": files}) if files else sources,
        tuple(sorted(files.items())),
        rounds[-1],
        any(steady),
        sum(map(_seconds, scenarios)),
        tuple(rounds),
        experiment.block,
        precision,
    )


def _seconds(scenario: Scenario) -> float:
    """CPU time of a replication, roughly: a slot takes .2 us, its servers 5 ns each."""
    if isinstance(scenario, ServiceScenario):
        return scenario.seconds(scenario.shortest_run)
    if isinstance(scenario.slots, str) or isinstance(scenario.warm_up, str):
        return 0.1
    return (2e-7 + 5e-9 * int(scenario.describe()["servers"])) * (scenario.slots + scenario.warm_up)


def write_specifications(folder: str | Path, texts: Mapping[str, str]) -> None:
    """Write specifications, digest -> text, into files of these names, unless they are there.

    Jobs read them, since they may be longer than a command line can be.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in texts.keys() - {file.removesuffix(".json") for file in os.listdir(folder)}:
        write_atomically(Path(folder) / f"{name}.json", texts[name])


def outdated(results: str | Path, name: str, table: str, whole: str, parts: Mapping[str, str]) -> list[str]:
    """Files of an experiment that another specification or a hand has made, though the workflow engine may not know it.

    It does not where its own records are missing, as in a folder of results that was copied.

    table : of the experiment. whole : digest of the experiment's specification. parts : chunk -> digest of its own.
    """
    for link in (*Path(results, "blocks", name).glob("*/*"), *Path(results, "pilots", name).glob("*")):
        if link.is_symlink() and not link.exists():  # into a cache, whose file was deleted: the engine would stop at it
            link.unlink(missing_ok=True)
    found = [] if fits(table, whole) else [table]
    if os.path.exists(table) and not found:
        return []
    for chunk, wanted in parts.items():
        for record in (
            *Path(results, "blocks", name, chunk).glob("*.provenance.json"),
            Path(results, "pilots", name, f"{chunk}.provenance.json"),
        ):
            made = Path(str(record).replace(".provenance.json", ".npz" if record.parent.name == chunk else ".json"))
            try:
                known = json.loads(record.read_text(encoding="utf-8")).get("specifications") == [wanted]
            except FileNotFoundError:
                continue
            except ValueError:
                known = False
            if made.exists() and not known:
                found.append(str(made))
    return found


def blocks(replications: int, size: int) -> list[tuple[int, int]]:
    """Ranges [first, last) of replications: multiples of the block size, so that more replications only add ranges."""
    return [(first, min(first + size, replications)) for first in range(0, replications, size)]


def schema_text() -> str:
    """JSON schema of run configurations, with those of scenarios under `$defs`."""
    schema = RunConfig.model_json_schema()
    for kind in dict.fromkeys(KINDS.values()):
        scenario = kind.model_json_schema(ref_template="#/$defs/{model}")
        inner = scenario.pop("$defs", {})
        schema["$defs"] = {**schema["$defs"], **inner, kind.__name__: scenario}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
