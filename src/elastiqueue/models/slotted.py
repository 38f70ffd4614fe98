"""Clusters and single-type routing as models of the simulator: from scenarios to parameters, runs and bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models import single_type
from elastiqueue.models.base import Replication
from elastiqueue.models.cluster import parameters as cluster
from elastiqueue.models.cluster.kernels import WEIGHTED
from elastiqueue.models.cluster.simulator import Cluster
from elastiqueue.sampling.discrete import FiniteDistribution, batch_bernoulli, binomial, poisson, uniform_mixture
from elastiqueue.scenarios.base import MAX_EVENTS, ConfigError, check_hours
from elastiqueue.scenarios.cluster import ClusterScenario, FiniteSizes, SingleTypeScenario, UniformSizes
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.theory.capacity import (
    CapacityRegion,
    ServerClass,
    capacity_region,
    exact,
    maximal_configurations,
)  # fmt: skip
from elastiqueue.theory.heavy_traffic import (
    Bounds,
    approach,
    exponential_mean,
    facet_bounds,
    single_type_bounds,
    work_variance,
)  # fmt: skip

SlottedScenario = ClusterScenario | SingleTypeScenario
WARM_UP_RELAXATIONS = 20
# Where the tail of the weighted backlog is evaluated, in multiples of its mean under the exponential limit.
TAIL_POINTS = tuple(k / 4 for k in range(25))


@contextmanager
def _inside(key: str) -> Iterator[None]:
    """A ValueError within is raised as one of this key."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from None


@_inside("arrivals")
def _jobs(name: str, mean: float, batch: int, trials: int) -> FiniteDistribution:
    if name == "batch_bernoulli":
        return batch_bernoulli(batch, mean)
    return binomial(trials, mean) if name == "binomial" else poisson(mean)


def _sizes(spec: FiniteSizes | UniformSizes, key: str) -> FiniteDistribution:
    with _inside(key):
        if isinstance(spec, UniformSizes):
            return uniform_mixture(spec.uniform)
        return FiniteDistribution(tuple(spec.values), tuple(spec.probabilities))


def _mean_size(spec: FiniteSizes | UniformSizes) -> Fraction:
    """The mean of the decimals given, exactly."""
    if isinstance(spec, UniformSizes):
        parts = [(Fraction(first + last, 2), exact(weight, "uniform")) for first, last, weight in spec.uniform]
    else:
        parts = [
            (Fraction(value), exact(p, "probabilities"))
            for value, p in zip(spec.values, spec.probabilities, strict=True)
        ]
    return sum((x * p for x, p in parts), Fraction(0)) / sum(p for _, p in parts)


def _per_type(value: Any, types: int, key: str) -> list[Any]:
    values = value if isinstance(value, list) else [value] * types
    if len(values) != types:
        raise ValueError(f"{key}: has {len(values)} entries; must have one per job type, {types}")
    return values


def server_classes(scenario: ClusterScenario) -> tuple[ServerClass, ...]:
    """Classes of servers with their maximal configurations."""
    kinds = scenario.classes
    pairs: list[tuple[int, Any]] = (
        [(scenario.count, scenario)] if kinds is None else [(kind.count, kind) for kind in kinds]
    )
    classes = []
    for count, kind in pairs:
        if kind.configurations is not None:
            configurations = tuple(tuple(s) for s in kind.configurations)
        else:
            configurations = maximal_configurations(kind.resources or [], scenario.job_types or [])
        classes.append(ServerClass(count, configurations))
    return tuple(classes)


@cache
def _region(classes: tuple[ServerClass, ...]) -> CapacityRegion:
    return capacity_region(classes)


def region(scenario: ClusterScenario) -> CapacityRegion:
    """The capacity region of the scenario's cluster."""
    return _region(server_classes(scenario))


@dataclass(frozen=True)
class Intensity:
    """Work per slot and type, its variance, and the distributions behind it.

    The rates are those of the decimals in the scenario, exactly; the variances are those of the distributions drawn
    from, in doubles.
    """

    rates: tuple[Fraction, ...]
    variances: tuple[float, ...]
    jobs: tuple[FiniteDistribution, ...]
    sizes: tuple[FiniteDistribution, ...]


