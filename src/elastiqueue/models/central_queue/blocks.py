"""One central queue with exponential service: uniformised blocks of events, and runs of coin flips between them.

An optimisation of the definition in `elastiqueue.models.central_queue.definition`. Blocks, runs of coin flips, varying
arrival rates and time integrals are those of `elastiqueue.models.tabs.blocks`, where the proof is. A flip is an arrival
or a departure, each of a rate of at least c: with i servers on and j tasks, departures have the rate min(i, j). A run
stays where everything that counts is linear in its heads: as long as fewer flips are tossed than servers are idle-on,
or else than tasks wait, and than are missing until setups cease to follow the waiting tasks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elastiqueue.sampling.rng import TICKS, TO_UNIT, ones, step, ticks, uniform
from elastiqueue.sampling.thinning import rate_at, window
from elastiqueue.sampling.uniformised import cut, planned

ARRIVALS, WAITED, DEPARTURES, RED, COMPLETED = range(5)
COUNTS = ("arrivals", "waited", "departures", "red", "setups")
BUSY, IDLE_ON, IDLE_OFF, SETUP, WAITING = range(5)
INTEGRALS = ("busy", "idle_on", "idle_off", "setup", "waiting")
# What happens to setups that are not needed, and to servers that are not.
KEEPS, ABORTS, STAGGERS = range(3)
ON, TASKS, IN_SETUP = range(3)  # positions in the state
MAX_EVENTS = 2**22  # of a block: see `models.tabs.blocks`
MIN_SHARE = 0.8  # of coin flips among the events: with fewer, the events of the rest cost more than they spare
_1, _2, _11 = np.uint64(1), np.uint64(2), np.uint64(11)


@njit(cache=True)
def in_setup(n, rule, on, tasks, setup):
    """Servers in setup once `on` servers and `tasks` tasks are there (KEEPS: those under way go on)."""
    if rule == KEEPS:
        return setup
    needed = min(max(tasks - on, 0), n - on)
    return min(needed, 1) if rule == STAGGERS else needed


@njit(cache=True, inline="always")
def _arrive(n, rule, state, counts):
    """An arrival: it waits where no server is idle-on, and then may have a setup started."""
    counts[ARRIVALS] += 1
    if state[TASKS] >= state[ON]:
        counts[WAITED] += 1
        if rule == KEEPS and state[ON] + state[IN_SETUP] < n:
            state[IN_SETUP] += 1
    state[TASKS] += 1


@njit(cache=True, inline="always")
def _settle(n, rule, instant, state):
    """What follows an event at once: servers without a task turn off (mu infinite), superfluous setups end."""
    if instant:
        state[ON] = min(state[ON], state[TASKS])
    state[IN_SETUP] = in_setup(n, rule, state[ON], state[TASKS], state[IN_SETUP])


@njit(cache=True, inline="always")
def _switch(x, mu, nu, state, counts):
    """The end of a standby period or of a setup: by x >= 0 on the scale of the rates. Whether it is neither."""
    idle = max(state[ON] - state[TASKS], 0)
    if x < mu * idle:
        state[ON] -= 1
        counts[RED] += 1
    elif x - mu * idle < nu * state[IN_SETUP]:
        state[ON] += 1
        state[IN_SETUP] -= 1
        counts[COMPLETED] += 1
    else:
        return True
    return False


@njit(cache=True, error_model="numpy", _nrt=False)
def _block(n, arrival, doubtful, bound, mu, nu, rule, instant, events, state, words, counts, moved):
    """Events of a block one by one, until the total rate exceeds the bound, `events` are done, or one is doubtful.

        y:  ... 0 ... departures ... none ... top - mu idle - nu setups ... standby, setups, doubtful ... top
        certain arrivals

    Returns their number, and whether the last one was doubtful. Adds to moved, as `_flips`: changes of i, j, setups and
    busy servers, each times twice the number of intervals before it.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    arrival_ticks, service_ticks = ticks(arrival, bound), ticks(1.0, bound)
    standby_ticks, setup_ticks = ticks(mu, bound), ticks(nu, bound)
    top = TICKS - arrival_ticks - ticks(doubtful, bound)
    on, tasks, setup = state[ON], state[TASKS], state[IN_SETUP]
    moved_on, sum_tasks, sum_setup, sum_busy = 0, 0, 0, 0
    arrivals, waited, departures = 0, 0, 0
    done, doubt = 0, False
    while done < events:
        busy = min(on, tasks)
        high = top - standby_ticks * (on - busy) - setup_ticks * setup
        if service_ticks * busy > high:
            break
        done += 1
        sum_tasks += tasks
        sum_setup += setup
        sum_busy += busy
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - arrival_ticks
        if y < high:
            is_arrival = 1 * (y < 0)
            is_event = 1 * (y < service_ticks * busy)
            waits = is_arrival * (tasks >= on)
            arrivals += is_arrival
            waited += waits
            departures += is_event - is_arrival
            tasks += 2 * is_arrival - is_event
            if rule == KEEPS:
                setup += waits * (on + setup < n)
            if instant:
                moved_on += (min(on, tasks) - on) * done
                on = min(on, tasks)
            setup = in_setup(n, rule, on, tasks, setup)
            continue
        state[ON], state[TASKS], state[IN_SETUP] = on, tasks, setup
        doubt = _switch((TICKS - arrival_ticks - y) * (bound / TICKS), mu, nu, state, counts) and doubtful > 0.0
        _settle(n, rule, instant, state)
        moved_on += (state[ON] - on) * done
        on, setup = state[ON], state[IN_SETUP]
        if doubt:
            break
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    state[ON], state[TASKS], state[IN_SETUP] = on, tasks, setup
    counts[ARRIVALS] += arrivals
    counts[WAITED] += waited
    counts[DEPARTURES] += departures
    moved[0] += 2 * moved_on
    moved[1] += 2 * (done * tasks - sum_tasks)
    moved[2] += 2 * (done * setup - sum_setup)
    moved[3] += 2 * (done * min(on, tasks) - sum_busy)
    return done, doubt


