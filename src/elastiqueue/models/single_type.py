"""Routing of one job type to identical servers that offer random services: definition, compiled simulator, totals.

The model of Maguluri, Srikant, Ying (2012), Section IV. M servers, one queue of work each. In slot t

    all arrivals a(t) go to one server, chosen on q(t); every server m offers an independent service S_m(t)
    q_m(t+1) = q_m(t) + a_m(t) - S_m(t) + u_m(t),    u_m = max(S_m - q_m - a_m, 0), the unused service

Routing: `jsq`, the least q_m; `power_of_d`, the least of d servers drawn without replacement (`power_of_two`: d = 2),
`power_of_two_with_replacement`; `random`. Of several least ones the first is taken: servers are alike, so that the
distribution of the totals does not depend on how ties are broken.

Simulated is the number of servers that offer any service, Binomial(M, P(S > 0)), then which ones (the first of a random
order), then what each of them offers: in the settings of the paper one or two draws per slot in place of M.

Every routing keeps sum_m q_m at or above the pooled queue x' = (x + a - sum_m S_m)^+, simulated beside it with the
same draws: a lower bound path by path.

Totals (sums over slots of the state at the end of a slot): total = sum_m q_m; parallel_sq = total^2 / M, the squared
length of the projection of q on (1, ..., 1); perpendicular_sq = |q|^2 - parallel_sq; pooled = x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.sampling.discrete import (
    FiniteDistribution,
    Tables,
    below,
    binomial,
    deterministic,
    draw,
    tables,
)  # fmt: skip
from elastiqueue.statistics.estimates import Ratio

NOTHING = deterministic(0)
_JSQ, _POWER_OF_D, _WITH_REPLACEMENT, _RANDOM = range(4)

MAX_BACKLOG = math.isqrt(2**63 - 1)  # of all servers: its square fits into 64 bits
# Positions in the totals; the names are the columns.
SLOTS, TOTAL, PARALLEL, PERPENDICULAR, POOLED, ARRIVED, SERVED, UNUSED = range(8)
COLUMNS = ("slots", "total", "parallel_sq", "perpendicular_sq", "pooled", "arrived", "served", "unused")


@dataclass(frozen=True)
class SingleTypeParameters:
    """`servers` identical servers; distributions of the work that arrives in a slot and of one server's service."""

    servers: int
    arrivals: FiniteDistribution
    service: FiniteDistribution
    routing: str = "jsq"
    d: int = 2

    def __post_init__(self) -> None:
        if self.routing == "power_of_two" and self.servers < 2:
            raise ValueError("servers = 1: must be at least 2 with routing = power_of_two")
        if self.routing == "power_of_d" and not 1 <= self.d <= self.servers:
            raise ValueError(f"d = {self.d}: must be between 1 and the number of servers, {self.servers}")

    @property
    def draws(self) -> int:
        """How many servers routing draws (0: it looks at all)."""
        return {"jsq": 0, "power_of_d": self.d, "random": 1}.get(self.routing, 2)


def columns(parameters: SingleTypeParameters) -> tuple[str, ...]:
    """Names of the totals, in order."""
    return COLUMNS


def metrics(parameters: SingleTypeParameters) -> dict[str, Ratio]:
    """The metrics as ratios of totals, in units of work."""
    slots = {"slots": 1.0}
    return {
        "total_backlog": Ratio({"total": 1.0}, slots),
        "parallel_sq": Ratio({"parallel_sq": 1.0}, slots, skewed=True),
        "perpendicular_sq": Ratio({"perpendicular_sq": 1.0}, slots, skewed=True),
        "pooled_backlog": Ratio({"pooled": 1.0}, slots),
        "excess_backlog": Ratio({"total": 1.0, "pooled": -1.0}, slots),
        "unused_service": Ratio({"unused": 1.0}, slots),
        "drift": Ratio({"arrived": 1.0, "served": -1.0}, slots),
    }


def _tables(parameters: SingleTypeParameters) -> Tables:
    """Of the work that arrives, of how many servers offer any service, and of the service of one that does."""
    kinds = [(v, p) for v, p in zip(parameters.service.values, parameters.service.probabilities, strict=True) if v > 0]
    share = min(math.fsum(p for _, p in kinds), 1.0)
    service = FiniteDistribution(tuple(v for v, _ in kinds), tuple(p / share for _, p in kinds)) if kinds else NOTHING
    return tables([parameters.arrivals, binomial(parameters.servers, parameters.servers * share), service])


