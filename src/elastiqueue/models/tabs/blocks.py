"""TABS and JIQ with exponential service: uniformised blocks of events, and runs of coin flips between them.

Uniformised blocks. While the total rate stays below a bound, events (some of which do nothing) come at that rate.
The m-th comes after a Gamma(m) time G. A block ends there, or after the k-th event, k < m, which takes the rate
beyond the bound: at G times a Beta(k, m - k) number. Where the run ends inside the block, Binomial(m - 1, rest/G)
events come before the end, k of which take Beta(k, that number + 1 - k) of the rest. Given its length, the
intervals of a block are exchangeable: each counts alike in a time integral, which is its conditional expectation.

Runs of coin flips. Arrivals and departures from servers of one task both have at least some rate c while those servers
are at least c. So a Geometric number of fair coin flips, each an arrival or such a departure, lies between the events
that are left. While fewer flips than U are tossed no arrival finds U = 0, and only the number of heads matters: it is
counted in the bits of one word. Both are exact in law. What is left is of the order of the bound's distance and of
sqrt(N), so that events get cheaper with N.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elastiqueue.sampling.rng import TICKS, TO_UNIT, beta, binomial, gamma, ones, step, ticks

# Positions in the vector of counts; the names are the columns.
# Shortened: departures that leave tasks behind. Found: tasks met at their server by those that wait.
ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED = range(10)
COUNTS = (
    "arrivals", "waited", "lost_off", "lost_full", "found", "green", "red", "setups_started", "setups", "shortened",
)  # fmt: skip
# Positions in the vector of integrals, after which Q_1, Q_2, ... follow.
IDLE_ON, IDLE_OFF, SETUP = range(3)
INTEGRALS = ("idle_on", "idle_off", "setup")
TOP = 3  # position in the state `others`, behind U, D0, D1: the longest queue of the block
MOST = 4096  # events of a block
WORTH_IT, FROM, LEAST = 0.8, 16, 3  # `_flips`: share of coin flips, and idle-on servers at its start and throughout
_1, _2, _11 = np.uint64(1), np.uint64(2), np.uint64(11)


@njit(cache=True)
def with_room(values, size):
    """The same values with room for `size` entries along the first axis."""
    return np.concatenate((values, np.zeros((size - len(values), *values.shape[1:]), values.dtype)))


@njit(cache=True, inline="always")
def _arrive_at_a_busy_server(share, passed, buffer, queue, others, counts, moved):
    """An arrival that finds no server idle-on; the busy server that it goes to is chosen by `share` in [0, 1].

    others: U, D0, D1, longest queue. moved: changes of U, D0, D1, Q_1, Q_2, ... times `passed`.
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
            others[TOP] = max(others[TOP], i + 1)
            moved[3 + i] += passed
            counts[WAITED] += 1
            counts[FOUND] += i
    if others[IDLE_OFF] > 0:
        others[IDLE_OFF] -= 1
        others[SETUP] += 1
        moved[IDLE_OFF] -= passed
        moved[SETUP] += passed
        counts[STARTED] += 1


@njit(cache=True, inline="always")
def _depart_or_switch(x, passed, mu, queue, others, counts, moved):
    """A departure that leaves tasks behind, a standby, or the end of a setup: by x >= 0 on the scale of the rates."""
    several = queue[2]
    if x < several:
        i = 2
        while x < queue[i + 1]:
            i += 1
        queue[i] -= 1
        moved[2 + i] -= passed
        counts[SHORTENED] += 1
    elif x - several < mu * others[IDLE_ON]:
        others[IDLE_ON] -= 1
        others[IDLE_OFF] += 1
        moved[IDLE_ON] -= passed
        moved[IDLE_OFF] += passed
        counts[RED] += 1
    elif others[SETUP] > 0:
        others[SETUP] -= 1
        others[IDLE_ON] += 1
        moved[SETUP] -= passed
        moved[IDLE_ON] += passed
        counts[COMPLETED] += 1


@njit(cache=True, inline="always")
def _room(n, spare, nu, others):
    """What `spare` leaves when every server that is on is busy, and those in setup have their clocks."""
    return spare - (n - others[IDLE_OFF] - others[SETUP]) - nu * others[SETUP]


