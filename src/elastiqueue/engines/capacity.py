"""What paper B's theory says of a scenario, exactly: its capacity region, and the bounds in heavy traffic.

`capacity` (clusters): the facets <c^k, s> <= b^k of the capacity region, numbered from 0 as the scenario's key `facet`
numbers them (job types from 1); the distances eps^k = b^k - <c^k, lambda> of the arrival rates, their projections
lambda^k = lambda + eps^k c^k, the sets K (lambda^k in C) and K^o (lambda^k in the relative interior of the facet; so
every rate of it is > 0), both empty where lambda is not inside; the largest a with a lambda in C, by the facets and by
linear programming.

For lambda outside C, every policy has d/dt <c^k, Q> >= -eps^k, and sum_j Q_j >= <c^k, Q> / max_j c^k_j, so that

    least_growth = max(0, max_k -eps^k / max_j c^k_j)

is the growth of the total backlog per slot that none can undercut.

`bounds` (clusters with a facet, and single-type routing): zeta, B1, the lower bound zeta / (2 eps) - B1 and its leading
term, the limit of eps E<bold c, q> at the scenario's variances (`limit`) and at those of the point of the facet that
epsilon starts from (`facet_limit`: the theorem's limit along the scenario's ray); for one job type that of random
routing (`random_limit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elastiqueue.engines.registry import check_served
from elastiqueue.models import slotted
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.scenarios.cluster import ClusterScenario, SingleTypeScenario
from elastiqueue.scenarios.reading import ConfigError
from elastiqueue.statistics.estimates import Estimate
from elastiqueue.theory.capacity import CapacityRegion, Number
from elastiqueue.theory.cluster_stability import largest_routed_load

ENGINES = ("capacity", "bounds")


@dataclass(frozen=True)
class Position:
    """Arrival rates (work per slot and type, shape J) in a capacity region; facets are numbered from 0.

    where : "inside" (some larger multiple of the rates is in the region), "boundary" or "outside", exactly.
    dominant, dominant_interior : K and K^o; None where the rates are not inside.
    largest_stable_load, largest_stable_load_lp : the largest a with a lambda in C; None where lambda = 0.
    """

    region: CapacityRegion
    rates: tuple[float, ...]
    where: str
    epsilon: tuple[float, ...]
    projections: tuple[tuple[float, ...], ...]
    dominant: tuple[int, ...] | None
    dominant_interior: tuple[int, ...] | None
    largest_stable_load: float | None
    largest_stable_load_lp: float | None
    least_growth: float


def position(region: CapacityRegion, rates: Sequence[Number]) -> Position:
    """Where the rates are in the region."""
    epsilon = region.epsilon(rates)
    inside, some = region.contains(rates, interior=True), any(rates)
    counts, configurations = zip(*((group.count, group.configurations) for group in region.classes), strict=True)
    return Position(
        region,
        tuple(float(x) for x in rates),
        "inside" if inside else "boundary" if region.contains(rates) else "outside",
        epsilon,
        tuple(region.projection(rates, k) for k in range(len(region.facets))),
        region.dominant(rates) if inside else None,
        region.dominant_interior(rates) if inside else None,
        region.largest_stable_load(rates) if some else None,
        largest_routed_load(counts, configurations, [float(x) for x in rates]) if some else None,
        max(0.0, *(-eps / max(facet.c) for eps, facet in zip(epsilon, region.facets, strict=True))),
    )


def position_of(scenario: ClusterScenario) -> Position:
    """Where the scenario's arrival rates are in its capacity region."""
    return position(slotted.region(scenario), slotted.intensity(scenario).rates)


def capacity_values(scenario: ClusterScenario) -> dict[str, float]:
    """Metrics of `capacity` by name; face[k,i,j]: the i-th of the points that span facet k."""
    place = position_of(scenario)
    values: dict[str, float] = {f"rate[{j}]": x for j, x in enumerate(place.rates, 1)}
    for k, facet in enumerate(place.region.facets):
        values |= {f"c[{k},{j}]": x for j, x in enumerate(facet.c, 1)}
        values |= {f"b[{k}]": facet.b, f"epsilon[{k}]": place.epsilon[k]}
        values |= {f"projection[{k},{j}]": x for j, x in enumerate(place.projections[k], 1)}
        values[f"in_K[{k}]"] = float(k in (place.dominant or ()))
        values[f"in_K_interior[{k}]"] = float(k in (place.dominant_interior or ()))
        for i, point in enumerate(place.region.face(k), 1):
            values |= {f"face[{k},{i},{j}]": float(x) for j, x in enumerate(point, 1)}
    if place.largest_stable_load is not None and place.largest_stable_load_lp is not None:
        values["largest_stable_load"] = place.largest_stable_load
        values["largest_stable_load_lp"] = place.largest_stable_load_lp
    values["least_growth"] = place.least_growth
    return values


def bounds_values(scenario: slotted.SlottedScenario) -> dict[str, float]:
    """Metrics of `bounds` by name."""
    if isinstance(scenario, ClusterScenario) and scenario.facet is None:
        raise ConfigError("facet: is missing; bounds are those near a facet")
    limits = slotted.bounds(scenario)
    values = {
        "distance": limits.epsilon, "zeta": limits.zeta, "b1": limits.b1, "lower_bound": limits.lower,
        "leading": limits.leading, "limit": limits.limit,
    }  # fmt: skip
    if scenario.arrivals.epsilon is not None:
        values["facet_limit"] = slotted.facet_limit(scenario)
    if isinstance(scenario, SingleTypeScenario):
        values["random_limit"] = slotted.random_limit(scenario)
    return values


def compute_rows(engine: str, scenario: Any) -> list[dict[str, Any]]:
    """Tidy rows of a scenario, their se is 0 and their n is 0; `engine` is `capacity` or `bounds`."""
    check_served(engine, scenario)
    values = capacity_values(scenario) if engine == "capacity" else bounds_values(scenario)
    return [value_row(name, Estimate(value, 0.0, 0)) for name, value in values.items()]
