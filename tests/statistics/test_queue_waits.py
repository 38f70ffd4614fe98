"""The distribution of waits in central queues: against closed forms, the mean wait, and simulated against exact."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaincc

from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.errors import ConfigError
from elastiqueue.models.central_queue.definition import QUEUE
from elastiqueue.models.registry import has_metric, model_of
from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.statistics.estimates import estimate
from elastiqueue.statistics.queue_waits import bins, ends_of_bins, queue_columns, queue_metrics
from elastiqueue.statistics.waiting import metric_from, parts_of
from elastiqueue.theory.queues import erlang_c
from elastiqueue.theory.stationary_law import enumerate_states, stationary_rates
from elastiqueue.theory.tagged_task import TaggedTask

WAITS = {"percentiles": [50, 95, 99.9], "times": [0.3, 2, 10]}
DELAYED = {"model": "delayed_off", "servers": 2, "arrival_rate": 0.4, "standby_rate": 0.2, "setup_rate": 0.3}
CASES = {
    "aborts": {},
    "keeps": {"abort_setups": False},
    "staggered": {"staggered": True, "servers": 3},
    "setup": {"model": "setup", "service": {"coxian": 3}},
    "erlang": {"service": {"erlang": 2}, "arrival_rate": 0.6},
    "always on": {"model": "always_on", "service": {"hyperexponential": 4}},
}


def _scenario(**keys):
    return scenario_from({**DELAYED, "waits": WAITS, **keys})


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (2, 0.5), (5, 0.7)])
def test_waits_of_mmn_are_exponential_where_there_is_one(servers, load):
    """P(W > t) = C exp(-v t), v = N - a, C of Erlang; the response time has an exponential of mean 1 more."""
    known = exact(_scenario(model="always_on", servers=servers, arrival_rate=load)).metrics
    c, v = erlang_c(servers, servers * load), servers * (1 - load)
    for t in WAITS["times"]:
        both = (1 + t) * math.exp(-t) if v == 1 else (v * math.exp(-t) - math.exp(-v * t)) / (v - 1)
        assert known[f"wait_tail[{t:g}]"] == pytest.approx(c * math.exp(-v * t), rel=1e-7)
        assert known[f"response_tail[{t:g}]"] == pytest.approx((1 - c) * math.exp(-t) + c * both, rel=1e-7)
    for p, name in ((50, "wait_p50"), (95, "wait_p95"), (99.9, "wait_p99_9")):
        assert known[name] == pytest.approx(max(0.0, math.log(c / (1 - p / 100)) / v), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_tail_of_a_tagged_task_adds_up_to_the_mean_wait(case):
    scenario = _scenario(**CASES[case])
    chain = model_of(scenario).chain(scenario, 160)
    rates = stationary_rates(chain)
    task = TaggedTask(enumerate_states(chain), QUEUE, rates["arrivals"], scenario.phase_type)
    mean = rates["waiting"] / rates["arrivals"]
    assert quad(task.tail, 0, 150, (False,), epsabs=1e-10, limit=500)[0] == pytest.approx(mean, rel=1e-8)
    assert quad(task.tail, 0, 300, (True,), epsabs=1e-10, limit=500)[0] == pytest.approx(mean + 1, rel=1e-8)
    assert task.tail(task.quantile(0.95, True), True) == pytest.approx(0.05, rel=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_simulation_agrees_with_a_tagged_task(case):
    scenario = _scenario(**CASES[case], horizon=2000, warm_up=100, replications=60, seed=2)
    known = exact(scenario).metrics
    totals, _ = simulate(scenario, 0, 60)
    measured = estimates(scenario, totals)
    asked = [name for name in measured if name.startswith(("wait_p", "wait_tail", "response_"))]
    assert len(asked) == 13  # with wait_probability
    for name in asked:
        assert abs(measured[name].mean - known[name]) <= 5 * measured[name].se + 1e-12, name


def test_a_policy_with_a_queue_has_its_waits_for_nothing(tmp_path, root):
    """The waiting room of the manual: M/M/2 with 3 places. Who finds k > 1 tasks waits for k - 1 phases."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (tmp_path / "room.py").write_text(text.split("```python\n")[1].split("```")[0])
    keys = {"model": str(tmp_path / "room.py"), "servers": 2, "arrival_rate": 0.8, "places": 3, "horizon": 1500}
    scenario = scenario_from({**keys, "waits": {"percentiles": [90], "times": [0.5]}, "replications": 40})
    weights = [1, 1.6, *(1.6**k / 2 ** (k - 1) for k in range(2, 5))]  # of k tasks, where one more is accepted
    expected = sum(w * gammaincc(k - 1, 2 * 0.5) for k, w in enumerate(weights) if k > 1) / sum(weights)
    known = exact(scenario).metrics
    assert known["wait_tail[0.5]"] == pytest.approx(expected, rel=1e-12)
    found = estimates(scenario, simulate(scenario, 0, 40)[0])
    for name in ("wait_tail[0.5]", "wait_p90", "response_p90"):
        assert abs(found[name].mean - known[name]) <= 5 * found[name].se, name
    assert not has_metric(scenario_from(keys), "wait_p90")
    other = scenario_from({**DELAYED, "model": str(root / "config/examples/policies/serverless.py"), "keep_alive": 2,
                           "waits": {}})  # fmt: skip
    assert not has_metric(other, "wait_p99")  # whose waits end out of order