@njit(cache=True, error_model="numpy", _nrt=False)
def _block(n, arrival, bound, mu, nu, buffer, events, queue, others, words, counts, moved):
    """Events of a block one by one, until the total rate exceeds the bound or `events` are done; their number.

        y:  ... 0 ... departures from one task ... none ... top - mu U ... the others ... top
        arrivals

    `passed`, here and in `_flips`, is twice the number of intervals up to the event. The hot loop touches the
    generator, U and the number of servers with one task, no memory, and these in whole numbers of ticks: each event
    waits for the comparison and the sum of the one before, which take three times as long in floating point. Its two
    tests nearly always succeed; what an arrival, a departure or no event do there is added up without a jump.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    come, unit, standby = ticks(arrival, bound), ticks(1.0, bound), ticks(mu, bound)
    top = TICKS - come - ticks(queue[2] + nu * others[SETUP], bound)
    room = _room(n, bound - arrival, nu, others)
    idle, one = others[IDLE_ON], queue[1] - queue[2]
    usual, arrived, moved_idle = 0, 0, 0
    passed, last = 0, 2 * events
    while passed < last and (mu - 1.0) * idle <= room:
        passed += 2
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - come
        low, high = -TICKS if idle > 0 else 0, top - standby * idle
        if low <= y < high:
            came = 1 * (y < 0)
            real = 1 * (y < unit * one)
            gain = real - 2 * came
            usual += real
            arrived += came
            idle += gain
            one -= gain
            moved_idle += gain * passed
            continue
        others[IDLE_ON] = idle
        queue[1] = queue[2] + one
        if y < 0:
            _arrive_at_a_busy_server((y + come) / come, passed, buffer, queue, others, counts, moved)
        else:
            x = (TICKS - come - y) * (bound / TICKS)
            _depart_or_switch(x, passed, mu, queue, others, counts, moved)
        top = TICKS - come - ticks(queue[2] + nu * others[SETUP], bound)
        room = _room(n, bound - arrival, nu, others)
        idle, one = others[IDLE_ON], queue[1] - queue[2]
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    others[IDLE_ON] = idle
    queue[1] = queue[2] + one
    moved[IDLE_ON] += moved_idle
    moved[3] -= moved_idle
    counts[ARRIVALS] += arrived
    counts[GREEN] += usual - arrived
    return passed // 2


@njit(cache=True, error_model="numpy", _nrt=False)
def _flips(n, arrival, bound, coin, most, delta, mu, nu, events, queue, others, words, counts, moved):
    """`_block` with runs of coin flips, at most `most` in one go, between the events that are drawn one by one.

    Whether to stop is asked after such an event and after a run of the greatest length, never where a run ended by
    itself: that would look ahead, at the event that ended it. The number of flips to the next event has no memory, so a
    run of the greatest length is followed by a new one.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    rest = bound - 2 * coin
    per_flip = 1.0 / math.log(2 * coin / bound)
    come, unit, standby = ticks(arrival - coin, rest), ticks(1.0, rest), ticks(mu, rest)
    top = TICKS - come - ticks(queue[2] + nu * others[SETUP], rest)
    room = _room(n, bound - arrival - most * delta, nu, others)
    idle, spare = others[IDLE_ON], queue[1] - queue[2] - coin
    usual, arrived, moved_idle = 0, 0, 0
    passed, last = 0, 2 * events
    while passed < last and spare >= most and idle > LEAST and (mu - 1.0) * idle <= room:
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        run = math.log(1.0 - np.float64(draw >> _11) * TO_UNIT) * per_flip
        limit = min(idle - 1, most, (last - passed) >> 1)
        flips = min(int(run), limit)
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        heads = ones((draw >> _1) >> np.uint64(63 - flips))
        gain = flips - 2 * heads
        idle += gain
        spare -= gain
        moved_idle += gain * (passed + flips + 1)  # the flips are exchangeable: each at the middle of the run
        usual += flips
        arrived += heads
        passed += 2 * flips
        if flips == limit:
            continue
        passed += 2
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - come
        if y < top - standby * idle:
            came = 1 * (y < 0)
            real = 1 * (y < unit * spare)
            gain = real - 2 * came
            usual += real
            arrived += came
            idle += gain
            spare -= gain
            moved_idle += gain * passed
            continue
        others[IDLE_ON] = idle
        queue[1] = queue[2] + coin + spare
        _depart_or_switch((TICKS - come - y) * (rest / TICKS), passed, mu, queue, others, counts, moved)
        top = TICKS - come - ticks(queue[2] + nu * others[SETUP], rest)
        room = _room(n, bound - arrival - most * delta, nu, others)
        idle, spare = others[IDLE_ON], queue[1] - queue[2] - coin
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    others[IDLE_ON] = idle
    queue[1] = queue[2] + coin + spare
    moved[IDLE_ON] += moved_idle
    moved[3] -= moved_idle
    counts[ARRIVALS] += arrived
    counts[GREEN] += usual - arrived
    return passed // 2


