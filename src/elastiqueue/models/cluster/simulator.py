"""A cluster of servers under routing and MaxWeight scheduling, slot by slot: definition, compiled simulator, totals.

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

The simulator keeps, per type, rows over servers: backlog, schedule, and the remaining sizes of the few oldest jobs,
which are all that a schedule can reach (of one job: the work behind it, which service does not change). One pass over
the rows serves all servers and the next pass schedules them: rows at constant distances in one array, no branches, so
that both work on vectors; what happens at a server is a bit. The jobs of a queue are in a ring. What a slot draws in
any case it draws at once: a word per type for the number of its jobs, a byte per server for ties.

The numbers of the rows have 16 bits as long as that is enough for every weight, then 32: a run that leaves the range of
16 bits is begun again with 32, on a copy of what there was at its begin. So the type of the rows changes no result, and
twice as many servers fit into a vector.
`Reference` is the same model in plain Python, with the same random words in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import boolean, int64, njit, uint64
from numba.core import cgutils
from numba.extending import intrinsic
from numba.types import Tuple, none
from numpy.typing import NDArray

from elastiqueue.sampling.discrete import FiniteLaw, below, draw, invert, tables
from elastiqueue.sampling.rng import next_word, ones, step
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.theory.capacity import integer_units

ROUTING = ("jsq", "power_of_d", "power_of_two", "power_of_two_with_replacement", "random")
SCHEDULING = ("maxweight", "best_fit")
LEVELS = ("job", "workload")
_JSQ, _POWER_OF_D, _WITH_REPLACEMENT, _RANDOM = range(4)
_MAXWEIGHT, _BEST_FIT = range(2)

VECTOR = 16  # lanes
# Servers per block, the distance of rows. Measured: 112 is faster than 128 by 3 %, presumably since a read is held back
# by a recent write whose address agrees in the last 12 bits.
STRIDE = 112
REACH = (2, 8, 32, 128, 512)  # rows for the oldest jobs of a type: the next of these
# Rows of a type: backlog, schedule, remaining sizes of the oldest jobs (where at most one is served: the work behind).
_JOBS = 2
UNROLLED = 8  # up to so many configurations the scheduling pass is unrolled and vectorised
NARROW = 255  # lanes of 16 bits up to so much work of a server in a slot: then the sum over a block fits
_THIRD, _EXCESS = 85, 255  # of a random byte
_U1, _U2, _U4, _U56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_M1, _M2, _M4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_SUM = np.uint64(0x0101010101010101)
_HIGH = np.uint64((1 << STRIDE - 64) - 1)  # the servers of a block beyond the 64th
_16_BITS = np.int64(0xFFFF)
_NO_JOB = -1  # in the rows of oldest jobs where there is none

# Positions in the totals, which are followed by backlog_j, arrived_j, served_j for each type.
SLOTS, WEIGHTED, PARALLEL, NORM_SLOTS, PERPENDICULAR, RESPONSE, COMPLETIONS, ARRIVALS = range(8)
_COMMON = (
    "slots", "weighted", "parallel_sq", "norm_slots", "perpendicular_sq", "response", "completions", "arrivals",
)  # fmt: skip
# Positions in State.numbers.
SLOT, SCHEDULED, LONGEST = range(3)
# Positions in State.counts, which are followed by backlog_j and arrived_j: integers that end up in the totals.
_RESPONSE, _COMPLETIONS, _ARRIVALS, _PER_TYPE = range(4)


@dataclass(frozen=True)
class ClusterParameters:
    """A cluster in plain numbers.

    Attributes
    ----------
    counts : servers of each class; classes are numbered in order, servers of a class are neighbours.
    configurations : per class its maximal configurations, each with one integer >= 0 per type.
    arrivals : per type the law of the number of jobs in a slot.
    sizes : per type the law of the size of a job in slots (>= 1).
    routing, d, scheduling, level : see the module; d belongs to `power_of_d`.
    resources, needs : per class the amounts of each resource, per type its needs; only `best_fit` uses them.
    direction : the unit vector c of the totals; default: all types equal.
    norm_interval : slots between two evaluations of |q|^2.
    """

    counts: tuple[int, ...]
    configurations: tuple[tuple[tuple[int, ...], ...], ...]
    arrivals: tuple[FiniteLaw, ...]
    sizes: tuple[FiniteLaw, ...]
    routing: str = "jsq"
    d: int = 2
    scheduling: str = "maxweight"
    level: str = "job"
    resources: tuple[tuple[float, ...], ...] | None = None
    needs: tuple[tuple[float, ...], ...] | None = None
    direction: tuple[float, ...] | None = None
    norm_interval: int = 16

    def __post_init__(self) -> None:
        types = len(self.arrivals)
        if not self.counts or any(isinstance(n, bool) or int(n) != n or n < 1 for n in self.counts):
            raise ValueError(f"counts = {list(self.counts)}: must be integers >= 1, one per class")
        if len(self.configurations) != len(self.counts) or not all(self.configurations):
            raise ValueError(f"configurations: must be given for each of the {len(self.counts)} classes of servers")
        for s in (s for own in self.configurations for s in own):
            if len(s) != types or any(int(x) != x or x < 0 for x in s):
                raise ValueError(f"configurations = {list(s)}: must have {types} integers >= 0, one per job type")
        if any(len(set(own)) != len(own) for own in self.configurations):
            raise ValueError("configurations: must be distinct within a class")
        if types < 1 or len(self.sizes) != types:
            raise ValueError(f"job_sizes: must be one law per job type, of which there are {types}")
        for law in self.sizes:
            if law.values[0] < 1:
                raise ValueError(f"job_sizes = {law.values[0]}: must be >= 1 slot")
        if self.routing not in ROUTING:
            raise ValueError(f"routing = {self.routing}: must be one of {', '.join(ROUTING)}")
        if self.scheduling not in SCHEDULING:
            raise ValueError(f"scheduling = {self.scheduling}: must be one of {', '.join(SCHEDULING)}")
        if self.level not in LEVELS:
            raise ValueError(f"level = {self.level}: must be one of {', '.join(LEVELS)}")
        if self.routing == "power_of_two" and self.servers < 2:
            raise ValueError("servers = 1: must be at least 2 with routing = power_of_two")
        if self.routing == "power_of_d" and not 1 <= self.d <= self.servers:
            raise ValueError(f"d = {self.d}: must be between 1 and the number of servers, {self.servers}")
        if self.scheduling == "best_fit":
            if self.level != "job":
                raise ValueError(f"level = {self.level}: must be job with scheduling = best_fit")
            if self.resources is None or self.needs is None:
                raise ValueError("scheduling = best_fit: needs resources and job_types, configurations do not suffice")
            if len(self.resources) != len(self.counts) or len(self.needs) != types:
                raise ValueError("resources, job_types: must be one list per class of servers and one per job type")
        if self.direction is not None and (
            len(self.direction) != types or abs(math.fsum(x * x for x in self.direction) - 1.0) > 1e-9
        ):
            raise ValueError(f"direction = {list(self.direction)}: must be a unit vector over {types} job types")
        if self.norm_interval < 1:
            raise ValueError(f"norm_interval = {self.norm_interval}: must be >= 1")

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

    def reach(self) -> list[int]:
        """Per type, the most jobs that a configuration serves at a server (at least 1)."""
        return [max(1, *(s[j] for own in self.configurations for s in own)) for j in range(self.types)]

    def integer_resources(self) -> tuple[list[list[int]], list[list[int]]]:
        """Resources per class and needs per type in units in which both are integers; only `best_fit` uses them."""
        if self.scheduling != "best_fit" or self.resources is None or self.needs is None:
            return [[] for _ in self.counts], [[] for _ in range(self.types)]
        return integer_units(self.resources, self.needs)


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
        "parallel_sq": Ratio({"parallel_sq": 1.0}, slots),
        "perpendicular_sq": Ratio({"perpendicular_sq": 1.0}, {"norm_slots": 1.0}),
    }
    if parameters.level == "job":
        result["mean_response"] = Ratio({"response": 1.0}, {"completions": 1.0})
    for j in range(parameters.types):
        result[f"backlog_by_type[{j + 1}]"] = Ratio({f"backlog_{j + 1}": 1.0}, slots)
    growth = {f"arrived_{j + 1}": 1.0 for j in range(parameters.types)}
    growth.update({f"served_{j + 1}": -1.0 for j in range(parameters.types)})
    result["drift"] = Ratio(growth, slots)
    return result


# --- the model in plain Python ------------------------------------------------------------------------------------


class Reference:
    """The model slot by slot on lists of jobs: slow and readable; draws the same words as the compiled simulator."""

    def __init__(self, parameters: ClusterParameters, words: NDArray[np.uint64]) -> None:
        self.p = parameters
        self.words = words.copy()
        m, j = parameters.servers, parameters.types
        self.jobs: list[list[list[list[int]]]] = [[[] for _ in range(m)] for _ in range(j)]  # [remaining, arrival slot]
        self.work = [[0] * m for _ in range(j)]  # workload level: all there is
        self.order = list(range(m))  # a permutation, shuffled by the draws without replacement
        self.slot = 0
        self.arrival_tables, self.size_tables = tables(parameters.arrivals), tables(parameters.sizes)
        self.have, self.need = parameters.integer_resources()
        self.totals = dict.fromkeys(columns(parameters), 0.0)
        self.schedule = [[0] * m for _ in range(j)]
        self._next_slot()

    def backlog(self, j: int, m: int) -> int:
        return self.work[j][m] if self.p.level == "workload" else sum(job[0] for job in self.jobs[j][m])

    def _next_slot(self) -> None:
        """Draw a word per type, for its arrivals, and a byte per server, for ties; schedule."""
        servers, types = self.p.servers, range(self.p.types)
        self.arrival_words = [np.uint64(next_word(self.words)) for _ in types]
        if self.p.scheduling == "best_fit":
            return
        random = [0] * servers
        if max(len(own) for own in self.p.configurations) > 1:
            drawn = [int(next_word(self.words)) for _ in range(-(-servers // 8))]
            random = [drawn[m // 8] >> 8 * (m % 8) & 255 for m in range(servers)]
        for m, k in enumerate(self.p.classes):
            own = self.p.configurations[k]
            weights = [sum(s[j] * self.backlog(j, m) for j in types) for s in own]
            best = [s for s, w in zip(own, weights, strict=True) if w == max(weights)]
            ties, index = len(best), 0
            share = random[m] * ties
            if (ties == 3 and random[m] == 255) or (ties > 3 and share & 255 < 256 % ties):
                index = below(ties, self.words)  # what cannot be shared equally is excluded
            elif ties > 3:
                index = share >> 8
            elif ties > 1:  # 255 bytes in three parts: below 85, the even ones, the odd ones
                index = 2 if ties == 3 and random[m] < 85 else random[m] % 2
            for j in types:
                self.schedule[j][m] = best[index][j]

    def _route(self, j: int) -> int:
        p, servers = self.p, self.p.servers
        if p.routing == "random":
            return int(below(servers, self.words))
        if p.routing == "power_of_two_with_replacement":
            drawn = [int(below(servers, self.words)) for _ in range(2)]
            return min(drawn, key=lambda m: self.backlog(j, m))
        if p.routing == "jsq":
            queue = [self.backlog(j, m) for m in range(servers)]
            least = [m for m in range(servers) if queue[m] == min(queue)]
            return least[0] if len(least) == 1 else least[below(len(least), self.words)]
        for i in range(p.draws):
            k = i + int(below(servers - i, self.words))
            self.order[i], self.order[k] = self.order[k], self.order[i]
        return min(self.order[: p.draws], key=lambda m: self.backlog(j, m))

    def _fill(self, m: int) -> None:
        """Best-Fit: start jobs at server m until none fits."""
        types, have = range(self.p.types), self.have[self.p.classes[m]]
        while True:
            used = [sum(self.schedule[j][m] * self.need[j][i] for j in types) for i in range(len(have))]
            fraction = [u / h if h else 0.0 for u, h in zip(used, have, strict=True)]
            best, share = -1, -1.0
            for j in types:
                fits = all(u + n <= h for u, n, h in zip(used, self.need[j], have, strict=True))
                if not fits or len(self.jobs[j][m]) == self.schedule[j][m]:
                    continue
                own = max(
                    n / h if h else 0.0
                    for n, h, f in zip(self.need[j], have, fraction, strict=True)
                    if f == max(fraction)
                )
                if own > share:
                    best, share = j, own
            if best < 0:
                return
            self.schedule[best][m] += 1

    def advance(self, slots: int) -> dict[str, float]:
        """Go on for so many slots; returns the totals since the beginning."""
        p, totals, types, servers = self.p, self.totals, range(self.p.types), range(self.p.servers)
        for _ in range(slots):
            for j in types:
                number = int(invert(*self.arrival_tables, j, self.arrival_words[j]))
                if number == 0:
                    continue
                m = self._route(j)
                for _ in range(number):
                    size = int(draw(*self.size_tables, j, self.words))
                    self.jobs[j][m].append([size, self.slot])
                    self.work[j][m] += size
                    totals[f"arrived_{j + 1}"] += size
                totals["arrivals"] += number
                if p.scheduling == "best_fit":
                    self._fill(m)
            ended = set()
            for j in types:
                for m in servers:
                    jobs, share = self.jobs[j][m], self.schedule[j][m]
                    if p.level == "workload":
                        jobs.clear()
                        served = min(share, self.work[j][m])
                    else:
                        served = min(share, len(jobs))
                    for job in jobs[:share]:
                        job[0] -= 1
                        if job[0] == 0:
                            totals["response"] += self.slot + 1 - job[1]
                            totals["completions"] += 1
                            ended.add(m)
                            if p.scheduling == "best_fit":
                                self.schedule[j][m] -= 1
                    self.jobs[j][m] = [job for job in jobs if job[0] > 0]
                    self.work[j][m] -= served
                    totals[f"served_{j + 1}"] += served
            self._next_slot()
            if p.scheduling == "best_fit":
                for m in ended:
                    self._fill(m)
            q = [[self.backlog(j, m) for m in servers] for j in types]
            weighted = 0.0
            for j in types:
                totals[f"backlog_{j + 1}"] += sum(q[j])
                weighted += p.c[j] * sum(q[j])
            totals["slots"] += 1
            totals["weighted"] += weighted / math.sqrt(p.servers)
            totals["parallel_sq"] += weighted * weighted / p.servers
            if self.slot % p.norm_interval == 0:
                totals["norm_slots"] += 1
                totals["perpendicular_sq"] += sum(x * x for row in q for x in row) - weighted * weighted / p.servers
            self.slot += 1
        return totals


# --- the compiled simulator ---------------------------------------------------------------------------------------


class State(NamedTuple):
    """What changes.

    Rows of `lanes` per block of servers: for each type q, s and the oldest jobs (see `_JOBS`); then the configurations
    (per type, and a bias of -1 where a server has no such configuration, if classes differ in that); then the bit
    m mod 16 of server m, which is 0 beyond the last.
    """

    words: NDArray[np.uint64]  # the generator
    numbers: NDArray[np.int64]  # SLOT .. LONGEST
    lanes: NDArray[np.signedinteger]  # of 16 or 32 bits
    backlog: NDArray[np.int64]  # J: Q_j
    least: NDArray[np.signedinteger]  # J: the least q_{j,m} after the last service, which is what arrivals meet
    random_words: NDArray[np.uint64]  # of the slot: a word per type for its jobs, then a byte per server for ties
    random_bytes: NDArray[np.uint8]  # the same memory
    order: NDArray[np.int64]  # M
    ends: NDArray[np.int64]  # J M, 2: HEAD, TAIL of the queues, as counted from the first job on
    ring: NDArray[np.int64]  # J M, capacity (a power of 2): arrival slot << 32 | size of job k at k mod capacity
    counts: NDArray[np.int64]  # work space
    ended_at: NDArray[np.int64]  # J M, work space


HEAD, TAIL = range(2)


class _Lanes:
    """Writes LLVM's own language for lanes, a vector at a time, in which a comparison of lanes gives bits at once."""

    def __init__(self, context, builder, z, array) -> None:
        self.builder = builder
        self.number = context.get_value_type(z.dtype)
        self.memory = context.make_array(z)(context, builder, array).data
        self.vector = ir.VectorType(self.number, VECTOR)

    def _place(self, position):
        return self.builder.bitcast(self.builder.gep(self.memory, [position]), self.vector.as_pointer())

    def read(self, position):
        return self.builder.load(self._place(position), align=self.number.width // 8)

    def write(self, vector, position):
        self.builder.store(vector, self._place(position), align=self.number.width // 8)

    def copies(self, number):
        one = ir.VectorType(self.number, 1)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), [0] * VECTOR)  # each lane the first and only one
        return self.builder.shuffle_vector(self.builder.bitcast(number, one), ir.Constant(one, ir.Undefined), zeros)

    def lesser(self, compare, x, y):
        return self.builder.select(compare("<", x, y), x, y)

    def over_lanes(self, what, vector):
        """The sum (`what` = add), the least (smin) or the least unsigned one (umin) of the lanes of a vector."""
        name = f"llvm.vector.reduce.{what}.v{VECTOR}i{self.number.width}"
        signature = ir.FunctionType(self.number, [self.vector])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, signature, name), [vector])