def facet_point(scenario: ClusterScenario) -> tuple[Fraction, ...]:
    """Where epsilon starts from: the scenario's point, or the centroid of the vertices of its facet.

    Raises ValueError for a point that is not on the facet, up to 1e-9 of the distance of the facet from 0.
    """
    capacity, k = region(scenario), _facet_index(scenario)
    if scenario.arrivals.point is not None:
        values = _per_type(scenario.arrivals.point, capacity.types, "arrivals.point")
        point = tuple(exact(x, "arrivals.point") for x in values)
        gaps = [gap / facet.b for gap, facet in zip(capacity.epsilon(point), capacity.facets, strict=True)]
        if abs(gaps[k]) > 1e-9 or min(gaps) < -1e-9:
            c, b = ", ".join(f"{x:.6g}" for x in capacity.facets[k].c), capacity.facets[k].b
            raise ValueError(f"arrivals.point = {values}: must be on facet {k}, <({c}), point> = {b:.6g}")
        return point
    vertices = capacity.face(k)
    return tuple(Fraction(sum(values), len(vertices)) for values in zip(*vertices, strict=True))


def _facet_index(scenario: ClusterScenario) -> int:
    count = len(region(scenario).facets)
    if scenario.facet is None or not 0 <= scenario.facet < count:
        raise ValueError(f"facet = {scenario.facet}: must be one of 0..{count - 1}")
    return scenario.facet


def intensity(scenario: ClusterScenario) -> Intensity:
    """What arrives in a slot."""
    arrivals = scenario.arrivals
    if scenario.facet is not None:
        _facet_index(scenario)
    types = region(scenario).types
    specs = _per_type(scenario.job_sizes, types, "job_sizes")
    sizes = tuple(_sizes(spec, "job_sizes") for spec in specs)
    mean_sizes = [_mean_size(spec) for spec in specs]
    if arrivals.mean is not None:
        means = _per_type(list(arrivals.mean), types, "arrivals.mean")
        rates = tuple(exact(x, "arrivals.mean") * size for x, size in zip(means, mean_sizes, strict=True))
    elif arrivals.load is not None:
        direction = _per_type(list(arrivals.direction or []), types, "arrivals.direction")
        scale = exact(arrivals.load, "arrivals.load") * scenario.count
        rates = tuple(scale * exact(x, "arrivals.direction") for x in direction)
    else:
        point, facet = facet_point(scenario), region(scenario).facets[_facet_index(scenario)]
        with _inside("arrivals"):
            rates = approach(point, facet, exact(arrivals.epsilon, "epsilon"))
    batches = _per_type(arrivals.batch, types, "arrivals.batch")
    trials = _per_type(arrivals.trials, types, "arrivals.trials")
    jobs = tuple(
        _jobs(arrivals.law, float(rate / size), batch, number)
        for rate, size, batch, number in zip(rates, mean_sizes, batches, trials, strict=True)
    )
    return Intensity(rates, tuple(work_variance(a, s) for a, s in zip(jobs, sizes, strict=True)), jobs, sizes)


@cache
def _cluster_parameters(text: str) -> cluster.ClusterParameters:
    scenario = ClusterScenario.model_validate_json(text)
    classes, arriving = server_classes(scenario), intensity(scenario)
    kinds = scenario.classes if scenario.classes is not None else [scenario]
    has_resources = all(kind.resources is not None for kind in kinds)
    return cluster.ClusterParameters(
        counts=tuple(group.count for group in classes),
        configurations=tuple(group.configurations for group in classes),
        arrivals=arriving.jobs,
        sizes=arriving.sizes,
        routing=scenario.routing,
        d=scenario.d,
        scheduling=scenario.scheduling,
        level=scenario.level,
        resources=tuple(tuple(kind.resources or ()) for kind in kinds) if has_resources else None,
        needs=tuple(tuple(row) for row in scenario.job_types) if scenario.job_types else None,
        direction=region(scenario).facets[_facet_index(scenario)].c if scenario.facet is not None else None,
    )


def parameters(scenario: SlottedScenario) -> Any:
    """The scenario in the plain numbers that the kernel takes; ValueError with one line where it makes no sense."""
    if isinstance(scenario, ClusterScenario):
        return _cluster_parameters(scenario.model_dump_json())
    service = _sizes(scenario.service, "service")
    return single_type.SingleTypeParameters(
        scenario.servers, _single_arrivals(scenario), service, scenario.routing, scenario.d
    )


