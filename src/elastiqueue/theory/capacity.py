"""Capacity regions: configurations of servers, facets of their Minkowski sum, distances and the largest stable load.

Server m holds R_{i,m} of resource i, a job of type j needs r_{i,j}. A configuration s (s_j jobs of type j at once) is
feasible if sum_j s_j r_{i,j} <= R_{i,m} for all i, and maximal if no job can be added. With C_m the downward closure
of the convex hull of the maximal configurations, the capacity region is the Minkowski sum (Maguluri, Srikant, Ying
2012, Section II)

    C = sum_m C_m = {s >= 0 : <c^k, s> <= b^k, k = 1..K},    |c^k| = 1, c^k >= 0.

Facets. The support function of C is h(c) = sum_m max_{s in S_m} <c, s> for c >= 0, attained at the sum of the
maximisers. C is downward closed, so its facets off the axes are vertices of the antiblocking polyhedron A = {c >= 0 :
h(c) <= 1}. We build the cone over A, {(c, t) >= 0 : h(c) <= t}, by cutting planes: keep its extreme rays for the cuts
known so far (double description); at a ray with h(c) > t the sum of the maximisers is a new cut; stop when no ray
violates h. Then every ray is certified by h itself, so that the list is complete. A ray is a facet if the points of C
at which it is tight span J - 1 dimensions. All of it in integers.

For lambda inside C (Sections II and III):

    eps^k = b^k - <c^k, lambda>       lambda^k = lambda + eps^k c^k, the nearest point of hyperplane k
    K = {k : lambda^k in C}           K^o = {k : lambda^k in the relative interior of the facet}

lambda^k = lambda + (beta - <n, lambda>) n / |n|^2 with the integers n, beta of the facet: rational, so that K and K^o
are exact.

The largest stable load in direction d is the largest a with a d in C, min_k b^k / <c^k, d>.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

MAX_CONFIGURATIONS = 1_000_000

Configuration = tuple[int, ...]
Number = int | float | str | Fraction


def exact(value: object, key: str) -> Fraction:
    """A number as its decimal notation says: 17.1 is 171/10, not the nearest double."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return value if isinstance(value, Fraction) else Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{key} = {value!r}: must be a number") from None


def _exact(values: Sequence[Number]) -> tuple[Fraction, ...]:
    return tuple(exact(x, "arrival rates") for x in values)


