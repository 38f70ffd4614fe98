"""TABS and JIQ with exponential service by their accelerated kernel, `models.tabs.blocks`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Batch, overload
from elastiqueue.models.quantities import blocks_pay
from elastiqueue.models.tabs.blocks import (
    ARRIVALS,
    COUNTS,
    DUE,
    LOST_FULL,
    LOST_OFF,
    NEVER,
    SAMPLES,
    STRIDE,
    replications,
    stretches,
)
from elastiqueue.models.tabs.definition import counts_at_start, parameters, tail_length
from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.rng import uniform
from elastiqueue.scenarios.autoscaling import ServiceScenario


def applies(scenario: ServiceScenario) -> bool:
    """Exponential service, no setup aborted, where blocks pay."""
    plain = scenario.phase_type.is_exponential and not scenario.aborts
    return plain and blocks_pay(scenario, parameters(scenario))


def simulate(
    scenario: ServiceScenario, words: NDArray[np.uint64], edges: Sequence[float], grid: NDArray[np.float64]
) -> Batch:
    """Replications by one compiled call; arguments and result as `models.definitions.DefinedModel.simulate_batch`."""
    n, arrival, tail, p = scenario.servers, scenario.arrival, tail_length(scenario), parameters(scenario)
    if raised := overload(scenario, edges[0]):
        arrival = ArrivalRate((0.0, raised[1]), (raised[0], arrival.at(0.0)))
    buffer = np.iinfo(np.int64).max if scenario.buffer is None else scenario.buffer
    idle, d0, d1, q1 = counts_at_start(scenario)
    counts = np.zeros((len(words), len(edges) - 1, len(COUNTS) + p.levels), np.int64)
    states = np.zeros((len(words), grid.size, 4 + tail), np.int64)
    with np.errstate(over="ignore"):  # the generator wraps around, also where it is interpreted
        integrals = replications(
            n, np.array(arrival.times), np.array(arrival.rates), arrival.amplitude, 2 * math.pi / arrival.period,
            p.standby_rate, p.setup_rate, buffer, q1, np.array([idle, d0, d1, 1], np.int64),
            np.array(edges, np.float64), grid, words, counts, np.zeros((len(words), len(edges) - 1, tail + 4)), states,
        )  # fmt: skip
    lengths = np.diff(edges).tolist()
    totals = [
        [length, *_totals(numbers, areas, tail)]
        for by_stretch in zip(counts, integrals, strict=True)
        for length, numbers, areas in zip(lengths, *by_stretch, strict=True)
    ]
    return np.array(totals, np.float64), states / n


class Kernel:
    """A replication under way (`models.base.System`), which can sample the states that it goes through."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64]) -> None:
        self.scenario, self.words, self.p = scenario, words, parameters(scenario)
        self.tail = tail_length(scenario)
        idle, d0, d1, busy = counts_at_start(scenario)
        self.queue, self.others = np.zeros(self.tail + 2, np.int64), np.array([idle, d0, d1, 1], np.int64)
        self.queue[1] = busy
        self.sampler = np.array([0, NEVER, 0])

    def _advance(self, start: float, ends: NDArray[np.float64], states: Any, weights: Any) -> tuple[Any, ...]:
        """`stretches` to each of M ends: counts (M, C), integrals (M, L), and the states visited."""
        n, arrival, m = self.scenario.servers, self.scenario.arrival, len(ends)
        buffer = np.iinfo(np.int64).max if self.scenario.buffer is None else self.scenario.buffer
        counts, integrals = np.zeros((m, len(COUNTS) + self.p.levels), np.int64), np.zeros((m, self.tail + 4))
        visited = np.zeros(m, np.int64)
        self.queue, integrals, states, weights = stretches(
            n, np.array(arrival.times), np.array(arrival.rates), arrival.amplitude, 2 * math.pi / arrival.period,
            self.p.standby_rate, self.p.setup_rate, buffer, start, ends, self.queue, self.others, self.words,
            counts, integrals, self.sampler, states, weights, visited,
        )  # fmt: skip
        return counts, integrals, states[: visited[-1]], weights[: visited[-1]], visited

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Simulate on through the warm-up; there is no path."""
        self._advance(start, ends, np.zeros((0, 0), np.int64), np.zeros(0))
        self.sampler[DUE] = NEVER
        return np.empty((len(ends), 0))

    def visit(self, start: float, ends: NDArray[np.float64], spacing: float) -> tuple[Any, ...]:
        """As `models.controls.visit`, by samples of the intervals of blocks."""
        stride = max(1, round(2.5 * self.scenario.servers * self.scenario.arrival.at(0.0) * spacing))
        if self.sampler[STRIDE] == 0:
            self.sampler[DUE] = int(stride * uniform(self.words))
        self.sampler[STRIDE], self.sampler[SAMPLES] = stride, 0
        room = int(1.1 * (ends[-1] - start) / spacing) + 16
        states, weights = np.zeros((room, 4 + min(self.tail, 16)), np.int64), np.zeros(room)
        counts, integrals, *visited = self._advance(start, ends, states, weights)
        accepted = counts[:, ARRIVALS] - counts[:, LOST_OFF] - counts[:, LOST_FULL]
        waiting = sum(integrals[:, 4:].T, np.zeros(len(ends)))  # in an order of its own
        columns = [accepted, *counts.T[: len(COUNTS)], 0.0 * accepted, *counts.T[len(COUNTS) :], waiting]
        return np.array([*columns, *integrals.T[: 3 + self.tail]]).T, *visited

    def totals(self) -> list[float]:
        """Nothing is counted but by `visit`."""
        return []

    def reset(self) -> None:
        pass


def _totals(counts: NDArray[np.int64], integrals: NDArray[np.float64], tail: int) -> list[float]:
    """The columns without the time; waiting tasks are summed over all levels, also those beyond the tail."""
    numbers, areas = counts.tolist(), integrals.tolist()
    accepted = numbers[ARRIVALS] - numbers[LOST_OFF] - numbers[LOST_FULL]
    numbers, found = numbers[: len(COUNTS)], numbers[len(COUNTS) :]
    return [accepted, *numbers, 0.0, *found, math.fsum(areas[4:]), *areas[: 3 + tail]]
