"""Units of a practitioner: what is given in seconds is the same scenario, and results are the same numbers twice."""

from __future__ import annotations

import pytest

import elastiqueue as eq
from elastiqueue.errors import ConfigError
from elastiqueue.scenarios.reading import changed, scenario_from
from elastiqueue.scenarios.units import in_practice, said_of, seconds

PRICES = {"price_per_kwh": 0.25, "price_per_server_hour": 0.04}
REAL = {
    "model": "tabs", "servers": 2, "arrival_rate": "3 / s", "standby_time": "2 s", "setup_time": "1 min", "buffer": 5,
    "horizon": "1 min", "units": {"service_time": "200 ms", **PRICES},
}  # fmt: skip
PLAIN = {"model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 1 / 300, "buffer": 5}


def test_a_scenario_in_seconds_is_the_one_in_mean_service_times():
    real, plain = eq.scenario(**REAL), eq.scenario(**PLAIN, horizon=300)
    assert real.digest() == plain.digest()
    assert real.units.service_time == 0.2
    again = eq.scenario(**real.model_dump())
    assert again == real


def test_amplitudes_periods_and_warm_ups_too():
    wave = {"mean": "180 per min", "amplitude": "1/s", "period": "20 s"}
    real = eq.scenario(**{**REAL, "arrival_rate": wave, "warm_up": "10 s", "record_every": "500 ms"})
    assert (real.arrival.mean(), real.arrival.amplitude, real.arrival.period) == pytest.approx((0.3, 0.1, 100))
    assert (real.warm_up, real.record_every) == (50, 2.5)


def test_a_time_takes_the_place_of_its_rate_and_back():
    plain = eq.scenario(**PLAIN)
    assert changed(plain, {"standby_time": 5}).standby_rate == 0.2
    assert changed(changed(plain, {"standby_time": 5}), {"standby_rate": 3}).standby_rate == 3


@pytest.mark.parametrize(
    ("text", "value"), [("200 ms", 0.2), ("1.5h", 5400), ("2 min", 120), ("1e3 us", 1e-3), ("1 d", 86400), (7, 7)]
)
def test_seconds(text, value):
    assert seconds(text) == pytest.approx(value, rel=1e-15)


def test_results_are_in_both_units_and_costs_add_up():
    for answer in (eq.exact, eq.simulate, eq.fluid):
        found = answer(eq.scenario(**{**REAL, "replications": 4}))
        wait, unit = found.real("mean_wait")
        assert unit == "s"
        assert wait.mean == pytest.approx(0.2 * found.metric("mean_wait").mean)
        assert wait.se == pytest.approx(0.2 * found.metric("mean_wait").se)
        assert found.real("power")[0].mean == pytest.approx(2 * found.metric("power").mean)
        assert found.real("wait_probability") is None
        on = 2 * (1 - found.metric("idle_off").mean)
        expected = 2 * found.metric("power").mean * 0.25 / 1000 + on * 0.04
        assert found.metric("cost_per_hour").mean == pytest.approx(expected, rel=1e-3)
        if answer is not eq.simulate:  # ratios are jackknifed there, each for itself
            served = 2 * found.metric("busy").mean / 0.2 * 3600
            assert found.metric("cost_per_million").mean == pytest.approx(expected / served * 1e6, rel=1e-12)
    table = found.table().set_index("metric")
    assert table.loc["mean_wait", "real_unit"] == "s"
    assert found.document()["metrics"]["power"]["real_unit"] == "W"
    assert "real_unit" not in eq.exact(eq.scenario(**PLAIN)).table()


def test_the_command_names_units_and_the_workflow_knows_costs(tmp_path, capsys):
    import json

    from elastiqueue.cli.main import main
    from elastiqueue.models.registry import has_metric

    (tmp_path / "a.yaml").write_text(json.dumps(REAL))
    assert main(["exact", str(tmp_path / "a.yaml")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("tabs, 2 servers; 3 requests / s of 0.2 s each on average\n")
    assert all(word in shown for word in ("service times", "W per server", "in practice", "EUR"))
    assert has_metric(eq.scenario(**REAL), "cost_per_hour")
    assert not has_metric(eq.scenario(**PLAIN), "cost_per_hour")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"units": None}, "horizon = 1 min: needs units.service_time"),
        ({"units": 7}, "units = 7: input should be a valid dictionary"),
        ({"units": {}}, "units.service_time: is missing"),
        ({"units": {"service_time": "soon"}}, "units.service_time = 'soon': must be a number of seconds, or"),
        ({"units": {"service_time": -1}}, "units.service_time = -1: input should be greater"),
        ({"units": {"service_time": 1, "price": 2}}, "units.price = 2: is not a known key"),
        ({"standby_time": 0}, "standby_time = 0: must be a number > 0, or a text such as 30 s"),
        ({"standby_time": True}, "standby_time = True: must"),
        ({"setup_time": "10 parsec"}, "setup_time = '10 parsec': must be a number > 0, or a text such as 30 s"),
        ({"setup_rate": 1}, "setup_time = 300.0: must not be given beside setup_rate"),
        ({"arrival_rate": "3 / y"}, "arrival_rate = '3 / y': input should be a valid number"),
        ({"horizon": "soon"}, "horizon = 'soon': input should be"),
    ],
)
def test_mistakes_are_one_line(changes, message):
    with pytest.raises(eq.ConfigError) as caught:
        eq.scenario(**{**REAL, **changes})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


