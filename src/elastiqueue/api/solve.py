"""Make a scenario, and ask one engine about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastiqueue.api.result import COLUMNS, Result
from elastiqueue.engines.registry import check_served
from elastiqueue.results.provenance import Stopwatch
from elastiqueue.scenarios.reading import ConfigError, Scenario, read_scenario, scenario_from
from elastiqueue.scenarios.units import values_with_costs, with_costs
from elastiqueue.sources import source_digest
from elastiqueue.statistics.estimates import Estimate, mean_estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]  # replications that are done, and all of them


def scenario(**keys: Any) -> Scenario:
    """A scenario from its keys, those of a scenario file (`config/schema.json` is their manual).

    Raises
    ------
    ConfigError : one line that names the key, the value and what is allowed.

    >>> import elastiqueue as eq
    >>> eq.scenario(model="always_on", servers=2, arrival_rate=0.5).horizon
    250.0
    >>> eq.scenario(model="always_on", servers=0, arrival_rate=0.5)
    Traceback (most recent call last):
        ...
    elastiqueue.errors.ConfigError: servers = 0: input should be greater than or equal to 1
    """
    return scenario_from(keys)


def read(path: str | Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    """A scenario from a YAML file; `changes` are dotted keys set on top of it, as `--set` does.

    Raises
    ------
    ConfigError : one line, where the file or a key is wrong.
    """
    return read_scenario(path, changes)


def _served(engine: str, scenario: Scenario) -> Any:
    """The scenario, of a class that the engine takes; raises ConfigError where the engine does not serve its model."""
    check_served(engine, scenario)
    return scenario


def _exact_metrics(values: Mapping[str, float]) -> dict[str, Estimate]:
    return {name: Estimate(value, 0.0, 0) for name, value in values.items()}


def simulate(scenario: Scenario, progress: Progress | None = None) -> Result:
    """Simulate a scenario: all its replications, and as many more as its `precision` asks for.

    Parameters
    ----------
    progress : called with (done, all) replications from time to time.

    Returns
    -------
    Result : each metric a ratio of sums over replications with a jackknifed standard error and a t interval
        (`elastiqueue.statistics.estimates`). Of a steady state, `facts` say how it was estimated, with a warning for
        each metric that is in doubt. Equal scenarios give equal bits on any machine.

    Raises
    ------
    ConfigError : too many events, a precision that is out of reach or asks for a metric that the model lacks.

    >>> import elastiqueue as eq
    >>> found = eq.simulate(eq.scenario(model="always_on", servers=2, arrival_rate=0.5, replications=40))
    >>> found.metric("busy")
    Estimate(mean=..., se=..., n=40, ...)
    >>> list(found.table())
    ['metric', 'mean', 'se', 'ci_low', 'ci_high', 'n']
    """
    from elastiqueue.engines.simulation import estimates, report_of, simulate_to_precision, window
    from elastiqueue.models.registry import model_of, sources_of

    model, precision = model_of(scenario), scenario.precision
    known = with_costs(scenario, model.metrics(scenario))
    if precision is not None and precision.metric not in known:
        raise ConfigError(f"precision.metric = {precision.metric}: must be one of {', '.join(known)}")
    watch = Stopwatch()
    span = window(scenario)
    totals, paths = simulate_to_precision(scenario, span, *(() if progress is None else (_reporting(progress),)))
    sources = source_digest("elastiqueue.engines.simulation", *sources_of(scenario))
    return Result(
        scenario,
        estimates(scenario, totals),
        facts=report_of(scenario, span, totals),
        provenance=watch.provenance(seed=scenario.seed, sources=sources),
        series=_series(scenario, paths) if hasattr(model, "components") else (),
    )


def _reporting(progress: Progress) -> Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """`engines.simulation.simulate` in parts of about half a second, with a call of `progress` after each."""

    def run(scenario: Scenario, first: int, last: int, *span: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        import numpy as np

        from elastiqueue.engines.simulation import simulate

        parts, done, count = [], first, 1
        while done < last:
            begin, end = time.perf_counter(), min(last, done + count)
            parts.append(simulate(scenario, done, end, *span))
            spent = max(time.perf_counter() - begin, 1e-4) / (end - done)
            done, count = end, max(1, min(int(0.5 / spent), 10 * count))
            progress(done, last)
        totals, paths = zip(*parts, strict=True)
        return np.concatenate(totals), np.concatenate(paths)

    return run


def _series(scenario: Scenario, paths: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Rows of mean paths from paths of shape (replications, times, components)."""
    from elastiqueue.engines.simulation import grid_of
    from elastiqueue.models.registry import model_of

    return [
        _row(float(when), name, mean_estimate([float(value) for value in paths[:, row, column]]))
        for row, when in enumerate(grid_of(scenario))
        for column, name in enumerate(model_of(scenario).components(scenario))
    ]


