"""TABS and JIQ with phase-type service: the aggregated Markov chain, and its compiled simulators.

As `elastiqueue.models.tabs`, with the phase of the service in progress in the state (paper A, Section 4):

    S_ij  servers with i tasks, the one in service in phase j     Q_i = sum_(k >= i) sum_j S_kj     D0, D1, U as there

    event      rate                 effect
    arrival    lambda N             U > 0: an idle-on server starts a service, in phase j with probability r_j.
                                    U = 0: to a uniformly random busy server, of kind (i, j) with probability S_ij / Q_1.
    phase      gamma_k r_kj S_ik    (i, k) -> (i, j)
    departure  gamma_k r_k0 S_ik    (i, k) -> (i - 1, j) with probability r_j; i = 1 leaves it idle-on
    standby, setup                  as there

The wait that an arrival expects, if its server holds i tasks and is in phase j, is i - 1 mean services and the mean
residual m_j of the phase (`PhaseType.residual`).

Three simulators: `_advance_direct`, event by event, also with a time-varying arrival rate; `_advance_blocks`, uniformised
blocks as in `elastiqueue.models.tabs`; and `_advance_two_phases`, the same for K = 2, where the usual events need no jump.
All three let `_arrive` and `_evolve` do what is not usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.engines.phases import kernel_law, largest_rise, phase_counts, pick
from elastiqueue.engines.rng import TO_UNIT, binomial, exponential, gamma, step, uniform
from elastiqueue.engines.thinning import rate_at
from elastiqueue.models import tabs
from elastiqueue.models.base import Chain, Replication, State, Transition, stops
from elastiqueue.models.tabs import components, initial_counts, metrics, rates, signals, tail_length
from elastiqueue.scenarios.service import ServiceScenario

__all__ = ["chain", "columns", "components", "events", "metrics", "signals", "simulate"]

# Positions in the vector of counts. Found: tasks met beyond the one in service; behind PHASES, how many waiting tasks
# met a service in each phase.
ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED, PHASES = range(11)
MET = PHASES + 1
IDLE_ON, IDLE_OFF, SETUP = range(3)  # positions in integrals and in the state `others`
TOP = 3  # position in `others`: the longest queue of the block
_11 = np.uint64(11)


def columns(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the totals: those of exponential service, and the changes of phase within a service."""
    return (*tabs.columns(scenario), "phase_changes")


def events(totals: dict[str, float]) -> float:
    """Number of real events behind the totals."""
    return tabs.events(totals) + totals["phase_changes"]


def chain(scenario: ServiceScenario, level: int | None = None) -> Chain:
    """The chain in readable form, state (S_11, ..., S_1K, S_21, ..., S_BK, D0, D1); cut at `level` tasks if unlimited."""
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


@njit(cache=True, inline="always")
def _arrive(share, left, buffer, initial, servers, queue, others, counts, moved):
    """An arrival, its choices made by `share` in [0, 1).

    servers[i, j]: servers with i tasks in phase j, i >= 1; servers[0, j]: with two or more. queue[i] = Q_i.
    others: U, D0, D1, longest queue. moved: changes of U, D0, D1, Q_1, Q_2, ... times the intervals `left` in the block.
    """
    counts[ARRIVALS] += 1
    if others[IDLE_ON] > 0:
        servers[1, pick(share, initial)] += 1
        others[IDLE_ON] -= 1
        queue[1] += 1
        others[TOP] = max(others[TOP], 1)
        moved[IDLE_ON] -= left
        moved[3] += left
        return
    busy = queue[1]
    if busy == 0:
        counts[LOST_OFF] += 1
    else:
        rank = min(int(share * busy), busy - 1)  # in order of their queues, the longest first
        i = 1
        while rank < queue[i + 1]:
            i += 1
        rank -= queue[i + 1]
        if i == buffer:
            counts[LOST_FULL] += 1
        else:
            j = 0
            while rank >= servers[i, j]:
                rank -= servers[i, j]
                j += 1
            servers[i, j] -= 1
            servers[i + 1, j] += 1
            if i == 1:
                servers[0, j] += 1
            queue[i + 1] += 1
            others[TOP] = max(others[TOP], i + 1)
            moved[3 + i] += left
            counts[WAITED] += 1
            counts[FOUND] += i - 1
            counts[MET + j] += 1
    if others[IDLE_OFF] > 0:
        others[IDLE_OFF] -= 1
        others[SETUP] += 1
        moved[IDLE_OFF] -= left
        moved[SETUP] += left
        counts[STARTED] += 1


