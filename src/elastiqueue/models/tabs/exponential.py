"""TABS and JIQ with exponential service by their accelerated kernel, `models.tabs.blocks`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Batch, overload
from elastiqueue.models.quantities import blocks_pay
from elastiqueue.models.tabs.blocks import ARRIVALS, COUNTS, LOST_FULL, LOST_OFF, replications
from elastiqueue.models.tabs.definition import counts_at_start, parameters, tail_length
from elastiqueue.sampling.arrival_rate import ArrivalRate
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


def _totals(counts: NDArray[np.int64], integrals: NDArray[np.float64], tail: int) -> list[float]:
    """The columns without the time; waiting tasks are summed over all levels, also those beyond the tail."""
    numbers, areas = counts.tolist(), integrals.tolist()
    accepted = numbers[ARRIVALS] - numbers[LOST_OFF] - numbers[LOST_FULL]
    numbers, found = numbers[: len(COUNTS)], numbers[len(COUNTS) :]
    return [accepted, *numbers, 0.0, *found, math.fsum(areas[4:]), *areas[: 3 + tail]]
