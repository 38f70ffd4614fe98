"""The central queue with exponential service by its accelerated kernel, `models.central_queue.blocks`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Batch, batch
from elastiqueue.models.central_queue.blocks import COUNTS, INTEGRALS, KEEPS, follow_blocks, in_setup
from elastiqueue.models.central_queue.definition import BUSY, IDLE_ON, OFF, SETUP, WAITING, counts_at_start, parameters
from elastiqueue.models.quantities import blocks_pay
from elastiqueue.scenarios.autoscaling import ServiceScenario


def applies(scenario: ServiceScenario) -> bool:
    """Exponential service, where blocks pay."""
    return scenario.phase_type.is_exponential and blocks_pay(scenario, parameters(scenario))


class Kernel:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64]) -> None:
        self.scenario, self.words, self.p = scenario, words, parameters(scenario)
        on, tasks = counts_at_start(scenario)
        setup = 0 if self.p.rule == KEEPS else int(in_setup(scenario.servers, self.p.rule, on, tasks, 0))
        self.state = np.array([on, tasks, setup], np.int64)
        self.counts = np.zeros(len(COUNTS), np.int64)
        self.integrals = np.zeros(len(INTEGRALS))

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.states(start, ends)[:, [IDLE_ON, OFF, SETUP, BUSY, WAITING]] / self.scenario.servers

    def states(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `follow`: the states of the definition, shape (T, 5)."""
        n, arrival = self.scenario.servers, self.scenario.arrival
        mu = math.inf if self.p.instant else self.p.standby_rate
        states = np.empty((ends.size, 3), np.int64)
        follow_blocks(
            n, np.array(arrival.times), np.array(arrival.rates), arrival.amplitude, 2 * math.pi / arrival.period, mu,
            self.p.setup_rate, self.p.rule, start, ends, self.state, self.words, self.counts, self.integrals, states,
        )  # fmt: skip
        on, tasks, setup = states.T
        busy = np.minimum(on, tasks)
        return np.stack([tasks - busy, on - busy, n - on - setup, setup, busy], axis=1)

    def totals(self) -> list[float]:
        return [*self.counts, 0.0, *self.integrals]

    def reset(self) -> None:
        self.counts[:] = 0
        self.integrals[:] = 0.0


def simulate(
    scenario: ServiceScenario, words: NDArray[np.uint64], edges: Sequence[float], grid: NDArray[np.float64]
) -> Batch:
    """Replications; arguments and result as `models.definitions.DefinedModel.simulate_batch`."""
    return batch((Kernel(scenario, one) for one in words), edges, grid)
