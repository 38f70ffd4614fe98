"""The model of a scenario: a definition with what is derived from it, or the module of a slotted system."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any

from elastiqueue.models.quantities import metrics_of
from elastiqueue.scenarios import SUP_DISTANCE
from elastiqueue.scenarios.registry import load, row_of
from elastiqueue.scenarios.units import COSTS


def model_of(scenario: Any) -> Any:
    """What the engines ask: columns, metrics, components, events, simulate, ... (`models.definitions.DefinedModel`)."""
    row = row_of(scenario)
    return _defined(row.module) if row.continuous else importlib.import_module(row.module)


@cache
def _defined_named(name: str, definition: Any) -> Any:
    from elastiqueue.models.definitions import DefinedModel  # takes the time that numba takes

    return DefinedModel(name)


def _defined(name: str) -> Any:
    return _defined_named(name, load(name))  # a file of the user's may have changed


def sources_of(scenario: Any) -> tuple[str, ...]:
    """The modules (or the file) that define the scenario's model and simulate it, for digests of sources."""
    row = row_of(scenario)
    generic = ("elastiqueue.models.definitions", "elastiqueue.models.simulators") if row.continuous else ()
    return (row.module, *row.kernels, *generic)


def metric_names(scenario: Any) -> tuple[str, ...]:
    """Names of the metrics that a simulation of the scenario has; name[i] stands for those with an index."""
    row = row_of(scenario)
    if not row.continuous:
        return tuple(name for name in row.metrics if name != "mean_response" or scenario.level == "job")
    names = metrics_of(load(row.module), scenario)
    distance = (SUP_DISTANCE,) if "fluid" in row.engines and scenario.record_every is not None else ()
    costs = COSTS if scenario.units is not None and scenario.units.priced else ()
    return tuple(dict.fromkeys(re.sub(r"\[\d+\]$", "[i]", name) for name in (*names, *distance, *costs)))


def has_metric(scenario: Any, name: str) -> bool:
    """Whether a simulation of the scenario has a metric of that name."""
    row = row_of(scenario)
    if row.continuous and "[" in name:
        return name in metrics_of(load(row.module), scenario)
    indexed = re.fullmatch(r"(\w+)\[([1-9][0-9]*)\]", name)
    if indexed is None:
        return name in metric_names(scenario) and not name.endswith("]")
    return f"{indexed[1]}[i]" in metric_names(scenario) and int(indexed[2]) <= getattr(scenario, "types", 0)
