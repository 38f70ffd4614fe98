"""TABS and JIQ with exponential service: the aggregated Markov chain, and its compiled simulators.

Servers are exchangeable, so the state is how many there are of each kind (paper A, Section 2):

    Q_i  servers with at least i tasks, i = 1..B       D0  off       D1  in setup       U = N - Q_1 - D0 - D1  idle-on

    event       rate       effect
    arrival     lambda N   U > 0: an idle-on server takes the task. U = 0: a uniformly random busy server does, of i
                           tasks with probability (Q_i - Q_{i+1}) / Q_1; and if D0 > 0 one server starts its setup.
                           The task is lost where no server is on, or the chosen one holds B tasks.
    departure   Q_1        from a server of i tasks with probability (Q_i - Q_{i+1}) / Q_1; i = 1 leaves it idle-on
    standby     mu U       an idle-on server turns off
    setup       nu D1      a server becomes idle-on

With `abort_setups` a server that empties its queue ends one setup under way. JIQ is mu = 0 with every server on.

Messages: green, a completion leaves a server empty; red, an idle-on server turns off; a completed setup is reported too
and counted apart.

Two simulators. `_advance_direct` draws the time and the kind of every event (Gillespie's direct method, thinning for a
time-varying arrival rate): the plain one. `_advance_blocks` draws the times of many events at once, and the kinds of
many at once where it can (`elastiqueue.models.tabs.blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.models.base import Replication, overload, replicate
from elastiqueue.models.tabs.blocks import (
    ARRIVALS,
    COMPLETED,
    COUNTS,
    FOUND,
    GREEN,
    IDLE_OFF,
    IDLE_ON,
    INTEGRALS,
    LOST_FULL,
    LOST_OFF,
    RED,
    SETUP,
    SHORTENED,
    STARTED,
    WAITED,
    record,
    replications,
    with_room,
)
from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.rng import exponential, uniform
from elastiqueue.sampling.thinning import rate_at
from elastiqueue.scenarios.autoscaling import TAIL, ServiceScenario
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.theory.chains import Chain, State, Transition


def tail_length(scenario: ServiceScenario) -> int:
    """Number of columns q_1, q_2, ... that are reported."""
    return TAIL if scenario.buffer is None else scenario.buffer


def columns(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the totals: time, counts of events, time integrals (all for the whole system)."""
    tail = tuple(f"q_{i}" for i in range(1, tail_length(scenario) + 1))
    return ("time", "accepted", *COUNTS, "waiting", *INTEGRALS, *tail)


def metrics(scenario: ServiceScenario) -> dict[str, Ratio]:
    """The metrics as ratios of totals; fractions are per server, the queue tail is queue_tail[i].

    growth is that of the total number of tasks per mean service time: 0 in a stable system over a long time.
    """
    n, power = scenario.servers, scenario.power
    accepted = {"accepted": 1.0}
    consumption = {
        "q_1": power.full / n,
        "setup": power.full / n,
        "idle_on": power.idle / n,
        "idle_off": power.off / n,
    }
    result = {
        "mean_wait": Ratio({"found": 1.0}, accepted),
        "mean_wait_integral": Ratio({"waiting": 1.0}, accepted),
        "wait_probability": Ratio({"waited": 1.0}, accepted),
        "loss_probability": Ratio({"lost_off": 1.0, "lost_full": 1.0}, {"arrivals": 1.0}),
        "loss_off_probability": Ratio({"lost_off": 1.0}, {"arrivals": 1.0}),
        "loss_full_probability": Ratio({"lost_full": 1.0}, {"arrivals": 1.0}),
        "power": Ratio(consumption),
        "wasted_power": Ratio({**consumption, "arrivals": -power.full / n}),
        "busy": Ratio({"q_1": 1 / n}),
        "idle_on": Ratio({"idle_on": 1 / n}),
        "idle_off": Ratio({"idle_off": 1 / n}),
        "setup": Ratio({"setup": 1 / n}),
        "messages_per_task": Ratio({"green": 1.0, "red": 1.0}, accepted),
        "green_per_task": Ratio({"green": 1.0}, accepted),
        "red_per_task": Ratio({"red": 1.0}, accepted),
        "setups_per_task": Ratio({"setups": 1.0}, accepted),
        "growth": Ratio({"accepted": 1.0, "green": -1.0, "shortened": -1.0}),
    }
    for i in range(1, tail_length(scenario) + 1):
        result[f"queue_tail[{i}]"] = Ratio({f"q_{i}": 1 / n})
    return result