@njit(cache=True, inline="always")
def _evolve(x, left, mu, nu, law, servers, queue, others, counts, moved):
    """Any other event, or none, chosen by x >= 0 on the scale of the rates: servers of one task first, then the others."""
    gammas, initial, ways = law
    for several in range(2):
        for k in range(gammas.size):
            number = servers[1 - several, k]
            mass = gammas[k] * number
            if x >= mass:
                x -= mass
                continue
            share = x / gammas[k]
            rank = min(int(share), number - 1)
            share -= rank
            i = 1
            if several:
                i = 2
                while rank >= servers[i, k]:
                    rank -= servers[i, k]
                    i += 1
                servers[0, k] -= 1
            servers[i, k] -= 1
            way = pick(share, ways[k])
            if way > 0:
                servers[i, way - 1] += 1
                if several:
                    servers[0, way - 1] += 1
                counts[PHASES] += 1
                return
            queue[i] -= 1
            moved[2 + i] -= left
            if i == 1:
                others[IDLE_ON] += 1
                moved[IDLE_ON] += left
                counts[GREEN] += 1
                return
            j = pick(share / min(ways[k, 0], 1.0), initial)
            servers[i - 1, j] += 1
            if i > 2:
                servers[0, j] += 1
            counts[SHORTENED] += 1
            return
    if x < mu * others[IDLE_ON]:
        others[IDLE_ON] -= 1
        others[IDLE_OFF] += 1
        moved[IDLE_ON] -= left
        moved[IDLE_OFF] += left
        counts[RED] += 1
    elif x - mu * others[IDLE_ON] < nu * others[SETUP]:
        others[SETUP] -= 1
        others[IDLE_ON] += 1
        moved[SETUP] -= left
        moved[IDLE_ON] += left
        counts[COMPLETED] += 1


@njit(cache=True, inline="always")
def _service_rate(gammas, servers):
    """Rate at which phases end."""
    total = 0.0
    for k in range(gammas.size):
        total += gammas[k] * (servers[1, k] + servers[0, k])
    return total


@njit(cache=True)
def _grown(values):
    """The same values in twice the room along the first axis."""
    return np.concatenate((values, np.zeros_like(values)))


@njit(cache=True)
def _advance_direct(
    n, times, steps, amplitude, omega, mu, nu, buffer, law, start, end, servers, queue, others, words, counts, integrals
):
    """Simulate from `start` to `end`, event by event. Returns the arrays that may have grown: servers, queue, integrals."""
    bound = (steps.max() + abs(amplitude)) * n
    moved = np.zeros(integrals.size, np.int64)
    t, position = start, 0
    while True:
        total = bound + _service_rate(law[0], servers) + mu * others[IDLE_ON] + nu * others[SETUP]
        wait = exponential(words) / total if total > 0.0 else np.inf
        until = min(t + wait, end)
        span = until - t
        for which in range(3):
            integrals[which] += span * others[which]
        i = 1
        while queue[i] > 0:
            integrals[2 + i] += span * queue[i]
            i += 1
        t = until
        if t >= end:
            break
        x = uniform(words) * total
        if x < bound:
            rate, position = rate_at(t, position, times, steps, amplitude, omega)
            if x < rate * n:  # else thinned
                _arrive(x / (rate * n), 0, buffer, law[1], servers, queue, others, counts, moved)
                if queue[queue.size - 2] > 0:
                    servers, queue, integrals, moved = _grown(servers), _grown(queue), _grown(integrals), _grown(moved)
        else:
            _evolve(x - bound, 0, mu, nu, law, servers, queue, others, counts, moved)
    return servers, queue, integrals