def _row(when: float, metric: str, value: Estimate) -> dict[str, Any]:
    values = (metric, value.mean, value.se, *value.interval(), value.n)
    return {"time": when, **dict(zip(COLUMNS, values, strict=True))}


def exact(scenario: Scenario) -> Result:
    """Solve a small system exactly: the stationary distribution of its Markov chain, without random numbers.

    Unlimited queues are cut where no rate moves by more than 1e-9; `facts` then say where (truncation_level).

    Raises
    ------
    ConfigError : the model is not in continuous time, its arrival rate varies or its state space is too large.

    >>> import elastiqueue as eq
    >>> found = eq.exact(eq.scenario(model="always_on", servers=1, arrival_rate=0.5))
    >>> round(found.metric("mean_wait").mean, 9)  # M/M/1: rho / (1 - rho)
    1.0
    """
    asked = _served("exact", scenario)
    from elastiqueue.engines import exact as engine
    from elastiqueue.models.registry import sources_of

    watch = Stopwatch()
    found = engine.exact(asked)
    facts: dict[str, Any] = {"sources": source_digest("elastiqueue.engines.exact", *sources_of(scenario))}
    if found.level is not None:
        facts |= {"truncation_level": found.level, "relative_change": found.change}
    return Result(scenario, _exact_metrics(found.metrics), provenance=watch.provenance(**facts))


def fluid(scenario: Scenario) -> Result:
    """The fluid limit of TABS or JIQ (paper A, Theorem 3.1): averages, and `facts` with fixed point and trajectory.

    The trajectory is on the grid of `record_every`, or at 0 and the horizon: lists of times, of q_i (shape (T, B)), and
    of the fractions that are off, in setup and idle-on.

    Raises
    ------
    ConfigError : another model, or a start that is singular in the limit.

    >>> import elastiqueue as eq
    >>> tabs = eq.scenario(model="tabs", servers=100, arrival_rate=0.3, standby_rate=0.1, setup_rate=0.1)
    >>> eq.fluid(tabs).facts["fixed_point"]["power"]
    60.0
    """
    asked = _served("fluid", scenario)
    from elastiqueue.engines.fluid import fluid_averages, fluid_path

    watch = Stopwatch()
    facts: dict[str, Any] = {}
    series: list[dict[str, Any]] = []
    if asked.arrival.constant and asked.arrival.at(0.0) < 1:
        steady = {"horizon": "auto", "warm_up": "auto", "record_every": None}
        point = fluid_averages(type(asked).model_validate({**asked.model_dump(), **steady}))
        names = ("idle_on", "idle_off", "setup", "power")
        facts["fixed_point"] = {"q": [point["busy"]], **{name: point[name] for name in names}}
    if not isinstance(asked.horizon, str):
        path = fluid_path(asked)
        parts = {"idle_off": path.d0, "setup": path.d1, "idle_on": path.u}
        facts["trajectory"] = {
            "time": path.times.tolist(), "q": path.q.tolist(), **{name: part.tolist() for name, part in parts.items()},
        }  # fmt: skip
        parts |= {f"queue_tail[{i}]": path.q[:, i - 1] for i in range(1, path.q.shape[1] + 1)}
        series = [
            _row(float(when), name, Estimate(float(part[row]), 0.0, 0))
            for row, when in enumerate(path.times)
            for name, part in parts.items()
        ]
    metrics = _exact_metrics(values_with_costs(scenario, fluid_averages(asked)))
    return Result(
        scenario, metrics, facts, watch.provenance(sources=source_digest("elastiqueue.engines.fluid")), series
    )


