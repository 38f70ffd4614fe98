"""What is computed without chance for a scenario: exact stationary metrics, and what the fluid limit says.

That is its path and averages, its way to the fixed point from many starts, and how far recorded paths are from it.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from elastiqueue.config import ConfigError, ServiceScenario
from elastiqueue.engines import fluid
from elastiqueue.engines.exact import DEFAULT_MAX_STATES, converged_rates, stationary_rates
from elastiqueue.engines.simulation import grid_of
from elastiqueue.experiments import ENGINE_MODULES, specified_points
from elastiqueue.models.base import Ratio
from elastiqueue.models.registry import model_of
from elastiqueue.statistics import Estimate
from elastiqueue.summaries import value_row


def _value(metric: Ratio, rates: dict[str, float]) -> float:
    bottom = math.fsum(weight * rates.get(name, 0.0) for name, weight in metric.denominator.items())
    top = math.fsum(weight * rates.get(name, 0.0) for name, weight in metric.numerator.items())
    return top / bottom if bottom else math.nan


@dataclass(frozen=True)
class ExactResult:
    """Stationary metrics; where the state space was cut, the level and the last relative change of any rate."""

    metrics: dict[str, float]
    level: int | None = None
    change: float = 0.0


def exact(scenario: ServiceScenario, max_states: int = DEFAULT_MAX_STATES) -> ExactResult:
    """Stationary metrics of a scenario by the exact solver.

    Raises
    ------
    ConfigError : the arrival rate varies, or the state space is too large.
    """
    if not scenario.arrival.constant:
        raise ConfigError("arrival_rate: must be constant for the exact solver")
    model = model_of(scenario)
    metrics: dict[str, Ratio] = model.metrics(scenario)
    try:
        if scenario.model in ("tabs", "jiq") and scenario.buffer is not None:
            rates = stationary_rates(model.chain(scenario), max_states)
            return ExactResult({name: _value(metric, rates) for name, metric in metrics.items()})
        found = converged_rates(lambda level: model.chain(scenario, level), scenario.servers + 8, max_states=max_states)
    except ValueError as error:
        raise ConfigError(f"servers = {scenario.servers}: {error}") from None
    values = {name: _value(metric, found.rates) for name, metric in metrics.items()}
    return ExactResult(values, found.level, found.change)


def fluid_start(scenario: ServiceScenario) -> fluid.FluidState:
    """The scenario's start on the fluid scale."""
    service, model = scenario.phase_type, scenario.model
    if scenario.start == "all_idle_on":
        return fluid.all_idle_on(service)
    if scenario.start == "all_off":
        raise ConfigError(
            "start = all_off: is singular in the fluid limit (q_1 = u = 0); use fixed_point or all_idle_on"
        )
    busy = min(1.0, scenario.arrival.at(0.0))
    return fluid.FluidState(fluid.spread([busy], service), 0.0 if model == "jiq" else 1.0 - busy)


def _fluid_rates(scenario: ServiceScenario) -> tuple[float, float]:
    if scenario.model not in ("tabs", "jiq"):
        raise ConfigError(f"model = {scenario.model}: the fluid limit is that of tabs or jiq")
    return (
        (0.0, 1.0) if scenario.model == "jiq" else (float(scenario.standby_rate or 0), float(scenario.setup_rate or 0))
    )


def fluid_path(scenario: ServiceScenario) -> fluid.FluidPath:
    """The fluid path of a scenario at its recording grid (or at 0 and the horizon)."""
    if isinstance(scenario.horizon, str):
        raise ConfigError("horizon = auto: a fluid path needs a number")
    mu, nu = _fluid_rates(scenario)
    grid = [float(t) for t in grid_of(scenario)]
    times = sorted({0.0, *grid, scenario.horizon, *([] if scenario.warm_up == "auto" else [float(scenario.warm_up)])})
    return fluid.trajectory(
        scenario.arrival, mu, nu, scenario.buffer, scenario.phase_type, fluid_start(scenario), times
    )


def fluid_averages(scenario: ServiceScenario) -> dict[str, float]:
    """Metrics on the fluid scale: averages of the path over the scenario's window; at the fixed point if it is auto."""
    power = scenario.power
    if isinstance(scenario.horizon, str):
        mu, nu = _fluid_rates(scenario)
        lam = scenario.arrival.at(0.0)
        point = fluid.fixed_point(lam, mu, nu, scenario.phase_type)
        idle_on, off = (1 - lam, 0.0) if scenario.model == "jiq" else (0.0, point.d0)
        watts = power.full * lam + power.idle * idle_on + power.off * off
        return {
            **dict.fromkeys(("mean_wait", "mean_wait_integral", "wait_probability", "loss_probability"), 0.0),
            "power": watts,
            "wasted_power": watts - power.full * lam, "busy": lam, "idle_on": idle_on, "idle_off": off, "setup": 0.0,
        }  # fmt: skip
    path = fluid_path(scenario)
    since = None if not scenario.warm_up else int((path.times >= float(scenario.warm_up)).argmax())
    found = path.metrics(power.full, power.idle, power.off, since=since)
    found.pop("queue_tail")
    return found


