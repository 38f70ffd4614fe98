"""TABS and JIQ with phase-type service: the aggregated Markov chain, and its compiled simulators.

As `elastiqueue.models.tabs`, with the phase of the service in progress in the state (paper A, Section 4):

    S_ij  servers with i tasks, the one in service in phase j     Q_i = sum_(k >= i) sum_j S_kj     D0, D1, U as there

    event      rate                 effect
    arrival    lambda N             U > 0: an idle-on server starts a service, in phase j with probability r_j.
                                    U = 0: to a uniformly random busy server, of kind (i, j) with chance S_ij / Q_1.
    phase      gamma_k r_kj S_ik    (i, k) -> (i, j)
    departure  gamma_k r_k0 S_ik    (i, k) -> (i - 1, j) with probability r_j; i = 1 leaves it idle-on
    standby, setup                  as there

The wait that an arrival expects, if its server holds i tasks and is in phase j, is i - 1 mean services and the mean
residual m_j of the phase (`PhaseType.residual`).

Simulators: `_advance_direct`, event by event, also with a time-varying arrival rate; `_advance_blocks`, uniformised
blocks as in `elastiqueue.models.tabs`, of m events without a stop: an event raises the total rate by at most delta, and
their bound is the rate at the start plus m delta. The events are those of `_block`, or for K = 2 of
`_block_of_two_phases`, where the usual ones need no jump. All let `_arrive` and `_evolve` do the rest, which are
compiled into them. These inner kernels go without Numba's counting of references to arrays (`_nrt=False`), whose atomic
operations would cost several times the event; so nothing is allocated in them, and arrays grow between blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.engines.phases import kernel_law, largest_rise, phase_counts, pick
from elastiqueue.engines.rng import TICKS, TO_UNIT, binomial, exponential, gamma, step, ticks, uniform
from elastiqueue.engines.thinning import rate_at
from elastiqueue.models import tabs
from elastiqueue.models.base import Chain, Replication, State, Transition, stops
from elastiqueue.models.tabs import components, initial_counts, metrics, rates, signals, tail_length, with_room
from elastiqueue.scenarios.service import ServiceScenario

__all__ = ["chain", "columns", "components", "events", "metrics", "signals", "simulate"]

# Positions in the vector of counts. Found: tasks met beyond the one in service; behind PHASES, how many waiting tasks
# met a service in each phase.
ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED, PHASES = range(11)
MET = PHASES + 1
IDLE_ON, IDLE_OFF, SETUP = range(3)  # positions in integrals and in the state `others`
TOP = 3  # position in `others`: the longest queue of the block
MOST = 4096  # events of a block
_2, _11 = np.uint64(2), np.uint64(11)


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


@njit(cache=True, inline="always")
def _arrive(share, left, buffer, initial, servers, queue, others, counts, moved):
    """An arrival, its choices made by `share` in [0, 1).

    servers[i, j]: servers with i tasks in phase j, i >= 1; servers[0, j]: with two or more. queue[i] = Q_i.
    others: U, D0, D1, longest queue. moved: changes of U, D0, D1, Q_1, Q_2, ... times the intervals `left`.
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
def _evolve(x, left, mu, nu, gammas, initial, ways, servers, queue, others, counts, moved):
    """Any other event, or none, chosen by x >= 0 on the scale of the rates; servers of one task come first."""
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


@njit(cache=True, error_model="numpy", _nrt=False)
def _direct(
    bound, n, times, steps, amplitude, omega, mu, nu, buffer, law, t, end, servers, queue, others, words, counts,
    integrals, moved,
):  # fmt: skip
    """At most MOST events from time t on, none after `end`; the time reached."""
    gammas, initial, ways = law
    position = 0
    for _ in range(MOST):
        total = bound + _service_rate(gammas, servers) + mu * others[IDLE_ON] + nu * others[SETUP]
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
                _arrive(x / (rate * n), 0, buffer, initial, servers, queue, others, counts, moved)
        else:
            _evolve(x - bound, 0, mu, nu, gammas, initial, ways, servers, queue, others, counts, moved)
    return t