def _single_rate(scenario: SingleTypeScenario) -> tuple[Fraction, Fraction]:
    """Work per slot that arrives, and the mean service of all servers."""
    arrivals, capacity = scenario.arrivals, scenario.servers * _mean_size(scenario.service)
    if arrivals.mean is not None:
        return exact(arrivals.mean, "arrivals.mean"), capacity
    if arrivals.load is not None:
        return exact(arrivals.load, "arrivals.load") * capacity, capacity
    rate = capacity - exact(arrivals.epsilon, "arrivals.epsilon")
    if rate < 0:
        raise ValueError(
            f"arrivals.epsilon = {arrivals.epsilon}: must be at most {float(capacity):g}, the mean service"
        )
    return rate, capacity


def _single_arrivals(scenario: SingleTypeScenario) -> FiniteDistribution:
    arrivals, (rate, _) = scenario.arrivals, _single_rate(scenario)
    return _jobs(arrivals.law, float(rate), arrivals.batch, arrivals.trials or 2 * scenario.servers)


def bounds(scenario: SlottedScenario) -> Bounds:
    """The paper's bounds on the weighted backlog <bold c, q> (single type: on the total) of the scenario."""
    if isinstance(scenario, SingleTypeScenario):
        rate, capacity = _single_rate(scenario)
        variance = _single_arrivals(scenario).variance
        return single_type_bounds(
            scenario.servers, float(capacity - rate), variance, _sizes(scenario.service, "service")
        )
    k, arriving = _facet_index(scenario), intensity(scenario)
    facet, epsilon = region(scenario).facets[k], region(scenario).epsilon(arriving.rates)[k]
    return facet_bounds(facet.c, facet.b, scenario.count, epsilon, arriving.variances)


def facet_limit(scenario: SlottedScenario) -> float:
    """Limit of epsilon E<bold c, q> (single type: of the total) along the scenario's ray, variances at its end.

    The end is the point of the facet that epsilon starts from; single type: arrivals that use all the service.
    """
    if isinstance(scenario, SingleTypeScenario):
        changes: dict[str, Any] = {"mean": scenario.servers * _sizes(scenario.service, "service").mean}
    else:
        sizes = _per_type(scenario.job_sizes, region(scenario).types, "job_sizes")
        point = facet_point(scenario)
        changes = {"mean": [float(x / _mean_size(spec)) for x, spec in zip(point, sizes, strict=True)]}
    changes |= {"epsilon": None} | ({"point": None} if isinstance(scenario, ClusterScenario) else {})
    end = scenario.model_copy(update={"arrivals": scenario.arrivals.model_copy(update=changes)})
    if isinstance(end, SingleTypeScenario):
        arriving, service = _single_arrivals(end), _sizes(end.service, "service")
        return (arriving.variance + end.servers * service.variance) / 2.0
    c = region(end).facets[_facet_index(end)].c
    return exponential_mean(c, intensity(end).variances) / math.sqrt(end.count)


def random_limit(scenario: SingleTypeScenario) -> float:
    """Limit of epsilon E[sum q] under random routing, M (sigma^2 + lambda^2 (1 - 1/M) + M nu_s^2) / 2 at lambda = M mu.

    Ours: each of M equal queues gets the slot's work with probability 1/M, and is a single queue of its own.
    """
    work = scenario.servers * _sizes(scenario.service, "service").mean
    return scenario.servers * facet_limit(scenario) + (scenario.servers - 1) * work**2 / 2.0


def relaxation(scenario: SlottedScenario) -> float:
    """Slots in which the backlog forgets: the variance of the weighted work over epsilon^2, unscaled by sqrt(M).

    Under random routing every server has 1/M of the distance and of the variance, hence M times as long. A job takes
    at least its size: never less than the largest size.
    """
    limits = bounds(scenario)
    root = math.sqrt(scenario.count) if isinstance(scenario, ClusterScenario) else 1.0
    slots = limits.zeta * root / limits.epsilon**2
    if scenario.routing == "random":
        slots *= scenario.count if isinstance(scenario, ClusterScenario) else scenario.servers
    longest = 1 if isinstance(scenario, SingleTypeScenario) else max(x.values[-1] for x in intensity(scenario).sizes)
    return max(slots, float(longest))