class Reference:
    """The model in plain Python, with the same random words in the same order as the compiled simulator."""

    def __init__(self, parameters: SingleTypeParameters, words: NDArray[np.uint64]) -> None:
        self.p = parameters
        self.words = words.copy()
        self.q = [0] * parameters.servers
        self.pooled = 0
        self.order = list(range(parameters.servers))
        self.tables = _tables(parameters)
        self.totals = dict.fromkeys(COLUMNS, 0.0)

    def _route(self) -> int:
        servers, q = self.p.servers, self.q
        if self.p.routing == "random":
            return int(below(servers, self.words))
        if self.p.routing == "power_of_two_with_replacement":
            return min([int(below(servers, self.words)) for _ in range(2)], key=lambda m: q[m])
        if self.p.routing == "jsq":
            return min(range(servers), key=lambda m: q[m])
        return min([self._next(i) for i in range(self.p.draws)], key=lambda m: q[m])

    def _next(self, i: int) -> int:
        """Server i of a random order, of which those before are drawn already."""
        k = i + int(below(self.p.servers - i, self.words))
        self.order[i], self.order[k] = self.order[k], self.order[i]
        return self.order[i]

    def advance(self, slots: int) -> dict[str, float]:
        """Go on for so many slots; returns the totals since the beginning."""
        totals = self.totals
        for _ in range(slots):
            arrived = int(draw(*self.tables, 0, self.words))
            if arrived > 0:
                self.q[self._route()] += arrived
            offered, serving = [0] * self.p.servers, int(draw(*self.tables, 1, self.words))
            for i in range(serving):
                m = i if serving == self.p.servers else self._next(i)
                offered[m] = int(draw(*self.tables, 2, self.words))
            served = [min(s, q) for s, q in zip(offered, self.q, strict=True)]
            self.q = [q - s for q, s in zip(self.q, served, strict=True)]
            self.pooled = max(self.pooled + arrived - sum(offered), 0)
            total = sum(self.q)
            totals["slots"] += 1
            totals["total"] += total
            totals["parallel_sq"] += total * total / self.p.servers
            totals["perpendicular_sq"] += sum(q * q for q in self.q) - total * total / self.p.servers
            totals["pooled"] += self.pooled
            totals["arrived"] += arrived
            totals["served"] += sum(served)
            totals["unused"] += sum(offered) - sum(served)
        return totals


# _nrt=False: without it every function called counts references to its arrays, by atomic operations that cost far more
# than the draws themselves. forceinline: a call would pass each array as seven words.
@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _next(i, order, words):
    """Server i of a random order, of which those before are drawn already."""
    k = i + below(order.size - i, words)
    m = order[k]
    order[k] = order[i]
    order[i] = m
    return m


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def _route(q, order, routing, draws, words):
    """The server for the arrivals of a slot."""
    best = np.int64(0)
    if routing == _JSQ:
        for m in range(1, q.size):
            best = m if q[m] < q[best] else best
        return best
    for i in range(draws):
        m = _next(i, order, words) if routing == _POWER_OF_D else below(q.size, words)
        if i == 0 or q[m] < q[best]:
            best = m
    return best


@njit(cache=True, boundscheck=False, error_model="numpy", _nrt=False)
def _advance(q, pooled, order, words, cdf, values, guide, start, routing, draws, slots, totals):
    """Go on for `slots` slots, adding to totals; pooled has shape (1,).

    Returns whether the total backlog stayed at most MAX_BACKLOG, so that the sum of squares fits into 64 bits.
    """
    servers, x = q.size, pooled[0]
    total = squares = 0
    for m in range(servers):
        total += q[m]
        squares += q[m] * q[m]
    for _ in range(slots):
        arrived = draw(cdf, values, guide, start, 0, words)
        if total + arrived > MAX_BACKLOG:
            return False
        if arrived > 0:
            m = _route(q, order, routing, draws, words)
            squares += arrived * (2 * q[m] + arrived)
            q[m] += arrived
        serving = draw(cdf, values, guide, start, 1, words)
        offered = served = 0
        if serving == servers and start[3] - start[2] == 1:  # no draws: a loop that can be vectorised
            service = values[start[2]]
            offered = servers * service
            squares = 0
            for m in range(servers):
                used = min(service, q[m])
                q[m] -= used
                served += used
                squares += q[m] * q[m]
        else:
            for i in range(serving):
                m = i if serving == servers else _next(i, order, words)
                service = draw(cdf, values, guide, start, 2, words)
                used = min(service, q[m])
                squares -= used * (2 * q[m] - used)
                q[m] -= used
                offered += service
                served += used
        total += arrived - served
        x = max(x + arrived - offered, 0)
        parallel = np.float64(total) * total / servers
        totals[TOTAL] += total
        totals[PARALLEL] += parallel
        totals[PERPENDICULAR] += squares - parallel
        totals[POOLED] += x
        totals[ARRIVED] += arrived
        totals[SERVED] += served
        totals[UNUSED] += offered - served
    totals[SLOTS] += slots
    pooled[0] = x
    return True


class SingleType:
    """The system at some slot, empty at first. `words` (uint64, shape (4,)) starts its random numbers."""

    def __init__(self, parameters: SingleTypeParameters, words: NDArray[np.uint64]) -> None:
        self.parameters = parameters
        self.q = np.zeros(parameters.servers, np.int64)
        self._pooled = np.zeros(1, np.int64)
        self._order = np.arange(parameters.servers, dtype=np.int64)
        self._words = np.array(words, np.uint64)
        self._tables = _tables(parameters)
        codes = {"jsq": _JSQ, "random": _RANDOM, "power_of_two_with_replacement": _WITH_REPLACEMENT}
        self._routing = codes.get(parameters.routing, _POWER_OF_D)

    @property
    def pooled(self) -> int:
        """The pooled queue x."""
        return int(self._pooled[0])

    def advance(self, slots: int, totals: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Simulate so many slots more and add to the totals (float64, by `COLUMNS`; new ones if None).

        Raises ValueError where the total backlog exceeds `MAX_BACKLOG`, as only that of an unstable system does.
        """
        if totals is None:
            totals = np.zeros(len(COLUMNS))
        p = self.parameters
        state = (self.q, self._pooled, self._order, self._words, *self._tables)
        if not _advance(*state, self._routing, p.draws, slots, totals):
            raise ValueError(
                f"backlog: is above {MAX_BACKLOG:,}, the largest total that can be simulated; is the load stable?"
            )
        return totals
