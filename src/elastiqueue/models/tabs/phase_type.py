"""TABS and JIQ with phase-type service by their accelerated kernel, `models.tabs.phase_blocks`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Batch, batch
from elastiqueue.models.tabs import phase_blocks
from elastiqueue.models.tabs.definition import counts_at_start, parameters, tail_length
from elastiqueue.models.tabs.phase_blocks import ARRIVALS, FOUND, LOST_FULL, LOST_OFF, MET, PHASES
from elastiqueue.sampling.phases import kernel_kinds, kernel_service, largest_rise, phase_counts
from elastiqueue.scenarios.autoscaling import ServiceScenario


def applies(scenario: ServiceScenario) -> bool:
    """Service not exponential, no setup aborted, and enough events of a block that are looked up.

    While lambda N servers are busy the total rate is lambda N times 1 and the phases of a service; of it the block does
    not count on `room` servers of each phase, and its bound lies as many times delta higher.
    """
    service = scenario.phase_type
    if scenario.aborts or service.is_exponential:
        return False
    total = scenario.servers * scenario.arrival.mean() * (1 + sum(service.visits()))
    left_out = phase_blocks.room_of(total) * (_delta(scenario) + sum(service.rates))
    return total >= phase_blocks.MIN_RATIO * left_out


def _delta(scenario: ServiceScenario) -> float:
    """Most that one event adds to the total rate; not 0, by which a block divides."""
    p = parameters(scenario)
    return max(largest_rise(scenario.phase_type, (p.setup_rate, p.standby_rate - p.setup_rate), p.standby_rate), 0.001)


class Kernel:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64]) -> None:
        self.scenario, self.words, self.p = scenario, words, parameters(scenario)
        service = scenario.phase_type
        self.service, self.kinds = kernel_service(service), kernel_kinds(service)
        self.delta = _delta(scenario)
        idle, d0, d1, busy = counts_at_start(scenario)
        self.tail, phases = tail_length(scenario), service.phases
        size = self.tail + 2  # row 0, one row per queue length, and one beyond that stays 0
        self.servers, self.queue = np.zeros((size, phases + 1), np.int64), np.zeros(size, np.int64)
        self.servers[1, :phases] = phase_counts(busy, service)
        self.queue[1] = busy
        self.others = np.array([idle, d0, d1, 1], np.int64)
        self.counts = np.zeros(MET + phases * (1 + self.p.levels), np.int64)
        self.integrals = np.zeros(size + 2)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, arrival = self.scenario.servers, self.scenario.arrival
        times, steps, omega = np.array(arrival.times), np.array(arrival.rates), 2 * math.pi / arrival.period
        buffer = np.iinfo(np.int64).max if self.scenario.buffer is None else self.scenario.buffer
        path = np.empty((ends.size, 4 + self.tail))
        for row, end in enumerate(ends):
            self.servers, self.queue, self.integrals = phase_blocks.advance(
                n, times, steps, arrival.amplitude, omega, self.p.standby_rate, self.p.setup_rate, self.delta, buffer,
                self.service, self.kinds, start, end, self.servers, self.queue, self.others, self.words,
                self.counts, self.integrals,
            )  # fmt: skip
            start = end
            path[row] = [*self.others[:3], self.queue[1:].sum(), *self.queue[1 : self.tail + 1]]
        return path / n

    def states(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `follow`: the states of the definition, shape (T, S)."""
        rows: list[NDArray[np.int64]] = []
        for end in ends:
            self.follow(start, np.array([end]))
            start, in_phases = end, self.servers[:, :-1]
            rows.append(np.concatenate([self.others[:3], in_phases[0] + in_phases[1], in_phases[1:].ravel()]))
        return np.array([np.pad(row, (0, rows[-1].size - row.size)) for row in rows], np.int64)

    def totals(self) -> list[float]:
        counts, integrals, beyond = self.counts, self.integrals, MET + len(self.p.gammas)
        met = zip(self.scenario.phase_type.residual(), counts[MET:beyond], strict=True)
        found = math.fsum([counts[FOUND], *(m * int(c) for m, c in met)])
        accepted = counts[ARRIVALS] - counts[LOST_OFF] - counts[LOST_FULL]
        numbers = [*counts[:FOUND], found, *counts[FOUND + 1 : PHASES + 1], *counts[beyond:]]
        return [accepted, *numbers, math.fsum(integrals[4:]), *integrals[: 3 + self.tail]]

    def reset(self) -> None:
        self.counts[:] = 0
        self.integrals[:] = 0.0


def simulate(
    scenario: ServiceScenario, words: NDArray[np.uint64], edges: Sequence[float], grid: NDArray[np.float64]
) -> Batch:
    """Replications; arguments and result as `models.definitions.DefinedModel.simulate_batch`."""
    return batch((Kernel(scenario, one) for one in words), edges, grid)
