"""Steady states by few long runs: right values where queues relax slowly, coverage, refusals and warnings."""

from __future__ import annotations

import numpy as np
import pytest

from elastiqueue.engines import steady_state
from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import report_of, simulate, steady_estimates, window
from elastiqueue.engines.steady_state import BATCHES, Window, slow_queue
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import ConfigError, scenario_from

STEADY = {"horizon": "auto", "warm_up": "auto"}
TABS = {"model": "tabs", "standby_rate": 0.5, "setup_rate": 0.5, "buffer": None}
NEAR = {**TABS, "servers": 2, "arrival_rate": 0.9, "standby_rate": 0.35, "setup_rate": 0.1, "buffer": 40}
DELAYED = {"model": "delayed_off", "servers": 3, "arrival_rate": 0.9, "standby_rate": 0.5, "setup_rate": 0.1}
SLOW = {  # systems that relax slowly, with values known exactly
    "M/M/1, load .8": {"model": "always_on", "servers": 1, "arrival_rate": 0.8},
    "M/M/1, load .9": {"model": "always_on", "servers": 1, "arrival_rate": 0.9},
    "M/M/1, load .95": {"model": "always_on", "servers": 1, "arrival_rate": 0.95},
    "M/M/2, load .93": {"model": "always_on", "servers": 2, "arrival_rate": 0.93},
    "JIQ, N = 1": {"model": "jiq", "servers": 1, "arrival_rate": 0.9, "buffer": None},
    "JIQ, N = 2": {"model": "jiq", "servers": 2, "arrival_rate": 0.95, "buffer": 50},
    "TABS, N = 1": {**TABS, "servers": 1, "arrival_rate": 0.8},
    "TABS, N = 1, slow setup": {**TABS, "servers": 1, "arrival_rate": 0.9, "standby_rate": 0.1, "setup_rate": 0.05},
    "TABS, N = 2, load .97": {**TABS, "servers": 2, "arrival_rate": 0.97, "standby_rate": 0.05, "buffer": 40},
    "TABS, N = 2, boundary": NEAR,
    "TABS, N = 3, boundary": {**NEAR, "servers": 3, "arrival_rate": 0.6, "standby_rate": 0.85, "buffer": 20},
    "delayed-off, N = 3": DELAYED,
}  # fmt: skip
UNSTABLE = {**TABS, "servers": 3, "arrival_rate": 0.9, "standby_rate": 3, "setup_rate": 0.1}


def standard_scores(keys: dict[str, object], seeds: int) -> dict[str, tuple[list[bool], list[float]]]:
    """Of wait and power: whether the interval of each seed covers the exact value, and the deviation in errors."""
    known = exact(scenario_from({**keys, **STEADY})).metrics
    found: dict[str, tuple[list[bool], list[float]]] = {"mean_wait": ([], []), "power": ([], [])}
    for seed in range(seeds):
        scenario = scenario_from({**keys, **STEADY, "seed": seed})
        totals, _ = simulate(scenario, 0, scenario.replications, window(scenario))
        all_of_them = steady_estimates(scenario, totals)
        for name, (covered, scores) in found.items():
            one = all_of_them[name].estimate
            low, high = one.interval()
            covered.append(low <= known[name] <= high)
            scores.append((one.mean - known[name]) / one.se)
    return found


@pytest.mark.parametrize("keys", SLOW.values(), ids=SLOW)
def test_slowly_relaxing_systems_have_the_right_values(keys) -> None:
    for covered, scores in standard_scores(keys, 4).values():
        assert sum(covered) >= 2  # less happens once in 2,000 times where 95 % cover
        assert abs(np.mean(scores)) * np.sqrt(4) < 5


@pytest.mark.slow
@pytest.mark.parametrize("keys", [SLOW[name] for name in ("M/M/1, load .8", "TABS, N = 1", "TABS, N = 3, boundary")])
def test_intervals_cover_95_percent(keys) -> None:
    """With 150 experiments, which CI has the time for; `make coverage` makes 2,000 of each system."""
    for covered, _ in standard_scores(keys, 150).values():
        assert abs(np.mean(covered) - 0.95) < 0.01 + 3 * np.sqrt(0.95 * 0.05 / 150)


def test_theory_bounds_the_warm_up() -> None:
    """M/M/1: the integrated autocorrelation time of the queue is (1 + lambda) / (1 - lambda)^2."""
    scenario = scenario_from({**SLOW["M/M/1, load .9"], **STEADY})
    assert slow_queue(scenario) == (pytest.approx(1.9 / 0.01), "")
    assert window(scenario).warm_up >= 30 * 190
    near, far = (scenario_from({**NEAR, **STEADY, "buffer": None, "standby_rate": mu}) for mu in (0.23, 0.01))
    assert slow_queue(near)[0] > 3 * slow_queue(far)[0]


def test_an_unstable_system_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^horizon = auto: there is no steady state; drift \+0\.13"):
        window(scenario_from({**UNSTABLE, **STEADY}))


def test_what_has_not_settled_is_warned_of_by_name() -> None:
    """The same system measured all the same: queues grow, and the warning names the wait.

    Up to time 900 the growth is seen with 12 seeds of 20, up to 3300 with all of 20.
    """
    scenario = scenario_from({**UNSTABLE, **STEADY})
    span = Window(100.0, 3300.0, BATCHES)
    warnings = report_of(scenario, span, simulate(scenario, 0, 12, span)[0])["steady_state"]["warnings"]
    assert any(text.startswith("mean_wait: ") for text in warnings)


def test_undecided_stability_is_warned_of(monkeypatch) -> None:
    monkeypatch.setattr(steady_state, "MAX_STATES", 1)
    monkeypatch.setattr(steady_state, "MAX_EVENTS", 10_000)
    keys = {**TABS, "servers": 2, "arrival_rate": 0.7, "standby_rate": 0.56, "setup_rate": 0.1}
    _, doubt = slow_queue(scenario_from({**keys, **STEADY}))  # drift 0
    assert doubt.startswith("stability is undecided; drift ")


@pytest.mark.parametrize("change", [{}, {"service": {"erlang": 2}}, {"model": "delayed_off", "buffer": 50}])
def test_every_other_run_starts_from_an_overload(change) -> None:
    keys = {**TABS, "servers": 20, "arrival_rate": 0.9, "standby_rate": 0.01, **change, **STEADY}
    scenario = scenario_from({**keys, "start": "all_idle_on"})
    model = model_of(scenario)
    tasks = []
    for index in range(2):
        start = steady_state.from_both_sides(scenario, index)
        path = model.simulate(start, stream(1, "0", 0), (400.0, 401.0), np.array([400.0])).path
        tasks.append(float(sum(signal[0] for signal in model.signals(scenario, path))))
        early = model.simulate(start, stream(1, "0", 0), (400.0, 401.0), np.array([101.0])).path
        tasks.append(float(model.signals(scenario, early)[0][0]))
    assert tasks[3] > tasks[1]  # many wait right after the overload