@intrinsic
def _equal(typing, z, position, other):
    """The bits of those of the 64 lanes from `position` on that are equal to `other`, which is a number or, if it is a
    position (uint64), as many lanes. Loops in Python would add up bits lane by lane, and end with jumps that nobody can
    predict.
    """

    def code(context, builder, signature, arguments):
        array, left, right = arguments
        lanes = _Lanes(context, builder, z, array)
        word = ir.Constant(ir.IntType(64), 0)
        for i in range(0, 64, VECTOR):
            y = lanes.read(builder.add(right, word.type(i))) if other == uint64 else lanes.copies(right)
            equal = builder.icmp_signed("==", lanes.read(builder.add(left, word.type(i))), y)
            bits = builder.zext(builder.bitcast(equal, ir.IntType(VECTOR)), word.type)
            word = builder.or_(word, builder.shl(bits, word.type(i)))
        return word

    return uint64(z, uint64, other if other == uint64 else z.dtype), code


@intrinsic
def _serve_row(typing, z, q, h, vectors, rank):
    """One slot of service at the servers in so many vectors of a block, as `_serve` tells.

    Their backlogs are at q and a row of their oldest jobs is at h: of those numbered `rank` (from 0) by age, whose
    remaining sizes it has, or without rank of the only one, the work behind which it has.

    Returns the work done, the least backlog, and whether a job ends somewhere. The vectors are one after the other,
    with a jump to the end after each, of which always the same one jumps: a loop took 5 % longer for a slot, presumably
    since its end is mispredicted among the other jumps.
    """

    def code(context, builder, signature, arguments):
        array, q, h, vectors, k = arguments
        lanes = _Lanes(context, builder, z, array)
        signed, unsigned = builder.icmp_signed, builder.icmp_unsigned
        zero = ir.Constant(lanes.vector, [0] * VECTOR)
        served, least, nearest = (
            cgutils.alloca_once_value(builder, ir.Constant(lanes.vector, [x] * VECTOR))
            for x in (0, 2 ** (lanes.number.width - 1) - 1, -1)
        )
        end = builder.append_basic_block()
        for i in range(STRIDE // VECTOR):
            backlogs, jobs = (builder.add(row, row.type(VECTOR * i)) for row in (q, h))
            shares = builder.add(backlogs, q.type(STRIDE))
            backlog, share, job = lanes.read(backlogs), lanes.read(shares), lanes.read(jobs)
            if rank == none:
                done = lanes.lesser(signed, share, backlog)
                backlog = builder.sub(backlog, done)
                left = builder.sub(backlog, job)
            else:
                busy = builder.and_(signed(">", share, lanes.copies(k)), signed(">", job, zero))
                done = builder.zext(busy, lanes.vector)
                backlog = builder.sub(backlog, done)
                left = builder.sub(job, done)
                lanes.write(left, jobs)
            lanes.write(backlog, backlogs)
            builder.store(builder.add(builder.load(served), done), served)
            builder.store(lanes.lesser(signed, builder.load(least), backlog), least)
            builder.store(lanes.lesser(unsigned, builder.load(nearest), left), nearest)  # 0: a job ends; -1: no job
            following = builder.append_basic_block()
            builder.cbranch(unsigned("==", vectors, vectors.type(i + 1)), end, following)
            builder.position_at_end(following)
        builder.branch(end)
        builder.position_at_end(end)
        found = (
            builder.sext(lanes.over_lanes("add", builder.load(served)), ir.IntType(64)),
            lanes.over_lanes("smin", builder.load(least)),
            unsigned("==", lanes.over_lanes("umin", builder.load(nearest)), lanes.number(0)),
        )
        return context.make_tuple(builder, signature.return_type, found)

    return Tuple((int64, z.dtype, boolean))(z, uint64, uint64, uint64, rank if rank == none else z.dtype), code


@njit(cache=True, forceinline=True)
def _lane(z, number):
    """A number in the type of the lanes, in which LLVM calculates then."""
    return z.dtype.type(number)


@njit(cache=True)
def _lowest(bits):
    """Position of the lowest bit of a number that is not 0: the number of bits below it."""
    x = np.uint64(np.int64(bits) & -np.int64(bits)) - np.uint64(1)
    x -= (x >> _U1) & _M1  # LLVM takes these lines for what they are, one instruction that counts bits
    x = (x & _M2) + ((x >> _U2) & _M2)
    x = (x + (x >> _U4)) & _M4
    return (x * _SUM) >> _U56


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _serve(z, q, vectors, reach):
    """One slot of service of one type at the servers in so many vectors; their backlogs are at position q of the lanes.

    `reach` is the number of rows of oldest jobs. Up to 1, a server does its share whenever it has work, and a job ends
    where the backlog has come down to the work behind it: its remaining size need not be counted down. At the workload
    level (reach 0) the row stays -1. With more rows a job ends where a row is 0; it is -1 without a job.

    Returns the work done, the least backlog, and whether a job ends somewhere.
    """
    h = q + np.uint64(_JOBS * STRIDE)
    if reach <= 1:
        return _serve_row(z, q, h, vectors, None)
    served, least, ended = _serve_row(z, q, h, vectors, _lane(z, 0))
    for k in range(1, reach):
        h += np.uint64(STRIDE)
        more, least, ends = _serve_row(z, q, h, vectors, _lane(z, k))
        served += more
        ended |= ends
    return served, least, ended


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _ends(z, q, reach):
    """The bits of those of 64 servers at which a job ends; their backlogs are at position q of the lanes."""
    h = q + np.uint64(_JOBS * STRIDE)
    if reach == 1:
        return _equal(z, q, h)
    ends = np.uint64(0)
    for _ in range(reach):
        ends |= _equal(z, h, _lane(z, 0))
        h += np.uint64(STRIDE)
    return ends


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _amount(z, m, c, j, types, heads, biased):
    """How many jobs of type j configuration c serves, or its bias (j = number of types), for the server at lane m."""
    row = len(types) * (_JOBS + len(heads)) + c * (len(types) + len(biased)) + j
    return z[m + np.uint64(row * STRIDE)]


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _weight(z, m, c, types, heads, biased):
    """The weight of configuration c for the server at lane m."""
    w = _amount(z, m, c, 0, types, heads, biased) * z[m]
    for j in range(1, len(types)):
        q = z[m + np.uint64(j * (_JOBS + len(heads)) * STRIDE)]
        w = _lane(z, w + _lane(z, _amount(z, m, c, j, types, heads, biased) * q))
    return _lane(z, w + _amount(z, m, c, len(types), types, heads, biased)) if len(biased) > 0 else _lane(z, w)


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _schedule(z, random, start, offset, n, third, excess, types, configs, heads, biased):
    """MaxWeight for n servers of a block, vectorised: the tuples matter by their lengths.

    A random byte x picks one of several best configurations: of two the second where x is odd, of three the third where
    x < third = 85, the second where x is larger and odd, of k > 3 the (x k >> 8)-th. Of three, x = excess = 255 is not
    shared, of more the lowest 256 mod k remainders of x k: returns the bit of each such server, for `_decide`. The two
    numbers are arguments since constants would be compared with bytes, eight lanes at a time, and be moved to and fro.
    """
    count, group = len(configs), (_JOBS + len(heads)) * STRIDE
    zero, one, two = _lane(z, 0), _lane(z, 1), _lane(z, 2)
    third, excess = _lane(z, third), _lane(z, excess)
    unsettled = zero
    for i in range(np.uint64(n)):
        m = i + start
        x = _lane(z, random[i + offset])
        second_wins, third_wins = _lane(z, x & one), _lane(z, x < third)
        for j in range(len(types)):  # every weight is computed once: the compiler sees to that
            s = _amount(z, m, 0, j, types, heads, biased)
            best, others = _weight(z, m, 0, types, heads, biased), zero  # as good as the best before
            for c in range(1, count):
                w = _weight(z, m, c, types, heads, biased)
                own = _amount(z, m, c, j, types, heads, biased)
                if w > _lane(z, best - (third_wins if others > zero else second_wins)):
                    s = own
                others = _lane(z, others * _lane(z, w <= best) + _lane(z, w == best))
                best = max(best, w)
            if count > 3:
                left = _lane(z, _lane(z, x * _lane(z, others + one)) >> 8)
                for c in range(count):
                    hit = _lane(z, _weight(z, m, c, types, heads, biased) == best)
                    own = _amount(z, m, c, j, types, heads, biased)
                    if (hit != zero) & (left == zero) & (others > two):
                        s = own
                    left = _lane(z, left - hit)
            z[m + np.uint64(j * group + STRIDE)] = s
        over = (others == two) & (x >= excess)
        if count > 3:
            threshold = zero
            for k in range(4, count + 1):
                threshold = _lane(z, threshold + _lane(z, _lane(z, 256 % k) * _lane(z, others == _lane(z, k - 1))))
            over = over | (_lane(z, _lane(z, x * _lane(z, others + one)) & 255) < threshold)
        unsettled = _lane(z, unsettled | _lane(z, _amount(z, m, count, 0, types, heads, biased) * _lane(z, over)))
    return np.int64(unsettled) & _16_BITS


@njit(cache=True)
def _decide(z, words, byte, m, third, excess, count, types, heads, biased):
    """MaxWeight for the server at position m of the lanes, with any number of configurations."""
    best, ties = _weight(z, m, 0, types, heads, biased), 1
    for c in range(1, count):
        w = _weight(z, m, c, types, heads, biased)
        if w > best:
            best, ties = w, 1
        elif w == best:
            ties += 1
    left = 0
    if (ties == 3 and byte >= excess) or (ties > 3 and (np.int64(byte) * ties) & 255 < 256 % ties):
        left = below(ties, words)
    elif ties > 3:
        left = (np.int64(byte) * ties) >> 8
    elif ties > 1:
        left = 2 if ties == 3 and byte < third else np.int64(byte & 1)
    for c in range(count):
        if _weight(z, m, c, types, heads, biased) == best:
            if left == 0:
                for j in range(len(types)):
                    row = np.uint64(j * (_JOBS + len(heads)) + 1)
                    z[m + row * np.uint64(STRIDE)] = _amount(z, m, c, j, types, heads, biased)
                return
            left -= 1


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _next_slot(
    z, words, random_words, random_bytes, servers, third, excess, number, block, maxweight,
    types, configs, heads, biased,
):  # fmt: skip
    """Draw what the next slot needs, a word per type and a byte per server, and schedule on the present backlogs."""
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    for i in range(np.uint64(len(types) + ((servers + 7) // 8 if maxweight else 0))):
        random_words[i], s0, s1, s2, s3 = step(s0, s1, s2, s3)
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    if not maxweight:
        return
    position, done = 0, 0
    while done < servers:
        n = min(STRIDE, servers - done)
        first = 8 * len(types) + done  # its random byte
        unsettled = _16_BITS
        if len(configs) <= UNROLLED:
            lanes = -(-n // VECTOR) * VECTOR
            start = np.uint64(position)
            unsettled = _schedule(
                z, random_bytes, start, np.uint64(first), lanes, third, excess, types, configs, heads, biased
            )
        if unsettled != 0:
            for chunk in range(0, n, 16):  # in the order of the servers
                left = unsettled
                while left != 0:
                    m = chunk + np.int64(_lowest(left))
                    left &= left - 1
                    if m < n:
                        byte, lane = random_bytes[first + m], np.uint64(position + m)
                        _decide(z, words, byte, lane, third, excess, number, types, heads, biased)
        position += block
        done += STRIDE


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _position(row, m, block):
    """Where server m stands in the row at position `row` of the first block."""
    m = np.uint64(m)
    return np.uint64(row) + m // np.uint64(STRIDE) * np.uint64(block) + m % np.uint64(STRIDE)


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _having(z, position, best):
    """The servers of a block whose backlog is `best`, as the bits of two words; the second looks into the next row."""
    return _equal(z, np.uint64(position), best), _equal(z, np.uint64(position + 64), best) & _HIGH


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _shortest(z, row, block, servers, best, words):
    """A server of the least backlog `best`, ties uniform; `row` is the position of the backlogs in the first block."""
    ties = 0
    low = high = np.uint64(0)
    for position in range(row, row + (servers + STRIDE - 1) // STRIDE * block, block):
        low, high = _having(z, position, best)
        ties += ones(low) + ones(high)
    left = below(ties, words) if ties > 1 else 0
    first, position = 0, row
    while servers > STRIDE:  # to the block that has the place
        low, high = _having(z, position, best)
        here = ones(low) + ones(high)
        if left < here:
            break
        left -= here
        position += block
        first += STRIDE
    if left >= ones(low):
        left -= ones(low)
        low = high
        first += 64
    for _ in range(left):
        low &= low - _U1
    return first + np.int64(_lowest(low))


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _route(z, words, order, servers, routing, draws, row, block, least):
    """The server for the arrivals of a type whose backlogs are at `row`."""
    if routing == _JSQ:
        return _shortest(z, row, block, servers, least, words)
    if routing == _RANDOM:
        return below(servers, words)
    best = fewest = np.int64(-1)
    for i in range(draws):  # first come, first kept: uniform, as the order of the draws is
        if routing == _WITH_REPLACEMENT:
            m = below(servers, words)
        else:
            k = np.uint64(i + below(servers - i, words))
            m = order[k]
            order[k] = order[i]
            order[i] = m
        q = np.int64(z[_position(row, m, block)])
        if best < 0 or q < fewest:
            best, fewest = m, q
    return best


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _join(z, numbers, ends, ring, queue, reach, position, size):
    """A job comes to a queue (type and server) whose oldest job is at `position` of the lanes."""
    tail = ends[queue, TAIL]
    ring[queue, np.uint64(tail & (ring.shape[1] - 1))] = numbers[SLOT] << 32 | size
    ends[queue, TAIL] = tail + 1
    k = tail - ends[queue, HEAD]
    numbers[LONGEST] = max(numbers[LONGEST], k + 1)
    if reach == 1:
        z[position] = _lane(z, z[position] + size) if k > 0 else _lane(z, 0)
    elif k < reach:
        z[position + np.uint64(k) * np.uint64(STRIDE)] = size


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _leave(z, numbers, counts, ends, ring, queue, reach, position):
    """Remove the finished jobs of a queue, whose oldest job is at `position` of the lanes; returns how many."""
    head, tail, mask = ends[queue, HEAD], ends[queue, TAIL], ring.shape[1] - 1
    if reach == 1:
        job, following = ring[queue, np.uint64(head & mask)], ring[queue, np.uint64((head + 1) & mask)]
        counts[_RESPONSE] += numbers[SLOT] + 1 - (job >> 32)
        counts[_COMPLETIONS] += 1
        ends[queue, HEAD] = head + 1
        behind = z[position - np.uint64(_JOBS * STRIDE)] - (following & 0x7FFFFFFF)
        z[position] = _lane(z, behind if tail - head > 1 else _NO_JOB)
        return 1
    present = min(reach, tail - head)
    kept = present
    for back in range(present):  # youngest first: those that stay move towards the tail
        k = present - 1 - back
        job = ring[queue, np.uint64((head + k) & mask)]
        remaining = z[position + np.uint64(k) * np.uint64(STRIDE)]
        if remaining == 0:
            counts[_RESPONSE] += numbers[SLOT] + 1 - (job >> 32)
        else:
            kept -= 1
            ring[queue, np.uint64((head + kept) & mask)] = job
            z[position + np.uint64(kept) * np.uint64(STRIDE)] = remaining
    ended = kept  # so many places are free at the head
    counts[_COMPLETIONS] += ended
    head += ended
    ends[queue, HEAD] = head
    for k in range(reach):
        row = position + np.uint64(k) * np.uint64(STRIDE)
        if k + ended < present:
            z[row] = z[row + np.uint64(ended) * np.uint64(STRIDE)]
        else:
            size = ring[queue, np.uint64((head + k) & mask)] & 0x7FFFFFFF
            z[row] = _lane(z, size if head + k < tail else _NO_JOB)
    return ended


@njit(cache=True)
def _fill(z, ends, need, have, m, servers, position, types, group):
    """Best-Fit at server m, whose lane is at `position`: start waiting jobs until none fits."""
    resources = need.shape[1]
    while True:
        bottleneck = 0.0
        best, share = -1, -1.0
        for stage in range(2):  # the bottleneck, then the job
            for j in range(types if stage == 1 else 1):
                queue = j * servers + m
                fits = ends[queue, TAIL] - ends[queue, HEAD] > z[position + j * group + STRIDE]
                own = -1.0
                for i in range(resources):
                    used = np.int64(0)
                    for k in range(types):
                        used += z[position + k * group + STRIDE] * need[k, i]
                    fits = fits and used + need[j, i] <= have[m, i]
                    fraction = used / have[m, i] if have[m, i] > 0 else 0.0
                    if stage == 0:
                        bottleneck = max(bottleneck, fraction)
                    elif fraction == bottleneck:
                        own = max(own, need[j, i] / have[m, i] if have[m, i] > 0 else 0.0)
                if stage == 1 and fits and own > share:
                    best, share = j, own
        if best < 0:
            return
        z[position + best * group + STRIDE] += 1


@njit(cache=True, boundscheck=False, error_model="numpy")
def _squares(z, row, n):
    """The sum of squares of a row."""
    total = 0
    for m in range(np.uint64(n)):
        total += np.int64(z[row + m]) * np.int64(z[row + m])
    return total


# _nrt=False: no reference counting of the arrays, which would cost two atomic operations per array and call.
# forceinline above: a call would pass each array as seven words.
@njit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def _advance(
    words, numbers, z, backlog, least, random_words, random_bytes, order, ends, ring, counts, ended_at,
    reach, direction, a_cdf, a_values, a_guide, a_start, s_cdf, s_values, s_guide, s_start, size_law, need, have,
    servers, routing, draws, scheduling, heaviest, norm_interval, third, excess, number, most, block, job_level,
    types, configs, heads, biased, slots, totals, samples, interval,
):  # fmt: skip
    """Go on for `slots` slots, adding to totals; stops early when a ring may be too short for `most` jobs more.

    Returns the slots done, or -1 - j when the backlog of type j at a server leaves the range of the weights.
    """
    count, group = len(types), (_JOBS + len(heads)) * STRIDE
    limit = ((1 << 8 * z.itemsize - 1) - 2) // heaviest
    for j in range(count):
        totals[ARRIVALS + 1 + 2 * count + j] += backlog[j]  # served = backlog before + arrived - backlog after
    weighted_sum = parallel_sum = perpendicular_sum = 0.0
    norm_slots = 0
    taken = 0
    counts[:] = 0
    maxweight = scheduling == _MAXWEIGHT and len(configs) > 1
    if numbers[SCHEDULED] == 0:
        numbers[SCHEDULED] = 1
        _next_slot(
            z,
            words,
            random_words,
            random_bytes,
            servers,
            third,
            excess,
            number,
            block,
            maxweight,
            types,
            configs,
            heads,
            biased,
        )
    done = 0
    while done < slots and numbers[LONGEST] + most <= ring.shape[1]:
        slot = numbers[SLOT]
        for j in range(count):
            jobs = invert(a_cdf, a_values, a_guide, a_start, j, random_words[j])
            if jobs > 0:
                m = _route(z, words, order, servers, routing, draws, j * group, block, least[j])
                position = _position(j * group, m, block)
                place, queue = position + np.uint64(_JOBS * STRIDE), np.uint64(j * servers + m)
                work = 0
                for _ in range(jobs):
                    size = draw(s_cdf, s_values, s_guide, s_start, size_law[j], words)
                    work += size
                    if job_level:
                        _join(z, numbers, ends, ring, queue, reach[j], place, size)
                if z[position] + work > limit:
                    return -1 - j
                z[position] += work
                backlog[j] += work
                counts[_ARRIVALS] += jobs
                counts[_PER_TYPE + count + j] += work
                if scheduling == _BEST_FIT:
                    _fill(z, ends, need, have, m, servers, np.int64(position) - j * group, count, group)
        finished = 0
        first, position = 0, 0
        while first < servers:
            n = min(STRIDE, servers - first)
            for j in range(count):
                row = np.uint64(position + j * group)
                served, shortest, ended = _serve(z, row, np.uint64(-(-n // VECTOR)), reach[j] if job_level else 0)
                backlog[j] -= served
                least[j] = min(least[j], shortest) if first > 0 else shortest
                if not ended:
                    continue
                low, high = _ends(z, row, reach[j]), _ends(z, row + np.uint64(64), reach[j]) & _HIGH
                while (low | high) != 0:
                    lane = _lowest(low) if low != 0 else np.uint64(64) + _lowest(high)
                    high &= high - np.uint64(low == 0)
                    low &= low - np.uint64(low != 0)
                    queue = np.uint64(j * servers + first) + lane
                    place = row + lane + np.uint64(_JOBS * STRIDE)
                    gone = _leave(z, numbers, counts, ends, ring, queue, reach[j], place)
                    if scheduling == _BEST_FIT:
                        z[row + lane + np.uint64(STRIDE)] -= gone
                        ended_at[finished] = first + np.int64(lane)
                        finished += 1
            position += block
            first += STRIDE
        _next_slot(
            z,
            words,
            random_words,
            random_bytes,
            servers,
            third,
            excess,
            number,
            block,
            maxweight,
            types,
            configs,
            heads,
            biased,
        )
        for i in range(finished):
            m = ended_at[i]
            _fill(z, ends, need, have, m, servers, np.int64(_position(0, m, block)), count, group)
        weighted = 0.0
        for j in range(count):
            counts[_PER_TYPE + j] += backlog[j]
            weighted += direction[j] * backlog[j]
        weighted_sum += weighted
        parallel_sum += weighted * weighted
        if slot % norm_interval == 0:
            squares = 0
            for j in range(count):
                first, position = 0, j * group
                while first < servers:
                    squares += _squares(z, np.uint64(position), min(STRIDE, servers - first))
                    position += block
                    first += STRIDE
            norm_slots += 1
            perpendicular_sum += squares - weighted * weighted / servers
        if interval > 0 and slot % interval == 0 and taken < samples.size:
            samples[taken] = weighted / math.sqrt(servers)
            taken += 1
        numbers[SLOT] = slot + 1
        done += 1
    totals[SLOTS] += done
    totals[WEIGHTED] += weighted_sum / math.sqrt(servers)
    totals[PARALLEL] += parallel_sum / servers
    totals[NORM_SLOTS] += norm_slots
    totals[PERPENDICULAR] += perpendicular_sum
    totals[RESPONSE] += counts[_RESPONSE]
    totals[COMPLETIONS] += counts[_COMPLETIONS]
    totals[ARRIVALS] += counts[_ARRIVALS]
    for j in range(count):
        totals[ARRIVALS + 1 + j] += counts[_PER_TYPE + j]
        totals[ARRIVALS + 1 + count + j] += counts[_PER_TYPE + count + j]
        totals[ARRIVALS + 1 + 2 * count + j] += counts[_PER_TYPE + count + j] - backlog[j]
    return done


class Cluster:
    """A cluster at some slot, empty at first. `words` (uint64, shape (4,)) starts its random numbers."""

    def __init__(self, parameters: ClusterParameters, words: NDArray[np.uint64]) -> None:
        self.parameters = p = parameters
        servers, types = p.servers, p.types
        reach = p.reach()
        if max(reach) > REACH[-1]:
            raise ValueError(
                f"configurations: must serve at most {REACH[-1]} jobs of a type at a server, not {max(reach)}"
            )
        room = next(x for x in REACH if x >= max(reach))
        count = max(len(own) for own in p.configurations)
        blocks = -(-servers // STRIDE)
        self._group = _JOBS + room
        rows = types * self._group
        biased = len({len(own) for own in p.configurations}) > 1
        width = types + biased  # rows of a configuration
        self._block = (rows + count * width + 1) * STRIDE
        self._most = max(law.values[-1] for law in p.arrivals) if p.level == "job" else 0
        heaviest = max(1, *(sum(s) for own in p.configurations for s in own))
        lanes = np.zeros((blocks, self._block // STRIDE, STRIDE), np.int16 if heaviest <= NARROW else np.int32)
        for j in range(types):
            lanes[:, j * self._group + _JOBS : (j + 1) * self._group] = _NO_JOB
        bits = 1 << np.arange(blocks * STRIDE) % 16
        bits[servers:] = 0
        lanes[:, -1] = bits.astype(lanes.dtype).reshape(blocks, STRIDE)
        configurations = np.zeros((count, width, blocks * STRIDE), lanes.dtype)
        first = 0
        for number, own in zip(p.counts, p.configurations, strict=True):
            configurations[: len(own), :types, first : first + number] = np.array(own)[:, :, None]
            configurations[len(own) :, types:, first : first + number] = -1  # no such configuration: it never wins
            first += number
        lanes[:, rows:-1] = configurations.reshape(-1, blocks, STRIDE).swapaxes(0, 1)
        if count == 1 and p.scheduling == "maxweight":
            lanes[:, 1 : rows : self._group] = lanes[:, rows:-1]
        routing = {"jsq": _JSQ, "random": _RANDOM, "power_of_two_with_replacement": _WITH_REPLACEMENT}
        have, need = p.integer_resources()
        sizes = list(dict.fromkeys(p.sizes))  # types of the same law share its table, which then stays in the cache
        self._fixed = (
            np.array(reach, np.int64), np.array(p.c, np.float64), *tables(p.arrivals), *tables(sizes),
            np.array([sizes.index(law) for law in p.sizes], np.int64),
            np.array(need, np.int64).reshape(types, -1),
            np.array([have[k] for k in p.classes], np.int64).reshape(servers, -1),
            servers, routing.get(p.routing, _POWER_OF_D), p.draws, SCHEDULING.index(p.scheduling),
            heaviest, p.norm_interval, _THIRD, _EXCESS, count, self._most, self._block, p.level == "job",
            (0,) * types, (0,) * min(count, UNROLLED + 1), (0,) * room, (0,) * biased,
        )  # fmt: skip
        random_words = np.zeros(types + blocks * STRIDE // 8, np.uint64)
        self._state = State(
            np.array(words, np.uint64),
            np.zeros(3, np.int64),
            self._hide(lanes),
            np.zeros(types, np.int64),
            np.zeros(types, lanes.dtype),
            random_words,
            random_words.view(np.uint8),
            np.arange(servers, dtype=np.int64),
            np.zeros((types * servers, 2), np.int64),
            np.zeros((types * servers, 1), np.int64),
            np.zeros(3 + 2 * types, np.int64),
            np.zeros(types * servers, np.int64),
        )
        if p.level == "job":
            self._grow(max(16, self._most))
        self._run(0, np.zeros(len(columns(p))), np.zeros(0), 0)  # the schedule of the first slot

    def _grow(self, room: int) -> None:
        """Room for so many jobs in each queue, or more; results do not depend on it."""
        s = self._state
        queues, old = s.ring.shape
        ring = np.zeros((queues, 1 << (room - 1).bit_length()), np.int64)
        ring[:, :old] = np.take_along_axis(s.ring, s.ends[:, HEAD, None] + np.arange(old) & old - 1, axis=1)
        s.ends[:, TAIL] -= s.ends[:, HEAD]
        s.ends[:, HEAD] = 0
        self._state = s._replace(ring=ring)

    def _hide(self, lanes: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
        """Rows of blocks in one array, whose rows begin at cache lines; nobody goes to a server beyond the last."""
        beyond = self.parameters.servers - (len(lanes) - 1) * STRIDE
        lanes[-1, : self.parameters.types * self._group : self._group, beyond:] = np.iinfo(lanes.dtype).max
        memory = np.empty(lanes.size + 64, lanes.dtype)
        shift = -memory.ctypes.data % 64 // lanes.itemsize
        memory[shift : shift + lanes.size] = lanes.reshape(-1)
        return memory[shift : shift + lanes.size]

    def _run(self, slots: int, totals: NDArray[np.float64], samples: NDArray[np.float64], interval: int) -> int:
        if self._state.lanes.dtype == np.int32:
            return _advance(*self._state, *self._fixed, slots, totals, samples, interval)
        before, sums = State._make(x.copy() for x in self._state), totals.copy()
        done = _advance(*self._state, *self._fixed, slots, totals, samples, interval)
        if done >= 0:
            return done
        totals[:] = sums
        self._state = before._replace(
            lanes=self._hide(before.lanes.astype(np.int32).reshape(-1, self._block // STRIDE, STRIDE)),
            least=before.least.astype(np.int32),
            random_bytes=before.random_words.view(np.uint8),
        )
        return self._run(slots, totals, samples, interval)

    @property
    def slot(self) -> int:
        """Slots simulated so far."""
        return int(self._state.numbers[SLOT])

    def backlogs(self) -> NDArray[np.int64]:
        """q_{j,m}, shape (types, servers), in slots of work."""
        return self._rows(0)

    def schedules(self) -> NDArray[np.int64]:
        """The configuration that each server uses next, shape (types, servers)."""
        return self._rows(1)

    def _rows(self, row: int) -> NDArray[np.int64]:
        p = self.parameters
        lanes = self._state.lanes.reshape(-1, self._block // STRIDE, STRIDE)
        return np.array(
            [lanes[:, j * self._group + row, :].reshape(-1)[: p.servers] for j in range(p.types)], dtype=np.int64
        )

    def jobs(self, j: int, m: int) -> list[tuple[int, int]]:
        """Remaining size and arrival slot of the type-j jobs at server m (both from 0), in order of arrival."""
        s, queue, reach = self._state, j * self.parameters.servers + m, self.parameters.reach()[j]
        block, lane = divmod(m, STRIDE)
        position = block * self._block + (j * self._group + _JOBS) * STRIDE + lane
        head, tail = s.ends[queue].tolist()
        found = []
        for k in range(tail - head):
            job = int(s.ring[queue, head + k & s.ring.shape[1] - 1])
            remaining = job & 0x7FFFFFFF
            if k < reach:
                remaining = int(s.lanes[position + k * STRIDE])
            if k == 0 and reach == 1:
                remaining = int(s.lanes[position - _JOBS * STRIDE]) - remaining
            found.append((remaining, job >> 32))
        return found

    def advance(
        self, slots: int, totals: NDArray[np.float64] | None = None, sample_interval: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Simulate so many slots more and add to the totals (float64, by `columns`; new ones if None).

        Returns the totals, and <bold c, q> at the end of every `sample_interval`-th slot (0: none). A warm-up is a
        call whose totals are thrown away, batches are calls with totals of their own. Raises ValueError when a backlog
        leaves the range of 32-bit weights, which only an unstable system reaches.
        """
        if slots < 0:
            raise ValueError(f"slots = {slots}: must be >= 0")
        if totals is None:
            totals = np.zeros(len(columns(self.parameters)))
        samples: list[NDArray[np.float64]] = []
        left = slots
        while left > 0:
            room = np.zeros(left // sample_interval + 1 if sample_interval else 0)
            start = self.slot
            done = self._run(left, totals, room, sample_interval)
            if done < 0:
                raise ValueError(f"backlog of job type {-done}: left the range of 32-bit weights in slot {self.slot}")
            if sample_interval:
                taken = -(-(start + done) // sample_interval) - -(-start // sample_interval)
                samples.append(room[:taken])
            left -= done
            if left > 0:
                self._grow(2 * self._state.ring.shape[1])
        return totals, np.concatenate(samples) if samples else np.zeros(0)


def simulate(
    parameters: ClusterParameters, words: NDArray[np.uint64], warm_up: int, slots: int, batches: int = 1
) -> NDArray[np.float64]:
    """Totals of consecutive batches of slots // batches slots each after a warm-up, shape (batches, columns)."""
    cluster = Cluster(parameters, words)
    cluster.advance(warm_up)
    return np.stack([cluster.advance(slots // batches)[0] for _ in range(batches)])


def identical(servers: int, configurations: Sequence[Sequence[int]]) -> dict[str, tuple]:
    """The arguments `counts` and `configurations` of `ClusterParameters` for identical servers."""
    return {"counts": (servers,), "configurations": (tuple(tuple(int(x) for x in s) for s in configurations),)}
