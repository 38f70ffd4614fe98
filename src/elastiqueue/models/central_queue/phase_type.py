"""The central queue with phase-type service by its accelerated kernel, `models.central_queue.phase_blocks`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Batch, batch
from elastiqueue.models.central_queue.blocks import INTEGRALS, KEEPS, STAGGERS, in_setup
from elastiqueue.models.central_queue.definition import counts_at_start, parameters
from elastiqueue.models.central_queue.exponential import observed
from elastiqueue.models.central_queue.phase_blocks import PHASES, advance_blocks
from elastiqueue.sampling.phases import kernel_law, largest_rise, phase_counts
from elastiqueue.scenarios.autoscaling import ServiceScenario


def applies(scenario: ServiceScenario) -> bool:
    """Constant arrival rate, service not exponential, and at most five events of a block for each that is one.

    While lambda N servers are busy the total rate R is 2 lambda N; the bound lies 3 sqrt(R) delta higher, at least
    16 delta, delta being the largest change of the rate by an event.
    """
    if not scenario.arrival.constant or scenario.phase_type.is_exponential:
        return False
    p, total = parameters(scenario), 2 * scenario.servers * scenario.arrival.at(0.0)
    return max(3 * math.sqrt(total), 16.0) * max(1.0, p.standby_rate, p.setup_rate, *p.gammas) <= 4 * total


class Kernel:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64]) -> None:
        self.scenario, self.words, self.p = scenario, words, parameters(scenario)
        service, rule = scenario.phase_type, self.p.rule
        self.law = kernel_law(service)
        on, tasks = counts_at_start(scenario)
        setup = 0 if rule == KEEPS else int(in_setup(scenario.servers, rule, on, tasks, 0))
        self.state = np.array([on, tasks, setup], np.int64)
        self.phases = np.array(phase_counts(tasks, service), np.int64)
        self.counts = np.zeros(PHASES + 1, np.int64)
        self.integrals = np.zeros(len(INTEGRALS))
        clock, nu = self.p.standby_rate, self.p.setup_rate
        # A setup that starts, and one that ends beside no waiting task or beside one (staggered: the next one starts).
        first = max(rate for rate, p in zip(service.rates, service.initial, strict=True) if p > 0)
        rises = (nu, clock - nu, first - (0.0 if rule == STAGGERS else nu))
        self.delta = largest_rise(service, rises, clock)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, rate = self.scenario.servers, self.scenario.arrival.at(0.0)
        mu = math.inf if self.p.instant else self.p.standby_rate
        path = np.empty((ends.size, 5))
        for row, end in enumerate(ends):
            advance_blocks(
                n, rate, mu, self.p.setup_rate, self.delta, self.p.rule, self.law, start, end, self.state, self.phases,
                self.words, self.counts, self.integrals,
            )  # fmt: skip
            start = end
            path[row] = observed(n, *map(int, self.state))
        return path / n

    def totals(self) -> list[float]:
        return [*self.counts, *self.integrals]

    def reset(self) -> None:
        self.counts[:] = 0
        self.integrals[:] = 0.0


def simulate(
    scenario: ServiceScenario, words: NDArray[np.uint64], edges: Sequence[float], grid: NDArray[np.float64]
) -> Batch:
    """Replications; arguments and result as `models.definitions.DefinedModel.simulate_batch`."""
    return batch((Kernel(scenario, one) for one in words), edges, grid)