@njit(cache=True, error_model="numpy", _nrt=False)
def _flips(n, arrival, doubtful, bound, coin, mu, nu, rule, instant, events, state, words, counts, moved):
    """`_block` with runs of coin flips between the events of the rest; also ends before fewer than `coin` are busy."""
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    rest = bound - 2 * coin
    per_flip = 1.0 / math.log1p(-rest / bound)
    per_rise = 1.0 / max(abs(1.0 - mu), nu, 1e-3)
    arrival_ticks, service_ticks = ticks(arrival - coin, rest), ticks(1.0, rest)
    standby_ticks, setup_ticks = ticks(mu, rest), ticks(nu, rest)
    top = TICKS - arrival_ticks - ticks(doubtful, rest)
    room = bound - arrival - doubtful
    elapsed, last, doubt = 0, 2 * events, False
    draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
    run = int(math.log(1.0 - np.float64(draw >> _11) * TO_UNIT) * per_flip)
    while elapsed < last:
        on, tasks, setup = state[ON], state[TASKS], state[IN_SETUP]
        busy = min(on, tasks)
        idle, waiting, spare = on - busy, tasks - busy, busy - coin
        slack = room - busy - mu * idle - nu * setup
        if spare < 0 or slack < 0.0:
            break
        starts = 0  # setups that follow: 1, an arrival starts one; -1, as many are under way as tasks wait
        if idle > 0:
            limit = min(idle, spare + 1)
        elif rule == KEEPS:
            limit, spared = waiting, n - on - setup
            if spared > 0:
                limit, starts = min(limit, spared), 1
        else:
            needed = min(n - on, 1) if rule == STAGGERS else n - on
            limit = waiting - needed
            if waiting < needed:
                limit, starts = min(waiting, needed - waiting), -1
        limit = min(limit, int(slack * per_rise) + 1, (last - elapsed) >> 1)
        flips = min(run, limit)
        if limit > 0:
            heads, todo = 0, flips
            while todo >= 64:
                draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
                heads += ones(draw)
                todo -= 64
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            heads += ones((draw >> _1) >> np.uint64(63 - todo))
            rise = 2 * heads - flips
            middle = elapsed + flips + 1  # the flips are exchangeable: each at the middle of the run
            state[TASKS] += rise
            moved[1] += rise * middle
            if idle > 0:
                moved[3] += rise * middle
            else:
                counts[WAITED] += heads
                more = heads if starts > 0 else -starts * rise
                state[IN_SETUP] += more
                moved[2] += more * middle
            counts[ARRIVALS] += heads
            counts[DEPARTURES] += flips - heads
            elapsed += 2 * flips
            run -= flips
            if flips == limit:
                continue
        elapsed += 2
        on, tasks, setup = state[ON], state[TASKS], state[IN_SETUP]
        busy = min(on, tasks)
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        if run > 0:  # a flip at the edge of a run
            run -= 1
            is_arrival = draw & _1 == 1
            is_departure = not is_arrival
        else:
            run = int(math.log(1.0 - np.float64(draw >> _11) * TO_UNIT) * per_flip)
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            y = np.int64(draw >> _2) - arrival_ticks
            is_arrival = y < 0
            is_departure = not is_arrival and y < service_ticks * (busy - coin)
            if y >= top - standby_ticks * (on - busy) - setup_ticks * setup:
                doubt = _switch((TICKS - arrival_ticks - y) * (rest / TICKS), mu, nu, state, counts) and doubtful > 0.0
        if is_arrival:
            _arrive(n, rule, state, counts)
        elif is_departure:
            state[TASKS] -= 1
            counts[DEPARTURES] += 1
        _settle(n, rule, instant, state)
        moved[0] += (state[ON] - on) * elapsed
        moved[1] += (state[TASKS] - tasks) * elapsed
        moved[2] += (state[IN_SETUP] - setup) * elapsed
        moved[3] += (min(state[ON], state[TASKS]) - busy) * elapsed
        if doubt:
            break
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    return elapsed // 2, doubt


