"""The centralised baselines with phase-type service: delayed-off, setup and always-on servers behind one FCFS queue.

As `elastiqueue.models.central_queue.exponential`, with the numbers of busy servers in each phase in the state:

    i on, j tasks, d1 in setup, b_k busy in phase k, sum_k b_k = min(i, j)

    event      rate               effect
    arrival    lambda N           j + 1; an idle-on server starts a service, in phase k with probability r_k; where none
                                  does and one is off, a setup starts
    phase      gamma_k r_kl b_k   b_k - 1, b_l + 1
    departure  gamma_k r_k0 b_k   j - 1, b_k - 1; if a task waits the server starts on it, else it is idle-on
    standby    mu idle            i - 1
    setup      nu d1              i + 1; if a task waits the server starts on it

What happens to setups is as there, and so is the mean wait: the time integral of waiting tasks over the accepted ones.
Both simulators are those of `elastiqueue.models.tabs.phase_type`, the direct method and uniformised blocks, applied to
these events.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.models.base import Replication, replicate
from elastiqueue.models.central_queue import exponential as central_queue
from elastiqueue.models.central_queue.blocks import KEEPS, STAGGERS
from elastiqueue.models.central_queue.exponential import components, discipline, initial_counts, metrics, rates, signals
from elastiqueue.models.central_queue.phase_blocks import (
    BUSY,
    IDLE_OFF,
    IDLE_ON,
    IN_SETUP,
    ON,
    PHASES,
    SETUP,
    TASKS,
    WAITING,
    advance_blocks,
    arrive,
    evolve,
    settle,
)
from elastiqueue.sampling.phases import kernel_law, largest_rise, phase_counts
from elastiqueue.sampling.rng import exponential, uniform
from elastiqueue.sampling.thinning import rate_at
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.theory.chains import Chain, State, Transition

__all__ = ["chain", "columns", "components", "events", "metrics", "signals", "simulate"]


def columns(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the totals: those of exponential service, and the changes of phase within a service."""
    return (*central_queue.columns(scenario), "phase_changes")


def events(totals: dict[str, float]) -> float:
    """Number of real events behind the totals."""
    return central_queue.events(totals) + totals["phase_changes"]


def _setups(n: int, rule: int, on: int, tasks: int, setup: int) -> int:
    """Servers in setup once `on` servers and `tasks` tasks are there (KEEPS: those under way go on)."""
    if rule == KEEPS:
        return setup
    needed = min(max(tasks - on, 0), n - on)
    return min(needed, 1) if rule == STAGGERS else needed


def chain(scenario: ServiceScenario, level: int | None = None) -> Chain:
    """The chain in readable form, state (i, j, d1, b_1, ..., b_K); arrivals that find `level` tasks are dropped."""
    if level is None:
        raise ValueError("level: is missing; a central queue must be cut for the exact solver")
    n, lam, law = scenario.servers, scenario.arrival.at(0.0), scenario.phase_type
    mu, nu = rates(scenario)
    rule = discipline(scenario)
    starts = [(j, probability) for j, probability in enumerate(law.initial) if probability > 0]

    def settled(on: int, tasks: int, setup: int, phases: tuple[int, ...]) -> State:
        on = min(on, tasks) if math.isinf(mu) else on
        return on, tasks, _setups(n, rule, on, tasks, setup), *phases

    def changed(phases: tuple[int, ...], j: int, by: int) -> tuple[int, ...]:
        return (*phases[:j], phases[j] + by, *phases[j + 1 :])

    def transitions(state: State) -> Iterator[Transition]:
        on, tasks, setup, *busy = state
        phases = tuple(busy)
        idle, waiting = max(on - tasks, 0), max(tasks - on, 0)
        if tasks < level and idle > 0:
            for j, probability in starts:
                yield lam * n * probability, settled(on, tasks + 1, setup, changed(phases, j, 1)), {"arrivals": 1}
        elif tasks < level:
            begins = rule == KEEPS and on + setup < n
            yield lam * n, settled(on, tasks + 1, setup + begins, phases), {"arrivals": 1, "waited": 1}
        for k, number in enumerate(phases):
            if number == 0:
                continue
            fewer, rate = changed(phases, k, -1), law.rates[k] * number
            for j, probability in enumerate(law.routing[k]):
                if probability > 0:
                    yield rate * probability, (on, tasks, setup, *changed(fewer, j, 1)), {"phase_changes": 1}
            if law.exit[k] > 0 and waiting == 0:
                yield rate * law.exit[k], settled(on, tasks - 1, setup, fewer), {"departures": 1}
            elif law.exit[k] > 0:
                for j, probability in starts:
                    after = settled(on, tasks - 1, setup, changed(fewer, j, 1))
                    yield rate * law.exit[k] * probability, after, {"departures": 1}
        if idle > 0 and mu > 0:
            yield mu * idle, settled(on - 1, tasks, setup, phases), {"red": 1}
        if setup > 0 and waiting == 0:
            yield nu * setup, settled(on + 1, tasks, setup - 1, phases), {"setups": 1}
        elif setup > 0:
            for j, probability in starts:
                after = settled(on + 1, tasks, setup - 1, changed(phases, j, 1))
                yield nu * setup * probability, after, {"setups": 1}

    def occupancy(state: State) -> dict[str, float]:
        on, tasks, setup = state[:3]
        return {
            "busy": min(on, tasks),
            "idle_on": max(on - tasks, 0),
            "idle_off": n - on - setup,
            "setup": setup,
            "waiting": max(tasks - on, 0),
        }

    on, tasks = initial_counts(scenario)
    return Chain(settled(on, tasks, 0, tuple(phase_counts(min(on, tasks), law))), transitions, occupancy)


