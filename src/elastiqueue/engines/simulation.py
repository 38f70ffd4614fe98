"""The simulator's driver: replications of a scenario, their run length, and the estimates from their totals.

Finite horizon: independent replications from the scenario's start, totals between warm-up and horizon.
Steady state (`horizon: auto`): every replication starts at the fluid fixed point (or where the scenario says), is
warmed up for max(5 t0, 10 tau) and then measured for as long (times `measured`), with t0 = 1 + 1/mu + 1/nu and tau
the longer of the integrated autocorrelation times of waiting tasks and power in a pilot run. The pilot lasts 20 t0, at
least 500 service times, and is doubled until it holds 50 tau, at most five times (a shorter pilot underestimates tau
where queues relax slowly). The measured stretches are independent batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.errors import ConfigError
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.streams import PILOT, stream
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.scenarios.base import settings_digest
from elastiqueue.scenarios.units import with_costs
from elastiqueue.statistics.autocorrelation import autocorrelation_time
from elastiqueue.statistics.estimates import Estimate, Ratio, estimate

if TYPE_CHECKING:
    from elastiqueue.scenarios.reading import Scenario

SAMPLES_PER_T0 = 20
FIRST_PILOT, SHORTEST_PILOT, DOUBLINGS = 20, 500.0, 5  # in t0; in service times
PILOT_IN_TAU = 50
MOST_REPLICATIONS = 100_000  # of a run to a precision


@dataclass(frozen=True)
class Window:
    """From when to when a replication is measured, and the autocorrelation time behind it (nan: none was needed)."""

    warm_up: float
    horizon: float
    tau: float = math.nan
    pilot: float = 0.0

    @property
    def edges(self) -> tuple[float, ...]:
        """Ends of the stretches that are measured, the end of the warm-up before them."""
        return self.warm_up, self.horizon


def _round_up(value: float) -> float:
    """Up to two significant digits, so that the window does not hang on the last bits of an estimate."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")


def window(scenario: Scenario) -> Window:
    """The scenario's own window, or for a steady-state run the one that a pilot run fixes."""
    if not isinstance(scenario, ServiceScenario):
        warm_up, slots = model_of(scenario).lengths(scenario)
        return Window(float(warm_up), float(warm_up + slots))
    if not isinstance(scenario.horizon, str) and not isinstance(scenario.warm_up, str):
        return Window(scenario.warm_up, scenario.horizon)
    model = model_of(scenario)
    t0 = scenario.relaxation_time
    length = max(FIRST_PILOT, math.ceil(SHORTEST_PILOT / t0))
    for doubling in range(DOUBLINGS + 1):
        grid = t0 * np.arange(5 * SAMPLES_PER_T0, length * SAMPLES_PER_T0 + 1) / SAMPLES_PER_T0
        words = stream(scenario.seed, scenario.digest(), length, PILOT)
        path = model.simulate(scenario, words, (0.0, float(grid[-1])), grid).path
        tau = max(autocorrelation_time(signal, t0 / SAMPLES_PER_T0) for signal in model.signals(scenario, path))
        if length * t0 >= PILOT_IN_TAU * tau or doubling == DOUBLINGS:
            break
        length *= 2
    batch = _round_up(max(5 * t0, 10 * tau))
    return Window(batch, (1 + scenario.measured) * batch, tau, length * t0)


def grid_of(scenario: Scenario) -> NDArray[np.float64]:
    """Times at which the scenario asks for the state, shape (T,)."""
    if scenario.record_every is None or not isinstance(scenario, ServiceScenario) or isinstance(scenario.horizon, str):
        return np.empty(0)
    count = math.floor(scenario.horizon / scenario.record_every + 1e-9)
    return np.minimum(scenario.record_every * np.arange(count + 1), scenario.horizon)


def described(scenario: Scenario) -> dict[str, Any]:
    """What estimates from the scenario's totals and paths need, as JSON-able values (`workflow.summaries`)."""
    model = model_of(scenario)
    told: dict[str, Any] = {
        "head": {**scenario.describe(), "settings": settings_digest(scenario)},
        "columns": list(model.columns(scenario)),
        "metrics": {
            name: [dict(ratio.numerator), dict(ratio.denominator)]
            for name, ratio in with_costs(scenario, model.metrics(scenario)).items()
        },
    }
    if isinstance(scenario, ServiceScenario):
        return {**told, "components": list(model.components(scenario)), "times": grid_of(scenario).tolist()}
    return {**told, "tail": model.tail_levels(scenario)}


def simulate(
    scenario: Scenario, first: int, last: int, span: Window | None = None, direct: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Replications first, ..., last - 1 of a scenario.

    Returns
    -------
    totals : shape (R M, C), the M stretches of each of the R = last - first replications, C columns as the model names
        them.
    paths : shape (last - first, T, components); T = 0 where nothing is recorded.
    """
    model = model_of(scenario)
    span = span or window(scenario)
    grid, name = grid_of(scenario), scenario.digest()
    words = [stream(scenario.seed, name, index) for index in range(first, last)]
    if hasattr(model, "simulate_batch"):
        return model.simulate_batch(scenario, np.array(words), span.edges, grid, direct)
    runs = [model.simulate(scenario, start, span.edges, grid, direct) for start in words]
    return np.concatenate([run.totals for run in runs]), np.array([run.path for run in runs])


def estimates(scenario: Scenario, totals: NDArray[np.float64]) -> dict[str, Estimate]:
    """Every metric of the model from the totals of its replications, shape (R, columns)."""
    model = model_of(scenario)
    names: tuple[str, ...] = model.columns(scenario)
    metrics: dict[str, Ratio] = with_costs(scenario, model.metrics(scenario))
    return {name: estimate(metric, names, totals) for name, metric in metrics.items()}


def simulate_to_precision(
    scenario: Scenario, run: Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]] = simulate
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scenario's replications, and where it asks for a precision as many more as reach it; `run` is `simulate`.

    At least 30 replications go before the first look, since stopping early on a narrow interval under-covers.

    Raises
    ------
    ConfigError : MOST_REPLICATIONS do not reach the precision, or the metric has no value (no task was lost, say).
    """
    if isinstance(scenario, ServiceScenario):
        scenario.check_events()
    span = window(scenario)
    wanted = scenario.precision
    count = scenario.replications if wanted is None else max(30, scenario.replications)
    totals, paths = run(scenario, 0, count, span)
    while wanted is not None:
        found = estimates(scenario, totals)[wanted.metric]
        low, high = found.interval()
        half = (high - low) / 2
        if math.isnan(half) or found.mean == 0.0:
            raise ConfigError(f"precision.metric = {wanted.metric}: has no value but 0 in {len(totals)} replications")
        if half <= wanted.relative * abs(found.mean):
            break
        if len(totals) >= MOST_REPLICATIONS:
            reached = half / abs(found.mean)
            raise ConfigError(
                f"precision.relative = {wanted.relative:g}: {len(totals)} replications reach {reached:.2g}"
            )
        more = max(10, len(totals) // 4)
        extra, extra_paths = run(scenario, len(totals), len(totals) + more, span)
        totals, paths = np.concatenate([totals, extra]), np.concatenate([paths, extra_paths])
    return totals, paths
