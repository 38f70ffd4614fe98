"""TABS and JIQ with exponential service: uniformised blocks of events, and runs of coin flips between them.

An optimisation of the definition in `elastiqueue.models.tabs.definition`, for setups that are not aborted; exact in
distribution, and at a cost per unit of time that grows as sqrt(N) for large N near the fixed point.

Uniformised blocks. While the total rate stays below a bound, events (some of which do nothing) come at that rate. The
m-th comes after a Gamma(m) time G. A block ends there, or after the k-th event, k < m, which takes the rate beyond the
bound: at G times a Beta(k, m - k) number. Where the time that is left ends inside the block, Binomial(m - 1, rest/G)
events come before the end, k of which take Beta(k, that number + 1 - k) of the rest. Given its length, the intervals of
a block are exchangeable: each counts alike in a time integral, which is its conditional expectation.

Runs of coin flips. Let c be at most the arrival rate and at most the number of servers with one task, throughout the
block. Then, by superposition, events are of two sorts, whatever the state: with probability 2c / bound a fair coin
flip, whose head is an arrival and whose tail is a departure from a server of one task, and otherwise one of the rest,
drawn from what the rates exceed c by. So a Geometric number of flips lies between two events of the rest. A flip
changes U by one; while fewer than U + 1 flips are tossed no arrival finds U = 0, and the state after k flips depends on
the number of heads only: it is counted in the bits of words, 64 flips each. The order of the flips given their heads is
uniform, so that each stands at the middle of the run in the time integrals. The number of flips left has no memory: a
run may be cut after any number of flips that does not depend on what is left, and there a block may end too. It must
not end because a run ended by itself, which would look ahead at the event that ended it.
Cost: near the fixed point the rest (what arrivals exceed departures by or the reverse, second tasks, standby, setups,
the bound's distance) has a rate of order sqrt(N); words are N / 64 in number but take 1 ns, and U is of order sqrt(N),
so that the words that hold fewer than 64 flips are O(log N) per excursion from U = 0.

Varying arrival rates. A block ends at a breakpoint of the rate, and where a sinusoid has moved by about sqrt of the
total rate. Of arrivals, the least rate over the block is certain and treated as above; what lies between it and the
largest is doubtful: such an event ends the block, at a time that is then known, and is an arrival with the probability
that the rate at this time gives it (thinning: Lewis and Shedler, Naval Res. Logistics 26(3), 1979).

Numbers. A block has at most 2^22 events, so that sums of changes times intervals stay below 2^46 and 2 N times the
intervals below 2^54 for N <= 10^9 < 2^30: far from 2^63.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elastiqueue.sampling.rng import TICKS, TO_UNIT, ones, step, ticks, uniform
from elastiqueue.sampling.thinning import rate_at, window
from elastiqueue.sampling.uniformised import cut, planned

# Positions in the vector of counts; the names are the columns.
# Shortened: departures that leave tasks behind. Found: tasks met at their server by those that wait.
ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED = range(10)
COUNTS = (
    "arrivals", "waited", "lost_off", "lost_full", "found", "green", "red", "setups_started", "setups", "shortened",
)  # fmt: skip
# Positions in the vector of integrals, after which Q_1, Q_2, ... follow.
IDLE_ON, IDLE_OFF, SETUP = range(3)
INTEGRALS = ("idle_on", "idle_off", "setup")
TOP = 3  # position in the state `pools`, behind U, D0, D1: the longest queue of the block
STRIDE, DUE, SAMPLES = range(3)  # positions in `sampler`
NEVER = 2**62
MAX_EVENTS, MAX_WITH_FLIPS = 4096, 2**22  # of a block
MIN_SHARE = 0.8  # of coin flips among the events of a block with flips
_1, _2, _11 = np.uint64(1), np.uint64(2), np.uint64(11)


@njit(cache=True)
def with_room(values, size):
    """The same values with room for `size` entries along the first axis."""
    return np.concatenate((values, np.zeros((size - len(values), *values.shape[1:]), values.dtype)))


@njit(cache=True, inline="always")
def _arrive_at_a_busy_server(share, elapsed, buffer, queue, pools, counts, moved):
    """An arrival that finds no server idle-on; the busy server that it goes to is chosen by `share` in [0, 1].

    pools: U, D0, D1, longest queue. moved: changes of U, D0, D1, Q_1, Q_2, ... times `elapsed`.
    """
    counts[ARRIVALS] += 1
    if queue[1] == 0:
        counts[LOST_OFF] += 1
    else:
        rank = share * queue[1]
        i = 1
        while rank < queue[i + 1]:
            i += 1
        if i == buffer:
            counts[LOST_FULL] += 1
        else:
            queue[i + 1] += 1
            pools[TOP] = max(pools[TOP], i + 1)
            moved[3 + i] += elapsed
            counts[WAITED] += 1
            counts[FOUND] += i
            if counts.size > SHORTENED + 1:  # behind: how many found i tasks; the last with all above
                counts[min(SHORTENED + i, counts.size - 1)] += 1
    if pools[IDLE_OFF] > 0:
        pools[IDLE_OFF] -= 1
        pools[SETUP] += 1
        moved[IDLE_OFF] -= elapsed
        moved[SETUP] += elapsed
        counts[STARTED] += 1


@njit(cache=True, inline="always")
def _depart_or_switch(x, elapsed, mu, nu, doubtful, queue, pools, counts, moved):
    """A departure that leaves tasks behind, a standby, or the end of a setup: by x >= 0 on the scale of the rates.

    Whether it is none of them, but an arrival at the doubtful part of the arrival rate.
    """
    several = queue[2]
    if x < several:
        i = 2
        while x < queue[i + 1]:
            i += 1
        queue[i] -= 1
        moved[2 + i] -= elapsed
        counts[SHORTENED] += 1
    elif x - several < mu * pools[IDLE_ON]:
        pools[IDLE_ON] -= 1
        pools[IDLE_OFF] += 1
        moved[IDLE_ON] -= elapsed
        moved[IDLE_OFF] += elapsed
        counts[RED] += 1
    elif doubtful > 0.0 and x - several - mu * pools[IDLE_ON] >= nu * pools[SETUP]:
        return True
    elif pools[SETUP] > 0:
        pools[SETUP] -= 1
        pools[IDLE_ON] += 1
        moved[SETUP] -= elapsed
        moved[IDLE_ON] += elapsed
        counts[COMPLETED] += 1
    return False


@njit(cache=True, inline="always")
def _room(n, spare, nu, pools):
    """What `spare` leaves when every server that is on is busy, and those in setup have their clocks."""
    return spare - (n - pools[IDLE_OFF] - pools[SETUP]) - nu * pools[SETUP]


@njit(cache=True, error_model="numpy", _nrt=False)
def _block(n, arrival, doubtful, bound, mu, nu, buffer, first, events, queue, pools, words, counts, moved):
    """Events of a block from number `first` on, one by one, until the total rate exceeds the bound, `events` are done,
    or one is doubtful.

    Returns the number of events done, and whether the last one was doubtful.

        y:  ... 0 ... departures from one task ... none ... top - mu U ... the others ... top
        certain arrivals

    `elapsed`, here and in `_flips`, is twice the number of intervals up to the event. The hot loop touches the
    generator, U and the number of servers with one task, no memory, and these in whole numbers of ticks: each event
    waits for the comparison and the sum of the one before, which take three times as long in floating point. Its two
    tests nearly always succeed; what an arrival, a departure or no event do there is added up without a branch.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    arrival_ticks, service_ticks, standby_ticks = ticks(arrival, bound), ticks(1.0, bound), ticks(mu, bound)
    top = TICKS - arrival_ticks - ticks(queue[2] + nu * pools[SETUP] + doubtful, bound)
    room = _room(n, bound - arrival - doubtful, nu, pools)
    idle, single = pools[IDLE_ON], queue[1] - queue[2]
    happened, arrived, moved_idle = 0, 0, 0
    elapsed, last, doubt = 2 * first, 2 * events, False
    while elapsed < last and (mu - 1.0) * idle <= room:
        elapsed += 2
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - arrival_ticks
        low, high = -TICKS if idle > 0 else 0, top - standby_ticks * idle
        if low <= y < high:
            is_arrival = 1 * (y < 0)
            is_event = 1 * (y < service_ticks * single)
            gain = is_event - 2 * is_arrival
            happened += is_event
            arrived += is_arrival
            idle += gain
            single -= gain
            moved_idle += gain * elapsed
            continue
        pools[IDLE_ON] = idle
        queue[1] = queue[2] + single
        if y < 0:
            _arrive_at_a_busy_server((y + arrival_ticks) / arrival_ticks, elapsed, buffer, queue, pools, counts, moved)
        else:
            x = (TICKS - arrival_ticks - y) * (bound / TICKS)
            doubt = _depart_or_switch(x, elapsed, mu, nu, doubtful, queue, pools, counts, moved)
            if doubt:
                break
        top = TICKS - arrival_ticks - ticks(queue[2] + nu * pools[SETUP] + doubtful, bound)
        room = _room(n, bound - arrival - doubtful, nu, pools)
        idle, single = pools[IDLE_ON], queue[1] - queue[2]
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    pools[IDLE_ON] = idle
    queue[1] = queue[2] + single
    moved[IDLE_ON] += moved_idle
    moved[3] -= moved_idle
    counts[ARRIVALS] += arrived
    counts[GREEN] += happened - arrived
    return elapsed // 2, doubt