def lengths(scenario: SlottedScenario) -> tuple[int, int]:
    """Warm-up and measured slots of one replication; raises ConfigError where all of them would never end."""
    warm_up, slots = scenario.warm_up, scenario.slots
    if warm_up == "auto":
        warm_up = math.ceil(WARM_UP_RELAXATIONS * relaxation(scenario))
    if slots == "auto":
        slots = max(1000, math.ceil(scenario.relaxations * relaxation(scenario) / scenario.replications))
    if isinstance(scenario, ClusterScenario):
        events = scenario.count + sum(jobs.mean for jobs in intensity(scenario).jobs)
    else:
        events = scenario.servers + _single_arrivals(scenario).mean
    total = int(warm_up) + int(slots)
    if total * events * scenario.replications > MAX_EVENTS:
        raise ConfigError(
            f"slots = {total} with the warm-up: times {events:g} servers and arrivals per slot and replications = "
            f"{scenario.replications} must be at most {MAX_EVENTS:g}"
        )
    seconds = scenario.replications * total * (2e-7 + 5e-9 * events)
    check_hours(f"slots = {scenario.slots}", seconds, scenario.max_cpu_hours)
    if isinstance(scenario, ClusterScenario) and total > cluster.MAX_SLOTS:
        raise ConfigError(f"slots = {slots}: must be at most {cluster.MAX_SLOTS - int(warm_up):,} after the warm-up")
    return int(warm_up), int(slots)


def columns(scenario: SlottedScenario) -> tuple[str, ...]:
    """Names of the totals; `early` is the weighted backlog (single type: total) in the first half of the window."""
    system = cluster if isinstance(scenario, ClusterScenario) else single_type
    return (*system.columns(parameters(scenario)), "early", "early_slots")


def metrics(scenario: SlottedScenario) -> dict[str, Ratio]:
    """The metrics as ratios of totals.

    warm_up_test is the weighted (single type: total) backlog of the second half of the window less that of the first,
    0 up to its error where the warm-up was long enough.
    """
    system = cluster if isinstance(scenario, ClusterScenario) else single_type
    ratios = system.metrics(parameters(scenario))
    ratios["growth"] = ratios.pop("drift")
    name = "weighted" if isinstance(scenario, ClusterScenario) else "total"
    ratios["warm_up_test"] = Ratio({name: 1.0, "early": -2.0}, {"early_slots": 1.0})
    if isinstance(scenario, SingleTypeScenario):
        ratios["weighted_backlog"] = ratios["total_backlog"]
    return ratios


def simulate(
    scenario: SlottedScenario,
    words: NDArray[np.uint64],
    edges: Sequence[float],
    grid: NDArray[np.float64],
    direct: bool = False,
) -> Replication:
    """One replication: totals over the slots from edges[0] to edges[1], and samples of the weighted backlog, (T, 1)."""
    warm_up, horizon = edges
    chosen = parameters(scenario)
    first = int(horizon - warm_up) // 2
    rest = int(horizon - warm_up) - first
    every = scenario.sample_every or 0
    if isinstance(scenario, ClusterScenario):
        system = Cluster(chosen, words)
        system.advance(int(warm_up))
        totals, early_samples = system.advance(first, None, every)
        early = totals[WEIGHTED]
        totals, late_samples = system.advance(rest, totals, every)
        samples = np.concatenate([early_samples, late_samples])[:, None]
        if direct:
            raise ValueError("direct: the cluster has one simulator; its plain form is cluster.Reference")
    else:
        queues = single_type.SingleType(chosen, words)
        queues.advance(int(warm_up))
        totals = queues.advance(first)
        early = totals[single_type.TOTAL]
        totals = queues.advance(rest, totals)
        samples = np.empty((0, 1))
    return Replication(np.array([[*totals, early, first]]), samples)


def tail_levels(scenario: SlottedScenario) -> list[tuple[float, float]]:
    """Points x of the tail P(weighted backlog > level), levels in multiples x of its limiting mean: (x, level).

    Empty where no samples are taken.
    """
    if not isinstance(scenario, ClusterScenario) or not scenario.sample_every:
        return []
    scale = bounds(scenario).leading
    return [(x, x * scale) for x in TAIL_POINTS]
