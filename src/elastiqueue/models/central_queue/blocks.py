"""One central queue with exponential service: uniformised blocks of events."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elastiqueue.sampling.rng import TO_UNIT, binomial, gamma, step

ARRIVALS, WAITED, DEPARTURES, RED, COMPLETED = range(5)
COUNTS = ("arrivals", "waited", "departures", "red", "setups")
BUSY, IDLE_ON, IDLE_OFF, SETUP, WAITING = range(5)
INTEGRALS = ("busy", "idle_on", "idle_off", "setup", "waiting")
# What happens to setups that are not needed, and to servers that are not.
KEEPS, ABORTS, STAGGERS = range(3)
_11 = np.uint64(11)


@njit(cache=True)
def in_setup(n, rule, on, tasks, setup):
    """Servers in setup once `on` servers and `tasks` tasks are there (KEEPS: those under way go on)."""
    if rule == KEEPS:
        return setup
    needed = min(max(tasks - on, 0), n - on)
    return min(needed, 1) if rule == STAGGERS else needed


@njit(cache=True)
def advance_blocks(n, rate, mu, nu, rule, start, end, state, words, counts, integrals):
    """Simulate from `start` to `end` in blocks (as `elastiqueue.models.tabs.phase_type`), constant arrival rate.

    The common case is again one comparison: no task waits, and an arrival finds an idle-on server or a departure leaves
    one behind. It moves one server between idle-on and busy and leaves `on` and `setup` as they are.
    """
    on, tasks, setup = state[0], state[1], state[2]
    instant = math.isinf(mu)
    if instant:
        mu = 0.0  # no server is ever idle-on, so that the clock never runs
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    arrival = rate * n
    # Most that one event adds to the total rate: arrival to an idle-on server, arrival that starts a setup, departure
    # that leaves a server idle-on, setup completed (with a task waiting; without; with another setup in its place).
    delta = max(1.0 - mu, nu, mu - 1.0, 1.0 - nu, mu - nu, 1.0 if rule == STAGGERS else 0.0)
    t = start
    while True:
        busy, idle = min(on, tasks), max(on - tasks, 0)
        total = arrival + busy + mu * idle + nu * setup
        if total <= 0.0:  # nothing can happen any more
            integrals[IDLE_ON] += (end - t) * idle
            integrals[IDLE_OFF] += (end - t) * (n - on - setup)
            integrals[SETUP] += (end - t) * setup
            break
        m = min(max(int(3.0 * math.sqrt(total)), 16), 4096)
        bound = total + m * delta
        words[0], words[1], words[2], words[3] = s0, s1, s2, s3
        length = gamma(float(m), words) / bound
        last = t + length >= end
        events, intervals = m, m
        if last:
            events = binomial(m - 1, (end - t) / length, words)
            intervals = events + 1
            length = end - t
        s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
        scale = bound * TO_UNIT
        on_0, tasks_0, setup_0, busy_0 = on, tasks, setup, busy
        moved_on, moved_tasks, moved_setup, moved_busy = 0, 0, 0, 0  # changes times intervals left
        fast, fast_arrivals = 0, 0
        left = intervals
        for _ in range(events):
            left -= 1
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            x = np.float64(draw >> _11) * scale
            edge = arrival + tasks if on > tasks else -1.0
            if x < edge:
                up = 1 if x < arrival else -1
                fast += 1
                fast_arrivals += x < arrival
                tasks += up
                moved_busy += up * left
                moved_tasks += up * left
                continue
            busy_before = min(on, tasks)
            on_before, tasks_before, setup_before = on, tasks, setup
            idle = max(on - tasks, 0)
            if x < arrival:
                tasks += 1
                counts[ARRIVALS] += 1
                if idle == 0:
                    counts[WAITED] += 1
                    if rule == KEEPS and on + setup < n:
                        setup += 1
            elif x < arrival + busy_before:
                tasks -= 1
                counts[DEPARTURES] += 1
            elif x < arrival + busy_before + mu * idle:
                on -= 1
                counts[RED] += 1
            elif x < arrival + busy_before + mu * idle + nu * setup:
                on += 1
                setup -= 1
                counts[COMPLETED] += 1
            else:
                continue
            if instant:
                on = min(on, tasks)
            setup = in_setup(n, rule, on, tasks, setup)
            moved_on += (on - on_before) * left
            moved_tasks += (tasks - tasks_before) * left
            moved_setup += (setup - setup_before) * left
            moved_busy += (min(on, tasks) - busy_before) * left
        weight = length / intervals
        on_sum, tasks_sum = on_0 * intervals + moved_on, tasks_0 * intervals + moved_tasks
        setup_sum, busy_sum = setup_0 * intervals + moved_setup, busy_0 * intervals + moved_busy
        integrals[BUSY] += weight * busy_sum
        integrals[IDLE_ON] += weight * (on_sum - busy_sum)
        integrals[IDLE_OFF] += weight * (n * intervals - on_sum - setup_sum)
        integrals[SETUP] += weight * setup_sum
        integrals[WAITING] += weight * (tasks_sum - busy_sum)
        counts[ARRIVALS] += fast_arrivals
        counts[DEPARTURES] += fast - fast_arrivals
        t += length
        if last:
            break
    state[0], state[1], state[2] = on, tasks, setup
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