@njit(cache=True, error_model="numpy", _nrt=False)
def _block(
    arrival, scale, mu, nu, buffer, law, events, intervals, servers, queue, others, words, counts, moved
):  # fmt: skip
    """The events of a block, any number of phases."""
    gammas, initial, ways = law
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    left = intervals
    for _ in range(events):
        left -= 1
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        x = np.float64(draw >> _11) * scale
        if x < arrival:
            _arrive(x / arrival, left, buffer, initial, servers, queue, others, counts, moved)
        else:
            _evolve(x - arrival, left, mu, nu, gammas, initial, ways, servers, queue, others, counts, moved)
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3


@njit(cache=True, error_model="numpy", _nrt=False)
def _block_of_two_phases(
    n, arrival, bound, mu, nu, buffer, law, events, intervals, servers, queue, others, words, counts, moved
):  # fmt: skip
    """`_block` for two phases.

    While a server is idle-on the usual events are arrivals and whatever befalls a server of one task. They are told
    apart by five comparisons whose outcomes, 0 or 1, are added up: no jump to mispredict. All is in whole numbers of
    ticks, because each event waits for the comparisons and sums of the one before, which take three times as long in
    floating point.

        y:  ... split ... 0 ... ends_1 ... phase_1 ... ends_2 ... phase_2 ... everything else
          to 1      to 2    1 ends    1 -> 2     2 ends     2 -> 1

    They leave room = U + S_11 + S_12 alone, so that U need not be kept. The sum of S_11 + S_12 over the intervals gives
    the time integral of what they change; unusual events account for themselves.
    """
    gammas, initial, ways = law
    come = ticks(arrival, bound)
    split = ticks(arrival * min(initial[0], 1.0), bound) - come
    gamma_1, gamma_2 = ticks(gammas[0], bound), ticks(gammas[1], bound)
    exit_1, exit_2 = ticks(gammas[0] * min(ways[0, 0], 1.0), bound), ticks(gammas[1] * min(ways[1, 0], 1.0), bound)
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    one_1, one_2 = servers[1, 0], servers[1, 1]
    room = others[IDLE_ON] + one_1 + one_2
    both_0, area, arrived = one_1 + one_2, 0, 0
    unusual, changed, moved_both = 0, 0, 0  # by unusual events: S_11 + S_12, and that times the intervals left
    for left in range(intervals - 1, intervals - 1 - events, -1):
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - come
        both = one_1 + one_2
        phase_1 = gamma_1 * one_1
        edge = phase_1 + gamma_2 * one_2 if both < room else -TICKS
        area += both
        if y < edge:
            to_1 = 1 * (y < split)
            came = 1 * (y < 0)
            by_1 = 1 * (y < exit_1 * one_1)
            in_1 = 1 * (y < phase_1)
            by_2 = 1 * (y < phase_1 + exit_2 * one_2)
            arrived += came
            one_1 += to_1 + came + 1 - in_1 - by_2
            one_2 += came - to_1 - 1 + 2 * in_1 - by_1
            continue
        unusual += 1
        servers[1, 0], servers[1, 1] = one_1, one_2
        others[IDLE_ON] = room - both
        queue[1] = n - others[IDLE_ON] - others[IDLE_OFF] - others[SETUP]
        if y < 0:
            _arrive((y + come) / come, left, buffer, initial, servers, queue, others, counts, moved)
        else:
            x = y * (bound / TICKS)
            _evolve(x, left, mu, nu, gammas, initial, ways, servers, queue, others, counts, moved)
        one_1, one_2 = servers[1, 0], servers[1, 1]
        room = others[IDLE_ON] + one_1 + one_2
        change = one_1 + one_2 - both
        changed += change
        moved_both += change * left
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    both = one_1 + one_2
    servers[1, 0], servers[1, 1] = one_1, one_2
    others[IDLE_ON] = room - both
    queue[1] = n - others[IDLE_ON] - others[IDLE_OFF] - others[SETUP]
    others[TOP] = max(others[TOP], 1)
    area += both * (intervals - events) - both_0 * intervals
    moved[IDLE_ON] -= area - moved_both
    moved[3] += area - moved_both
    ended = arrived - (both - both_0 - changed)
    counts[ARRIVALS] += arrived
    counts[GREEN] += ended
    counts[PHASES] += events - unusual - arrived - ended


