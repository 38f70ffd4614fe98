"""What figures, claims and experiments of a run have to do with each other: what is there to be shown, and captions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from elastiqueue.claims.schema import read_claims
from elastiqueue.errors import ConfigError
from elastiqueue.figures.schema import check
from elastiqueue.models.registry import has_metric
from elastiqueue.scenarios.reading import KINDS
from elastiqueue.tables.schema import check as check_table

if TYPE_CHECKING:
    from elastiqueue.workflow.experiments import Experiment, Point, RunConfig


def _keeps(config: RunConfig, points: Mapping[str, Sequence[Point]], name: str, metric: str) -> bool:
    """Whether an experiment keeps a metric, as far as this is known before it is run."""
    experiment = config.experiments[name]
    if experiment.metrics is not None and metric not in experiment.metrics:
        return False
    known = experiment.engine == "simulate"
    return not known or any(has_metric(point.scenario, metric) for point in points[name])


def _heads(points: Sequence[Point]) -> list[Mapping[str, Any]]:
    """Columns of tables and their values of each scenario."""
    return [{"label": one.label, **one.scenario.describe()} for one in points]


def check_claims(config: RunConfig, points: Mapping[str, Sequence[Point]]) -> None:
    """Raise ConfigError where a claim of a run of the user's own asks for what the run will not have.

    The papers' claims are also judged on runs that lack some of it; they are undecided there.
    """
    if config.claims is None or config.extends is not None or config.run == "paper":
        return
    columns = {name: {key for head in _heads(some) for key in head} for name, some in points.items()}
    for name, claim in read_claims(config.claims).claims.items():

        def complain(key: str, value: str, known: Iterable[str], name: str = name) -> NoReturn:
            raise ConfigError(f"claims.{name}: {key} = {value}: must be one of {', '.join(sorted(known))}")

        for quantity in claim.quantities():
            if (experiment := quantity.experiment) not in points:
                complain("experiment", experiment, points)
            for column in (*quantity.where, *quantity.match, *filter(None, [quantity.scale])):
                if column not in columns[experiment]:
                    complain("where" if column in quantity.where else "match", column, columns[experiment])
            for metric in [quantity.metric] if isinstance(quantity.metric, str) else quantity.metric:
                if not _keeps(config, points, experiment, metric):
                    raise ConfigError(f"claims.{name}: metric = {metric}: is none that {experiment} keeps")
        for figure in claim.figures:
            if figure not in config.figures:
                complain("figures", figure, config.figures or ["none"])


def check_figures(config: RunConfig, points: Mapping[str, Sequence[Point]]) -> None:
    """Raise ConfigError where a figure or table asks for what the scenarios of its experiments will not give."""
    heads: dict[str, list[Mapping[str, Any]]] = {}
    known = ", ".join(config.experiments) or "none"
    kinds = (("figures", config.figures, check), ("tables", config.tables, check_table))
    for kind, name, spec, check_one in ((kind, *item, one) for kind, all_, one in kinds for item in all_.items()):
        for experiment in spec.experiments:
            if experiment not in config.experiments:
                raise ConfigError(f"{kind}.{name}.experiments = {experiment}: must be one of {known}")
            if experiment not in heads:
                heads[experiment] = _heads(points[experiment])
        check_one(name, spec, heads, partial(_keeps, config, points))
        caption(config, name, kind)


def caption(config: RunConfig, name: str, kind: str = "figures") -> str:
    """The caption of a figure or table, with the numbers of this run: {{key}} or {{experiment.key}}."""
    shown = getattr(config, kind)[name]
    read = {each: config.experiments[each] for each in shown.experiments}
    simulated = {each: one for each, one in read.items() if one.engine == "simulate"} or read

    def number(match: re.Match[str]) -> str:
        experiment, dot, key = match[1].strip().partition(".")
        sources = list(simulated.values())
        if dot and experiment in read:
            sources = [read[experiment]]
        else:
            key = match[1].strip()
        values = dict.fromkeys(value for source in sources for value in _values(config, source, key))
        if not values:
            raise ConfigError(f"{kind}.{name}.caption: {match[0]}: must be a key of the scenarios of its experiments")
        return _listed(list(values))

    return re.sub(r"\{\{(.+?)\}\}", number, shown.caption)


def _values(config: RunConfig, experiment: Experiment, key: str) -> list[Any]:
    """The values that a key has in the scenarios of an experiment; none where no scenario has such a key."""
    if key in experiment.grid:
        return experiment.grid[key]
    found: dict[Any, None] = {}
    for case in experiment.cases:
        values = {"seed": config.seed, "replications": config.replications, **experiment.scenario, **case}
        kind = KINDS.get(str(values.get("model", "")))
        if key in values:
            found[values[key] if isinstance(values[key], int | float | str) else None] = None
        elif kind is not None and key in kind.model_fields and not kind.model_fields[key].is_required():
            found[kind.model_fields[key].default] = None
    return [value for value in found if value is not None]


def _listed(values: list[Any]) -> str:
    numbers = all(isinstance(value, int | float) for value in values)
    values = sorted(values) if numbers else values
    texts = [f"{value:g}" if isinstance(value, float) and value < 1e6 else f"{value}" for value in values]
    if numbers and len(texts) > 4:
        return f"{texts[0]} to {texts[-1]}"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
