"""The planner against brute force: a fine grid of exact values, for ten questions; and what it refuses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import elastiqueue as eq
from elastiqueue.scenarios.reading import changed

TABS = {
    "model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "buffer": 5,
    "horizon": 4000, "warm_up": 200,
}  # fmt: skip
DELAYED = {**TABS, "model": "delayed_off", "servers": 3, "arrival_rate": 0.5, "setup_rate": 1.0}
PRICES = {"service_time": "200 ms", "price_per_kwh": 0.25, "price_per_server_hour": 0.04}
POINTS = 60
CASES = {
    "tabs": (TABS, {"mean_wait": 0.3}, {}),
    "tabs, dear idling": ({**TABS, "setup_rate": 1.0, "power": {"idle": 180}}, {"mean_wait": 0.25}, {}),
    "two limits": ({**TABS, "setup_rate": 1.0}, {"wait_probability": 0.3, "loss_probability": 0.02}, {}),
    "quantile": ({**TABS, "setup_rate": 1.0}, {"wait_p95": 2.0}, {}),
    "delayed-off": (DELAYED, {"mean_wait": 0.5}, {}),
    "the minimum is inside": ({**DELAYED, "servers": 2, "arrival_rate": 0.2}, {"mean_wait": 5.0}, {}),
    "cost": ({**TABS, "setup_rate": 1.0, "units": PRICES}, {"mean_wait": 0.25}, {"objective": "cost_per_hour"}),
    "setups": (TABS, {"mean_wait": 0.5}, {"vary": "setup_time"}),
    "servers": (
        {"model": "always_on", "servers": 4, "arrival_rate": 0.5, "horizon": 4000, "warm_up": 100},
        {"mean_wait": 0.1}, {"vary": "servers", "between": (3, 16)},
    ),
    "buffer": (
        {**TABS, "setup_rate": 5.0, "standby_rate": 0.02}, {"loss_probability": 0.03},
        {"vary": "buffer", "between": (1, 9)},
    ),
}  # fmt: skip


def _brute(scenario, limits, vary="standby_time", objective="power", between=None):
    """Exact values on a grid: (value, objective of the whole system, whether limits are kept)."""
    low, high = between or (0.1, 1000)
    whole = vary in ("servers", "buffer")
    values = range(int(low), int(high) + 1) if whole else np.geomspace(low, high, POINTS if low < high else 1)
    for value in values:
        changes = {vary: int(value) if whole else float(value)}
        if vary == "servers":
            changes["arrival_rate"] = scenario.arrival_rate * scenario.servers / value
        result = eq.exact(changed(scenario, changes))
        scale = result.scenario.servers if objective == "power" else 1
        keeps = all(result.metric(name).mean <= limit for name, limit in limits.items())
        yield value, scale * result.metric(objective).mean, keeps


@cache
def _grid(case):
    values, limits, options = CASES[case]
    return list(_brute(eq.scenario(**values), limits, **options))


LONG = ("quantile", "delayed-off", "the minimum is inside", "cost")


@pytest.mark.parametrize(
    ("case", "how"),
    [
        pytest.param(case, how, marks=[pytest.mark.slow] if case in LONG and how == "simulated" else [])
        for case in CASES
        for how in ("simulated", "exact")
    ],
)
def test_the_answer_is_that_of_a_fine_grid_of_exact_values(case, how):
    values, limits, options = CASES[case]
    scenario = eq.scenario(**values)
    found = eq.plan(scenario, limits, **options, jobs=1, solve_exactly=how == "exact")
    cheapest, at = min((objective, value) for value, objective, keeps in _grid(case) if keeps)
    ((_, objective, keeps),) = _brute(scenario, limits, **{**options, "between": (found.best.value,) * 2})
    step = 1 if options.get("between") else 10_000 ** (1 / (POINTS - 1))
    assert keeps
    assert objective <= cheapest * 1.01
    assert found.low / step <= at <= found.high * step
    assert found.settled
    assert found.saving <= 0.01


def test_an_answer_does_not_depend_on_the_cores_and_may_be_that_there_is_none():
    scenario = eq.scenario(**{**TABS, "horizon": 300, "warm_up": 100})
    alone, together = (eq.plan(scenario, {"mean_wait": 0.5}, within=0.05, jobs=jobs) for jobs in (1, 2))
    assert alone.table().equals(together.table())
    assert (alone.best.value, alone.low, alone.high) == (together.best.value, together.low, together.high)
    none = eq.plan(scenario, {"mean_wait": 1e-3}, within=0.05)
    assert none.best is None
    assert set(none.table()["keeps"]) == {False}
    assert none.document()["answer"] is None


@pytest.mark.parametrize(
    ("limits", "options", "message"),
    [
        ({"speed": 1}, {}, "metric = speed: must be one of mean_wait, "),
        ({"mean_wait": 0}, {}, "limit of mean_wait = 0: must be a number > 0"),
        ({"mean_wait": 1}, {"vary": "speed"}, "vary = speed: is not a key of the scenario"),
        ({"mean_wait": 1}, {"vary": "model"}, "vary = model: must be a key with a number > 0, not tabs"),
        ({"mean_wait": 1}, {"vary": "seed"}, "vary = seed: must be a key of the system, not of its simulation"),
        ({"mean_wait": 1}, {"objective": "cost_per_hour"}, "objective = cost_per_hour: must be one of power, "),
        ({"mean_wait": 1}, {"between": (2, 1)}, "range of standby_time = 2 to 1: must be two numbers > 0, "),
        ({"mean_wait": 1}, {"within": 0}, "within = 0: must be between 0 and 1"),
        ({"mean_wait": 1}, {"vary": "servers", "between": (0.5, 1)}, "servers = 0: "),
    ],
)
def test_mistakes_are_one_line(limits, options, message):
    with pytest.raises(eq.ConfigError) as caught:
        eq.plan(eq.scenario(**TABS), limits, **options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