SLOTTED = {
    "model": "cluster", "servers": 4, "configurations": [[2, 0], [0, 1]], "slots": 7200, "warm_up": 600,
    "arrivals": {"law": "poisson", "mean": [0.1, 0.05]}, "job_sizes": {"uniform": [[2, 10, 0.9], [60, 120, 0.1]]},
}  # fmt: skip
IN_SECONDS = {
    "units": {"slot": "500 ms"}, "slots": "1 h", "warm_up": "5 min",
    "arrivals": {"law": "poisson", "mean": ["0.2 / s", "6 / min"]},
    "job_sizes": {"uniform": [["1 s", "5 s", 0.9], ["30 s", "1 min", 0.1]]},
}  # fmt: skip


def test_a_cluster_in_seconds_is_the_one_in_slots():
    plain, timed = scenario_from(SLOTTED), scenario_from(SLOTTED | IN_SECONDS)
    assert timed.stream_keys() == plain.stream_keys()
    assert in_practice(timed, "mean_response") == (0.5, "s")
    assert in_practice(plain, "mean_response") is None
    assert in_practice(timed, "total_backlog") is None
    assert said_of(timed) == "slots of 0.5 s"
    single = scenario_from({"model": "single_type", "servers": 2, "arrivals": {"law": "binomial", "mean": "30 / min"},
                            "units": {"slot": 1}, "slots": "1 d"})  # fmt: skip
    assert (single.arrivals.mean, single.slots) == (0.5, 86400)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"units": None}, "slots = 1 h: needs units.slot"),
        ({"units": {"slot": 0}}, "units.slot = 0: input should be greater"),
        ({"units": {"slot": "fast"}}, "units.slot = 'fast': must be a number of seconds"),
        ({"units": 3}, "units = 3: input should be a valid dictionary"),
        ({"units": {"service_time": 1}}, "units.slot: is missing"),
        ({"units": {"slot": 1, "price_per_kwh": 0.3}}, "units.price_per_kwh = 0.3: is not a known key"),
        ({"slots": "1 / s"}, "slots = '1 / s': input should be a valid integer"),
        ({"slots": "1 fortnight"}, "slots = '1 fortnight': input should be a valid integer"),
        ({"warm_up": "700 ms"}, "warm_up = 700 ms: must be a whole number of slots, of 0.5 s each"),
        ({"arrivals": {"law": "poisson", "mean": ["1 s", 1]}}, "arrivals.mean.0 = '1 s': input should be a valid num"),
        ({"job_sizes": {"values": ["1 / s"], "probabilities": [1]}}, "job_sizes.values.0 = '1 / s'"),
        ({"job_sizes": {"values": ["1 us"], "probabilities": [1]}}, "job_sizes.values = 1 us: must be a whole number"),
    ],
)
def test_mistakes_in_units_of_slots_are_one_line(changes, says):
    with pytest.raises(ConfigError) as caught:
        scenario_from(SLOTTED | IN_SECONDS | changes)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
