"""Scenarios in slots: from keys to the engine's parameters, their bounds and regions, runs, and the command line."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import diags
from scipy.sparse.linalg import spsolve

from elastiqueue.api.solve import capacity
from elastiqueue.cli.main import main
from elastiqueue.engines.capacity import bounds_values, capacity_values, compute_rows
from elastiqueue.engines.simulation import estimates, simulate, window
from elastiqueue.models import slotted
from elastiqueue.models.registry import sources_of
from elastiqueue.scenarios.reading import ConfigError, scenario_from
from elastiqueue.theory.heavy_traffic import unit_server_mean
from elastiqueue.workflow.experiments import chunks, load, points, specified_points

INFOCOM = {
    "model": "cluster", "servers": 2, "resources": [30, 30, 4000],
    "job_types": [[15, 8, 1690], [17.1, 6.5, 420], [7, 20, 1690]],
}  # fmt: skip
BINOMIAL = {"law": "binomial", "trials": 6}
RAY = {"direction": [1, 1 / 3, 2 / 3]}
SINGLE = {"model": "single_type", "servers": 3, "arrivals": {"law": "binomial", "mean": 2.4}}


def infocom(**changes):
    arrivals = {**BINOMIAL, **changes.pop("arrivals", {"epsilon": 0.1})}
    return scenario_from({**INFOCOM, "facet": 1, "arrivals": arrivals, **changes})


def run(scenario):
    totals, samples = simulate(scenario, 0, scenario.replications)
    return estimates(scenario, totals), samples


# ---- Mistakes: one line that names key, value and what is allowed ----------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 0}, "servers = 0: input should be greater than or equal to 1"),
        ({"servers": None}, "servers: must be given, or classes, and not both"),
        ({"resources": None}, "resources: must be given, or configurations, for each kind of server, and not both"),
        ({"job_types": None}, "job_types: is missing; resources need the needs of each type"),
        ({"routing": "best"}, "routing = 'best': input should be 'jsq'"),
        ({"facet": None}, "facet: is missing; arrivals.epsilon is a distance to a facet"),
        ({"rho": 0.9}, "rho = 0.9: is not a known key"),
        ({"job_sizes": {"values": [0], "probabilities": [1]}}, "job_sizes = 0: must be >= 1 slot"),
        ({"job_sizes": {"uniform": [[1, 10**9, 1]]}}, "job_sizes.uniform.0.1 = 1000000000: input should be less than"),
        ({"job_sizes": "small"}, "job_sizes = 'small': must be {values, probabilities}, {uniform: "),
        ({"arrivals": {"law": "poisson", "mean": [1e300, 1, 1]}}, "arrivals.mean.0 = 1e+300: input should be less"),
        ({"servers": True}, "servers = True: must not be true or false"),
        ({"arrivals": {}}, "arrivals: has no intensity; must have mean, load or epsilon"),
        ({"arrivals": {"mean": [1, 1, 1], "epsilon": 1}},
         "arrivals: has mean, epsilon; must have mean, load or epsilon"),
        ({"arrivals": {"load": 0.5}}, "arrivals.direction: goes with load, and load with it"),
        ({"arrivals": {"load": 0.5, **RAY, "point": [1, 1, 1]}}, "arrivals.point: goes with epsilon"),
        ({"arrivals": {"load": 0.5, **RAY}, "slots": "auto", "facet": None},
         "facet: is missing; slots = auto goes by the distance to a facet"),
    ],
)  # fmt: skip
def test_mistakes_are_answered_by_one_line(changes, message):
    with pytest.raises(ConfigError) as error:
        infocom(**changes)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"facet": 7}, "facet = 7: must be one of 0..2"),
        ({"arrivals": {"mean": [1, 1]}}, "arrivals.mean: has 2 entries; must have one per job type, 3"),
        ({"job_sizes": [{"values": [1], "probabilities": [1]}]},
         "job_sizes: has 1 entries; must have one per job type"),
        ({"arrivals": {"epsilon": 9.0}}, "arrivals.epsilon = 9.0: must be > 0 and leave every arrival rate >= 0"),
        ({"scheduling": "best_fit", "level": "workload"}, "level = workload: must be job with scheduling = best_fit"),
        ({"servers": 1, "routing": "power_of_two"}, "servers = 1: must be at least 2 with routing = power_of_two"),
        ({"facet": 99, "arrivals": {"mean": [0.1, 0.1, 0.1]}}, "facet = 99: must be one of 0..2"),
        ({"arrivals": {"epsilon": 0.1, "point": [1, 1, 1]}}, "arrivals.point = [1.0, 1.0, 1.0]: must be on facet 1"),
        ({"arrivals": {"epsilon": 0.1, "point": [1, 1]}}, "arrivals.point: has 2 entries; must have one per job type"),
        ({"job_sizes": {"uniform": [[4, 1, 1]]}}, "job_sizes.uniform = [4, 1, 1.0]: must be 0 <= first <= last"),
        ({"resources": [1e9, 1e9, 1e9]}, "resources = [1000000000.0, 1000000000.0, 1000000000.0]: a server has more"),
        ({"arrivals": {"mean": [7, 0, 0]}}, "arrivals.mean = 7.0: must be between 0 and trials = 6"),
    ],
)  # fmt: skip
def test_mistakes_in_the_meaning_are_answered_by_one_line(changes, message):
    with pytest.raises(ValueError, match=r"^.+: |^.+ = ") as error:
        slotted.parameters(infocom(**changes))
    assert str(error.value).startswith(message)


# ---- From keys to rates, bounds and lengths --------------------------------------------------------------------------


def test_lengths_that_would_never_end_and_servers_that_never_serve_are_refused():
    with pytest.raises(ConfigError, match=r"^slots = \d+ with the warm-up: .* must be at most 1e\+15$"):
        slotted.lengths(infocom(slots="auto", warm_up="auto", arrivals={"epsilon": 1e-9}))
    with pytest.raises(ConfigError, match=r"^slots = 3000000000: must be at most 2,147,483,638 after the warm-up"):
        slotted.lengths(infocom(slots=3_000_000_000, warm_up=10))
    with pytest.raises(ConfigError, match=r"^service.values = \[0\]: must hold one > 0"):
        scenario_from({**SINGLE, "service": {"values": [0], "probabilities": [1]}})


def test_the_streams_depend_on_the_law_alone():
    one = infocom(slots=1000)
    assert one.digest() == infocom(slots=1000, seed=9, replications=50).digest()
    assert one.digest() != infocom(slots=1001).digest()
    auto = infocom(slots="auto")
    assert auto.digest() != infocom(slots="auto", replications=50).digest()  # lengths go by it
    assert sources_of(one) == sources_of(scenario_from(SINGLE)) == ("elastiqueue.models.slotted",)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 0.5), st.integers(1, 6), st.integers(1, 9))
def test_epsilon_is_the_distance_to_the_facet(epsilon, servers, longest):
    scenario = infocom(
        servers=servers, arrivals={"epsilon": epsilon, "trials": 40}, job_sizes={"uniform": [[1, longest, 1]]}
    )
    found = slotted.intensity(scenario)
    assert slotted.region(scenario).epsilon(found.rates)[1] == pytest.approx(epsilon, rel=1e-9)
    assert slotted.bounds(scenario).epsilon == pytest.approx(epsilon, rel=1e-9)
    mean = (longest + 1) / 2
    jobs = [rate / mean for rate in found.rates]
    spread = sum(n * (longest**2 - 1) / 12 + n * (1 - n / 40) * mean**2 for n in jobs) / 3
    assert slotted.bounds(scenario).zeta == pytest.approx((spread + epsilon**2) / math.sqrt(servers), rel=1e-9)
    limit = bounds_values(scenario)["facet_limit"]  # from the middle of the facet: (1, 1/3, 2/3) per server
    jobs = [servers * x / mean for x in (1, 1 / 3, 2 / 3)]
    spread = sum(n * (longest**2 - 1) / 12 + n * (1 - n / 40) * mean**2 for n in jobs) / 3
    assert limit == pytest.approx(spread / 2 / math.sqrt(servers), rel=1e-9)


def test_load_is_a_multiple_of_the_direction():
    scenario = infocom(servers=100, arrivals={"load": 0.9, "trials": 100, **RAY})
    assert slotted.intensity(scenario).rates == pytest.approx((90, 30, 60))


def test_automatic_lengths_hold_the_relaxation_times():
    scenario = infocom(slots="auto", warm_up="auto", relaxations=300, replications=7)
    warm_up, slots = slotted.lengths(scenario)
    time = slotted.bounds(scenario).zeta * math.sqrt(2) / 0.1**2
    assert warm_up == math.ceil(20 * time)
    assert slots == math.ceil(300 * time / 7)
    alone = scenario.model_copy(update={"routing": "random"})
    assert slotted.relaxation(alone) == 2 * slotted.relaxation(scenario)
    long = infocom(job_sizes={"values": [900], "probabilities": [1]}, arrivals={"load": 0.1, **RAY})
    assert slotted.relaxation(long) == 900


def _one_queue(epsilon, servers):
    """E[sum q] under random routing, binomial(2) arrivals, services 1 with probability 1/M, by a sparse solve."""
    p = (1 - epsilon) / 2
    arrivals = [(1 - p) ** 2, 2 * p * (1 - p), p * p]
    arrivals = [1 - (1 - arrivals[0]) / servers, arrivals[1] / servers, arrivals[2] / servers]
    serve, states = 1 / servers, int(40 / epsilon)  # the tail beyond is below e^-40
    steps = {
        -1: arrivals[0] * serve,
        1: arrivals[1] * (1 - serve) + arrivals[2] * serve,
        2: arrivals[2] * (1 - serve),
    }
    steps[0] = -sum(steps.values())
    matrix = diags(
        [np.full(states - abs(k), v) for k, v in steps.items()], [-k for k in steps], (states, states), format="lil"
    )
    matrix[0, :] = 1.0  # the balance of state 0 follows from the others
    right = np.zeros(states)
    right[0] = 1.0
    return servers * float(np.arange(states) @ spsolve(matrix.tocsc(), right))


def test_random_routing_has_the_limit_of_its_single_queues():
    servers = 3
    scenario = scenario_from(
        {
            "model": "single_type", "servers": servers, "routing": "random",
            "arrivals": {"law": "binomial", "trials": 2, "epsilon": 0.02},
            "service": {"values": [0, 1], "probabilities": [1 - 1 / servers, 1 / servers]},
        }
    )  # fmt: skip
    extrapolated = 2 * 0.02 * _one_queue(0.02, servers) - 0.04 * _one_queue(0.04, servers)
    # eps E[sum q] is analytic in eps, with coefficients of order M: what is left is of order M eps^2
    assert bounds_values(scenario)["random_limit"] == pytest.approx(extrapolated, abs=4 * servers * 0.04**2)
    alone = scenario.model_copy(update={"servers": 1, "service": scenario.service.model_copy(update={
        "values": [1], "probabilities": [1.0]})})  # fmt: skip
    assert bounds_values(alone)["random_limit"] == pytest.approx(bounds_values(alone)["facet_limit"], rel=1e-12)


# ---- Runs ------------------------------------------------------------------------------------------------------------


def test_runs_have_the_exact_means():
    found, _ = run(scenario_from({**SINGLE, "slots": 100_000}))
    assert abs(found["total_backlog"].mean - 2.75648) < 5 * found["total_backlog"].se + 5e-6
    assert found["weighted_backlog"] == found["total_backlog"]
    assert abs(found["warm_up_test"].mean) < 5 * found["warm_up_test"].se
    one = scenario_from(
        {**SINGLE, "servers": 1, "arrivals": {"law": "binomial", "trials": 3, "load": 0.8}, "slots": 50_000}
    )
    found, _ = run(one)
    assert abs(found["pooled_backlog"].mean - unit_server_mean(0.8, 3 * 0.8 / 3 * (1 - 0.8 / 3))) < 5 * (
        found["pooled_backlog"].se
    )
    assert found["pooled_backlog"] == found["total_backlog"]


def test_cluster_metrics_agree_with_each_other_and_with_the_lower_bound():
    found, samples = run(infocom(slots="auto", warm_up="auto", relaxations=100, sample_every=10))
    weighted, total = found["weighted_backlog"], found["total_backlog"]
    assert weighted.mean == pytest.approx(total.mean / math.sqrt(3) / math.sqrt(2), rel=1e-9)
    assert total.mean == pytest.approx(sum(found[f"backlog_by_type[{j}]"].mean for j in (1, 2, 3)), rel=1e-9)
    assert found["parallel_sq"].mean >= weighted.mean**2
    assert weighted.mean + 5 * weighted.se >= slotted.bounds(infocom()).lower
    assert abs(found["warm_up_test"].mean) < 5 * found["warm_up_test"].se
    # the samples are those of the same runs: every tenth slot has the mean of all slots
    assert samples.shape == (10, samples.shape[1], 1)
    means = samples.mean(axis=(1, 2))
    assert abs(means.mean() - weighted.mean) < 5 * means.std(ddof=1) / math.sqrt(10)
    levels = slotted.tail_levels(infocom(sample_every=10))
    assert [x for x, _ in levels] == list(slotted.TAIL_POINTS)
    assert levels[4] == (1.0, slotted.bounds(infocom()).leading)
    heights = [float((samples > level).mean()) for _, level in levels]
    assert all(a >= b for a, b in itertools.pairwise(heights))


def test_the_warm_up_test_finds_a_warm_up_that_is_too_short():
    found, _ = run(infocom(arrivals={"epsilon": 0.005}, slots=3000, warm_up=0, replications=100))
    assert found["warm_up_test"].mean > 5 * found["warm_up_test"].se


@pytest.mark.parametrize("rho", [0.95, 1.05])
def test_the_backlog_grows_outside_the_region_only(rho):
    scenario = infocom(servers=5, arrivals={"load": rho, "trials": 10, **RAY}, slots=40_000, warm_up=5_000)
    found, _ = run(scenario)
    least = capacity_values(scenario)["least_growth"]
    assert least == pytest.approx(max(0.0, 10 * (rho - 1)), abs=1e-9)
    assert abs(found["growth"].mean - least) < 5 * found["growth"].se
    assert (found["growth"].mean > 5 * found["growth"].se) == (rho > 1)


# ---- Capacity and bounds as engines ----------------------------------------------------------------------------------


def test_capacity_values_of_the_known_setting():
    values = capacity_values(infocom(servers=100, arrivals={"load": 0.9, "trials": 100, **RAY}))
    assert values["b[1]"] == pytest.approx(200 / math.sqrt(3), rel=1e-12)
    assert [values[f"c[1,{j}]"] for j in (1, 2, 3)] == pytest.approx([1 / math.sqrt(3)] * 3, rel=1e-12)
    assert values["epsilon[1]"] == pytest.approx(20 / math.sqrt(3), rel=1e-9)
    assert [values[f"projection[1,{j}]"] for j in (1, 2, 3)] == pytest.approx([290 / 3, 110 / 3, 200 / 3], rel=1e-9)
    assert values["largest_stable_load"] == pytest.approx(1 / 0.9, rel=1e-9)
    assert abs(values["largest_stable_load"] - values["largest_stable_load_lp"]) < 1e-9
    assert (values["in_K[1]"], values["in_K_interior[1]"]) == (1.0, 1.0)


def test_outside_the_region_there_are_no_dominant_facets():
    scenario = infocom(arrivals={"load": 1.2, **RAY})
    found = capacity(scenario).facts
    assert not found["inside"]
    assert found["dominant"] is None
    assert found["dominant_interior"] is None
    assert found["largest_rho"] == pytest.approx(1.0, rel=1e-9)
    assert all(capacity_values(scenario)[f"in_K[{k}]"] == 0.0 for k in range(3))
    nothing = capacity(infocom(arrivals={"mean": [0, 0, 0]})).facts
    assert nothing["largest_stable_load"] is None
    assert nothing["inside"]


def test_rows_are_exact_and_wrong_models_are_refused():
    rows = compute_rows("bounds", scenario_from(SINGLE))
    assert {(row["se"], row["n"]) for row in rows} == {(0.0, 0)}
    by_name = {row["metric"]: row["mean"] for row in rows}
    assert by_name["lower_bound"] == pytest.approx(max(0.0, by_name["leading"] - by_name["b1"]))
    with pytest.raises(ConfigError, match="model = single_type: capacity is for cluster"):
        compute_rows("capacity", scenario_from(SINGLE))
    tabs = {"model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 1, "setup_rate": 1}
    with pytest.raises(ConfigError, match="model = tabs: bounds is for cluster, single_type"):
        compute_rows("bounds", scenario_from(tabs))
    with pytest.raises(ConfigError, match="facet: is missing"):
        compute_rows("bounds", scenario_from({**INFOCOM, "arrivals": {**BINOMIAL, "mean": [1, 0, 0]}}))


# ---- The command -----------------------------------------------------------------------------------------------------


def test_the_command_reports_the_region(root, capsys):
    assert main(["capacity", str(root / "config/examples/cluster.yaml"), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [facet["b"] for facet in found["facets"]] == pytest.approx([200 / math.sqrt(5), 200 / math.sqrt(3), 100])
    assert [sum(x * x for x in facet["c"]) for facet in found["facets"]] == pytest.approx([1.0] * 3)
    assert found["largest_stable_load"] == pytest.approx(1 / 0.9, rel=1e-9)
    assert found["dominant_interior"] == [1]
    assert {"scenario", "epsilon", "provenance"} <= set(found)
    assert main(["capacity", str(root / "config/examples/cluster.yaml"), "--set", "arrivals.load=1.1"]) == 0
    assert "outside the region" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("tabs.yaml", "servers=3", "model = tabs: capacity is for cluster"),
        ("cluster.yaml", "servers=0", "servers = 0"),
        ("cluster.yaml", "job_types=[[31,1,1],[1,1,1],[1,1,1]]", "job_types: type 1 fits on no server"),
    ],
)
def test_mistakes_on_the_command_line(root, capsys, file, change, message):
    assert main(["capacity", str(root / "config/examples" / file), "--set", change, "--json", "-"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert message in printed.err


def test_jobs_measure_as_long_as_the_replications_of_the_run_ask_for():
    """slots = auto shares out a time among the replications: a job must know how many there are."""
    auto = {
        "model": "single_type", "servers": 2, "arrivals": {"law": "binomial", "trials": 2, "epsilon": 0.1},
        "slots": "auto", "warm_up": "auto", "relaxations": 30_000,
    }  # fmt: skip
    spans = []
    for count in (5, 50):
        run = {"run": "r", "output": "o", "seed": 1, "replications": count, "figures": {}}
        config = load({**run, "experiments": {"a": {"scenario": auto}}})
        (point,) = specified_points(chunks(config, "a")[0].specification())
        assert window(point.scenario) == window(points(config, config.experiments["a"])[0].scenario)
        spans.append(window(point.scenario).horizon - window(point.scenario).warm_up)
    assert spans[0] == pytest.approx(10 * spans[1], rel=0.01)