@njit(cache=True)
def _advance_direct(
    n, times, steps, amplitude, omega, mu, nu, buffer, law, start, end, servers, queue, others, words, counts, integrals
):
    """Simulate from `start` to `end`, event by event. Returns what may have grown: servers, queue, integrals."""
    bound = (steps.max() + abs(amplitude)) * n
    moved = np.zeros(integrals.size, np.int64)
    t = start
    while t < end:
        while others[TOP] > 1 and queue[others[TOP]] == 0:
            others[TOP] -= 1
        size = min(others[TOP] + MOST, buffer) + 2
        if size > queue.size:
            servers, queue = with_room(servers, size), with_room(queue, size)
            integrals, moved = with_room(integrals, size + 2), with_room(moved, size + 2)
        t = _direct(
            bound, n, times, steps, amplitude, omega, mu, nu, buffer, law, t, end, servers, queue, others, words,
            counts, integrals, moved,
        )  # fmt: skip
    return servers, queue, integrals


@njit(cache=True)
def _advance_blocks(
    n, rate, mu, nu, delta, buffer, law, twofold, start, end, servers, queue, others, words, counts, integrals
):
    """Simulate from `start` to `end` in uniformised blocks, constant arrival rate; returns as `_advance_direct`.

    `delta`: most that one event adds to the total rate; `twofold`: use the simulator for two phases. Time integrals are
    those of the state at the start of the block, plus every change times the number of intervals behind it.
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
        m = min(max(int(3.0 * math.sqrt(total)), 16), MOST)
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
        size = min(others[TOP] + events, buffer) + 2  # an event lengthens no queue by more than one
        if size > queue.size:
            servers, queue = with_room(servers, size), with_room(queue, size)
            integrals, moved = with_room(integrals, size + 2), with_room(moved, size + 2)
        if twofold:
            _block_of_two_phases(
                n, arrival, bound, mu, nu, buffer, law, events, intervals, servers, queue, others, words, counts, moved
            )
        else:
            _block(
                arrival, bound * TO_UNIT, mu, nu, buffer, law, events, intervals, servers, queue, others, words, counts,
                moved,
            )  # fmt: skip
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
    size = tail + 2  # row 0, one row per queue length, and one beyond that stays 0
    servers, queue = np.zeros((size, phases), np.int64), np.zeros(size, np.int64)
    servers[1] = phase_counts(busy, service)
    queue[1] = busy
    others = np.array([idle, d0, d1, 1], np.int64)
    counts = np.zeros(MET + phases, np.int64)
    integrals = np.zeros(size + 2)
    path = np.empty((grid.size, 4 + tail))
    times, steps = np.array(arrival.times), np.array(arrival.rates)
    delta = largest_rise(service, (nu, mu - nu), mu)
    twofold = phases == 2 and not generic

    def advance(start: float, end: float) -> None:
        nonlocal servers, queue, integrals
        if arrival.constant and not direct:
            servers, queue, integrals = _advance_blocks(
                n, steps[0], mu, nu, delta, buffer, law, twofold, start, end, servers, queue, others, words, counts,
                integrals,
            )  # fmt: skip
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
                path[row, 3] = queue[1:].sum() / n
                path[row, 4:] = queue[1 : tail + 1] / n
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
