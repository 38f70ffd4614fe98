"""The simulator's driver: replications of a scenario, and the estimates from their totals.

Finite horizon: independent replications from the scenario's start, totals between warm-up and horizon.
Steady state (`horizon: auto`): see `elastiqueue.engines.steady_state`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.engines.steady_state import BATCHES, Window, from_both_sides, is_steady, window
from elastiqueue.errors import ConfigError
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.scenarios.base import settings_digest
from elastiqueue.scenarios.units import with_costs
from elastiqueue.statistics.batches import SteadyEstimate
from elastiqueue.statistics.batches import steady_estimates as estimates_of_runs
from elastiqueue.statistics.control_variates import PER_BATCH
from elastiqueue.statistics.estimates import Estimate, Ratio, estimate
from elastiqueue.statistics.waiting import parts_of

if TYPE_CHECKING:
    from elastiqueue.scenarios.reading import Scenario

__all__ = [
    "Window", "described", "estimates", "grid_of", "report_of", "simulate", "simulate_to_precision", "steady_estimates",
    "window",
]  # fmt: skip

MAX_REPLICATIONS = 100_000  # of a run to a precision


def grid_of(scenario: Scenario) -> NDArray[np.float64]:
    """Times at which the scenario asks for the state, shape (T,)."""
    if scenario.record_every is None or not isinstance(scenario, ServiceScenario) or isinstance(scenario.horizon, str):
        return np.empty(0)
    count = math.floor(scenario.horizon / scenario.record_every + 1e-9)
    return np.minimum(scenario.record_every * np.arange(count + 1), scenario.horizon)


def columns_of(scenario: Scenario) -> tuple[str, ...]:
    """Names of the totals."""
    names: tuple[str, ...] = model_of(scenario).columns(scenario)
    if isinstance(scenario, ServiceScenario) and scenario.control_variates:
        from elastiqueue.models import controls

        return (*names, *controls.columns(model_of(scenario), scenario))
    return names


def described(scenario: Scenario) -> dict[str, Any]:
    """What estimates from the scenario's totals and paths need, as JSON-able values (`workflow.summaries`)."""
    model = model_of(scenario)
    description: dict[str, Any] = {
        "head": {**scenario.describe(), "settings": settings_digest(scenario)},
        "columns": list(columns_of(scenario)),
        "metrics": {name: parts_of(metric) for name, metric in with_costs(scenario, model.metrics(scenario)).items()},
    }
    if isinstance(scenario, ServiceScenario):
        return {**description, "components": list(model.components(scenario)), "times": grid_of(scenario).tolist()}
    return {**description, "tail": model.tail_levels(scenario)}


