"""Two systems on common clocks: each as if alone, equal ones for ever the same, differences with less noise."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import elastiqueue as eq
from elastiqueue.engines.comparison import common_window, differences, simulate_pair
from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import estimates
from elastiqueue.errors import ConfigError
from elastiqueue.models.coupling import Pair, simulate_coupled
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import scenario_from

BASE = {"servers": 3, "arrival_rate": 0.6, "standby_rate": 0.3, "setup_rate": 0.2, "replications": 40}
WINDOW = {"horizon": 2100, "warm_up": 100}
SYSTEMS = {
    "tabs": {"model": "tabs", "buffer": 3},
    "tabs, other rates": {"model": "tabs", "buffer": 4, "standby_rate": 3, "setup_rate": 1, "arrival_rate": 0.3},
    "tabs, aborted setups": {"model": "tabs", "buffer": 3, "abort_setups": True},
    "tabs, Coxian": {"model": "tabs", "buffer": 2, "servers": 2, "service": {"coxian": 3}},
    "jiq": {"model": "jiq", "buffer": 5, "servers": 4},
    "delayed_off": {"model": "delayed_off"},
    "delayed_off, Erlang": {"model": "delayed_off", "service": {"erlang": 2}, "abort_setups": False},
    "setup": {"model": "setup", "servers": 2},
    "always_on": {"model": "always_on", "arrival_rate": 0.7},
    "a policy": {"model": "serverless.py", "servers": 2, "keep_alive": 2},
}
METRICS = ("mean_wait_integral", "wait_probability", "loss_probability", "power", "busy", "setup", "idle_on")


def _scenario(root: Path, name: str, **keys):
    values = {**BASE, **WINDOW, **SYSTEMS[name], **keys}
    for key in {"jiq": ("standby_rate", "setup_rate"), "always_on": ("standby_rate", "setup_rate")}.get(name, ()):
        del values[key]
    if name == "setup" or name == "a policy":
        del values["standby_rate"]
    if name == "a policy":
        values["model"] = str(root / "config/examples/policies" / values["model"])
    return scenario_from(values)


# Each pair of definitions takes some seconds to compile: the policy stands beside one other definition only.
PAIRS = [pair for pair in itertools.combinations_with_replacement(SYSTEMS, 2) if "a policy" not in pair]


@pytest.mark.parametrize(
    "names", [*PAIRS, *((name, "a policy") for name in SYSTEMS if "tabs" in name)], ids=" and ".join
)
def test_each_of_two_is_as_if_alone(root: Path, names: tuple[str, str]) -> None:
    pair = tuple(_scenario(root, name) for name in names)
    for scenario, totals in zip(pair, simulate_pair(pair, 0, 40, common_window(pair)), strict=True):
        found, known = estimates(scenario, totals), exact(scenario).metrics
        assert "power" in found
        for name in METRICS:
            if name in known:
                assert abs(found[name].mean - known[name]) <= 5 * found[name].se + 1e-9, (names, name)


@pytest.mark.parametrize(
    "keys",
    [
        {"model": "tabs", "buffer": None, "start": "all_off"},
        {"model": "tabs", "buffer": 5, "service": {"hyperexponential": 4}},
        {"model": "delayed_off", "arrival_rate": {"mean": 0.5, "amplitude": 0.4, "period": 7}},
        {"model": "tabs", "buffer": 5, "horizon": "auto", "warm_up": "auto", "replications": 4},
    ],
    ids=str,
)
def test_equal_systems_stay_the_same_for_ever(keys: dict) -> None:
    scenario = scenario_from({**BASE, **WINDOW, **keys})
    one, other = simulate_pair((scenario, scenario), 0, 4, common_window((scenario, scenario)))
    assert np.array_equal(one, other)
    assert one[:, 1].min() > 0


def test_what_two_systems_count_is_counted_in_each_stretch() -> None:
    """The time integrals of servers of all kinds add up to N times the time, in both."""
    pair = [scenario_from({**BASE, "model": model, "buffer": 3}) for model in ("tabs", "delayed_off")]
    for scenario, totals in zip(
        pair, simulate_coupled(pair, stream(1, "0" * 32, 0), (0.0, 3.0, 4.5, 9.0)), strict=True
    ):
        names = model_of(scenario).columns(scenario)
        part = {name: totals[:, names.index(name)] for name in names}
        busy = part["busy"] if "busy" in part else part["q_1"]
        assert part["time"].tolist() == [3.0, 1.5, 4.5]
        assert busy + part["idle_on"] + part["idle_off"] + part["setup"] == pytest.approx(3 * part["time"])


def test_kinds_of_event_are_matched_by_name(root: Path) -> None:
    names = ("tabs, Coxian", "always_on")
    pair = Pair([_scenario(root, name) for name in names], stream(1, "0" * 32, 0))
    phases = pair.kinds.tolist()
    assert phases[:4] == [[0, 0], [1, 1], [2, 2], [3, 3]]
    assert phases[4:] == [[4, -1]]  # the second phase, which exponential service lacks


def _gain(metric: str, **other) -> float:
    scenario = eq.scenario(
        model="tabs", servers=100, arrival_rate=0.3, standby_rate=0.1, setup_rate=0.1, buffer=50, horizon=4000,
        warm_up=200, replications=40,
    )  # fmt: skip
    changed = type(scenario).model_validate({**scenario.model_dump(exclude_unset=True), **other})
    return eq.compare(scenario, changed).metrics[metric].gain


def test_a_difference_has_less_noise_than_that_of_independent_systems() -> None:
    """Neighbouring standby periods: 6 and more were measured; TABS and delayed-off have only the tasks in common."""
    assert _gain("power", standby_rate=0.08) > 5
    assert _gain("mean_wait", standby_rate=0.08) > 3
    assert _gain("power", model="delayed_off", buffer=None) > 1.2


def test_the_difference_is_that_of_the_means() -> None:
    pair = tuple(scenario_from({**BASE, **WINDOW, "model": "tabs", "buffer": b, "standby_rate": 1}) for b in (3, 5))
    span = common_window(pair)
    found = differences(pair, simulate_pair(pair, 0, 40, span), span)
    for name, one in found.items():
        if math.isfinite(one.difference.mean):
            bias = 1e-3 * sum(value.se for value in one.both) + 1e-12  # of the jackknife
            assert one.difference.mean == pytest.approx(one.both[0].mean - one.both[1].mean, abs=20 * bias), name
            assert one.difference.se <= 1.05 * sum(value.se for value in one.both) + 1e-12, name
    assert "mean_wait" in found


def test_waits_that_are_observed_in_a_queue_are_compared_too() -> None:
    keys = {**BASE, **WINDOW, "waits": {"percentiles": [90], "times": [1]}}
    pair = (scenario_from({**keys, "model": "tabs", "buffer": 3}), scenario_from({**keys, "model": "delayed_off"}))
    span = common_window(pair)
    totals = simulate_pair(pair, 0, 40, span)
    found, known = estimates(pair[1], totals[1]), exact(pair[1]).metrics
    for name in ("wait_p90", "wait_tail[1]"):
        assert abs(found[name].mean - known[name]) <= 5 * found[name].se
        assert differences(pair, totals, span)[name].difference.se > 0


def test_a_mean_wait_is_not_compared_with_one_that_is_estimated_in_another_way() -> None:
    pair = tuple(scenario_from({**BASE, **WINDOW, "model": name, "buffer": 3}) for name in ("tabs", "delayed_off"))
    span = common_window(pair)
    found = differences(pair, simulate_pair(pair, 0, 2, span), span)
    assert "mean_wait" not in found
    assert "mean_wait_integral" in found


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"horizon": 300}, "horizon = 300.0: must be that of the other scenario, 250.0"),
        ({"horizon": "auto", "warm_up": "auto"}, "horizon = auto: must be that"),
        ({"warm_up": 1}, "warm_up = 1.0: must be that of the other scenario, 0.0"),
        ({"replications": 3}, "replications = 3: must be"),
        ({"seed": 3}, "seed = 3: must be"),
        ({"precision": {"metric": "power", "relative": 0.1}}, "precision: is for"),
    ],
    ids=str,
)
def test_scenarios_that_cannot_be_compared(keys: dict, message: str) -> None:
    first = scenario_from({**BASE, "model": "tabs"})
    with pytest.raises(ConfigError, match=message):
        eq.compare(first, scenario_from({**BASE, "model": "tabs", **keys}))


def test_a_cluster_is_not_compared() -> None:
    one = eq.scenario(model="single_type", servers=2, arrivals={"law": "poisson", "mean": 0.5})
    with pytest.raises(ConfigError, match="model = single_type: only systems in continuous time"):
        eq.compare(one, one)
