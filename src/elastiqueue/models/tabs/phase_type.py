"""TABS and JIQ with phase-type service: the aggregated Markov chain, and its compiled simulators.

As `elastiqueue.models.tabs.exponential`, with the phase of the service in progress in the state (paper A, Section 4):

    S_ij  servers with i tasks, the one in service in phase j     Q_i = sum_(k >= i) sum_j S_kj     D0, D1, U as there

    event      rate                 effect
    arrival    lambda N             U > 0: an idle-on server starts a service, in phase j with probability r_j.
                                    U = 0: to a uniformly random busy server, of kind (i, j) with chance S_ij / Q_1.
    phase      gamma_k r_kj S_ik    (i, k) -> (i, j)
    departure  gamma_k r_k0 S_ik    (i, k) -> (i - 1, j) with probability r_j; i = 1 leaves it idle-on
    standby, setup                  as there

The wait that an arrival expects, if its server holds i tasks and is in phase j, is i - 1 mean services and the mean
residual m_j of the phase (`PhaseType.residual`).
The compiled simulators are in `elastiqueue.models.tabs.phase_blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Replication, replicate
from elastiqueue.models.tabs import exponential as tabs
from elastiqueue.models.tabs import phase_blocks
from elastiqueue.models.tabs.exponential import (
    components,
    initial_counts,
    metrics,
    rates,
    signals,
    tail_length,
)
from elastiqueue.models.tabs.phase_blocks import ARRIVALS, FOUND, LOST_FULL, LOST_OFF, MET, PHASES
from elastiqueue.sampling.phases import kernel_kinds, kernel_law, largest_rise, phase_counts
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.theory.chains import Chain, State, Transition

__all__ = ["chain", "columns", "components", "events", "metrics", "signals", "simulate"]


def columns(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the totals: those of exponential service, and the changes of phase within a service."""
    return (*tabs.columns(scenario), "phase_changes")


def events(totals: dict[str, float]) -> float:
    """Number of real events behind the totals."""
    return tabs.events(totals) + totals["phase_changes"]


def chain(scenario: ServiceScenario, level: int | None = None) -> Chain:
    """The chain in readable form, state (S_11, ..., S_1K, S_21, ..., S_BK, D0, D1); unlimited: cut at `level` tasks."""
    n, lam, law = scenario.servers, scenario.arrival.at(0.0), scenario.phase_type
    mu, nu = rates(scenario)
    size = scenario.buffer if scenario.buffer is not None else level
    if size is None:
        raise ValueError("level: is missing; an unlimited buffer must be cut for the exact solver")
    phases, residual = law.phases, law.residual()
    kinds = [(i, j) for i in range(1, size + 1) for j in range(phases)]

    def place(i: int, j: int) -> int:
        return (i - 1) * phases + j

    def moved(servers: State, source: tuple[int, int] | None, target: tuple[int, int] | None) -> State:
        after = list(servers)
        if source is not None:
            after[place(*source)] -= 1
        if target is not None:
            after[place(*target)] += 1
        return tuple(after)

    def transitions(state: State) -> Iterator[Transition]:
        servers, d0, d1 = state[:-2], state[-2], state[-1]
        busy = sum(servers)
        idle = n - busy - d0 - d1
        arrival, starts = lam * n, 1 if d0 > 0 else 0
        begun = (d0 - starts, d1 + starts)
        if idle > 0:
            for j, probability in enumerate(law.initial):
                if probability > 0:
                    yield arrival * probability, (*moved(servers, None, (1, j)), d0, d1), {"arrivals": 1, "accepted": 1}
        elif busy == 0:
            yield arrival, (*servers, *begun), {"arrivals": 1, "lost_off": 1, "setups_started": starts}
        for i, j in kinds:
            number = servers[place(i, j)]
            if number == 0:
                continue
            if idle == 0:
                counts = {"arrivals": 1, "setups_started": starts}
                if i == size:
                    yield arrival * number / busy, (*servers, *begun), {**counts, "lost_full": 1}
                else:
                    counts |= {"accepted": 1, "waited": 1}
                    after = moved(servers, (i, j), (i + 1, j))
                    yield arrival * number / busy, (*after, *begun), {**counts, "found": i - 1 + residual[j]}
            for k, probability in enumerate(law.routing[j]):
                if probability > 0:
                    rate = law.rates[j] * probability * number
                    yield rate, (*moved(servers, (i, j), (i, k)), d0, d1), {"phase_changes": 1}
            ends = law.rates[j] * law.exit[j] * number
            if ends > 0 and i == 1:
                yield ends, (*moved(servers, (1, j), None), d0, d1), {"green": 1}
            elif ends > 0:
                for k, probability in enumerate(law.initial):
                    if probability > 0:
                        yield ends * probability, (*moved(servers, (i, j), (i - 1, k)), d0, d1), {"shortened": 1}
        if idle > 0 and mu > 0:
            yield mu * idle, (*servers, d0 + 1, d1), {"red": 1}
        if d1 > 0:
            yield nu * d1, (*servers, d0, d1 - 1), {"setups": 1}

    def occupancy(state: State) -> dict[str, float]:
        servers, d0, d1 = state[:-2], state[-2], state[-1]
        tail = [sum(servers[place(i, 0) :]) for i in range(1, size + 1)]
        found = {f"q_{i}": float(q) for i, q in enumerate(tail[: tail_length(scenario)], start=1)}
        return {"waiting": sum(tail[1:]), "idle_on": n - tail[0] - d0 - d1, "idle_off": d0, "setup": d1, **found}

    busy, off, setup, _ = initial_counts(scenario)
    return Chain((*phase_counts(busy, law), *[0] * ((size - 1) * phases), off, setup), transitions, occupancy)


