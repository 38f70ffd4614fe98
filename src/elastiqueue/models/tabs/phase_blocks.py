"""TABS and JIQ with phase-type service: uniformised blocks with a table of sure events.

`_block` is uniformised as in `models.tabs.blocks`: events come at a rate that bounds the total one, and a block ends
after its m-th, or before the bound might be passed. Most events are looked up:

    Sure events. Of the S_1k servers with one task in phase k, c_k are counted on to be there throughout the block,
    which also ends before there might be fewer. So services start at rate lambda N r_j while U > 0, and those of the
    c_k end or change their phase at rates gamma_k r_k0 c_k and gamma_k r_kj c_k, whatever the state: a table has cells
    in proportion, and a uniform cell, ten bits of a draw, gives the kind of the event. All else (what the cells cut
    off, the other servers, no event) has the rest of the table, and a draw of its own. It is of the order of the
    bound's distance, so that events get cheaper with N; it pays in large systems (`models.tabs.phase_type`).

The inner kernels go without Numba's counting of references to arrays (`_nrt=False`), whose atomic operations would cost
several times the event; so nothing is allocated in them, and arrays grow between blocks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elastiqueue.models.tabs.blocks import with_room
from elastiqueue.sampling.phases import pick
from elastiqueue.sampling.rng import TO_UNIT, step, uniform
from elastiqueue.sampling.thinning import rate_at, window
from elastiqueue.sampling.uniformised import cut, planned

# Positions in the vector of counts. Found: tasks met beyond the one in service; behind PHASES, how many waiting tasks
# met a service in each phase.
ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED, PHASES = range(11)
MET = PHASES + 1
IDLE_ON, IDLE_OFF, SETUP = range(3)  # positions in integrals and in the state `pools`
TOP = 3  # position in `pools`: the longest queue of the block
MAX_EVENTS = 4096  # events of a block
CELLS, CELL, BITS, PER_DRAW = 1024, np.uint64(1023), np.uint64(10), 6  # of the table; a draw names six of them
COUNTED, FIELD, MAX_COUNTED = 8, 8, np.uint64(255)  # kinds of event in the table, a byte for each
NEVER = -(2**62)  # change of U by what is no sure event
SPARE, WANDER = 0.25, 2.0  # `room_of`: each makes blocks cheap to go on with, and table and bound worse
MIN_RATIO = 1.2  # least total rate in a block, in terms of those that it adds to the bound or does not count on
_11 = np.uint64(11)


@njit(cache=True, inline="always")
def _arrive(share, elapsed, buffer, initial, servers, queue, pools, counts, moved):
    """An arrival, its choices made by `share` in [0, 1).

    servers[i, j]: servers with i tasks in phase j, i >= 1; servers[0, j]: with two or more. queue[i] = Q_i.
    pools: U, D0, D1, longest queue. moved: changes of D0, D1, Q_2, ..., at their places behind those of U and Q_1,
    times the intervals `elapsed`.
    """
    counts[ARRIVALS] += 1
    if pools[IDLE_ON] > 0:
        servers[1, pick(share, initial)] += 1
        pools[IDLE_ON] -= 1
        queue[1] += 1
        pools[TOP] = max(pools[TOP], 1)
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
            pools[TOP] = max(pools[TOP], i + 1)
            moved[3 + i] += elapsed
            counts[WAITED] += 1
            counts[FOUND] += i - 1
            counts[MET + j] += 1
            phases = servers.shape[1] - 1
            if counts.size > MET + phases:  # behind: how many found i tasks and phase j; the last with all above
                counts[min(MET + i * phases + j, counts.size - phases + j)] += 1
    if pools[IDLE_OFF] > 0:
        pools[IDLE_OFF] -= 1
        pools[SETUP] += 1
        moved[IDLE_OFF] -= elapsed
        moved[SETUP] += elapsed
        counts[STARTED] += 1


@njit(cache=True, inline="always")
def _evolve(x, elapsed, mu, nu, doubtful, gammas, initial, ways, servers, queue, pools, counts, moved):
    """Any other event, or none, chosen by x >= 0 on the scale of the rates; servers of one task come first.

    Whether it is an arrival at the doubtful part of the arrival rate, which is left to the caller.
    """
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
                return False
            queue[i] -= 1
            moved[2 + i] -= elapsed
            if i == 1:
                pools[IDLE_ON] += 1
                counts[GREEN] += 1
                return False
            j = pick(share / min(ways[k, 0], 1.0), initial)
            servers[i - 1, j] += 1
            if i > 2:
                servers[0, j] += 1
            counts[SHORTENED] += 1
            return False
    if x < mu * pools[IDLE_ON]:
        pools[IDLE_ON] -= 1
        pools[IDLE_OFF] += 1
        moved[IDLE_OFF] += elapsed
        counts[RED] += 1
    elif x - mu * pools[IDLE_ON] < nu * pools[SETUP]:
        pools[SETUP] -= 1
        pools[IDLE_ON] += 1
        moved[SETUP] -= elapsed
        counts[COMPLETED] += 1
    else:
        return x - mu * pools[IDLE_ON] - nu * pools[SETUP] < doubtful
    return False


@njit(cache=True, inline="always")
def _service_rate(gammas, servers):
    """Rate at which phases end."""
    total = 0.0
    for k in range(gammas.size):
        total += gammas[k] * (servers[1, k] + servers[0, k])
    return total


@njit(cache=True, inline="always")
def room_of(total):
    """Servers of each phase that a block does not count on: those used up before it asks, and its usual change."""
    root = math.sqrt(total)
    return max(int(SPARE * root), PER_DRAW) + int(WANDER * math.sqrt(root))


@njit(cache=True, inline="always")
def _settle(kinds, latest, happened, n, servers, queue, pools):
    """Carry the latest sure events into the state. servers[1, K] takes those without a phase."""
    before, after, _ = kinds
    for kind in range(min(before.size, COUNTED)):
        number = np.int64((latest >> np.uint64(FIELD * kind)) & MAX_COUNTED)
        servers[1, before[kind]] -= number
        servers[1, after[kind]] += number
        happened[kind] += number
    queue[1] = n - pools[IDLE_ON] - pools[IDLE_OFF] - pools[SETUP]


@njit(cache=True, error_model="numpy", _nrt=False)
def _block(
    n, arrival, doubtful, bound, mu, nu, delta, buffer, service, kinds, room, events, servers, queue, pools, words,
    counts, moved, work,
):  # fmt: skip
    """Events of a block until the bound may be passed, `events` are done, or one is a doubtful arrival.

    Returns their number, the sum of U after each, and whether the last one was doubtful.

    The hot loop stores nothing: a count in memory would be read again by the next event or not, as chance has it, which
    processors guess badly. So the latest events are counted in the fields of one word. Within the block servers[1, k]
    is what is not counted on.
    """
    gammas, initial, ways = service
    before, after, chances = kinds
    table, gain, one, happened, beyond, sure = work
    phases, size = gammas.size, before.size
    for k in range(phases):
        sure[k] = max(servers[1, k] - room, 0)
        servers[1, k] -= sure[k]
    first = 0
    for kind in range(size):
        starts = 1 * (before[kind] == phases)
        rate = chances[kind] * (arrival if starts else gammas[before[kind]] * sure[before[kind]])
        cells = int(rate / bound * CELLS) if kind < COUNTED else 0
        beyond[kind] = max(rate - cells * (bound / CELLS), 0.0)
        gain[kind] = 1 * (after[kind] == phases) - starts
        one[kind] = np.uint64(1) << np.uint64(FIELD * min(kind, COUNTED - 1))
        happened[kind] = 0
        table[first : first + cells] = kind
        first += cells
    table[first:] = size
    gain[size] = NEVER
    nothing = np.uint64(size)
    rest = bound * ((CELLS - first) / CELLS)
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    idle, area, elapsed, allowed, latest, doubt = pools[IDLE_ON], 0, 0, 0, np.uint64(0), False
    while elapsed < events and not doubt:
        if allowed < PER_DRAW:  # how many events, at worst, would pass the bound or use up what is not counted on?
            pools[IDLE_ON] = idle
            _settle(kinds, latest, happened, n, servers, queue, pools)
            latest = np.uint64(0)
            total = arrival + doubtful + mu * idle + nu * pools[SETUP]
            allowed = np.int64(MAX_COUNTED)
            for k in range(phases):
                total += gammas[k] * (sure[k] + servers[1, k] + servers[0, k])
                if sure[k] > 0:
                    allowed = min(allowed, servers[1, k])
            allowed = min(allowed, int((bound - total) / delta))
            if allowed < PER_DRAW:
                break
        todo = min(PER_DRAW, events - elapsed)
        allowed -= todo
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        while True:
            kind = nothing
            while todo > 0:
                kind = np.uint64(table[draw & CELL])
                changed = idle + gain[kind]
                if changed < 0:
                    break
                latest += one[kind]
                idle = changed
                area += idle
                draw >>= BITS
                todo -= 1
                elapsed += 1
            if todo == 0:
                break
            draw >>= BITS
            todo -= 1
            elapsed += 1
            pools[IDLE_ON] = idle
            _settle(kinds, latest, happened, n, servers, queue, pools)
            latest = np.uint64(0)
            second, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            x = np.float64(second >> _11) * TO_UNIT
            if kind == nothing:
                x *= rest
                cut = 0
                while cut < size and x >= beyond[cut]:
                    x -= beyond[cut]
                    cut += 1
                kind = np.uint64(cut)
                if kind < nothing:
                    x /= beyond[cut]
            if kind == nothing:
                doubt = _evolve(
                    x, elapsed, mu, nu, doubtful, gammas, initial, ways, servers, queue, pools, counts, moved
                )
            elif idle + gain[kind] >= 0:
                servers[1, before[kind]] -= 1
                servers[1, after[kind]] += 1
                happened[kind] += 1
                pools[IDLE_ON] += gain[kind]
            else:
                for k in range(phases):
                    servers[1, k] += sure[k]
                _arrive(x, elapsed, buffer, initial, servers, queue, pools, counts, moved)
                for k in range(phases):
                    servers[1, k] -= sure[k]
            idle = pools[IDLE_ON]
            area += idle
            if doubt:
                break
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    pools[IDLE_ON] = idle
    _settle(kinds, latest, happened, n, servers, queue, pools)
    for k in range(phases):
        servers[1, k] += sure[k]
    for kind in range(size):
        if before[kind] == phases:
            counts[ARRIVALS] += happened[kind]
        elif after[kind] == phases:
            counts[GREEN] += happened[kind]
        else:
            counts[PHASES] += happened[kind]
    return elapsed, area, doubt


@njit(cache=True)
def _by_block(
    n, arrival, doubtful, total, room, most, mu, nu, delta, buffer, service, kinds, t, end, stop, servers, queue,
    pools, words, counts, integrals, moved, work,
):  # fmt: skip
    """One block from time t on, at most to `stop`; the time reached, and whether its last event is a doubtful arrival.

    `most`: 0, or how long the block is to last at most on average.

    Time integrals are those of the state at the end of the block, less every change times the intervals before it.
    """
    bound = total + (room + 1) * delta
    needed = 32 + int(min(bound * (end - t), float(MAX_EVENTS)))
    m = min(max(2 * room * room, 64), MAX_EVENTS, needed)
    if most > 0.0:
        m = min(m, max(int(most * bound), 16))
    length, until, events, intervals = planned(m, bound, t, stop, words)
    idle = pools[IDLE_ON]
    done, area, doubt = _block(
        n, arrival, doubtful, bound, mu, nu, delta, buffer, service, kinds, room, events, servers, queue, pools, words,
        counts, moved, work,
    )  # fmt: skip
    if done < events or (doubt and done < intervals):
        length = cut(done, intervals, length, words)
        until, intervals = t + length, done
    weight = length / intervals
    on = weight * (idle + area + (intervals - done - 1) * pools[IDLE_ON])
    off = weight * (intervals * pools[IDLE_OFF] - moved[IDLE_OFF])
    setup = weight * (intervals * pools[SETUP] - moved[SETUP])
    integrals[IDLE_ON] += on
    integrals[IDLE_OFF] += off
    integrals[SETUP] += setup
    integrals[3] += n * length - on - off - setup
    moved[IDLE_OFF] = moved[SETUP] = 0
    for i in range(2, pools[TOP] + 1):
        integrals[2 + i] += weight * (intervals * queue[i] - moved[2 + i])
        moved[2 + i] = 0
    return until, doubt


@njit(cache=True)
def advance(
    n, times, steps, amplitude, omega, mu, nu, delta, buffer, service, kinds, start, end, servers, queue, pools, words,
    counts, integrals,
):  # fmt: skip
    """Simulate from `start` to `end`. Returns what may have grown: servers, queue, integrals.

    `delta`: most that one event adds to the total rate.
    """
    gammas, size = service[0], kinds[0].size
    moved = np.zeros(integrals.size, np.int64)
    table, gain, one = np.empty(CELLS, np.uint16), np.empty(size + 1, np.int64), np.empty(size, np.uint64)
    work = (table, gain, one, np.empty(size, np.int64), np.empty(size), np.empty(gammas.size, np.int64))
    t, k = start, 0
    while t < end:
        while pools[TOP] > 1 and queue[pools[TOP]] == 0:
            pools[TOP] -= 1
        longest = min(pools[TOP] + MAX_EVENTS, buffer) + 2  # an event lengthens no queue by more than one
        if longest > queue.size:
            servers, queue = with_room(servers, longest), with_room(queue, longest)
            integrals, moved = with_room(integrals, longest + 2), with_room(moved, longest + 2)
        k, stop, low, high = window(t, end, k, n, times, steps, amplitude, omega)
        total = high * n + _service_rate(gammas, servers) + mu * pools[IDLE_ON] + nu * pools[SETUP]
        room = room_of(total)
        most = 0.75 * (stop - t) if amplitude != 0.0 else 0.0  # rarely cut, which costs more than another block
        t, doubt = _by_block(
            n, low * n, (high - low) * n, total, room, most, mu, nu, delta, buffer, service, kinds, t, end, stop,
            servers, queue, pools, words, counts, integrals, moved, work,
        )  # fmt: skip
        if doubt:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            share = uniform(words) * (high - low) / (rate - low) if rate > low else 1.0
            if share < 1.0:
                _arrive(share, 0, buffer, service[1], servers, queue, pools, counts, moved)
    return servers, queue, integrals
