"""The wait of one task in a queue that is served in the order of arrival, exactly, by following it.

A task that comes while the chain goes from x to y, and then is the k-th that waits, sees the chain go on from (y, k):
a transition after which m fewer tasks wait takes it to place k - m, and at 0 or below its service starts; what comes
later moves the chain, but not its place. By PASTA (x, k) has at first the weight of the flow into it. Uniformised at a
rate G above all exit rates, with s_n the weight that has not started after n steps,

    P(W > t) = sum_n Poisson(n; G t) s_n,

and the response time is the same with the phases of a service behind the wait.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sparse

from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.statistics.waiting import poisson, solved
from elastiqueue.theory.stationary_law import StateSpace, stationary_law

MAX_STEPS = 200_000
MAX_PLACES = 5_000_000  # pairs of a state and a place in its queue


class TaggedTask:
    """Tails and quantiles of wait and response time of a task that is accepted, in mean service times.

    Parameters
    ----------
    space : of the chain. queue : the component of its states that counts the tasks that wait.
    accepted : rate of the tasks that come and are not lost. service : of mean 1.
    """

    def __init__(self, space: StateSpace, queue: int, accepted: float, service: PhaseType) -> None:
        waiting = np.array([state[queue] for state in space.states])
        first = np.concatenate([[0], np.cumsum(waiting)])  # of the places of each state
        if first[-1] > MAX_PLACES:
            raise ValueError(f"states with places = {first[-1]}: at most {MAX_PLACES} are allowed for waits")
        flows = sparse.coo_matrix(space.generator)
        kept = flows.row != flows.col
        source, target, rate = flows.row[kept], flows.col[kept], flows.data[kept]
        change = waiting[target] - waiting[source]
        size, phases = int(first[-1]), service.phases
        started = size + np.arange(phases)  # behind the places: a service in each phase

        entry = np.repeat(np.arange(len(rate)), waiting[source])
        place = np.arange(len(entry)) - np.repeat(np.cumsum(waiting[source]) - waiting[source], waiting[source]) + 1
        after = place + np.minimum(change, 0)[entry]
        begin, end, speed = first[source][entry] + place - 1, first[target][entry] + after - 1, rate[entry]
        on, off = after > 0, after <= 0
        rows, columns, values = [begin[on]], [end[on]], [speed[on]]
        for phase, chance in zip(started, service.initial, strict=True):
            rows.append(begin[off])
            columns.append(np.full(off.sum(), phase))
            values.append(chance * speed[off])
        for k, (gamma, row) in enumerate(zip(service.rates, service.routing, strict=True)):
            rows.append(np.full(phases, size + k))
            columns.append(started)
            values.append(gamma * np.array(row))
        exits = np.concatenate([np.repeat(-space.generator.diagonal(), waiting), service.rates])
        self.rate = float(exits.max())
        moves = sparse.csr_matrix(
            (np.concatenate(values), (np.concatenate(columns), np.concatenate(rows))), shape=(len(exits), len(exits))
        )
        self._step = moves / self.rate + sparse.diags(1 - exits / self.rate)

        weights = np.zeros(len(exits))
        inflow = stationary_law(space.generator)[source] * rate / accepted
        for come in range(1, int(change.max(initial=0)) + 1):
            several = change >= come
            np.add.at(weights, first[target][several] + waiting[target][several] - come, inflow[several])
        weights[size:] = (1.0 - weights.sum()) * np.array(service.initial)
        self._size, self._weights = size, weights
        self._left: list[tuple[float, float]] = []  # that wait, and that are there, after n steps

    def _after(self, n: int) -> tuple[float, float]:
        while len(self._left) <= n:
            waiting = float(self._weights[: self._size].sum())
            self._left.append((waiting, float(self._weights.sum())))
            self._weights = np.asarray(self._step @ self._weights)
        return self._left[n]

    def tail(self, time: float, response: bool) -> float:
        """P(W > time), or of the response time."""
        if self.rate * time > MAX_STEPS:
            return math.nan
        first, chances = poisson(self.rate * time)
        return math.fsum(chance * self._after(n)[response] for n, chance in enumerate(chances, first))

    def quantile(self, probability: float, response: bool) -> float:
        """The time that wait or response time exceed with 1 - probability."""
        return solved(lambda time: self.tail(time, response), 1.0 - probability, MAX_STEPS / self.rate)
