"""The single-type routing model: compiled against plain Python, against exact chains, and its bounds."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.models.single_type import (
    COLUMNS,
    Reference,
    SingleType,
    SingleTypeParameters,
    metrics,
)
from elastiqueue.sampling.discrete import FiniteDistribution, batch_bernoulli, binomial, deterministic, poisson
from elastiqueue.scenarios.cluster import Routing
from elastiqueue.theory.heavy_traffic import single_type_bounds, unit_server_mean

COIN = FiniteDistribution((0, 1, 3), (0.3, 0.5, 0.2))


def simulate(parameters, words, warm_up, slots, batches):
    """Totals of consecutive batches after a warm-up, shape (batches, columns)."""
    system = SingleType(parameters, words)
    system.advance(warm_up)
    return np.stack([system.advance(slots // batches) for _ in range(batches)])


def stream(seed):
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


def metric(parameters, totals, name):
    ratio = metrics(parameters)[name]
    top = sum(w * totals[..., COLUMNS.index(k)] for k, w in ratio.numerator.items())
    return top / sum(w * totals[..., COLUMNS.index(k)] for k, w in ratio.denominator.items())


def mean_and_error(values):
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values))


@pytest.mark.parametrize("service", [deterministic(2), COIN])
@pytest.mark.parametrize("routing", get_args(Routing))
def test_same_bits_as_plain_python(routing, service):
    parameters = SingleTypeParameters(7, poisson(0.9 * 7 * service.mean), service, routing, d=3)
    plain, compiled = Reference(parameters, stream(1)), SingleType(parameters, stream(1))
    totals = np.zeros(len(COLUMNS))
    for slots in (1, 99, 400):
        expected = plain.advance(slots)
        compiled.advance(slots, totals)
        assert compiled.q.tolist() == plain.q
        assert compiled.pooled == plain.pooled
        assert totals.tolist() == list(expected.values())


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(get_args(Routing)), st.integers(0, 2**32), st.integers(2, 6), st.floats(0.1, 1.2))
def test_conservation_and_the_pooled_lower_bound_in_every_slot(routing, seed, servers, load):
    parameters = SingleTypeParameters(servers, binomial(4 * servers, load * servers), deterministic(1), routing)
    system = SingleType(parameters, stream(seed))
    for _ in range(60):
        before = system.q.sum()
        totals = dict(zip(COLUMNS, system.advance(1), strict=True))
        assert (system.q >= 0).all()
        assert system.q.sum() == before + totals["arrived"] - servers + totals["unused"]
        assert system.q.sum() >= system.pooled


@pytest.mark.parametrize("routing", ["jsq", "power_of_two", "power_of_two_with_replacement"])
def test_exact_numbers(routing):
    expected = {"jsq": 2.75648, "power_of_two": 3.56184, "power_of_two_with_replacement": 4.64845}
    parameters = SingleTypeParameters(3, binomial(6, 2.4), deterministic(1), routing)
    mean, error = mean_and_error(
        metric(parameters, simulate(parameters, stream(2), 1_000, 2_000_000, batches=50), "total_backlog")
    )
    assert abs(mean - expected[routing]) < 5 * error + 5e-6


@pytest.mark.parametrize("arrivals", [binomial(4, 0.8), batch_bernoulli(3, 0.9), poisson(0.7)])
def test_lindley_closed_form(arrivals):
    """One server of one unit per slot; the pooled queue is the same queue."""
    parameters = SingleTypeParameters(1, arrivals, deterministic(1), "random")
    totals = simulate(parameters, stream(3), 1_000, 3_000_000, batches=50)
    mean, error = mean_and_error(metric(parameters, totals, "total_backlog"))
    assert abs(mean - unit_server_mean(arrivals.mean, arrivals.variance)) < 5 * error
    assert (totals[:, COLUMNS.index("pooled")] == totals[:, COLUMNS.index("total")]).all()


def test_pooled_queue_with_random_services_by_its_chain():
    """M = 2, services 0, 1 or 3: law of the pooled queue by iteration to the fixed point."""
    arrivals = batch_bernoulli(4, 1.4)
    parameters = SingleTypeParameters(2, arrivals, COIN, "jsq")
    service = np.bincount(COIN.values, COIN.probabilities)
    offered, inflow = np.convolve(service, service), np.bincount(arrivals.values, arrivals.probabilities)
    step, down = np.convolve(inflow, offered[::-1]), len(offered) - 1
    law = np.zeros(400)
    law[0] = 1.0
    for _ in range(4_000):
        spread = np.convolve(law, step)
        law = np.append(spread[: down + 1].sum(), spread[down + 1 :])[:400]
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    totals = simulate(parameters, stream(4), 1_000, 3_000_000, batches=50)
    mean, error = mean_and_error(metric(parameters, totals, "pooled_backlog"))
    exact = float(law @ np.arange(400))
    assert abs(mean - exact) < 5 * error
    # the bound of Section IV holds for the pooled queue, and hence for every routing
    bounds = single_type_bounds(2, 2 * COIN.mean - arrivals.mean, arrivals.variance, COIN)
    assert bounds.lower <= exact <= bounds.leading
    assert metric(parameters, totals, "total_backlog").mean() >= mean


def test_unused_service_and_routing_order():
    """E unused = eps; random routing pays M times the leading term, JSQ does not."""
    servers = 5
    arrivals = binomial(4 * servers, 0.95 * servers)
    found = {}
    for routing in ("jsq", "power_of_two", "random"):
        parameters = SingleTypeParameters(servers, arrivals, deterministic(1), routing)
        totals = simulate(parameters, stream(5), 20_000, 2_000_000, batches=40)
        mean, error = mean_and_error(metric(parameters, totals, "unused_service"))
        assert abs(mean - 0.05 * servers) < 5 * error
        found[routing] = mean_and_error(metric(parameters, totals, "total_backlog"))
    lower = single_type_bounds(servers, servers - arrivals.mean, arrivals.variance, deterministic(1)).lower
    assert lower - 5 * found["jsq"][1] <= found["jsq"][0] < found["power_of_two"][0] < found["random"][0]
    # random: each server is a queue of its own, fed by the whole batch with probability 1/M
    second = (arrivals.variance + arrivals.mean**2) / servers
    alone = unit_server_mean(0.95, second - 0.95**2)
    assert abs(found["random"][0] - servers * alone) < 5 * found["random"][1]


def test_errors():
    with pytest.raises(ValueError, match="servers = 1: must be at least 2"):
        SingleTypeParameters(1, deterministic(1), deterministic(1), "power_of_two")


def test_a_backlog_whose_square_leaves_64_bits_is_refused():
    for arriving, slots in ((3_037_000_500, 0), (3_037_000_499, 1)):  # up to the largest, and one more
        system = SingleType(SingleTypeParameters(1, deterministic(arriving), deterministic(0)), stream(1))
        assert system.advance(slots)[COLUMNS.index("perpendicular_sq")] == 0.0
        with pytest.raises(ValueError, match="backlog: is above 3,037,000,499, the largest total"):
            system.advance(1)