@njit(cache=True)
def _advance_blocks(
    n, rate, mu, nu, delta, buffer, law, start, end, servers, queue, others, words, counts, integrals
):
    """Simulate from `start` to `end` in uniformised blocks, constant arrival rate, any number of phases.

    `delta`: most that one event adds to the total rate. Time integrals are those of the state at the start of the
    block, plus every change times the number of intervals behind it.
    """
    arrival = rate * n
    moved = np.zeros(integrals.size, np.int64)
    t = start
    while True:
        total = arrival + _service_rate(law[0], servers) + mu * others[IDLE_ON] + nu * others[SETUP]
        if total <= 0.0:  # nothing can happen any more
            for which in range(3):
                integrals[which] += (end - t) * others[which]
            break
        m = min(max(int(3.0 * math.sqrt(total)), 16), 4096)
        bound = total + m * delta
        length = gamma(float(m), words) / bound
        last = t + length >= end
        events, intervals = m, m
        if last:
            events = binomial(m - 1, (end - t) / length, words)
            intervals = events + 1
            length = end - t
        for which in range(3):
            integrals[which] += length * others[which]
        others[TOP] = 0
        while queue[others[TOP] + 1] > 0:
            others[TOP] += 1
            integrals[2 + others[TOP]] += length * queue[others[TOP]]
        s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
        for event in range(events):
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            x = np.float64(draw >> _11) * (bound * TO_UNIT)
            left = intervals - 1 - event
            if x < arrival:
                _arrive(x / arrival, left, buffer, law[1], servers, queue, others, counts, moved)
                if queue[queue.size - 2] > 0:
                    servers, queue, integrals, moved = _grown(servers), _grown(queue), _grown(integrals), _grown(moved)
            else:
                _evolve(x - arrival, left, mu, nu, law, servers, queue, others, counts, moved)
        words[0], words[1], words[2], words[3] = s0, s1, s2, s3
        for which in range(3 + others[TOP]):
            integrals[which] += length / intervals * moved[which]
            moved[which] = 0
        t += length
        if last:
            break
    return servers, queue, integrals


@njit(cache=True)
def _advance_two_phases(
    n, rate, mu, nu, delta, buffer, law, start, end, servers, queue, others, words, counts, integrals
):
    """`_advance_blocks` for two phases; gives the same events from the same draws.

    While a server is idle-on the usual events are arrivals and whatever befalls a server of one task. They are told
    apart by five comparisons whose outcomes, 0.0 or 1.0, are added up: no jump to mispredict, and all in floating point
    (the counts are whole numbers, exact), because a conversion would sit on the way from one event to the next.

        0 ... split ... arrival ... ends_1 ... phase_1 ... ends_2 ... phase_2 ... everything else
          to 1     to 2        1 ends     1 -> 2      2 ends     2 -> 1
    """
    gammas, initial, ways = law
    gamma_1, gamma_2 = gammas[0], gammas[1]
    exit_1, exit_2 = gamma_1 * min(ways[0, 0], 1.0), gamma_2 * min(ways[1, 0], 1.0)
    arrival = rate * n
    split = arrival * min(initial[0], 1.0)
    moved = np.zeros(integrals.size, np.int64)
    t = start
    while True:
        total = arrival + _service_rate(gammas, servers) + mu * others[IDLE_ON] + nu * others[SETUP]
        if total <= 0.0:  # nothing can happen any more
            for which in range(3):
                integrals[which] += (end - t) * others[which]
            break
        m = min(max(int(3.0 * math.sqrt(total)), 16), 4096)
        bound = total + m * delta
        length = gamma(float(m), words) / bound
        last = t + length >= end
        events, intervals = m, m
        if last:
            events = binomial(m - 1, (end - t) / length, words)
            intervals = events + 1
            length = end - t
        for which in range(3):
            integrals[which] += length * others[which]
        others[TOP] = 0
        while queue[others[TOP] + 1] > 0:
            others[TOP] += 1
            integrals[2 + others[TOP]] += length * queue[others[TOP]]
        s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
        scale = bound * TO_UNIT
        idle, one_1, one_2 = float(others[IDLE_ON]), float(servers[1, 0]), float(servers[1, 1])
        moved_idle, left = 0.0, float(intervals)
        arrived, ended, usual = 0.0, 0.0, 0
        for _ in range(events):
            left -= 1.0
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            x = np.float64(draw >> _11) * scale
            phase_1 = arrival + gamma_1 * one_1
            phase_2 = phase_1 + gamma_2 * one_2
            edge = phase_2 if idle > 0.0 else -1.0
            if x < edge:
                to_1 = 1.0 if x < split else 0.0
                came = 1.0 if x < arrival else 0.0
                by_1 = 1.0 if x < arrival + exit_1 * one_1 else 0.0
                in_1 = 1.0 if x < phase_1 else 0.0
                by_2 = 1.0 if x < phase_1 + exit_2 * one_2 else 0.0
                ends = by_1 - came + (by_2 - in_1)
                one_1 += (to_1 + came) - (in_1 + by_2) + 1.0
                one_2 += (came - to_1) + (in_1 - by_1) + in_1 - 1.0
                idle += ends - came
                moved_idle += (ends - came) * left
                arrived += came
                ended += ends
                usual += 1
                continue
            others[IDLE_ON] = int(idle)
            servers[1, 0], servers[1, 1] = int(one_1), int(one_2)
            queue[1] = n - others[IDLE_ON] - others[IDLE_OFF] - others[SETUP]
            if x < arrival:
                _arrive(x / arrival, int(left), buffer, initial, servers, queue, others, counts, moved)
                if queue[queue.size - 2] > 0:
                    servers, queue, integrals, moved = _grown(servers), _grown(queue), _grown(integrals), _grown(moved)
            else:
                _evolve(x - arrival, int(left), mu, nu, law, servers, queue, others, counts, moved)
            idle, one_1, one_2 = float(others[IDLE_ON]), float(servers[1, 0]), float(servers[1, 1])
        words[0], words[1], words[2], words[3] = s0, s1, s2, s3
        others[IDLE_ON] = int(idle)
        servers[1, 0], servers[1, 1] = int(one_1), int(one_2)
        queue[1] = n - others[IDLE_ON] - others[IDLE_OFF] - others[SETUP]
        others[TOP] = max(others[TOP], 1)
        moved[IDLE_ON] += int(moved_idle)
        moved[3] -= int(moved_idle)
        counts[ARRIVALS] += int(arrived)
        counts[GREEN] += int(ended)
        counts[PHASES] += usual - int(arrived) - int(ended)
        for which in range(3 + others[TOP]):
            integrals[which] += length / intervals * moved[which]
            moved[which] = 0
        t += length
        if last:
            break
    return servers, queue, integrals


