"""Capacity regions: known facets, brute-force Minkowski sums, linear programming, degenerate cases."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from elastiqueue.theory.capacity import (
    Facet,
    ServerClass,
    capacity_region,
    maximal_configurations,
)
from elastiqueue.theory.cluster_stability import largest_routed_load

NEEDS = ((15, 8, 1690), (17.1, 6.5, 420), (7, 20, 1690))
AMOUNTS = (30, 30, 4000)


def server_classes(kinds, needs):
    return tuple(ServerClass(count, maximal_configurations(resources, needs)) for count, resources in kinds)


def infocom(servers=1):
    return capacity_region(server_classes([(servers, AMOUNTS)], NEEDS))


def test_infocom_setting():
    region = infocom(100)
    assert region.classes[0].configurations == ((2, 0, 0), (1, 0, 1), (0, 1, 1))
    assert {(f.normal, f.offset) for f in region.facets} == {((1, 1, 1), 200), ((1, 2, 0), 200), ((0, 0, 1), 100)}
    for facet in region.facets:
        assert math.fsum(x * x for x in facet.c) == pytest.approx(1.0, rel=4 * 2.0**-53)
    assert region.largest_stable_load((1, "1/3", "2/3")) == 100.0
    # lambda = .9 (1, 1/3, 2/3) per server: one facet dominates
    rates = (90, 30, 60)
    k = [f.normal for f in region.facets].index((1, 1, 1))
    assert region.epsilon(rates)[k] == pytest.approx(20 / math.sqrt(3), rel=1e-15)
    assert region.projection(rates, k) == pytest.approx((90 + 20 / 3, 30 + 20 / 3, 60 + 20 / 3), rel=1e-15)
    assert region.dominant(rates) == region.dominant_interior(rates) == (k,)
    assert region.face(k) == ((0, 100, 100), (100, 0, 100), (200, 0, 0))


def test_decimals_are_exact():
    """0.3 holds three jobs of 0.1, though 0.3 // 0.1 = 2 in floating point; 17.1 is 171/10."""
    assert 0.3 // 0.1 == 2.0
    assert maximal_configurations([0.3], [[0.1]]) == ((3,),)
    assert maximal_configurations([51.3], [[17.1]]) == ((3,),)
    assert maximal_configurations(["51.2999999999999999999"], [[17.1]]) == ((2,),)
    assert maximal_configurations([Fraction(1)], [[Fraction(1, 3)]]) == ((3,),)


amounts = st.lists(st.integers(1, 9), min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(st.lists(amounts, min_size=1, max_size=3), amounts)
def test_maximal_configurations_by_definition(needs, resources):
    def fits(s):
        return all(sum(x * row[i] for x, row in zip(s, needs, strict=True)) <= resources[i] for i in range(2))

    every = [s for s in itertools.product(range(10), repeat=len(needs)) if fits(s)]
    expected = [s for s in every if not any(fits((*s[:j], s[j] + 1, *s[j + 1 :])) for j in range(len(needs)))]
    assert set(maximal_configurations(resources, needs)) == set(expected)


def points(types, largest=4):
    return st.lists(st.tuples(*[st.integers(0, largest)] * types), min_size=1, max_size=4, unique=True)


@st.composite
def clusters(draw, types):
    """Small clusters whose servers come in one or two classes, every type served somewhere."""
    classes = [ServerClass(draw(st.integers(1, 2)), tuple(draw(points(types)))) for _ in range(draw(st.integers(1, 2)))]
    missing = [j for j in range(types) if not any(s[j] for own in classes for s in own.configurations)]
    if missing:
        extra = tuple(int(j in missing) for j in range(types))
        classes.append(ServerClass(1, (extra,)))
    return tuple(classes)


def every_sum(classes):
    """All sums of one configuration per server: C is the downward closure of their hull."""
    servers = [own.configurations for own in classes for _ in range(own.count)]
    return {tuple(map(sum, zip(*choice, strict=True))) for choice in itertools.product(*servers)}


def brute_force_facets(classes):
    """Facets off the axes by the convex hull of all sums and of their projections on the axes' planes."""
    types = len(classes[0].configurations[0])
    corners = {
        tuple(x if keep else 0 for x, keep in zip(s, kept, strict=True))
        for s in every_sum(classes)
        for kept in itertools.product((0, 1), repeat=types)
    }
    if types == 1:
        return {(1.0, float(max(corners)[0]))}
    found = set()
    for *normal, offset in ConvexHull(np.array(sorted(corners), float)).equations:
        if min(normal) > -1e-9 and offset < -1e-9:
            found.add(tuple(round(x, 7) + 0.0 for x in (*normal, -offset)))
    return found


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4).flatmap(clusters))
def test_facets_against_brute_force(classes):
    region = capacity_region(classes)
    assert {tuple(round(x, 7) + 0.0 for x in (*f.c, f.b)) for f in region.facets} == brute_force_facets(classes)
    for f in region.facets:
        assert math.gcd(*f.normal, f.offset) == 1
        assert max(sum(map(int.__mul__, f.normal, s)) for s in every_sum(classes)) == f.offset


def load_by_linear_programming(classes, direction):
    return largest_routed_load([one.count for one in classes], [one.configurations for one in classes], direction)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5).flatmap(clusters), st.data())
