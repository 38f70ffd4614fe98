"""The centralised baselines with exponential service: M/M/N/setup/delayedoff and its relatives.

One first-come first-served queue; i servers are on, j tasks are present, d1 servers are in setup
(Gandhi, Doroudi, Harchol-Balter, Scheller-Wolf, "Exact analysis of the M/M/k/setup class", SIGMETRICS 2013):

    busy = min(i, j)    idle-on = (i - j)^+    waiting = (j - i)^+    off = N - i - d1

    event       rate       effect
    arrival     lambda N   j + 1; where no idle-on server takes the task and one is off, a setup starts
    departure   busy       j - 1
    standby     mu idle    i - 1
    setup       nu d1      i + 1

    delayed_off   aborts_setups: d1 = min(waiting, N - i) at all times, a setup without a waiting task is aborted;
                  otherwise each setup once started completes. `staggered`: d1 = min(1, waiting, N - i).
    setup         the limit mu -> infinity: a server without a task turns off at once
    always_on     M/M/N: i = N

The mean wait is the time integral of waiting tasks over the accepted ones (Little's law; no closed form is known for
the wait expected at an arrival). Both simulators are those of `models.tabs.exponential`, the direct method and
uniformised blocks, applied to these events.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.models.base import Replication, replicate
from elastiqueue.models.central_queue.blocks import (
    ABORTS,
    ARRIVALS,
    BUSY,
    COMPLETED,
    COUNTS,
    DEPARTURES,
    IDLE_OFF,
    IDLE_ON,
    INTEGRALS,
    KEEPS,
    RED,
    SETUP,
    STAGGERS,
    WAITED,
    WAITING,
    follow_blocks,
    in_setup,
)
from elastiqueue.sampling.rng import exponential, uniform
from elastiqueue.sampling.thinning import rate_at
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.theory.chains import Chain, State, Transition


def columns(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the totals: time, counts of events, time integrals (all for the whole system)."""
    return ("time", *COUNTS, *INTEGRALS)


def metrics(scenario: ServiceScenario) -> dict[str, Ratio]:
    """The metrics as ratios of totals; fractions are per server. Nothing is lost, no messages are counted."""
    n, power = scenario.servers, scenario.power
    consumption = {
        "busy": power.full / n,
        "setup": power.full / n,
        "idle_on": power.idle / n,
        "idle_off": power.off / n,
    }
    wait = Ratio({"waiting": 1.0}, {"arrivals": 1.0})
    return {
        "mean_wait": wait,
        "mean_wait_integral": wait,
        "wait_probability": Ratio({"waited": 1.0}, {"arrivals": 1.0}),
        "loss_probability": Ratio({}, {"arrivals": 1.0}),
        "power": Ratio(consumption),
        "wasted_power": Ratio({**consumption, "arrivals": -power.full / n}),
        "busy": Ratio({"busy": 1 / n}),
        "idle_on": Ratio({"idle_on": 1 / n}),
        "idle_off": Ratio({"idle_off": 1 / n}),
        "setup": Ratio({"setup": 1 / n}),
        "setups_per_task": Ratio({"setups": 1.0}, {"arrivals": 1.0}),
    }


def initial_counts(scenario: ServiceScenario) -> tuple[int, int]:
    """Servers on and tasks present at time 0; the fluid fixed point has lambda N of each."""
    n = scenario.servers
    if scenario.start == "all_idle_on":
        return n, 0
    if scenario.start == "all_off":
        return 0, 0
    busy = min(n, round(scenario.arrival.at(0.0) * n))
    return (n, busy) if scenario.model == "always_on" else (busy, busy)


def rates(scenario: ServiceScenario) -> tuple[float, float]:
    """Standby rate mu (infinite for the model setup) and setup rate nu."""
    if scenario.model == "always_on":
        return 0.0, 0.0
    mu = math.inf if scenario.model == "setup" else float(scenario.standby_rate or 0.0)
    return mu, float(scenario.setup_rate or 0.0)


def discipline(scenario: ServiceScenario) -> int:
    """What happens to superfluous setups."""
    if scenario.staggered:
        return STAGGERS
    return ABORTS if scenario.aborts else KEEPS


def chain(scenario: ServiceScenario, level: int | None = None) -> Chain:
    """The chain in readable form, state (i, j, d1); arrivals that find `level` tasks are dropped."""
    if level is None:
        raise ValueError("level: is missing; a central queue must be cut for the exact solver")
    n, lam = scenario.servers, scenario.arrival.at(0.0)
    mu, nu = rates(scenario)
    rule = discipline(scenario)

    def settled(on: int, tasks: int, setup: int) -> State:
        on = min(on, max(tasks, 0)) if math.isinf(mu) else on
        return on, tasks, int(in_setup.py_func(n, rule, on, tasks, setup))

    def transitions(state: State) -> Iterator[Transition]:
        on, tasks, setup = state
        busy, idle = min(on, tasks), max(on - tasks, 0)
        if tasks < level:
            begins = rule == KEEPS and idle == 0 and on + setup < n
            yield lam * n, settled(on, tasks + 1, setup + begins), {"arrivals": 1, "waited": int(idle == 0)}
        if busy > 0:
            yield float(busy), settled(on, tasks - 1, setup), {"departures": 1}
        if idle > 0 and mu > 0:
            yield mu * idle, settled(on - 1, tasks, setup), {"red": 1}
        if setup > 0:
            yield nu * setup, settled(on + 1, tasks, setup - 1), {"setups": 1}

    def occupancy(state: State) -> dict[str, float]:
        on, tasks, setup = state
        return {
            "busy": min(on, tasks),
            "idle_on": max(on - tasks, 0),
            "idle_off": n - on - setup,
            "setup": setup,
            "waiting": max(tasks - on, 0),
        }

    on, tasks = initial_counts(scenario)
    return Chain(settled(on, tasks, 0), transitions, occupancy)


