"""The Python interface: examples run, results agree with the engines behind them, importing costs nothing."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys

import pytest

import elastiqueue as eq

TABS = {"model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "buffer": 5}


@pytest.mark.parametrize("module", ["", ".api.plan", ".api.solve", ".api.sweep", ".statistics.estimates"])
def test_the_examples_in_the_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(f"elastiqueue{module}"), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
    assert found.attempted > 0


def test_importing_costs_neither_numpy_nor_numba():
    code = (
        "import sys, elastiqueue as eq; eq.ConfigError; dir(eq);"
        "print([m for m in ('numpy', 'numba', 'pandas', 'pydantic', 'yaml') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'solve'"):
        eq.solve  # noqa: B018
    assert {"simulate", "exact", "sweep", "read"} <= set(dir(eq))


def test_simulation_agrees_with_the_exact_values():
    scenario = eq.scenario(**TABS, horizon=4000, warm_up=200, replications=40)
    simulated, exact = eq.simulate(scenario), eq.exact(scenario)
    for name in ("mean_wait", "power", "busy", "setup"):
        estimate = simulated.metric(name)
        assert abs(estimate.mean - exact.metric(name).mean) < 5 * estimate.se
    listed = simulated.document()["metrics"]
    assert listed["wait_tail"]["at"] == ["1", "2", "5", "10", "20"]
    assert listed["queue_tail"]["mean"] == [simulated.metric(f"queue_tail[{i}]").mean for i in range(1, 6)]
    assert "at" not in listed["queue_tail"]
    table = simulated.table().set_index("metric")
    assert table.loc["power", "ci_low"] < table.loc["power", "mean"] < table.loc["power", "ci_high"]
    assert set(exact.table()["n"]) == {0}
    with pytest.raises(eq.ConfigError, match=r"^metric = speed: must be one of mean_wait, "):
        exact.metric("speed")


def test_progress_changes_no_bits():
    scenario = eq.scenario(**TABS, horizon=50, replications=23, record_every=10)
    calls = []
    plain, watched = eq.simulate(scenario), eq.simulate(scenario, lambda done, total: calls.append((done, total)))
    assert plain.metrics == watched.metrics
    assert plain.path.equals(watched.path)
    assert calls[-1] == (23, 23)
    assert calls == sorted(calls)


def test_paths_of_the_simulation_and_of_the_fluid_limit_name_the_same_things():
    scenario = eq.scenario(
        **{**TABS, "servers": 2000}, horizon=20, record_every=10, replications=5, start="all_idle_on"
    )
    joined = eq.simulate(scenario).path.merge(eq.fluid(scenario).path, on=["time", "metric"])
    assert {"idle_on", "idle_off", "setup", "queue_tail[1]"} <= set(joined["metric"])
    assert (joined["mean_x"] - joined["mean_y"]).abs().max() < 0.05
    assert set(joined["n_y"]) == {0}


def test_a_sweep_is_the_same_on_any_number_of_cores():
    base = eq.scenario(**TABS, horizon=50, replications=5)
    grid = {"setup_rate": [0.1, 1.0], "power.idle": [100, 140]}
    alone, together = eq.sweep(base, grid, jobs=1), eq.sweep(base, grid, jobs=2)
    assert [settings for settings, _ in alone] == [
        {"setup_rate": s, "power.idle": p} for s in (0.1, 1.0) for p in (100, 140)
    ]
    assert alone.table().equals(together.table())
    assert list(alone.table())[:3] == ["setup_rate", "power.idle", "metric"]
    assert alone[0][1].scenario.power.full == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grid": {"servers": [0]}}, "servers = 0: "),
        ({"grid": {}, "engine": "guess"}, "engine = guess: must be one of simulate"),
        ({"grid": {}, "jobs": 0}, "jobs = 0: must be >= 1"),
        ({"grid": {}, "engine": "capacity"}, "model = tabs: capacity is for cluster"),
    ],
)
def test_a_sweep_refuses_in_one_line(arguments, message):
    with pytest.raises(eq.ConfigError) as caught:
        eq.sweep(eq.scenario(**TABS), **arguments)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_stability_and_capacity_answer_with_facts(root):
    unlimited = eq.scenario(**{**TABS, "buffer": None})
    found = eq.stability(unlimited)
    assert found.facts["verdict"] == "stable"
    assert found.metric("drift").mean == found.facts["drift"] < 0
    region = eq.capacity(eq.read(root / "config/examples/cluster.yaml", {"arrivals.load": 0.5}))
    assert region.facts["largest_stable_load"] == pytest.approx(2.0)
    assert region.metric("epsilon[1]").mean == region.facts["epsilon"][1]
    assert region.document()["scenario"]["arrivals"]["load"] == 0.5
