"""A cluster of servers under routing and MaxWeight scheduling, slot by slot: definition, parameters, totals.

Servers m = 1..M, job types j = 1..J (Maguluri, Srikant, Ying 2012, Sections II and III). A job of type j has a size
in slots, waits at one server in first-in-first-out order within its type, may be preempted, and gets at most one unit
of service per slot. Y_{j,m} is the list of remaining sizes of the type-j jobs at server m, the Markov state; q_{j,m}
is its sum.

    slot t   schedule  server m: a maximal configuration s that maximises sum_j s_j q_{j,m}(t), ties uniform
             arrivals  all type-j jobs of the slot, of total size a_j, go to one server chosen on q_{j,.}(t)
             service   the first s_j type-j jobs at server m (newcomers included) get one unit each

    q(t+1) = q(t) + a(t) - s(t) + u(t),    u_{j,m} = max(s_j - number of type-j jobs at m, 0), the unused service

Routing: `jsq`, the least q_{j,m}, ties uniform; `power_of_d`, the least of d servers drawn without replacement
(`power_of_two`: d = 2), `power_of_two_with_replacement`, both with uniform ties; `random`.

Scheduling `best_fit` is the contrast, the non-preemptive greedy rule of the authors' earlier paper (INFOCOM 2012) put
into slots: a job that has started keeps its resources until it ends; a server that gets a new job, or at which jobs
have just ended, starts waiting jobs one by one as long as one fits. It starts the job that takes the largest share of
the bottleneck resource, the one with the largest fraction in use (on an empty server every resource ties: then the
largest share of any tied resource counts; equal shares: the lower type number). Types stay first-in-first-out.

Level `workload` forgets the jobs: u_{j,m} = max(s_j - q_{j,m} - a_{j,m}, 0), any unit of work can be served. It is
another model.

Totals (sums over slots of the state at the end of a slot; c a unit vector over types, bold c_{j,m} = c_j / sqrt(M)):

    weighted = <bold c, q> = sum_j c_j Q_j / sqrt(M), Q_j = sum_m q_{j,m}        parallel_sq = <bold c, q>^2
    perpendicular_sq = |q|^2 - parallel_sq, in every `norm_interval`-th slot
    response of a job = slot in which it ends - slot in which it arrives + 1

`Reference` (reference.py) is the model in plain Python, `Cluster` (simulator.py) the compiled one, with the same random
words in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from elastiqueue.sampling.discrete import FiniteDistribution
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.theory.capacity import integer_units

# Bounds of what is packed into integers; refused beyond.
MAX_SLOTS = 2**31  # of a run: a job is packed as arrival slot << 32 | size
MAX_SIZE = 2**31 - 1  # of a job
MAX_WORK = 2**24  # of a configuration: 112 servers serve less than 2^31 units in a slot
MAX_RESOURCE = 2**26  # in units that make all amounts integers: quotients of such integers round apart

_COMMON = (
    "slots", "weighted", "parallel_sq", "norm_slots", "perpendicular_sq", "response", "completions", "arrivals",
)  # fmt: skip


@dataclass(frozen=True)
class ClusterParameters:
    """A cluster in plain numbers.

    Attributes
    ----------
    counts : servers of each class; classes are numbered in order, servers of a class are neighbours.
    configurations : per class its maximal configurations, each with one integer >= 0 per type.
    arrivals : per type the distribution of the number of jobs in a slot.
    sizes : per type the distribution of the size of a job in slots (>= 1).
    routing, d, scheduling, level : see the module; d belongs to `power_of_d`.
    resources, needs : per class the amounts of each resource, per type its needs; only `best_fit` uses them.
    direction : the unit vector c of the totals; default: all types equal.
    norm_interval : slots between two evaluations of |q|^2.
    """

    counts: tuple[int, ...]
    configurations: tuple[tuple[tuple[int, ...], ...], ...]
    arrivals: tuple[FiniteDistribution, ...]
    sizes: tuple[FiniteDistribution, ...]
    routing: str = "jsq"
    d: int = 2
    scheduling: str = "maxweight"
    level: str = "job"
    resources: tuple[tuple[float, ...], ...] | None = None
    needs: tuple[tuple[float, ...], ...] | None = None
    direction: tuple[float, ...] | None = None
    norm_interval: int = 16

    def __post_init__(self) -> None:
        if any(len(set(group)) != len(group) for group in self.configurations):
            raise ValueError("configurations: must be distinct within a class")
        if self.heaviest > MAX_WORK:
            raise ValueError(f"configurations: serve {self.heaviest} jobs at once: must be at most {MAX_WORK:,}")
        for size in self.sizes:
            if not 1 <= size.values[0] <= size.values[-1] <= MAX_SIZE:
                wrong = size.values[0] if size.values[0] < 1 else size.values[-1]
                raise ValueError(f"job_sizes = {wrong}: must be >= 1 slot and <= {MAX_SIZE:,}")
        if self.routing == "power_of_two" and self.servers < 2:
            raise ValueError("servers = 1: must be at least 2 with routing = power_of_two")
        if self.routing == "power_of_d" and not 1 <= self.d <= self.servers:
            raise ValueError(f"d = {self.d}: must be between 1 and the number of servers, {self.servers}")
        if self.scheduling == "best_fit":
            if self.level != "job":
                raise ValueError(f"level = {self.level}: must be job with scheduling = best_fit")
            if self.resources is None or self.needs is None:
                raise ValueError("scheduling = best_fit: needs resources and job_types, configurations do not suffice")

    @property
    def servers(self) -> int:
        return sum(self.counts)

    @property
    def types(self) -> int:
        return len(self.arrivals)

    @property
    def c(self) -> tuple[float, ...]:
        return self.direction if self.direction is not None else (1.0 / math.sqrt(self.types),) * self.types

    @property
    def classes(self) -> list[int]:
        """The class of each server."""
        return [k for k, n in enumerate(self.counts) for _ in range(n)]

    @property
    def load(self) -> tuple[float, ...]:
        """lambda: work per slot and type that arrives in the whole cluster."""
        return tuple(a.mean * s.mean for a, s in zip(self.arrivals, self.sizes, strict=True))

    @property
    def draws(self) -> int:
        """How many servers routing draws (0: it looks at all)."""
        return {"jsq": 0, "power_of_d": self.d, "random": 1}.get(self.routing, 2)

    @property
    def heaviest(self) -> int:
        """Most units of work of a configuration, at least 1."""
        return max(1, *(sum(s) for group in self.configurations for s in group))

    @property
    def largest_backlog(self) -> int:
        """Bound of the backlog of a type at a server: weights fit into 32 bits, the sum of squares into 64."""
        return min((2**31 - 2) // self.heaviest, math.isqrt((2**63 - 1) // (self.types * self.servers)))

    def reach(self) -> list[int]:
        """Per type, the most jobs that a configuration serves at a server (at least 1)."""
        return [max(1, *(s[j] for group in self.configurations for s in group)) for j in range(self.types)]

    def integer_resources(self) -> tuple[list[list[int]], list[list[int]]]:
        """Resources per class and needs per type in units in which both are integers; only `best_fit` uses them."""
        if self.scheduling != "best_fit" or self.resources is None or self.needs is None:
            return [[] for _ in self.counts], [[] for _ in range(self.types)]
        have, need = integer_units(self.resources, self.needs)
        for amount, integer in zip(zip(*self.resources, strict=True), zip(*have, strict=True), strict=True):
            if max(integer) > MAX_RESOURCE:
                raise ValueError(
                    f"resources = {list(amount)}: are {max(integer):,} in the unit that makes all amounts integers: "
                    f"must be at most {MAX_RESOURCE:,} with scheduling = best_fit"
                )
        return have, need


def columns(parameters: ClusterParameters) -> tuple[str, ...]:
    """Names of the totals, in order."""
    per_type = (f"{name}_{j + 1}" for name in ("backlog", "arrived", "served") for j in range(parameters.types))
    return (*_COMMON, *per_type)


def metrics(parameters: ClusterParameters) -> dict[str, Ratio]:
    """The metrics as ratios of totals; backlogs in slots of work in the whole cluster, responses in slots."""
    slots = {"slots": 1.0}
    backlog = {f"backlog_{j + 1}": 1.0 for j in range(parameters.types)}
    result = {
        "total_backlog": Ratio(backlog, slots),
        "weighted_backlog": Ratio({"weighted": 1.0}, slots),
        "parallel_sq": Ratio({"parallel_sq": 1.0}, slots, skewed=True),
        "perpendicular_sq": Ratio({"perpendicular_sq": 1.0}, {"norm_slots": 1.0}, skewed=True),
    }
    if parameters.level == "job":
        result["mean_response"] = Ratio({"response": 1.0}, {"completions": 1.0})
    for j in range(parameters.types):
        result[f"backlog_by_type[{j + 1}]"] = Ratio({f"backlog_{j + 1}": 1.0}, slots)
    growth = {f"arrived_{j + 1}": 1.0 for j in range(parameters.types)}
    growth.update({f"served_{j + 1}": -1.0 for j in range(parameters.types)})
    result["drift"] = Ratio(growth, slots)
    return result
