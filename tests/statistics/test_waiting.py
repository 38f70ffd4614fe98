"""The whole distribution of waits: sums of phases, quantiles, and runs against exact values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import gammaincc

from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.statistics.estimates import estimate
from elastiqueue.statistics.waiting import TIMES, column, levels_counted, metric_from, parts_of, tails, wait_metrics

TABS = {"model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "buffer": 5}
FEEDBACK = PhaseType((0.5, 0.5, 0.0), (1.0, 4.0, 9.0), ((0, 0.3, 0.2), (0.1, 0, 0.5), (0.2, 0.2, 0)))


@pytest.mark.parametrize("time", [0.0, 0.3, 1.0, 7.5, 40.0])
def test_exponential_services_give_erlang_waits(time):
    expected = gammaincc(np.arange(1, 31), time)
    assert tails(PhaseType.exponential(), 30, time)[:, 0] == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("time", [0.2, 3.0, 20.0])
@pytest.mark.parametrize(
    "law",
    [PhaseType.erlang(4), PhaseType.hyperexponential(16), FEEDBACK.scaled_to_mean_one()],
    ids=lambda law: law.phases,
)
def test_phase_type_services_by_the_matrix_exponential(law, time):
    phases, levels = law.phases, 4
    rates = np.array(law.rates)
    inside = rates[:, None] * np.array(law.routing) - np.diag(rates)
    below = np.outer(rates * np.array(law.exit), law.initial)
    generator = np.kron(np.eye(levels), inside) + np.kron(np.eye(levels, k=-1), below)
    expected = expm(generator * time).sum(axis=1).reshape(levels, phases)
    assert tails(law, levels, time) == pytest.approx(expected, rel=1e-9, abs=1e-13)


def test_quantiles_solve_for_the_tail_and_are_zero_where_few_wait():
    metrics = wait_metrics(10, PhaseType.exponential())
    names = ["accepted", "waited", *(column(i, 1) for i in range(1, 10))]
    found = np.random.default_rng(1).poisson([30, 20, 10, 5, 3, 2, 1, 1, 1], (40, 9))
    totals = np.column_stack([np.full(40, 300), found.sum(axis=1), found]).astype(float)
    weights = found.sum(axis=0) / 12000
    for p in (95, 99):
        result = estimate(metrics[f"wait_p{p}"], names, totals)
        assert weights @ gammaincc(np.arange(1, 10), result.mean) == pytest.approx(1 - p / 100, rel=1e-10)
        assert 0 < result.se < result.mean
    few = estimate(metrics["wait_p50"], names, totals)
    assert (few.mean, few.se) == (0.0, 0.0)  # 24 % wait
    response = estimate(metrics["response_p50"], names, totals).mean
    longer = np.concatenate([[1 - weights.sum()], weights]) @ gammaincc(np.arange(1, 11), response)
    assert longer == pytest.approx(0.5, rel=1e-10)
    assert metric_from(parts_of(metrics["wait_p95"])) == metrics["wait_p95"]


def test_levels_that_are_not_counted_one_by_one_are_no_certainty():
    assert (levels_counted(50, 1), levels_counted(None, 1), levels_counted(1, 1), levels_counted(50, 4)) == (
        49,
        100,
        1,
        25,
    )
    metric = wait_metrics(None, PhaseType.exponential())["wait_p99"]
    names = ["accepted", "waited", *(column(i, 1) for i in range(1, 101))]
    totals = np.zeros((2, 102))
    totals[:, :3], totals[:, -1] = (1000, 100, 95), 5
    assert math.isfinite(
        estimate(metric, names, totals).mean
    )  # some found more than 100: the percentile lies far below
    totals[:, -1] = 50
    assert math.isnan(estimate(metric, names, totals).mean)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"service": {"hyperexponential": 4}},
        {"service": {"erlang": 2}, "buffer": 3},
        {"model": "jiq", "arrival_rate": 0.6, "standby_rate": None, "setup_rate": None, "buffer": None},
        {"abort_setups": True},
    ],
)
def test_simulation_agrees_with_the_exact_distribution(changes):
    scenario = scenario_from(TABS | {"horizon": 1500, "warm_up": 100, "replications": 60, "seed": 3} | changes)
    known = exact(scenario).metrics
    totals, _ = simulate(scenario, 0, 60)
    measured = estimates(scenario, totals)
    names = [f"{what}_p{p}" for what in ("wait", "response") for p in (50, 95, 99)]
    names += [f"{what}_tail[{t:g}]" for what in ("wait", "response") for t in TIMES]
    for name in names:
        assert abs(measured[name].mean - known[name]) <= 5 * measured[name].se + 1e-12, name
    row = dict(zip(model_of(scenario).columns(scenario), totals.sum(axis=0), strict=True))
    assert sum(value for key, value in row.items() if key.startswith("found_")) == row["waited"]


@pytest.mark.parametrize("service", ["exponential", {"coxian": 2}])
def test_large_systems_count_the_same_tasks(service):
    """The accelerated kernels: what tasks found, by level, gives the mean wait that they sum up themselves."""
    scenario = scenario_from(
        TABS | {"servers": 500, "buffer": 20, "horizon": 100, "replications": 2, "service": service}
    )
    totals, _ = simulate(scenario, 0, 2)
    row = dict(zip(model_of(scenario).columns(scenario), totals.sum(axis=0), strict=True))
    law = scenario.phase_type
    found = sum(
        row[column(i, k + 1)] * (i - 1 + residual) for i in range(1, 20) for k, residual in enumerate(law.residual())
    )
    assert row["found"] == pytest.approx(found, rel=1e-12)
    assert row["waited"] > 0


def test_mm1_waits_are_exponential():
    """N = 1, all on: P(W > t) = rho exp(-(1 - rho) t), in stationarity."""
    scenario = scenario_from(
        {"model": "jiq", "servers": 1, "arrival_rate": 0.5, "buffer": None, "horizon": "auto", "warm_up": "auto"}
    )
    known = exact(scenario).metrics
    assert known["wait_p95"] == pytest.approx(math.log(0.5 / 0.05) / 0.5, rel=1e-6)
    assert known["response_p99"] == pytest.approx(math.log(100) / 0.5, rel=1e-6)
    assert known["wait_tail[5]"] == pytest.approx(0.5 * math.exp(-2.5), rel=1e-6)