@njit(cache=True)
def _advance_blocks(n, rate, mu, nu, buffer, start, end, queue, others, words, counts, integrals):
    """Simulate from `start` to `end` in uniformised blocks, constant arrival rate; arguments as `_advance_direct`.

    Time integrals are those of the state at the end of the block, less every change times the intervals before it.
    """
    arrival = rate * n
    delta = max(1.0 - mu, nu, mu - 1.0, mu - nu, 0.001)  # not 0, so that no rounding ends a block before it begins
    moved = np.zeros(integrals.size, np.int64)
    t = start
    while t < end:
        total = arrival + queue[1] + mu * others[IDLE_ON] + nu * others[SETUP]
        if total <= 0.0:  # nothing can happen any more
            for which in range(3):
                integrals[which] += (end - t) * others[which]
            break
        wander = int(5.0 * math.sqrt(math.sqrt(total)))  # most dummies and flips given up against most blocks
        bound = total + wander * min(delta, 1.0) + 2.0 * delta
        most = min(max(wander, 1), 63)
        coin = min(int(arrival), queue[1] - queue[2] - wander - most)
        flips = others[IDLE_ON] >= FROM and 2 * coin > WORTH_IT * (bound + most * delta)
        if flips:
            bound += most * delta
        m = min(
            max(4 * wander * wander, 16), MOST, 32 + int(min(bound * (end - t), float(MOST)))
        )  # no more than may be needed
        length = gamma(float(m), words) / bound
        until = t + length
        events, intervals = m, m
        if until >= end:
            events = binomial(m - 1, (end - t) / length, words)
            intervals = events + 1
            length, until = end - t, end
        others[TOP] = 1
        while queue[others[TOP] + 1] > 0:
            others[TOP] += 1
        size = min(others[TOP] + events, buffer) + 2  # an event lengthens no queue by more than one
        if size > queue.size:
            queue = with_room(queue, size)
            integrals, moved = with_room(integrals, size + 2), with_room(moved, size + 2)
        if flips:
            done = _flips(n, arrival, bound, coin, most, delta, mu, nu, events, queue, others, words, counts, moved)
        else:
            done = _block(n, arrival, bound, mu, nu, buffer, events, queue, others, words, counts, moved)
        if done < events:
            length *= beta(float(done), float(intervals - done), words)
            until = t + length
            intervals = done
        weight = length / (2 * intervals)
        for which in range(3):
            integrals[which] += weight * (2 * intervals * others[which] - moved[which])
            moved[which] = 0
        for i in range(1, others[TOP] + 1):
            integrals[2 + i] += weight * (2 * intervals * queue[i] - moved[2 + i])
            moved[2 + i] = 0
        t = until
    return queue, integrals


@njit(cache=True)
def record(state, queue, others):
    """Write down U, D0, D1, the number of tasks, Q_1, Q_2, ..."""
    state[:3] = others[:3]
    state[3] = queue[1:].sum()
    state[4:] = queue[1 : state.size - 3]


@njit(cache=True)
def follow_blocks(n, rate, mu, nu, buffer, start, ends, queue, others, words, counts, integrals, states):
    """`_advance_blocks` from pause to pause, each with its row of `states`."""
    for k in range(ends.size):
        queue, integrals = _advance_blocks(
            n, rate, mu, nu, buffer, start, ends[k], queue, others, words, counts, integrals
        )
        start = ends[k]
        record(states[k], queue, others)
    return queue, integrals