def test_they_are_observed_only_where_they_are_asked_for():
    plain = scenario_from({**DELAYED, "horizon": 50})
    asked = plain.with_metrics(["mean_wait", "wait_p97_5", "response_tail[1.5]"])
    assert asked.waits.percentiles == [50, 95, 99, 97.5]
    assert asked.waits.times == [1, 2, 5, 10, 20, 1.5]
    assert asked.digest() == plain.digest()  # the same random streams
    assert plain.with_metrics(["mean_wait", "wait_p100"]) is plain
    assert not has_metric(plain, "wait_p99")
    assert has_metric(asked, "wait_p97_5")
    assert not any("_in_bin_" in name for name in model_of(plain).columns(plain))
    totals, _ = simulate(asked, 0, 3)
    row = dict(zip(model_of(asked).columns(asked), totals.sum(axis=0), strict=True))
    ended = {
        word: sum(row[name] for name in bins(word == "response", asked.waits.times)) for word in ("wait", "response")
    }
    assert ended["wait"] == ended["response"] <= row["queued"] == row["waited"]


def test_waits_that_go_on_over_pauses_and_many_events():
    """Ten thousand wait for a setup, longer than from one look at the room to the next: all start then, in order."""
    keys = {"model": "delayed_off", "servers": 1, "arrival_rate": 0.9, "standby_rate": 0, "setup_rate": 1e-4}
    scenario = scenario_from({**keys, "start": "all_off", "horizon": 30000, "waits": {"times": [1]}, "replications": 2})
    words = np.array([[1, 2, 3, 5]], np.uint64)
    totals, _ = model_of(scenario).simulate_batch(scenario, words, (0.0, 15000.0, 30000.0), np.empty(0))
    names = model_of(scenario).columns(scenario)
    counts = totals[:, [names.index(name) for name in bins(False, [1])]].sum(axis=1)
    row = dict(zip(names, totals.sum(axis=0), strict=True))
    assert row["setups"] == 1
    assert counts.sum() > 5000
    in_service = row["arrivals"] - row["departures"] - (row["queued"] - counts.sum())
    assert in_service in (0, 1)


def test_quantiles_are_those_of_the_values_in_the_bins():
    """Of exponential waits, counted in bins: to the third order of the width of a bin."""
    metrics = queue_metrics([90, 99], [2.0, 1e4], {"arrivals": 1.0}, PhaseType.exponential())
    ends = (0.0, *ends_of_bins((2.0, 1e4)), math.inf)
    counts = [1e6 * (math.exp(-low) - math.exp(-high)) for low, high in pairwise(ends)]
    names = ["arrivals", *queue_columns([2.0, 1e4])]
    row = [2e6, 1e6, *counts, *counts]  # half of them wait
    totals = np.array([row, row])
    assert estimate(metrics["wait_tail[2]"], names, totals).mean == pytest.approx(math.exp(-2) / 2, rel=1e-12)
    for p in (90, 99):
        assert estimate(metrics[f"wait_p{p}"], names, totals).mean == pytest.approx(math.log(50 / (100 - p)), rel=1e-5)
    none = estimate(metrics["wait_tail[10000]"], names, totals)
    assert (none.mean, none.se) == (0.0, pytest.approx(1 / 4e6))  # as if one of all had been seen
    assert metric_from(parts_of(metrics["wait_p90"])) == metrics["wait_p90"]


def test_a_chain_with_too_many_places_is_refused():
    with pytest.raises(ConfigError, match=r"states with places = .*: at most 5000000 are allowed for waits"):
        exact(_scenario(model="always_on", servers=1, arrival_rate=0.997, waits={"times": [1]}))