def simulate(
    scenario: Scenario,
    first: int,
    last: int,
    span: Window | None = None,
    direct: bool = False,
    name: str | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Replications first, ..., last - 1 of a scenario; `name`: digest of the one whose random streams they take.

    Returns
    -------
    totals : shape (R M, C), the M stretches of each of the R = last - first replications, C columns as the model names
        them.
    paths : shape (last - first, T, components); T = 0 where nothing is recorded.
    """
    model = model_of(scenario)
    span = span or window(scenario)
    grid, name = grid_of(scenario), name or scenario.digest()
    words = [stream(scenario.seed, name, index) for index in range(first, last)]
    if isinstance(scenario, ServiceScenario) and scenario.control_variates:
        from elastiqueue.models import controls

        starts: list[Any] = [from_both_sides(scenario, index) for index in range(first, last)]
        return controls.simulate(model, starts, words, span.edges), np.empty((last - first, 0, 0))
    if hasattr(model, "simulate_batch") and not is_steady(scenario):
        return model.simulate_batch(scenario, np.array(words), span.edges, grid, direct)
    runs = [
        model.simulate(from_both_sides(scenario, index), start, span.edges, grid, direct)
        for index, start in enumerate(words, first)
    ]
    return np.concatenate([run.totals for run in runs]), np.array([run.path for run in runs])


def _metrics(scenario: Scenario, names: Collection[str] | None) -> dict[str, Ratio]:
    metrics = with_costs(scenario, model_of(scenario).metrics(scenario))
    return {name: metric for name, metric in metrics.items() if names is None or name in names}


def steady_estimates(
    scenario: Scenario, totals: NDArray[np.float64], names: Collection[str] | None = None
) -> dict[str, SteadyEstimate]:
    """Metrics (all by default) of a steady state from the totals of its batches or, with control variates, of parts
    of these, shape (R M, columns).
    """
    assert isinstance(scenario, ServiceScenario)
    metrics, parts = _metrics(scenario, names), PER_BATCH if scenario.control_variates else 1
    runs = totals.reshape(-1, BATCHES * parts, totals.shape[1])
    return dict(zip(metrics, estimates_of_runs(metrics.values(), columns_of(scenario), runs), strict=True))


def report_of(scenario: Scenario, span: Window, totals: NDArray[np.float64]) -> dict[str, Any]:
    """How a steady state was estimated, as JSON-able values: lengths, and per metric what the guard says."""
    if not is_steady(scenario):
        return {}
    found = steady_estimates(scenario, totals)
    warnings = [f"all metrics: {span.doubt}"] if span.doubt else []
    facts = {
        "warm_up": span.warm_up,
        "measured": span.horizon - span.warm_up,
        "batches": span.batches,
        "runs": len(totals) // (span.batches * span.parts),
        "autocorrelation_time": span.tau,
        "pilot": span.pilot,
        "metrics": {
            name: {"batches": one.batches, "lag_1": one.correlation, "effective": one.effective, "warning": one.warning}
            | ({} if math.isnan(one.reduction) else {"variance_reduction": one.reduction})
            for name, one in found.items()
        },
        "warnings": warnings + [f"{name}: {one.warning}" for name, one in found.items() if one.warning],
    }
    return {"steady_state": facts}


def estimates(
    scenario: Scenario, totals: NDArray[np.float64], names: Collection[str] | None = None
) -> dict[str, Estimate]:
    """Metrics of the model (all by default) from the totals that `simulate` gives, shape (R M, columns)."""
    if is_steady(scenario):
        return {name: found.estimate for name, found in steady_estimates(scenario, totals, names).items()}
    columns = model_of(scenario).columns(scenario)
    return {name: estimate(metric, columns, totals) for name, metric in _metrics(scenario, names).items()}


def simulate_to_precision(
    scenario: Scenario, span: Window, run: Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]] = simulate
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scenario's replications, and where it asks for a precision as many more as reach it; `run` is `simulate`.

    At least 30 replications, or 8 runs of 4 batches, go before the first look, since stopping early on a narrow
    interval under-covers.

    Raises
    ------
    ConfigError : MAX_REPLICATIONS do not reach the precision, or the metric has no value (no task was lost, say).
    """
    wanted = scenario.precision
    least = 0 if wanted is None else 30
    count = max(math.ceil(least / span.batches), scenario.replications)
    totals, paths = run(scenario, 0, count, span)
    while wanted is not None:
        found = estimates(scenario, totals, {wanted.metric})[wanted.metric]
        low, high = found.interval()
        half = (high - low) / 2
        if math.isnan(half) or found.mean == 0.0:
            raise ConfigError(f"precision.metric = {wanted.metric}: has no value but 0 in {count} replications")
        if half <= wanted.relative * abs(found.mean):
            break
        if count >= MAX_REPLICATIONS:
            reached = half / abs(found.mean)
            raise ConfigError(f"precision.relative = {wanted.relative:g}: {count} replications reach {reached:.2g}")
        more = max(math.ceil(10 / span.batches), count // 4)
        extra, extra_paths = run(scenario, count, count + more, span)
        totals, paths, count = np.concatenate([totals, extra]), np.concatenate([paths, extra_paths]), count + more
    return totals, paths