def initial_counts(scenario: ServiceScenario) -> tuple[int, int, int, int]:
    """Q_1, D0, D1, U at time 0; the fluid fixed point is q_1 = lambda with every other server off (JIQ: idle-on)."""
    n = scenario.servers
    if scenario.start == "all_idle_on":
        return 0, 0, 0, n
    if scenario.start == "all_off":
        return 0, n, 0, 0
    busy = min(n, round(scenario.arrival.at(0.0) * n))
    return (busy, 0, 0, n - busy) if scenario.model == "jiq" else (busy, n - busy, 0, 0)


def rates(scenario: ServiceScenario) -> tuple[float, float]:
    """Standby rate mu and setup rate nu (JIQ: mu = 0, and no server is ever in setup)."""
    if scenario.model == "jiq":
        return 0.0, 0.0
    return float(scenario.standby_rate or 0.0), float(scenario.setup_rate or 0.0)


def chain(scenario: ServiceScenario, level: int | None = None) -> Chain:
    """The chain in readable form, state (Q_1, ..., Q_B, D0, D1); an unlimited buffer is cut at `level` tasks."""
    n, lam = scenario.servers, scenario.arrival.at(0.0)
    mu, nu = rates(scenario)
    size = scenario.buffer if scenario.buffer is not None else level
    if size is None:
        raise ValueError("level: is missing; an unlimited buffer must be cut for the exact solver")
    q1, off, setup, _ = initial_counts(scenario)

    def transitions(state: State) -> Iterator[Transition]:
        queue, d0, d1 = state[:size], state[size], state[size + 1]
        idle = n - queue[0] - d0 - d1

        def change(i: int, by: int) -> State:
            return (*queue[: i - 1], queue[i - 1] + by, *queue[i:])

        arrival = lam * n
        starts = 1 if d0 > 0 else 0
        if idle > 0:
            yield arrival, (*change(1, +1), d0, d1), {"arrivals": 1, "accepted": 1}
        else:
            begun = (d0 - starts, d1 + starts)
            if queue[0] == 0:
                counts = {"arrivals": 1, "lost_off": 1, "setups_started": starts}
                yield arrival, (*queue, *begun), counts
            for i in range(1, size + 1):
                exactly = queue[i - 1] - (queue[i] if i < size else 0)
                if exactly == 0:
                    continue
                rate = arrival * exactly / queue[0]
                if i == size:
                    counts = {"arrivals": 1, "lost_full": 1, "setups_started": starts}
                    yield rate, (*queue, *begun), counts
                else:
                    counts = {"arrivals": 1, "accepted": 1, "waited": 1, "found": i, "setups_started": starts}
                    yield rate, (*change(i + 1, +1), *begun), counts
        for i in range(1, size + 1):
            exactly = queue[i - 1] - (queue[i] if i < size else 0)
            if exactly > 0 and i > 1:
                yield float(exactly), (*change(i, -1), d0, d1), {"shortened": 1}
            elif exactly > 0:
                ended = 1 if scenario.aborts and d1 > 0 else 0
                yield float(exactly), (*change(1, -1), d0 + ended, d1 - ended), {"green": 1}
        if idle > 0 and mu > 0:
            yield mu * idle, (*queue, d0 + 1, d1), {"red": 1}
        if d1 > 0:
            yield nu * d1, (*queue, d0, d1 - 1), {"setups": 1}

    def occupancy(state: State) -> dict[str, float]:
        queue, d0, d1 = state[:size], state[size], state[size + 1]
        found = {f"q_{i}": float(q) for i, q in enumerate(queue[: tail_length(scenario)], start=1)}
        idle = n - queue[0] - d0 - d1
        return {"waiting": float(sum(queue[1:])), "idle_on": idle, "idle_off": d0, "setup": d1, **found}

    return Chain((q1, *[0] * (size - 1), off, setup), transitions, occupancy)