@njit(cache=True)
def _advance(n, times, steps, amplitude, omega, mu, nu, rule, start, end, state, words, counts, integrals):
    """Simulate from `start` to `end` in uniformised blocks; the arrival rate per server as in `sampling.thinning`."""
    instant = math.isinf(mu)
    if instant:
        mu = 0.0  # no server is ever idle-on, so that this clock never runs
    # Most that one event adds to the total rate: arrival to an idle-on server, arrival that starts a setup, departure
    # that leaves a server idle-on, setup completed (with a task waiting; without; with another setup in its place).
    delta = max(1.0 - mu, nu, mu - 1.0, 1.0 - nu, mu - nu, 1.0 if rule == STAGGERS else 0.0)
    moved = np.zeros(4, np.int64)
    t, k = start, 0
    while t < end:
        k, stop, low, high = window(t, end, k, n, times, steps, amplitude, omega)
        arrival, doubtful = low * n, (high - low) * n
        busy = min(state[ON], state[TASKS])
        total = arrival + doubtful + busy + mu * (state[ON] - busy) + nu * state[IN_SETUP]
        if total <= 0.0:  # nothing can happen any more
            integrals[IDLE_ON] += (stop - t) * state[ON]
            integrals[IDLE_OFF] += (stop - t) * (n - state[ON] - state[IN_SETUP])
            integrals[SETUP] += (stop - t) * state[IN_SETUP]
            t = stop
            continue
        wander = int(5.0 * math.sqrt(math.sqrt(total)))  # as in `models.tabs.blocks`
        reach = int(5.0 * total ** (1.0 / 3.0))
        coin = min(int(arrival), busy - reach)
        tossing = 2 * coin > MIN_SHARE * (total + reach)
        if tossing:
            wander = reach
        bound = total + wander * min(delta, 1.0) + 2.0 * delta
        m = min(max(4 * wander * wander, 16), MAX_EVENTS, 32 + int(min(bound * (end - t), float(MAX_EVENTS))))
        if amplitude != 0.0:
            m = min(m, max(int(0.75 * bound * (stop - t)), 16))
        length, until, events, intervals = planned(m, bound, t, stop, words)
        if tossing:
            done, doubt = _flips(
                n, arrival, doubtful, bound, coin, mu, nu, rule, instant, events, state, words, counts, moved
            )
        else:
            done, doubt = _block(
                n, arrival, doubtful, bound, mu, nu, rule, instant, events, state, words, counts, moved
            )
        if done < events or (doubt and done < intervals):
            length = cut(done, intervals, length, words)
            until, intervals = t + length, done
        weight, twice = length / (2 * intervals), 2 * intervals
        on, tasks = weight * (twice * state[ON] - moved[0]), weight * (twice * state[TASKS] - moved[1])
        setup = weight * (twice * state[IN_SETUP] - moved[2])
        busy_time = weight * (twice * min(state[ON], state[TASKS]) - moved[3])
        moved[:] = 0
        integrals[BUSY] += busy_time
        integrals[IDLE_ON] += on - busy_time
        integrals[IDLE_OFF] += n * length - on - setup
        integrals[SETUP] += setup
        integrals[WAITING] += tasks - busy_time
        t = until
        if doubt:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            if uniform(words) * (high - low) < rate - low:
                _arrive(n, rule, state, counts)
                _settle(n, rule, instant, state)


@njit(cache=True)
def follow_blocks(
    n, times, steps, amplitude, omega, mu, nu, rule, start, ends, state, words, counts, integrals, states
):
    """`_advance` from pause to pause, each with its row of `states`: i, j, setups."""
    for k in range(ends.size):
        _advance(n, times, steps, amplitude, omega, mu, nu, rule, start, ends[k], state, words, counts, integrals)
        start = ends[k]
        states[k] = state
