"""What holds in every result of every engine: no server is lost, and what is wasted is what is not spent on tasks."""

from __future__ import annotations

import math

import pytest

from elastiqueue.engines.exact import exact
from elastiqueue.engines.fluid import fluid_averages
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.scenarios.registry import MODELS

BASE = {"servers": 3, "arrival_rate": 0.4, "horizon": 20, "replications": 3, "power": {"full": 200, "off": 10}}
CORNERS = [
    {"model": "tabs"}, {"model": "tabs", "standby_rate": 0.0}, {"model": "tabs", "abort_setups": True},
    {"model": "tabs", "buffer": 1, "arrival_rate": 5.0, "start": "all_off"},
    {"model": "tabs", "service": {"erlang": 2}}, {"model": "jiq"}, {"model": "jiq", "arrival_rate": 2.0, "buffer": 2},
    {"model": "delayed_off"}, {"model": "delayed_off", "abort_setups": False},
    {"model": "delayed_off", "staggered": True}, {"model": "delayed_off", "standby_rate": 0.0},
    {"model": "delayed_off", "service": {"coxian": 2}},
    {"model": "setup", "start": "all_idle_on"}, {"model": "setup", "start": "all_off"}, {"model": "always_on"},
]  # fmt: skip


def test_every_model_is_among_the_corners():
    assert {corner["model"] for corner in CORNERS} == {name for name, row in MODELS.items() if row.continuous}


@pytest.mark.parametrize("corner", CORNERS, ids=str)
def test_fractions_sum_to_one_and_power_is_theirs(corner):
    takes = MODELS[corner["model"]].takes
    rates = {key: 0.5 for key in ("standby_rate", "setup_rate") if key in takes}
    room = {"buffer": 4} if "buffer" in takes else {}
    scenario = scenario_from(BASE | rates | room | corner)
    results = {"exact": exact(scenario).metrics}
    for direct in (False, True):
        totals, _ = simulate(scenario, 0, 3, direct=direct)
        results[f"simulate, direct = {direct}"] = {name: x.mean for name, x in estimates(scenario, totals).items()}
    fluid = "fluid" in MODELS[corner["model"]].engines and scenario.start != "all_off" and not scenario.aborts
    if fluid:
        results["fluid"] = fluid_averages(scenario)
    for engine, found in results.items():
        busy, on, off, setup = (found[name] for name in ("busy", "idle_on", "idle_off", "setup"))
        assert math.fsum([busy, on, off, setup]) == pytest.approx(1.0, abs=1e-9), engine
        assert found["power"] == pytest.approx(200 * (busy + setup) + 140 * on + 10 * off, rel=1e-9), engine
        assert found["wasted_power"] == pytest.approx(found["power"] - 200 * busy, rel=1e-9, abs=1e-7), engine
        assert found["wasted_power"] >= -1e-7, engine