@njit(cache=True)
def _advance_direct(
    n, times, steps, amplitude, omega, mu, nu, buffer, aborts, start, end, queue, others, words, counts, integrals
):
    """Simulate from `start` to `end`, event by event. Returns the arrays that may have grown: queue, integrals.

    queue[i], i >= 1: servers with at least i tasks, then at least one 0; others: U, D0, D1. Adds to counts, integrals.
    """
    idle, off, setup = others[0], others[1], others[2]
    bound = steps.max() + abs(amplitude)
    t, k = start, 0
    while True:
        arrival = bound * n
        busy = queue[1]
        total = arrival + busy + mu * idle + nu * setup
        wait = exponential(words) / total if total > 0.0 else np.inf
        until = min(t + wait, end)
        span = until - t
        integrals[IDLE_ON] += span * idle
        integrals[IDLE_OFF] += span * off
        integrals[SETUP] += span * setup
        i = 1
        while queue[i] > 0:
            integrals[2 + i] += span * queue[i]
            i += 1
        t = until
        if t >= end:
            break
        x = uniform(words) * total
        if x < arrival:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            if x >= rate * n:
                continue  # thinned
            counts[ARRIVALS] += 1
            if idle > 0:
                idle -= 1
                queue[1] += 1
            else:
                if busy == 0:
                    counts[LOST_OFF] += 1
                else:
                    rank = x / (rate * n) * busy
                    i = 1
                    while rank < queue[i + 1]:
                        i += 1
                    if i == buffer:
                        counts[LOST_FULL] += 1
                    else:
                        if i + 2 == queue.size:
                            queue = with_room(queue, 2 * queue.size)
                            integrals = with_room(integrals, queue.size + 2)
                        queue[i + 1] += 1
                        counts[WAITED] += 1
                        counts[FOUND] += i
                if off > 0:
                    off -= 1
                    setup += 1
                    counts[STARTED] += 1
        elif x < arrival + busy:
            rank = x - arrival
            i = 1
            while rank < queue[i + 1]:
                i += 1
            queue[i] -= 1
            if i == 1:
                idle += 1
                counts[GREEN] += 1
                if aborts and setup > 0:
                    setup -= 1
                    off += 1
            else:
                counts[SHORTENED] += 1
        elif x < arrival + busy + mu * idle:
            idle -= 1
            off += 1
            counts[RED] += 1
        elif setup > 0:
            setup -= 1
            idle += 1
            counts[COMPLETED] += 1
    others[0], others[1], others[2] = idle, off, setup
    return queue, integrals


@njit(cache=True)
def _follow_direct(
    n, times, steps, amplitude, omega, mu, nu, buffer, aborts, start, ends, queue, others, words, counts, integrals,
    states,
):  # fmt: skip
    """`_advance_direct` from pause to pause, each with its row of `states`."""
    for k in range(ends.size):
        queue, integrals = _advance_direct(
            n, times, steps, amplitude, omega, mu, nu, buffer, aborts, start, ends[k], queue, others, words, counts,
            integrals,
        )  # fmt: skip
        start = ends[k]
        record(states[k], queue, others)
    return queue, integrals


def _totals(counts: NDArray[np.int64], integrals: NDArray[np.float64], tail: int) -> list[float]:
    """The columns without the time; waiting tasks are summed over all levels, also those beyond the tail."""
    numbers, areas = counts.tolist(), integrals.tolist()
    accepted = numbers[ARRIVALS] - numbers[LOST_OFF] - numbers[LOST_FULL]
    return [accepted, *numbers, math.fsum(areas[4:]), *areas[: 3 + tail]]