def simulate(
    scenario: ServiceScenario,
    words: NDArray[np.uint64],
    warm_up: float,
    horizon: float,
    grid: NDArray[np.float64],
    direct: bool = False,
    generic: bool = False,
) -> Replication:
    """One replication; arguments and result as `elastiqueue.models.tabs.simulate`.

    With `generic` the simulator for any number of phases is used for two as well.
    """
    n, arrival, service = scenario.servers, scenario.arrival, scenario.phase_type
    mu, nu = rates(scenario)
    busy, d0, d1, idle = initial_counts(scenario)
    buffer = np.iinfo(np.int64).max if scenario.buffer is None else scenario.buffer
    tail = tail_length(scenario)
    law, phases = kernel_law(service), service.phases
    size = tail + 3  # row 0, one row per queue length, one beyond that stays 0, and one to see growth come
    servers, queue = np.zeros((size, phases), np.int64), np.zeros(size, np.int64)
    servers[1] = phase_counts(busy, service)
    queue[1] = busy
    others = np.array([idle, d0, d1, 0], np.int64)
    counts = np.zeros(MET + phases, np.int64)
    integrals = np.zeros(size + 2)
    path = np.empty((grid.size, 3 + tail))
    times, steps = np.array(arrival.times), np.array(arrival.rates)
    delta = largest_rise(service, (nu, mu - nu), mu)
    fast = _advance_two_phases if phases == 2 and not generic else _advance_blocks

    def advance(start: float, end: float) -> None:
        nonlocal servers, queue, integrals
        if arrival.constant and not direct:
            servers, queue, integrals = fast(
                n, steps[0], mu, nu, delta, buffer, law, start, end, servers, queue, others, words, counts, integrals
            )
        else:
            servers, queue, integrals = _advance_direct(
                n, times, steps, arrival.amplitude, 2 * math.pi / arrival.period, mu, nu, buffer, law, start, end,
                servers, queue, others, words, counts, integrals,
            )  # fmt: skip

    now, counted = 0.0, warm_up == 0.0
    with np.errstate(over="ignore"):  # the generator wraps around, also where it is interpreted
        for stop, row in stops(grid, warm_up, horizon):
            advance(now, stop)
            now = stop
            if row >= 0:
                path[row, :3] = others[:3] / n
                path[row, 3:] = queue[1 : tail + 1] / n
            if not counted and now >= warm_up:
                counts[:] = 0
                integrals[:] = 0.0
                counted = True
    found = math.fsum([counts[FOUND], *(m * int(c) for m, c in zip(service.residual(), counts[MET:], strict=True))])
    accepted = counts[ARRIVALS] - counts[LOST_OFF] - counts[LOST_FULL]
    numbers = [*counts[:FOUND], found, *counts[FOUND + 1 : PHASES]]
    waiting = math.fsum(integrals[4:])
    totals = [horizon - warm_up, accepted, *numbers, waiting, *integrals[: 3 + tail], counts[PHASES]]
    return Replication(np.array(totals, np.float64), path)