@njit(cache=True, error_model="numpy", _nrt=False)
def _flips(n, arrival, doubtful, bound, coin, mu, nu, buffer, first, events, queue, pools, words, counts, moved):
    """`_block` with runs of coin flips between the events of the rest; also ends before fewer than `coin` servers have
    one task, and where a queue gets too long for its array.

    y is as in `_block`, on the scale of the rest. Before each event the total rate is at most the bound, and `spare`,
    the servers of one task beyond the coin's rate, at least 0: by the limit of a run, within it.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    rest = bound - 2 * coin
    per_flip = 1.0 / math.log1p(-rest / bound)
    per_rise = 1.0 / max(abs(1.0 - mu), 1e-3)
    arrival_ticks, service_ticks, standby_ticks = ticks(arrival - coin, rest), ticks(1.0, rest), ticks(mu, rest)
    top = TICKS - arrival_ticks - ticks(queue[2] + nu * pools[SETUP] + doubtful, rest)
    room = _room(n, bound - arrival - doubtful, nu, pools)
    idle, spare = pools[IDLE_ON], queue[1] - queue[2] - coin
    happened, arrived, moved_idle = 0, 0, 0
    elapsed, last, doubt = 2 * first, 2 * events, False
    draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
    run = int(math.log(1.0 - np.float64(draw >> _11) * TO_UNIT) * per_flip)
    while elapsed < last and spare >= 0:
        slack = room - (mu - 1.0) * idle
        if slack < 0.0:
            break
        share = -1.0  # of the rates of busy servers: who takes an arrival that finds no server idle-on
        if idle > 0:
            limit = min(idle, spare + 1, int(slack * per_rise) + 1, (last - elapsed) >> 1)
            flips = min(run, limit)
            heads, todo = 0, flips
            while todo >= 64:
                draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
                heads += ones(draw)
                todo -= 64
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            heads += ones((draw >> _1) >> np.uint64(63 - todo))
            gain = flips - 2 * heads
            idle += gain
            spare -= gain
            moved_idle += gain * (elapsed + flips + 1)  # the flips are exchangeable: each at the middle of the run
            happened += flips
            arrived += heads
            elapsed += 2 * flips
            run -= flips
            if flips == limit:
                continue
        elif run > 0:
            run -= 1
            elapsed += 2
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            if draw & _1 == 0:
                happened += 1
                idle += 1
                spare -= 1
                moved_idle += elapsed
                continue
            share = np.float64(draw >> _11) * TO_UNIT
        if share < 0.0:
            elapsed += 2
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            run = int(math.log(1.0 - np.float64(draw >> _11) * TO_UNIT) * per_flip)
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            y = np.int64(draw >> _2) - arrival_ticks
            low, high = -TICKS if idle > 0 else 0, top - standby_ticks * idle
            if low <= y < high:
                is_arrival = 1 * (y < 0)
                is_event = 1 * (y < service_ticks * spare)
                gain = is_event - 2 * is_arrival
                happened += is_event
                arrived += is_arrival
                idle += gain
                spare -= gain
                moved_idle += gain * elapsed
                continue
            if y < 0:
                share = (y + arrival_ticks) / arrival_ticks
        pools[IDLE_ON] = idle
        queue[1] = queue[2] + coin + spare
        if share >= 0.0:
            _arrive_at_a_busy_server(share, elapsed, buffer, queue, pools, counts, moved)
        else:
            x = (TICKS - arrival_ticks - y) * (rest / TICKS)
            doubt = _depart_or_switch(x, elapsed, mu, nu, doubtful, queue, pools, counts, moved)
        top = TICKS - arrival_ticks - ticks(queue[2] + nu * pools[SETUP] + doubtful, rest)
        room = _room(n, bound - arrival - doubtful, nu, pools)
        idle, spare = pools[IDLE_ON], queue[1] - queue[2] - coin
        if doubt or (pools[TOP] + 2 >= queue.size and pools[TOP] < buffer):
            break
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    pools[IDLE_ON] = idle
    queue[1] = queue[2] + coin + spare
    moved[IDLE_ON] += moved_idle
    moved[3] -= moved_idle
    counts[ARRIVALS] += arrived
    counts[GREEN] += happened - arrived
    return elapsed // 2, doubt


@njit(cache=True)
def _sample(queue, pools, sampler, states, weights):
    """Write down the state as `models.tabs.definition` has it; returns states and weights, which may have grown."""
    row, longest = sampler[SAMPLES], pools[TOP]
    if row == len(states) or 4 + longest > states.shape[1]:
        size = (2 * len(states) if row == len(states) else len(states), max(states.shape[1], 4 + longest))
        grown = np.zeros(size, np.int64)
        grown[: len(states), : states.shape[1]] = states
        states, weights = grown, with_room(weights, len(grown))
    states[row, :3] = pools[:3]
    states[row, 3] = queue[1]
    for i in range(1, longest + 1):
        states[row, 3 + i] = queue[i] - queue[i + 1]
    sampler[SAMPLES] += 1
    sampler[DUE] += sampler[STRIDE]
    return states, weights


@njit(cache=True)
def advance(
    n, times, steps, amplitude, omega, mu, nu, buffer, start, end, queue, pools, words, counts, integrals, sampler,
    states, weights,
):  # fmt: skip
    """Simulate from `start` to `end` in uniformised blocks; the arrival rate per server as in `sampling.thinning`.

    Time integrals are those of the state at the end of the block, less every change times the intervals before it.

    sampler: stride, intervals until the next sample, samples so far. Of the intervals, counted through all blocks,
    every stride-th is sampled: states get a row, as in `definition`, and weights stride times the mean length of the
    block's intervals. The first one being drawn uniformly, weighted sums estimate time integrals without bias.

    Returns the arrays that may have grown: queue, integrals, states, weights.
    """
    delta = max(1.0 - mu, nu, mu - 1.0, mu - nu, 0.001)  # not 0, so that no rounding ends a block before it begins
    moved = np.zeros(integrals.size, np.int64)
    t, k = start, 0
    while t < end:
        k, stop, low, high = window(t, end, k, n, times, steps, amplitude, omega)
        arrival, doubtful = low * n, (high - low) * n
        total = arrival + doubtful + queue[1] + mu * pools[IDLE_ON] + nu * pools[SETUP]
        if total <= 0.0:  # nothing can happen any more
            for which in range(3):
                integrals[which] += (stop - t) * pools[which]
            t = stop
            continue
        # How far a block may wander, against the events that do nothing or are no flips for it. A block lasts for some
        # wander^2 events: total / wander^2 blocks and events of rate wander in balance would give the cube root.
        wander = int(5.0 * math.sqrt(math.sqrt(total)))
        reach = int(5.0 * total ** (1.0 / 3.0))
        coin = min(int(arrival), queue[1] - queue[2] - reach)
        tossing = 2 * coin > MIN_SHARE * (total + reach)
        if tossing:
            wander = reach
        bound = total + wander * min(delta, 1.0) + 2.0 * delta
        most = MAX_WITH_FLIPS if tossing else MAX_EVENTS
        m = min(max(4 * wander * wander, 16), most, 32 + int(min(bound * (end - t), float(most))))  # what may be needed
        if amplitude != 0.0:
            m = min(m, max(int(0.75 * bound * (stop - t)), 16))  # rarely cut, which costs more than another block
        length, until, events, intervals = planned(m, bound, t, stop, words)
        pools[TOP] = 1
        while queue[pools[TOP] + 1] > 0:
            pools[TOP] += 1
        size = min(pools[TOP] + min(events, MAX_EVENTS), buffer) + 2  # an event lengthens no queue by more than one
        if size > queue.size:
            queue = with_room(queue, size)
            integrals, moved = with_room(integrals, size + 2), with_room(moved, size + 2)
        done, sampled = 0, sampler[SAMPLES]
        while True:
            last = min(events, sampler[DUE])
            if tossing:
                done, doubt = _flips(
                    n, arrival, doubtful, bound, coin, mu, nu, buffer, done, last, queue, pools, words, counts, moved
                )
            else:
                done, doubt = _block(
                    n, arrival, doubtful, bound, mu, nu, buffer, done, last, queue, pools, words, counts, moved
                )
            if done != sampler[DUE] or doubt or done == intervals:
                break
            states, weights = _sample(queue, pools, sampler, states, weights)
            if done == events:
                break
        if done < events or (doubt and done < intervals):
            length = cut(done, intervals, length, words)
            until, intervals = t + length, done
        if sampler[SAMPLES] > sampled and sampler[DUE] - sampler[STRIDE] == intervals:  # that interval never began
            sampler[SAMPLES] -= 1
            sampler[DUE] -= sampler[STRIDE]
        sampler[DUE] -= intervals
        weights[sampled : sampler[SAMPLES]] = sampler[STRIDE] * length / intervals
        weight = length / (2 * intervals)
        for which in range(3):
            integrals[which] += weight * (2 * intervals * pools[which] - moved[which])
            moved[which] = 0
        for i in range(1, pools[TOP] + 1):
            integrals[2 + i] += weight * (2 * intervals * queue[i] - moved[2 + i])
            moved[2 + i] = 0
        t = until
        if doubt:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            share = uniform(words) * (high - low) / (rate - low) if rate > low else 1.0
            if share < 1.0 and pools[IDLE_ON] > 0:
                pools[IDLE_ON] -= 1
                queue[1] += 1
                counts[ARRIVALS] += 1
            elif share < 1.0:
                _arrive_at_a_busy_server(share, 0, buffer, queue, pools, counts, moved)
    return queue, integrals, states, weights


@njit(cache=True)
def record(state, queue, pools):
    """Write down U, D0, D1, the number of tasks, Q_1, Q_2, ..."""
    state[:3] = pools[:3]
    state[3] = queue[1:].sum()
    state[4:] = queue[1 : state.size - 3]


@njit(cache=True)
def stretches(
    n, times, steps, amplitude, omega, mu, nu, buffer, start, ends, queue, pools, words, counts, integrals, sampler,
    states, weights, visited,
):  # fmt: skip
    """`advance` to each of M ends: counts, shape (M, C), integrals, (M, L), and the samples visited so far, (M,).

    Returns the arrays that may have grown: queue, integrals, states, weights.
    """
    for k in range(ends.size):
        queue, sums, states, weights = advance(
            n, times, steps, amplitude, omega, mu, nu, buffer, start, ends[k], queue, pools, words, counts[k],
            integrals[k].copy(), sampler, states, weights,
        )  # fmt: skip
        if sums.size > integrals.shape[1]:
            longer = np.zeros((len(integrals), sums.size))
            longer[:, : integrals.shape[1]] = integrals
            integrals = longer
        integrals[k, : sums.size] = sums
        visited[k] = sampler[SAMPLES]
        start = ends[k]
    return queue, integrals, states, weights


@njit(cache=True)
def replications(
    n, times, steps, amplitude, omega, mu, nu, buffer, busy, state, edges, grid, words, counts, integrals, states
):
    """Replications from time 0 on, one per row of `words`, shape (R, 4): the whole batch in one call.

    state: U, D0, D1 and any number at time 0, and `busy` servers with a task each. edges, grid: as
    `models.base.replicate` takes them. Fills counts, shape (R, M, C), and states, shape (R, T, K); returns integrals,
    shape (R, M, L), which may have grown along the last axis.
    """
    sampler, no_states, no_weights = np.array([0, NEVER, 0]), np.zeros((0, 0), np.int64), np.zeros(0)
    for r in range(len(words)):
        queue, pools = np.zeros(integrals.shape[2] - 2, np.int64), state.copy()
        queue[1] = busy
        sums, numbers = np.zeros(integrals.shape[2]), np.zeros(counts.shape[2], np.int64)
        start, k, row = 0.0, 0, 0
        while k < edges.size:
            end = min(edges[k], grid[row]) if row < grid.size else edges[k]
            queue, sums, _, _ = advance(
                n, times, steps, amplitude, omega, mu, nu, buffer, start, end, queue, pools, words[r], numbers, sums,
                sampler, no_states, no_weights,
            )  # fmt: skip
            sampler[DUE] = NEVER
            start = end
            if row < grid.size and grid[row] == end:
                record(states[r, row], queue, pools)
                row += 1
            if edges[k] == end:
                if k > 0:
                    counts[r, k - 1] = numbers
                    if sums.size > integrals.shape[2]:
                        longer = np.zeros((integrals.shape[0], integrals.shape[1], sums.size))
                        longer[:, :, : integrals.shape[2]] = integrals
                        integrals = longer
                    integrals[r, k - 1, : sums.size] = sums
                numbers[:] = 0
                sums[:] = 0.0
                k += 1
    return integrals
