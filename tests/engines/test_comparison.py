"""Experiments whose values are differences of two systems on common clocks."""

from __future__ import annotations

import copy

import pytest

import elastiqueue as eq
from elastiqueue.errors import ConfigError
from elastiqueue.workflow.experiments import chunks, load
from elastiqueue.workflow.jobs import computed_rows

SYSTEM = {
    "model": "tabs", "servers": 20, "arrival_rate": 0.3, "setup_rate": 0.1, "buffer": 20, "horizon": 300,
    "warm_up": 100,
}  # fmt: skip
STEPS = {
    "engine": "compare",
    "scenario": SYSTEM,
    "grid": {"standby_rate": [0.2, 0.1, 0.05]},
    "against": {"standby_rate": "next"},
    "metrics": ["power"],
}
RUN = {"run": "mine", "output": "results/mine/out", "seed": 3, "replications": 20, "experiments": {"steps": STEPS}}


def _changed(**keys) -> dict:
    run = copy.deepcopy(RUN)
    run["experiments"]["steps"].update(keys)
    return run


def _rows(run: dict) -> list[dict]:
    (chunk,) = chunks(load(run), "steps")
    return [row for row in computed_rows("compare", chunk.specification()) if row["metric"] == "power"]


def test_each_value_of_a_grid_less_the_next_one() -> None:
    rows = _rows(RUN)
    assert [row["standby_rate"] for row in rows] == [0.2, 0.1]
    pair = [eq.scenario(**SYSTEM, seed=3, replications=20, standby_rate=rate) for rate in (0.2, 0.1)]
    found = eq.compare(*pair).metric("power")
    assert (rows[0]["mean"], rows[0]["se"], rows[0]["n"]) == (found.mean, found.se, 20)
    assert rows[0]["mean"] > 5 * rows[0]["se"]  # the power falls with the standby period
    assert "gain" in rows[0]["note"]


def test_every_scenario_less_one_that_differs_in_some_keys() -> None:
    rows = _rows(_changed(against={"model": "delayed_off", "buffer": None}))
    assert [row["standby_rate"] for row in rows] == [0.2, 0.1, 0.05]
    assert [row["model"] for row in rows] == ["tabs"] * 3
    assert all(row["mean"] > 5 * row["se"] for row in rows)


def test_what_is_compared_with_and_how_often_names_the_results() -> None:
    names = {
        chunks(load(run), "steps")[0].name
        for run in (RUN, _changed(against={"standby_rate": 1}), {**RUN, "replications": 30})
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"against": {}}, "steps: against: must be given for the engine compare"),
        ({"engine": "simulate"}, "steps: against: must be given for the engine compare, and for no other"),
        ({"against": {"servers": "next"}}, r"against\.servers = next: must be a key of the grid"),
        ({"grid": {"standby_rate": [0.1]}}, "against: no value of the grid has a next one"),
        ({"against": {"server": 3}}, "server = 3: is not a known key"),
        ({"against": {"servers": 0}}, "servers = 0: "),
        ({"against": {"horizon": 900}}, r"horizon = 900\.0: must be that of the other scenario, 300\.0"),
        ({"against": 3}, r"steps\.against = 3: "),
        ({"metrics": ["backlog"]}, "metrics = backlog: must be one that a scenario of it has"),
        ({"precision": {"metric": "power", "relative": 0.1}}, r"precision\.metric = power: "),
    ],
    ids=str,
)
def test_mistakes_are_one_line(keys: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(_changed(**keys))
    assert "\n" not in str(caught.value)
