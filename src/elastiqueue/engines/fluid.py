"""What the fluid limit says of a scenario: path, averages, fixed point, and how far recorded paths are from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.engines.registry import check_served
from elastiqueue.engines.simulation import grid_of
from elastiqueue.models.registry import model_of
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.scenarios.reading import ConfigError, ServiceScenario
from elastiqueue.statistics.estimates import Estimate
from elastiqueue.theory import fluid_limit as fluid

MAX_COMPONENTS, MAX_FILLED = 1_000_000, 1_000  # levels times phases: of the buffer; that tasks may reach


def fluid_start(scenario: ServiceScenario) -> fluid.FluidState:
    """The scenario's start on the fluid scale."""
    service = scenario.phase_type
    if scenario.start == "all_idle_on":
        return fluid.all_idle_on(service)
    if scenario.start == "all_off":
        raise ConfigError(
            "start = all_off: is singular in the fluid limit (q_1 = u = 0); use fixed_point or all_idle_on"
        )
    busy = min(1.0, scenario.arrival.at(0.0))
    return fluid.FluidState(fluid.spread([busy], service), 1.0 - busy if scenario.row.turns_on else 0.0)


def _fluid_rates(scenario: ServiceScenario) -> tuple[float, float]:
    check_served("fluid", scenario)
    if not scenario.row.turns_on:
        return 0.0, 1.0
    return float(scenario.standby_rate or 0), float(scenario.setup_rate or 0)


def _most_waiting(arrival: ArrivalRate, horizon: float) -> float:
    """Bound on the waiting tasks per server until the horizon: Lindley's recursion, with all servers on."""
    most = waiting = 0.0
    ends = [*arrival.times[1:], horizon]
    for begin, end, rate in zip(arrival.times, ends, arrival.rates, strict=True):
        waiting = max(0.0, waiting + (rate - 1) * max(0.0, min(end, horizon) - min(begin, horizon)))
        most = max(most, waiting)
    return most + abs(arrival.amplitude) * arrival.period / math.pi  # of a sinusoid: half a period


def fluid_path(scenario: ServiceScenario) -> fluid.FluidPath:
    """The fluid path of a scenario at its recording grid (or at 0 and the horizon)."""
    if isinstance(scenario.horizon, str):
        raise ConfigError("horizon = auto: a fluid path needs a number")
    mu, nu = _fluid_rates(scenario)
    phases, arrival = scenario.phase_type.phases, scenario.arrival
    filled = _most_waiting(arrival, scenario.horizon)
    if scenario.buffer is not None:
        filled = min(filled, scenario.buffer)
        if scenario.buffer * phases > MAX_COMPONENTS:
            raise ConfigError(
                f"buffer = {scenario.buffer}: has {scenario.buffer * phases:,} levels and phases: must be at most "
                f"{MAX_COMPONENTS:,} for the fluid limit"
            )
    if filled * phases > MAX_FILLED:
        raise ConfigError(
            f"arrival_rate: {arrival.maximum():g} until horizon = {scenario.horizon:g} fills {filled * phases:,.0f} "
            f"levels and phases: must be at most {MAX_FILLED:,} for the fluid limit"
        )
    grid = [float(t) for t in grid_of(scenario)]
    times = sorted({0.0, *grid, scenario.horizon, *([] if scenario.warm_up == "auto" else [float(scenario.warm_up)])})
    return fluid.trajectory(
        scenario.arrival, mu, nu, scenario.buffer, scenario.phase_type, fluid_start(scenario), times
    )


def fluid_averages(scenario: ServiceScenario) -> dict[str, float]:
    """Metrics on the fluid scale: averages of the path over the scenario's window; at the fixed point if it is auto."""
    power = scenario.power
    if isinstance(scenario.horizon, str):
        lam, (mu, _) = scenario.arrival.at(0.0), _fluid_rates(scenario)
        point = fluid.fixed_point(lam, mu, scenario.phase_type)
        watts = power.full * lam + power.idle * point.u + power.off * point.d0
        return {
            **dict.fromkeys(("mean_wait", "mean_wait_integral", "wait_probability", "loss_probability"), 0.0),
            "power": watts,
            "wasted_power": watts - power.full * lam, "busy": lam, "idle_on": point.u, "idle_off": point.d0,
            "setup": point.d1,
        }  # fmt: skip
    path = fluid_path(scenario)
    since = None if not scenario.warm_up else int((path.times >= float(scenario.warm_up)).argmax())
    averages = path.metrics(power.full, power.idle, power.off, since=since)
    averages.pop("queue_tail")
    return averages


def sup_distances(scenario: ServiceScenario, paths: NDArray[np.float64]) -> list[float]:
    """Largest distance of each recorded path from the fluid path of the same scenario.

    The largest over the recording grid and over u, d0, d1, q_1, q_2, ... of the absolute difference (fractions of the
    servers); paths has shape (R, T, components).
    """
    limit = fluid_path(scenario)
    rows = np.searchsorted(limit.times, grid_of(scenario))
    names, levels = model_of(scenario).components(scenario), limit.q.shape[1]
    series = {"idle_on": limit.u, "idle_off": limit.d0, "setup": limit.d1}
    for i in range(1, len(names) + 1):
        series[f"queue_tail[{i}]"] = limit.q[:, i - 1] if i <= levels else np.zeros(limit.times.size)
    columns = [column for column, name in enumerate(names) if name in series]
    fluid_values = np.column_stack([series[names[column]][rows] for column in columns])
    return [float(np.abs(path[:, columns] - fluid_values).max()) for path in paths]


RADIUS = 1e-3  # a path that stays this close to the fixed point, in every coordinate, has reached it


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
    lam, service, buffer = scenario.arrival.at(0.0), scenario.phase_type, scenario.buffer
    point = fluid.fixed_point(lam, mu, service)
    rows: list[dict[str, Any]] = []
    gaps = []
    for k, start in enumerate(fluid.stability_starts(scenario.replications, buffer, service)):
        gap = fluid.distance(fluid.trajectory(lam, mu, nu, buffer, service, start, times), point)
        outside = np.flatnonzero(gap > RADIUS)
        arrived = 0 if outside.size == 0 else int(outside[-1]) + 1
        time = float(times[arrived]) if arrived < times.size else math.inf
        rows.append({"start": f"start {k + 1}", **value_row("time_to_fixed_point", Estimate(time, 0.0, 0))})
        gaps.append(gap)
    order = np.sort(np.array(gaps), axis=0)
    for row in range(0, times.size, max(1, times.size // 200)):
        time = times[row]
        for name, value in (("max", order[-1, row]), ("median", order[len(order) // 2, row])):
            rows.append(value_row("distance", Estimate(float(value), 0.0, 0), float(time), name))
    return rows


def compute_rows(engine: str, scenario: ServiceScenario) -> list[dict[str, Any]]:
    """Rows of a tidy table: of `fluid` the averages, and the path where it is recorded; or of `fluid_stability`."""
    if engine == "fluid_stability":
        return stability_rows(scenario)
    rows = [value_row(name, Estimate(value, 0.0, 0)) for name, value in fluid_averages(scenario).items()]
    if scenario.record_every is not None:
        path = fluid_path(scenario)
        series = {"idle_on": path.u, "idle_off": path.d0, "setup": path.d1}
        series |= {f"queue_tail[{i}]": path.q[:, i - 1] for i in range(1, min(3, path.q.shape[1]) + 1)}
        for name, values in series.items():
            for time, value in zip(path.times, values, strict=True):
                rows.append(value_row(name, Estimate(float(value), 0.0, 0), float(time), "path"))
    return rows