@njit(cache=True)
def _advance_direct(n, times, steps, amplitude, omega, mu, nu, rule, start, end, state, words, counts, integrals):
    """Simulate from `start` to `end`, event by event; state: i, j, d1. Adds to counts and integrals."""
    on, tasks, setup = state[0], state[1], state[2]
    instant = math.isinf(mu)
    bound = steps.max() + abs(amplitude)
    t, k = start, 0
    while True:
        busy, idle = min(on, tasks), max(on - tasks, 0)
        arrival = bound * n
        standby = mu * idle if idle > 0 else 0.0
        total = arrival + busy + standby + nu * setup
        wait = exponential(words) / total if total > 0.0 else np.inf
        until = min(t + wait, end)
        span = until - t
        integrals[BUSY] += span * busy
        integrals[IDLE_ON] += span * idle
        integrals[IDLE_OFF] += span * (n - on - setup)
        integrals[SETUP] += span * setup
        integrals[WAITING] += span * max(tasks - on, 0)
        t = until
        if t >= end:
            break
        x = uniform(words) * total
        if x < arrival:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            if x >= rate * n:
                continue  # thinned
            tasks += 1
            counts[ARRIVALS] += 1
            if idle == 0:
                counts[WAITED] += 1
                if rule == KEEPS and on + setup < n:
                    setup += 1
        elif x < arrival + busy:
            tasks -= 1
            counts[DEPARTURES] += 1
        elif x < arrival + busy + standby:
            on -= 1
            counts[RED] += 1
        elif setup > 0:
            on += 1
            setup -= 1
            counts[COMPLETED] += 1
        if instant:
            on = min(on, tasks)
        setup = in_setup(n, rule, on, tasks, setup)
    state[0], state[1], state[2] = on, tasks, setup


def observed(scenario: ServiceScenario, on: int, tasks: int, setup: int) -> list[float]:
    """A row of a path: fractions u, d0, d1, busy, and waiting tasks per server."""
    n = scenario.servers
    row = [max(on - tasks, 0), n - on - setup, setup, min(on, tasks), max(tasks - on, 0)]
    return [value / n for value in row]


class _System:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64], direct: bool) -> None:
        self.scenario, self.words = scenario, words
        self.blocks = not direct
        self.rule = discipline(scenario)
        on, tasks = initial_counts(scenario)
        setup = 0 if self.rule == KEEPS else int(in_setup(scenario.servers, self.rule, on, tasks, 0))
        self.state = np.array([on, tasks, setup], np.int64)
        self.counts = np.zeros(len(COUNTS), np.int64)
        self.integrals = np.zeros(len(INTEGRALS))

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, arrival = self.scenario.servers, self.scenario.arrival
        mu, nu = rates(self.scenario)
        state = (self.state, self.words, self.counts, self.integrals)
        times, steps, omega = np.array(arrival.times), np.array(arrival.rates), 2 * math.pi / arrival.period
        rate = (times, steps, arrival.amplitude, omega)
        states = np.empty((ends.size, 3), np.int64)
        if self.blocks:
            follow_blocks(n, *rate, mu, nu, self.rule, start, ends, *state, states)
        else:
            for row, end in enumerate(ends):
                _advance_direct(n, *rate, mu, nu, self.rule, start, end, *state)
                start = end
                states[row] = self.state
        return np.array([observed(self.scenario, *row) for row in states.tolist()]).reshape(-1, 5)

    def totals(self) -> list[float]:
        return [*self.counts, *self.integrals]

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
    """One replication; arguments as `elastiqueue.models.tabs.exponential.simulate`.

    Returns
    -------
    Replication : totals by `columns`, and a path of shape (T, 5): fractions u, d0, d1, busy, waiting tasks per server.
    """
    return replicate(_System(scenario, words, direct), edges, grid)


def events(totals: dict[str, float]) -> float:
    """Number of real events behind the totals."""
    return sum(totals[name] for name in COUNTS if name != "waited")


def signals(scenario: ServiceScenario, path: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Waiting tasks and power per server along a path, each of shape (T,): what a pilot run looks at."""
    power = scenario.power
    return path[:, 4], power.full * (path[:, 3] + path[:, 2]) + power.idle * path[:, 0] + power.off * path[:, 1]


def components(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the columns of a path."""
    return ("idle_on", "idle_off", "setup", "busy", "waiting")