def stability(scenario: Scenario, accuracy: float | None = None) -> Result:
    """Whether a scenario with unlimited buffers is stable: metrics `drift` and `margin`; `facts` have the verdict.

    Parameters
    ----------
    accuracy : error to which the drift is refined (TABS and JIQ), in tasks per mean service time.

    Raises
    ------
    ConfigError : a feature that the theory does not cover.

    >>> import elastiqueue as eq
    >>> busy = eq.scenario(model="always_on", servers=10, arrival_rate=0.9)
    >>> eq.stability(busy).facts["verdict"]
    'stable'
    """
    from elastiqueue.engines.stability import report

    watch = Stopwatch()
    found = report(scenario, accuracy=accuracy)
    facts = {
        "verdict": found.verdict, "drift": found.drift, "margin": found.margin, **found.facts, "reason": found.reason,
    }  # fmt: skip
    metrics = _exact_metrics({"drift": found.drift, "margin": found.margin})
    provenance = watch.provenance(seed=scenario.seed, sources=source_digest("elastiqueue.engines.stability"))
    return Result(scenario, metrics, facts, provenance)


def capacity(scenario: Scenario) -> Result:
    """The capacity region of a cluster (paper B, Section II), and where its arrival rates are in it.

    Work per slot is the unit, facets are numbered from 0, job types from 1. `facts`:

    servers, classes : how many servers, and of each class the count and the maximal configurations.
    facets : (c, b) of the whole cluster, |c| = 1.
    rates, epsilon, projections : lambda, eps^k, lambda^k.
    position, inside : inside, boundary or outside, decided exactly; whether it is the first.
    dominant, dominant_interior : K and K^o; None where the rates are not inside.
    largest_stable_load, largest_stable_load_lp : the largest a with a lambda in C, by the facets and by linear
        programming; None where nothing arrives.
    largest_rho : the same as a value of the scenario's key arrivals.load; None where it has none.

    Raises
    ------
    ConfigError : another model than `cluster`.
    """
    asked = _served("capacity", scenario)
    from elastiqueue.engines.capacity import capacity_values, position_of
    from elastiqueue.models.slotted import server_classes

    watch = Stopwatch()
    found = position_of(asked)
    load, largest = asked.arrivals.load, found.largest_stable_load
    facts = {
        "servers": asked.count,
        "classes": [
            {"count": part.count, "configurations": [list(s) for s in part.configurations]}
            for part in server_classes(asked)
        ],
        "facets": [{"c": list(facet.c), "b": facet.b} for facet in found.region.facets],
        "rates": list(found.rates),
        "inside": found.where == "inside",
        "position": found.where,
        "epsilon": list(found.epsilon),
        "projections": [list(point) for point in found.projections],
        "dominant": None if found.dominant is None else list(found.dominant),
        "dominant_interior": None if found.dominant_interior is None else list(found.dominant_interior),
        "largest_stable_load": largest,
        "largest_stable_load_lp": found.largest_stable_load_lp,
        "largest_rho": None if load is None or largest is None else load * largest,
    }
    values = capacity_values(asked)
    metrics = _exact_metrics({name: value for name, value in values.items() if "," not in name})  # no vectors
    return Result(scenario, metrics, facts, watch.provenance(sources=source_digest("elastiqueue.engines.capacity")))