# Without Numba's counting of references (`_nrt`), which would cost more than the event; nothing is allocated there.
@njit(cache=True, error_model="numpy", _nrt=False)
def _advance_direct(
    n, times, steps, amplitude, omega, mu, nu, rule, law, start, end, state, phases, words, counts, integrals
):
    """Simulate from `start` to `end`, event by event. Adds to counts and integrals."""
    gammas, initial, ways = law
    instant = math.isinf(mu)
    clock = 0.0 if instant else mu  # no server is ever idle-on where mu is infinite
    highest = 0.0
    for k in range(steps.size):
        highest = max(highest, steps[k])
    bound = (highest + abs(amplitude)) * n
    t, position = start, 0
    while True:
        busy, idle = min(state[ON], state[TASKS]), max(state[ON] - state[TASKS], 0)
        total = bound + clock * idle + nu * state[IN_SETUP]
        for k in range(gammas.size):
            total += gammas[k] * phases[k]
        wait = exponential(words) / total if total > 0.0 else np.inf
        until = min(t + wait, end)
        span = until - t
        integrals[BUSY] += span * busy
        integrals[IDLE_ON] += span * idle
        integrals[IDLE_OFF] += span * (n - state[ON] - state[IN_SETUP])
        integrals[SETUP] += span * state[IN_SETUP]
        integrals[WAITING] += span * max(state[TASKS] - state[ON], 0)
        t = until
        if t >= end:
            break
        x = uniform(words) * total
        if x < bound:
            rate, position = rate_at(t, position, times, steps, amplitude, omega)
            if x >= rate * n:
                continue  # thinned
            arrive(x / (rate * n), n, rule, initial, state, phases, counts)
        else:
            evolve(x - bound, clock, nu, gammas, initial, ways, state, phases, counts)
        settle(n, rule, instant, state)


class _System:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64], direct: bool) -> None:
        self.scenario, self.words = scenario, words
        self.blocks = scenario.arrival.constant and not direct
        service = scenario.phase_type
        self.rule, self.law = discipline(scenario), kernel_law(service)
        on, tasks = initial_counts(scenario)
        self.state = np.array([on, tasks, _setups(scenario.servers, self.rule, on, tasks, 0)], np.int64)
        self.phases = np.array(phase_counts(min(on, tasks), service), np.int64)
        self.counts = np.zeros(PHASES + 1, np.int64)
        self.integrals = np.zeros(len(central_queue.INTEGRALS))
        mu, nu = rates(scenario)
        clock = 0.0 if math.isinf(mu) else mu
        # A setup that starts, and one that ends beside no waiting task or beside one (staggered: the next one starts).
        first = max(rate for rate, p in zip(service.rates, service.initial, strict=True) if p > 0)
        rises = (nu, clock - nu, first - (0.0 if self.rule == STAGGERS else nu))
        self.delta = largest_rise(service, rises, clock)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, arrival = self.scenario.servers, self.scenario.arrival
        mu, nu = rates(self.scenario)
        state = (self.state, self.phases, self.words, self.counts, self.integrals)
        times, steps, omega = np.array(arrival.times), np.array(arrival.rates), 2 * math.pi / arrival.period
        path = np.empty((ends.size, 5))
        for row, end in enumerate(ends):
            if self.blocks:
                advance_blocks(n, steps[0], mu, nu, self.delta, self.rule, self.law, start, end, *state)
            else:
                _advance_direct(
                    n, times, steps, arrival.amplitude, omega, mu, nu, self.rule, self.law, start, end, *state
                )
            start = end
            path[row] = central_queue.observed(self.scenario, *map(int, self.state))
        return path

    def totals(self) -> list[float]:
        return [*self.counts[:PHASES], *self.integrals, self.counts[PHASES]]

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
    """One replication; arguments as `models.tabs.exponential.simulate`, path as `central_queue.exponential`."""
    return replicate(_System(scenario, words, direct), edges, grid)