class _System:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64], direct: bool) -> None:
        self.scenario, self.words = scenario, words
        service = scenario.phase_type
        self.worth_it = math.inf if direct or not scenario.arrival.constant else phase_blocks.WORTH_IT
        self.law, self.kinds = kernel_law(service), kernel_kinds(service)
        mu, nu = rates(scenario)
        self.delta = max(largest_rise(service, (nu, mu - nu), mu), 0.001)  # not 0, by which a block divides
        busy, d0, d1, idle = initial_counts(scenario)
        self.tail, phases = tail_length(scenario), service.phases
        size = self.tail + 2  # row 0, one row per queue length, and one beyond that stays 0
        self.servers, self.queue = np.zeros((size, phases + 1), np.int64), np.zeros(size, np.int64)
        self.servers[1, :phases] = phase_counts(busy, service)
        self.queue[1] = busy
        self.others = np.array([idle, d0, d1, 1], np.int64)
        self.counts = np.zeros(MET + phases, np.int64)
        self.integrals = np.zeros(size + 2)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, arrival = self.scenario.servers, self.scenario.arrival
        times, steps, omega = np.array(arrival.times), np.array(arrival.rates), 2 * math.pi / arrival.period
        buffer = np.iinfo(np.int64).max if self.scenario.buffer is None else self.scenario.buffer
        path = np.empty((ends.size, 4 + self.tail))
        for row, end in enumerate(ends):
            self.servers, self.queue, self.integrals = phase_blocks.advance(
                n, times, steps, arrival.amplitude, omega, *rates(self.scenario), self.delta, buffer, self.law,
                self.kinds, self.worth_it, start, end, self.servers, self.queue, self.others, self.words, self.counts,
                self.integrals,
            )  # fmt: skip
            start = end
            path[row] = [*self.others[:3], self.queue[1:].sum(), *self.queue[1 : self.tail + 1]]
        return path / n

    def totals(self) -> list[float]:
        counts, integrals = self.counts, self.integrals
        met = zip(self.scenario.phase_type.residual(), counts[MET:], strict=True)
        found = math.fsum([counts[FOUND], *(m * int(c) for m, c in met)])
        accepted = counts[ARRIVALS] - counts[LOST_OFF] - counts[LOST_FULL]
        numbers = [*counts[:FOUND], found, *counts[FOUND + 1 : PHASES]]
        return [accepted, *numbers, math.fsum(integrals[4:]), *integrals[: 3 + self.tail], counts[PHASES]]

    def reset(self) -> None:
        self.counts[:] = 0
        self.integrals[:] = 0.0


def simulate(
    scenario: ServiceScenario,
    words: NDArray[np.uint64],
    edges: Sequence[float],
    grid: NDArray[np.float64],
    direct: bool = False,
) -> Replication:
    """One replication; arguments and result as `elastiqueue.models.tabs.exponential.simulate`."""
    return replicate(_System(scenario, words, direct), edges, grid)
