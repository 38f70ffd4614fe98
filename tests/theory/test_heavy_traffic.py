"""Heavy-traffic bounds: closed forms, laws of the slot work, and the theorem on a small cluster by simulation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from elastiqueue.models.cluster.parameters import ClusterParameters, columns
from elastiqueue.models.cluster.simulator import Cluster
from elastiqueue.sampling.discrete import (
    FiniteDistribution,
    batch_bernoulli,
    binomial,
    deterministic,
    poisson,
    uniform_mixture,
)
from elastiqueue.theory.capacity import Facet, ServerClass, capacity_region
from elastiqueue.theory.heavy_traffic import (
    approach,
    exponential_mean,
    facet_bounds,
    single_type_bounds,
    unit_server_mean,
    work_variance,
)


def stream(seed):
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [
        (binomial(20, 4.0), 4.0, 3.2),
        (binomial(5, 5.0), 5.0, 0.0),
        (binomial(100_000, 25_000.0), 25_000.0, 18_750.0),
        (poisson(0.3), 0.3, 0.3),
        (poisson(900.0), 900.0, 900.0),
        (batch_bernoulli(2, 0.8), 0.8, 0.96),
        (uniform_mixture([(1, 50, 0.7), (251, 300, 0.15), (451, 500, 0.15)]), 130.5, None),
    ],
)
def test_moments_of_the_laws(law, mean, variance):
    # weights, their sum and the moments each round once per value
    rounding = 8 * len(law.values) * 2.0**-53
    assert math.fsum(law.probabilities) == pytest.approx(1.0, rel=rounding)
    assert law.mean == pytest.approx(mean, rel=rounding)
    if variance is not None:
        assert law.variance == pytest.approx(variance, rel=1e-9, abs=1e-12)


def test_variance_of_the_slot_work_by_enumeration():
    jobs, sizes = FiniteDistribution((0, 1, 3), (0.5, 0.3, 0.2)), FiniteDistribution((1, 4), (0.6, 0.4))
    law: dict[int, float] = {}
    for n, p in zip(jobs.values, jobs.probabilities, strict=True):
        for chosen in itertools.product(range(2), repeat=n):
            work = sum(sizes.values[i] for i in chosen)
            law[work] = law.get(work, 0.0) + p * math.prod(sizes.probabilities[i] for i in chosen)
    mean = sum(w * p for w, p in law.items())
    assert jobs.mean * sizes.mean == pytest.approx(mean, rel=1e-14)
    assert work_variance(jobs, sizes) == pytest.approx(sum((w - mean) ** 2 * p for w, p in law.items()), rel=1e-13)


def test_one_server_one_type_meets_the_closed_form():
    """M = 1, c = b = 1: the lower bound is the exact mean of the unit server, sigma^2/(2 eps) + eps/2 - 1/2."""
    law = binomial(2, 0.8)
    bounds = facet_bounds((1.0,), 1.0, 1, 0.2, (law.variance,))
    assert bounds.lower == pytest.approx(unit_server_mean(law.mean, law.variance), rel=1e-13)
    assert bounds.lower == pytest.approx(law.variance / 0.4 + 0.1 - 0.5, rel=1e-13)
    single = single_type_bounds(1, 0.2, law.variance, deterministic(1))
    assert (single.zeta, single.b1, single.limit) == (bounds.zeta, bounds.b1, bounds.limit)


def test_formulas_against_hand_values():
    c, b = (0.6, 0.8), 10.0
    bounds = facet_bounds(c, b, 4, 1.0, (2.0, 3.0))
    # <c^2, sigma^2> = .72 + 1.92 = 2.64
    assert bounds.zeta == pytest.approx(3.64 / 2, rel=1e-14)
    assert bounds.b1 == 2.5
    assert bounds.limit == pytest.approx(0.66, rel=1e-14)
    assert bounds.lower == 0.0
    assert exponential_mean(c, (2.0, 3.0)) == pytest.approx(1.32, rel=1e-14)
    assert approach((Fraction(28, 5), Fraction(83, 10)), Facet((3, 4), 50), Fraction(1)) == (5, Fraction(15, 2))


def test_the_way_to_a_facet_with_an_irrational_normal_is_decided_exactly():
    """From the corner (2, 2) along (1, 2)/sqrt(5): lambda^1 is that corner to the last digit, on both facets."""
    region = capacity_region((ServerClass(1, ((3, 0), (2, 2), (0, 3))),))
    for k in (0, 1):
        rates = approach((Fraction(2), Fraction(2)), region.facets[k], Fraction(1, 3))
        assert region.epsilon(rates)[k] == pytest.approx(1 / 3, rel=1e-15)
        assert k in region.dominant(rates)
        assert k not in region.dominant_interior(rates)


def test_errors():
    with pytest.raises(ValueError, match="must be inside the capacity region"):
        facet_bounds((1.0,), 1.0, 1, 0.0, (1.0,))
    with pytest.raises(ValueError, match="must be > 0 and leave every arrival rate"):
        approach((Fraction(1), Fraction(1, 10)), Facet((3, 4), 5), Fraction(1, 2))


@pytest.mark.parametrize("routing", ["jsq", "power_of_two"])
def test_the_theorem_on_four_servers(routing):
    """Inside one facet: lower bound kept, eps E<c, q> falls towards its limit, |q_perp|^2 stays bounded."""
    region = capacity_region((ServerClass(4, ((1, 0), (0, 1))),))
    (facet,) = region.facets
    point = (Fraction(2), Fraction(2))
    scaled, perpendicular, parallel, limits = [], [], [], []
    for eps in (0.2, 0.05):
        rates = approach(point, facet, Fraction(eps))
        laws = tuple(binomial(8, float(x)) for x in rates)
        sizes = (deterministic(1),) * 2
        parameters = ClusterParameters(
            (4,), (((1, 0), (0, 1)),), arrivals=laws, sizes=sizes, routing=routing, direction=facet.c
        )
        names = columns(parameters)
        variances = [work_variance(n, d) for n, d in zip(laws, sizes, strict=True)]
        bounds = facet_bounds(facet.c, facet.b, 4, eps, variances)
        cluster = Cluster(parameters, stream(1))
        cluster.advance(20_000)
        slots = 1_500_000 // 50
        assert 50 * slots > 100 * bounds.zeta / eps**2
        totals = np.stack([cluster.advance(slots)[0] for _ in range(50)])
        mean = totals[:, names.index("weighted")] / slots
        error = mean.std(ddof=1) / math.sqrt(50)
        assert mean.mean() > bounds.lower - 5 * error
        scaled.append((eps * mean.mean(), eps * error))
        limits.append(bounds.limit)
        norms = totals[:, names.index("norm_slots")]
        perpendicular.append((totals[:, names.index("perpendicular_sq")] / norms).mean())
        parallel.append((totals[:, names.index("parallel_sq")] / slots).mean())
    ratios = [s / limit for (s, _), limit in zip(scaled, limits, strict=True)]
    errors = [e / limit for (_, e), limit in zip(scaled, limits, strict=True)]
    assert abs(ratios[1] - 1.0) + 5 * math.hypot(*errors) < abs(ratios[0] - 1.0)
    # collapse: the squared length grows by 16 along c in the limit, and stays bounded across it
    assert parallel[1] / parallel[0] > 4.0 * perpendicular[1] / perpendicular[0]
