"""What the fluid engine says of scenarios: fractions, power, refusals."""

from __future__ import annotations

import math

import pytest

from elastiqueue.engines.fluid import fluid_averages
from elastiqueue.scenarios.reading import scenario_from

TABS = {"model": "tabs", "servers": 50, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1}


@pytest.mark.parametrize("start", ["fixed_point", "all_idle_on"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"standby_rate": 0.0},
        {"model": "jiq", "standby_rate": None, "setup_rate": None},
        {"service": {"hyperexponential": 4}, "power": {"full": 200, "idle": 140, "off": 10}},
        {"arrival_rate": 1.5, "buffer": 2},
        {"arrival_rate": {"mean": 0.6, "amplitude": 0.5, "period": 25.0}, "buffer": 3},
    ],
)
def test_fractions_sum_to_one_and_waste_is_what_is_not_work(start, changes):
    windows = [{"horizon": 40.0, "warm_up": 10.0}]
    if "buffer" not in changes:  # constant, below 1
        windows.append({"horizon": "auto", "warm_up": "auto"})
    for window in windows:
        scenario = scenario_from(TABS | changes | window | {"start": start})
        found, power = fluid_averages(scenario), scenario.power
        parts = [found[name] for name in ("busy", "idle_on", "idle_off", "setup")]
        assert math.fsum(parts) == pytest.approx(1, abs=1e-9)
        used = power.full * (parts[0] + parts[3]) + power.idle * parts[1] + power.off * parts[2]
        assert found["power"] == pytest.approx(used, rel=1e-12)
        assert found["wasted_power"] == pytest.approx(used - power.full * parts[0], rel=1e-9, abs=1e-9)


def test_without_standby_period_every_server_stays_on():
    found = fluid_averages(scenario_from(TABS | {"standby_rate": 0.0, "horizon": "auto", "warm_up": "auto"}))
    assert (found["busy"], found["idle_on"], found["idle_off"]) == pytest.approx((0.3, 0.7, 0.0))
    assert found["power"] == pytest.approx(200 * 0.3 + 140 * 0.7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"abort_setups": True}, "abort_setups = true: must be false"),
        ({"model": "delayed_off"}, "model = delayed_off: fluid is for tabs, jiq"),
        ({"start": "all_off"}, "start = all_off: is singular"),
    ],
)
def test_what_has_no_fluid_limit_here_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        fluid_averages(scenario_from(TABS | changes))