def integer_units(
    resources: Sequence[Sequence[Number]], needs: Sequence[Sequence[Number]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Resources of servers (one row each) and needs of job types (one row each) in units in which both are integers.

    Raises ValueError for missing amounts, and for a type that needs nothing.
    """
    have = [[exact(x, "resources") for x in row] for row in resources]
    need = [[exact(x, "job_types") for x in row] for row in needs]
    for key, rows in (("resources", have), ("job_types", need)):
        for row in rows:
            if len(row) != len(have[0]):
                shown = [float(x) for x in row]
                raise ValueError(f"{key} = {shown}: must have {len(have[0])} amounts, one per resource")
    for j, row in enumerate(need):
        if not any(row):
            raise ValueError(f"job_types = {[float(x) for x in row]}: type {j + 1} must need some resource")
    columns = list(zip(*(*have, *need), strict=True))  # one per resource
    units = [Fraction(math.lcm(*(x.denominator for x in column))) for column in columns]
    units = [
        unit / (math.gcd(*(int(x * unit) for x in column)) or 1) for unit, column in zip(units, columns, strict=True)
    ]

    def scaled(rows: list[list[Fraction]]) -> list[list[int]]:
        return [[int(x * unit) for x, unit in zip(row, units, strict=True)] for row in rows]

    return scaled(have), scaled(need)


def maximal_configurations(resources: Sequence[Number], needs: Sequence[Sequence[Number]]) -> tuple[Configuration, ...]:
    """The maximal configurations of one server, in decreasing lexicographic order.

    Parameters
    ----------
    resources : amount of each resource.
    needs : per job type its need of each resource.
    """
    (have,), need = integer_units([resources], needs)
    maximal: list[Configuration] = []

    def room(free: list[int], j: int) -> int:
        return min(f // n for f, n in zip(free, need[j], strict=True) if n > 0)

    steps = itertools.count(1)

    def extend(chosen: tuple[int, ...], free: list[int]) -> None:
        if next(steps) > MAX_CONFIGURATIONS:
            raise ValueError(
                f"resources = {[float(x) for x in resources]}: a server has more than {MAX_CONFIGURATIONS:,} ways to "
                "begin a configuration: must be at most that many"
            )
        j = len(chosen)
        if j == len(need):
            if all(room(free, k) == 0 for k in range(j)):
                maximal.append(chosen)
            return
        largest = room(free, j)
        smallest = 0 if j < len(need) - 1 else largest  # less of the last type leaves room for one more
        for s in range(largest, smallest - 1, -1):
            extend((*chosen, s), [f - s * n for f, n in zip(free, need[j], strict=True)])

    extend((), have)
    return tuple(maximal)


@dataclass(frozen=True)
class ServerClass:
    """`count` identical servers with their maximal configurations."""

    count: int
    configurations: tuple[Configuration, ...]


def _check_types(classes: Sequence[ServerClass]) -> int:
    """The number of job types; every type must be served somewhere."""
    types = len(classes[0].configurations[0])
    for s in (s for group in classes for s in group.configurations):
        if len(s) != types:
            raise ValueError(f"configurations = {list(s)}: must have {types} integers >= 0, one per job type")
    for j in range(types):
        if not any(s[j] > 0 for group in classes for s in group.configurations):
            raise ValueError(f"job_types: type {j + 1} fits on no server")
    return types


@dataclass(frozen=True)
class Facet:
    """{s : <c, s> = b}, |c| = 1; the same in integers without common divisor: <normal, s> = offset."""

    normal: tuple[int, ...]
    offset: int

    @property
    def length(self) -> float:
        return math.sqrt(sum(x * x for x in self.normal))

    @property
    def c(self) -> tuple[float, ...]:
        return tuple(x / self.length for x in self.normal)

    @property
    def b(self) -> float:
        return self.offset / self.length


def _dot(a: Sequence, b: Sequence):
    return sum(x * y for x, y in zip(a, b, strict=True))


def _support(classes: Sequence[ServerClass], c: Sequence) -> tuple:
    """h(c) and a point of C at which it is attained."""
    types = len(c)
    point = [0] * types
    for group in classes:
        best = max(group.configurations, key=lambda s: _dot(c, s))
        point = [x + group.count * y for x, y in zip(point, best, strict=True)]
    return _dot(c, point), tuple(point)


def _primitive(ray: Sequence[int]) -> tuple[int, ...]:
    divisor = math.gcd(*ray)
    return tuple(x // divisor for x in ray)


def _rank(vectors: Sequence[Sequence[int]]) -> int:
    """Rank, by fraction-free elimination."""
    rows = [list(v) for v in vectors]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in range(rank, len(rows)) if rows[r][column] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for r in range(rank + 1, len(rows)):
            if rows[r][column] != 0:
                a, b = rows[rank][column], rows[r][column]
                rows[r] = [a * x - b * y for x, y in zip(rows[r], rows[rank], strict=True)]
        rank += 1
    return rank


def _add_cut(rays: dict[tuple[int, ...], int], cut: tuple[int, ...], bit: int) -> dict[tuple[int, ...], int]:
    """One step of double description: the extreme rays of the cone after <cut, ray> >= 0.

    `rays` maps each extreme ray to the set of constraints that it meets with equality, one bit each.
    """
    values = {ray: _dot(cut, ray) for ray in rays}
    kept = {ray: tight | (bit if values[ray] == 0 else 0) for ray, tight in rays.items() if values[ray] >= 0}
    dimension = len(cut)
    tights = list(rays.values())
    for up, down in itertools.product(
        [ray for ray in rays if values[ray] > 0], [ray for ray in rays if values[ray] < 0]
    ):
        common = rays[up] & rays[down]
        if common.bit_count() < dimension - 2:
            continue
        if sum(common & ~tight == 0 for tight in tights) > 2:  # adjacent rays share a face that no third ray meets
            continue
        new = _primitive([values[up] * y - values[down] * x for x, y in zip(up, down, strict=True)])
        kept[new] = common | bit
    return kept


def facets(classes: Sequence[ServerClass]) -> tuple[Facet, ...]:
    """The facets of the Minkowski sum that are not on the axes, in decreasing order of their integer normals."""
    types = _check_types(classes)
    rays = {tuple(int(i == k) for i in range(types + 1)): (1 << types + 1) - 1 - (1 << k) for k in range(types + 1)}
    cuts: list[tuple[int, ...]] = []
    while True:
        violated = next((point for ray in rays for h, point in [_support(classes, ray[:-1])] if h > ray[-1]), None)
        if violated is None:
            break
        cuts.append(violated)
        rays = _add_cut(rays, (*(-x for x in violated), 1), 1 << types + len(cuts))
    result = []
    for *normal, offset in rays:
        if any(normal) and _dimension(classes, normal) == types - 1:
            result.append(Facet(tuple(normal), offset))
    return tuple(sorted(result, key=lambda f: f.normal, reverse=True))


def _maximisers(classes: Sequence[ServerClass], normal: Sequence[int]) -> list[list[Configuration]]:
    result = []
    for group in classes:
        best = max(_dot(normal, s) for s in group.configurations)
        result.append([s for s in group.configurations if _dot(normal, s) == best])
    return result


def _dimension(classes: Sequence[ServerClass], normal: Sequence[int]) -> int:
    """Dimension of the face of C in direction `normal` >= 0."""
    types = len(normal)
    directions: list[Sequence[int]] = []
    for group in _maximisers(classes, normal):
        directions.extend([x - y for x, y in zip(s, group[0], strict=True)] for s in group[1:])
        for j in range(types):  # C is downward closed: where c_j = 0 one may go down along axis j
            if normal[j] == 0 and any(s[j] > 0 for s in group):
                directions.append([int(i == j) for i in range(types)])
    return _rank(directions)


@dataclass(frozen=True)
class CapacityRegion:
    """C with its facets. Rates are work per slot and type (shape J), for the whole cluster."""

    classes: tuple[ServerClass, ...]
    facets: tuple[Facet, ...]

    @property
    def types(self) -> int:
        return len(self.facets[0].normal)

    @property
    def servers(self) -> int:
        return sum(group.count for group in self.classes)

    def contains(self, rates: Sequence[Number], interior: bool = False) -> bool:
        """Whether the rates are in C, or with `interior` whether some multiple > 1 of them is."""
        values = _exact(rates)
        gaps = [f.offset - _dot(f.normal, values) for f in self.facets]
        return min(gaps) > 0 if interior else min(gaps) >= 0

    def epsilon(self, rates: Sequence[Number]) -> tuple[float, ...]:
        """eps^k, the distance to each facet's hyperplane (negative outside)."""
        values = _exact(rates)
        return tuple(float(f.offset - _dot(f.normal, values)) / f.length for f in self.facets)

    def _projection(self, values: Sequence[Fraction], facet: Facet) -> tuple[Fraction, ...]:
        step = Fraction(facet.offset - _dot(facet.normal, values)) / _dot(facet.normal, facet.normal)
        return tuple(x + step * n for x, n in zip(values, facet.normal, strict=True))

    def projection(self, rates: Sequence[Number], k: int) -> tuple[float, ...]:
        """lambda^k, the nearest point of hyperplane k (numbered from 0)."""
        return tuple(float(x) for x in self._projection(_exact(rates), self.facets[k]))

    def dominant(self, rates: Sequence[Number]) -> tuple[int, ...]:
        """K, the facets (numbered from 0) whose lambda^k is in C."""
        return self._dominant(rates, interior=False)

    def dominant_interior(self, rates: Sequence[Number]) -> tuple[int, ...]:
        """K^o, the facets (numbered from 0) whose lambda^k is in the relative interior of the facet."""
        return self._dominant(rates, interior=True)

    def _dominant(self, rates: Sequence[Number], interior: bool) -> tuple[int, ...]:
        values = _exact(rates)
        if not self.contains(values, interior=True):
            raise ValueError(f"arrival rates = {[float(x) for x in values]}: must be inside the capacity region")
        result = []
        for k, facet in enumerate(self.facets):
            point = self._projection(values, facet)
            gaps = [f.offset - _dot(f.normal, point) for f in self.facets if f is not facet]
            if interior:
                gaps.extend(point)  # the axes bound the facet too
            if all(gap > 0 if interior else gap >= 0 for gap in gaps):
                result.append(k)
        return tuple(result)

    def face(self, k: int) -> tuple[tuple[int, ...], ...]:
        """Points whose downward closure within hyperplane k is facet k (its vertices among them), for drawing."""
        scaled = [
            [tuple(group.count * x for x in s) for s in best]
            for group, best in zip(self.classes, _maximisers(self.classes, self.facets[k].normal), strict=True)
        ]
        return tuple(sorted({tuple(map(sum, zip(*parts, strict=True))) for parts in itertools.product(*scaled)}))

    def largest_stable_load(self, direction: Sequence[Number]) -> float:
        """The largest a with a * direction in C, by the facets."""
        values = _exact(direction)
        return float(
            min(Fraction(f.offset) / _dot(f.normal, values) for f in self.facets if _dot(f.normal, values) > 0)
        )


def capacity_region(classes: Sequence[ServerClass]) -> CapacityRegion:
    """The capacity region of a cluster of these servers."""
    return CapacityRegion(tuple(classes), facets(classes))