class _System:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64]) -> None:
        self.scenario, self.words = scenario, words
        q1, d0, d1, idle = initial_counts(scenario)
        self.tail = tail_length(scenario)
        self.queue = np.zeros(self.tail + 2, np.int64)
        self.queue[1] = q1
        self.others = np.array([idle, d0, d1, 1], np.int64)
        self.counts = np.zeros(len(COUNTS), np.int64)
        self.integrals = np.zeros(self.tail + 4)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, arrival = self.scenario.servers, self.scenario.arrival
        buffer = np.iinfo(np.int64).max if self.scenario.buffer is None else self.scenario.buffer
        states = np.empty((ends.size, 4 + self.tail), np.int64)
        state = (self.queue, self.others, self.words, self.counts, self.integrals, states)
        mu, nu = rates(self.scenario)
        times, steps, omega = np.array(arrival.times), np.array(arrival.rates), 2 * math.pi / arrival.period
        rate = (times, steps, arrival.amplitude, omega)
        self.queue, self.integrals = _follow_direct(n, *rate, mu, nu, buffer, self.scenario.aborts, start, ends, *state)
        return states / n

    def totals(self) -> list[float]:
        return _totals(self.counts, self.integrals, self.tail)

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
    """One replication.

    Parameters
    ----------
    scenario : of model tabs or jiq, exponential service.
    words : state of the generator, shape (4,); is advanced.
    edges, grid : as `models.base.replicate` takes them, in mean service times.
    direct : use the plain simulator even where the fast one applies.

    Returns
    -------
    Replication : totals by `columns`, and a path of shape (T, 4 + tail), all per server: u, d0, d1, the number of tasks
        (at all levels, also those beyond the tail), q_1, q_2, ...
    """
    if scenario.aborts or direct:
        return replicate(_System(scenario, words), edges, grid)
    totals, paths = simulate_batch(scenario, words[None], edges, grid)
    return Replication(totals, paths[0])


def simulate_batch(
    scenario: ServiceScenario,
    words: NDArray[np.uint64],
    edges: Sequence[float],
    grid: NDArray[np.float64],
    direct: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """As `simulate`, for words of shape (R, 4): totals, shape (R M, columns), and paths, shape (R, T, 4 + tail)."""
    if scenario.aborts or direct:
        runs = [simulate(scenario, one, edges, grid, direct) for one in words]
        return np.concatenate([run.totals for run in runs]), np.array([run.path for run in runs])
    n, arrival, tail = scenario.servers, scenario.arrival, tail_length(scenario)
    if raised := overload(scenario, edges[0]):
        arrival = ArrivalRate((0.0, raised[1]), (raised[0], arrival.at(0.0)))
    buffer = np.iinfo(np.int64).max if scenario.buffer is None else scenario.buffer
    q1, d0, d1, idle = initial_counts(scenario)
    counts = np.zeros((len(words), len(edges) - 1, len(COUNTS)), np.int64)
    states = np.zeros((len(words), grid.size, 4 + tail), np.int64)
    with np.errstate(over="ignore"):  # the generator wraps around, also where it is interpreted
        integrals = replications(
            n, np.array(arrival.times), np.array(arrival.rates), arrival.amplitude, 2 * math.pi / arrival.period,
            *rates(scenario), buffer, q1, np.array([idle, d0, d1, 1], np.int64), np.array(edges, np.float64), grid,
            words, counts, np.zeros((len(words), len(edges) - 1, tail + 4)), states,
        )  # fmt: skip
    lengths = np.diff(edges).tolist()
    totals = [
        [length, *_totals(numbers, areas, tail)]
        for by_stretch in zip(counts, integrals, strict=True)
        for length, numbers, areas in zip(lengths, *by_stretch, strict=True)
    ]
    return np.array(totals, np.float64), states / n


def events(totals: dict[str, float]) -> float:
    """Number of real events behind the totals: what the speed of a simulator is counted in."""
    names = ("arrivals", "green", "red", "setups", "shortened")
    return sum(totals[name] for name in names)


def signals(scenario: ServiceScenario, path: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Waiting tasks and power per server along a path, each of shape (T,): what a pilot run looks at."""
    power, tail = scenario.power, path[:, -tail_length(scenario) :]
    watts = power.full * (tail[:, 0] + path[:, 2]) + power.idle * path[:, 0] + power.off * path[:, 1]
    return tail[:, 1:].sum(axis=1), watts


def components(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the columns of a path."""
    tail = (f"queue_tail[{i}]" for i in range(1, tail_length(scenario) + 1))
    return ("idle_on", "idle_off", "setup", "tasks", *tail)