def sup_distances(scenario: ServiceScenario, paths: NDArray[np.float64]) -> list[float]:
    """Largest distance of each recorded path from the fluid path of the same scenario.

    The largest over the recording grid and over u, d0, d1, q_1, q_2, ... of the absolute difference (fractions of the
    servers); paths has shape (R, T, components).
    """
    limit = fluid_path(scenario)
    rows = np.searchsorted(limit.times, grid_of(scenario))
    series = {"idle_on": limit.u, "idle_off": limit.d0, "setup": limit.d1}
    series |= {f"queue_tail[{i}]": limit.q[:, i - 1] for i in range(1, limit.q.shape[1] + 1)}
    names = model_of(scenario).components(scenario)
    columns = [column for column, name in enumerate(names) if name in series]
    fluid_values = np.column_stack([series[names[column]][rows] for column in columns])
    return [float(np.abs(path[:, columns] - fluid_values).max()) for path in paths]


RADIUS = 1e-3  # a path that stays this close to the fixed point, in every coordinate, has come to it


def stability_rows(scenario: ServiceScenario) -> list[dict[str, Any]]:
    """How fluid paths from many starts come to the fixed point, in rows of a tidy table.

    `replications` starts spread over the state space (`engines.fluid.stability_starts`). For each the time from which
    the path stays within `RADIUS` of the fixed point up to the horizon, rounded up to the recording grid (inf: it does
    not); over all of them, at some 200 times of the grid, the largest and the median distance.
    """
    mu, nu = _fluid_rates(scenario)
    times = grid_of(scenario)
    if not scenario.arrival.constant or times.size == 0 or scenario.buffer is None:
        raise ConfigError("engine = fluid_stability: needs a constant arrival_rate, a buffer and record_every")
    lam, law, buffer = scenario.arrival.at(0.0), scenario.phase_type, scenario.buffer
    point = fluid.fixed_point(lam, mu, nu, law)
    rows: list[dict[str, Any]] = []
    found = []
    for k, start in enumerate(fluid.stability_starts(scenario.replications, buffer, law)):
        gap = fluid.distance(fluid.trajectory(lam, mu, nu, buffer, law, start, times), point)
        outside = np.flatnonzero(gap > RADIUS)
        arrived = 0 if outside.size == 0 else int(outside[-1]) + 1
        time = float(times[arrived]) if arrived < times.size else math.inf
        rows.append({"start": f"start {k + 1}", **value_row("time_to_fixed_point", Estimate(time, 0.0, 0))})
        found.append(gap)
    order = np.sort(np.array(found), axis=0)
    for row in range(0, times.size, max(1, times.size // 200)):
        time = times[row]
        for name, value in (("max", order[-1, row]), ("median", order[len(order) // 2, row])):
            rows.append(value_row("distance", Estimate(float(value), 0.0, 0), float(time), name))
    return rows


def compute_table(engine: str, specification: str) -> pd.DataFrame:
    """Tidy table of a deterministic engine over a chunk; its values are exact, their se is 0 and their n is 0."""
    rows: list[dict[str, Any]] = []
    for point in specified_points(specification):
        scenario = point.scenario
        head = {"label": point.label, **scenario.describe()}
        module = ENGINE_MODULES[engine][0]
        if hasattr(own := importlib.import_module(module), "compute_rows"):
            # by name, so that the sources of one engine do not include those of another
            rows += [{**head, **row} for row in own.compute_rows(engine=engine, scenario=scenario)]
            continue
        if not isinstance(scenario, ServiceScenario):
            raise ConfigError(f"engine = {engine}: is for models in continuous time, not for {scenario.model}")
        if engine == "exact":
            rows += [
                {**head, **value_row(name, Estimate(value, 0.0, 0))} for name, value in exact(scenario).metrics.items()
            ]
            continue
        if engine == "fluid_stability":
            rows += [{**head, **row} for row in stability_rows(scenario)]
            continue
        averages = fluid_averages(scenario)
        rows += [{**head, **value_row(name, Estimate(value, 0.0, 0))} for name, value in averages.items()]
        if scenario.record_every is not None:
            path = fluid_path(scenario)
            series = {"idle_on": path.u, "idle_off": path.d0, "setup": path.d1}
            series |= {f"queue_tail[{i}]": path.q[:, i - 1] for i in range(1, min(3, path.q.shape[1]) + 1)}
            for name, values in series.items():
                for time, value in zip(path.times, values, strict=True):
                    rows.append({**head, **value_row(name, Estimate(float(value), 0.0, 0), float(time), "path")})
    return pd.DataFrame(rows)