def test_load_by_facets_and_by_linear_programming(classes, data):
    region = capacity_region(classes)
    direction = data.draw(
        st.lists(st.integers(0, 50).map(lambda x: x / 10), min_size=region.types, max_size=region.types).filter(any)
    )
    load = region.largest_stable_load(direction)
    assert load_by_linear_programming(classes, direction) == pytest.approx(load, rel=1e-9)
    assert not region.contains([1.0001 * load * x for x in direction])
    assert region.contains([0.9999 * load * x for x in direction])


def test_five_types_three_classes():
    rng = np.random.default_rng(5)
    needs = rng.integers(1, 9, size=(5, 3)).tolist()
    classes = server_classes([(7, (17, 20, 25)), (20, (30, 12, 22)), (1, (9, 19, 30))], needs)
    region = capacity_region(classes)
    for direction in rng.integers(1, 100, size=(40, 5)).tolist():
        load = region.largest_stable_load(direction)
        assert load_by_linear_programming(classes, direction) == pytest.approx(load, rel=1e-9)
    # every facet is needed: without it one could go beyond it
    for k, facet in enumerate(region.facets):
        others = [f for i, f in enumerate(region.facets) if i != k]
        beyond = linprog(
            [-x for x in facet.normal], [f.normal for f in others], [f.offset for f in others], method="highs"
        )
        assert beyond.status == 3 or -beyond.fun > facet.offset * (1 + 1e-9)  # 3: without bound


def test_heterogeneous_sum_has_the_facets_of_neither():
    """(2, 0), (0, 1) and (1, 0), (0, 2): the sum has vertices (3, 0), (2, 2), (0, 3)."""
    region = capacity_region((ServerClass(1, ((2, 0), (0, 1))), ServerClass(1, ((1, 0), (0, 2)))))
    assert region.facets == (Facet((2, 1), 6), Facet((1, 2), 6))


def test_interior_of_a_facet_and_corner():
    """C = {s1 <= 2, s2 <= 2, s1 + s2 <= 3}: K holds what is on the facet, K^o not its end points."""
    region = capacity_region((ServerClass(1, ((2, 1), (1, 2))),))
    diagonal, first, second = ([f.normal for f in region.facets].index(n) for n in ((1, 1), (1, 0), (0, 1)))
    assert set(region.dominant((0.5, 0.5))) == {diagonal, first, second}
    # (0.5, 1.5) projects on s1 + s2 = 3 at the corner (1, 2), on s2 = 2 at (0.5, 2), and beyond the corner of s1 = 2
    assert set(region.dominant((0.5, 1.5))) == {diagonal, second}
    assert set(region.dominant_interior((0.5, 1.5))) == {second}
    # (1.5, 0.5) projects on the diagonal at (2, 1), the corner that facet s1 = 2 shares
    assert diagonal in region.dominant((1.5, 0.5))
    assert diagonal not in region.dominant_interior((1.5, 0.5))
    # (1.6, 0.2) projects beyond the corner
    assert diagonal not in region.dominant((1.6, 0.2))
    with pytest.raises(ValueError, match="must be inside the capacity region"):
        region.dominant((2, 1))


def test_a_large_machine_with_five_types_is_enumerated():
    found = maximal_configurations([48, 192], [[1, 4], [1, 2], [2, 4], [4, 8], [8, 16]])
    assert len(found) == 6321
    assert all(sum(n * s for n, s in zip((1, 1, 2, 4, 8), one, strict=True)) <= 48 for one in found)


def test_degenerate_cases():
    one = capacity_region((ServerClass(3, ((2, 5),)),))
    assert {(f.normal, f.offset) for f in one.facets} == {((1, 0), 6), ((0, 1), 15)}
    collinear = capacity_region((ServerClass(1, ((4, 0), (3, 1), (2, 2), (0, 4))),))
    assert collinear.facets == (Facet((1, 1), 4),)
    single = capacity_region((ServerClass(2, ((3,),)), ServerClass(1, ((1,), (4,)))))
    assert single.facets == (Facet((1,), 10),)
    dominated = capacity_region((ServerClass(1, ((2, 2), (1, 1))),))
    assert {(f.normal, f.offset) for f in dominated.facets} == {((1, 0), 2), ((0, 1), 2)}
    elsewhere = server_classes([(1, (10,)), (2, (3,))], [[2], [5]])  # the second type fits on the first class only
    assert [c.configurations for c in elsewhere] == [((5, 0), (2, 1), (0, 2)), ((1, 0),)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: capacity_region(server_classes([(2, (3, 4))], [(1, 1), (4, 1)])),
            r"job_types: type 2 fits on no server",
        ),
        (lambda: maximal_configurations((3,), [(0,)]), r"job_types = \[0.0\]: type 1 must need some resource"),
        (lambda: maximal_configurations((3, 1), [(1,)]), r"job_types = \[1.0\]: must have 2 amounts"),
        (lambda: maximal_configurations(("x",), [(1,)]), r"resources = 'x': must be a number"),
        (lambda: capacity_region((ServerClass(1, ((1, 2), (1,))),)), r"configurations = \[1\]: must have 2 integers"),
        (lambda: capacity_region((ServerClass(1, ((1, 0),)),)), r"job_types: type 2 fits on no server"),
    ],
)
def test_errors_are_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
