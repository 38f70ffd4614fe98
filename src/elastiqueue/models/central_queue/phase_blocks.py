"""One central queue with phase-type service: its events, compiled, and uniformised blocks of them."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from elastiqueue.models.central_queue.blocks import KEEPS, STAGGERS
from elastiqueue.sampling.phases import pick
from elastiqueue.sampling.rng import TO_UNIT, binomial, gamma, step

# Positions in the vectors of counts and of integrals; the names of the exponential model's columns, in its order.
ARRIVALS, WAITED, DEPARTURES, RED, COMPLETED, PHASES = range(6)
BUSY, IDLE_ON, IDLE_OFF, SETUP, WAITING = range(5)
ON, TASKS, IN_SETUP = range(3)  # positions in the state
MOST = 4096  # events of a block
_11 = np.uint64(11)


@njit(cache=True, inline="always")
def settle(n, rule, instant, state):
    """What follows an event at once: servers without a task turn off (mu infinite), superfluous setups end."""
    if instant:
        state[ON] = min(state[ON], state[TASKS])
    if rule != KEEPS:
        state[IN_SETUP] = min(max(state[TASKS] - state[ON], 0), n - state[ON])
        if rule == STAGGERS:
            state[IN_SETUP] = min(state[IN_SETUP], 1)


@njit(cache=True, inline="always")
def arrive(share, n, rule, initial, state, phases, counts):
    """An arrival, its choices made by `share` in [0, 1). state: i, j, d1; phases: b_1, ..., b_K."""
    counts[ARRIVALS] += 1
    if state[ON] > state[TASKS]:
        phases[pick(share, initial)] += 1
    else:
        counts[WAITED] += 1
        if rule == KEEPS and state[ON] + state[IN_SETUP] < n:
            state[IN_SETUP] += 1
    state[TASKS] += 1


@njit(cache=True, inline="always")
def evolve(x, mu, nu, gammas, initial, ways, state, phases, counts):
    """Any other event, or none, chosen by x >= 0 on the scale of the rates."""
    for k in range(gammas.size):
        mass = gammas[k] * phases[k]
        if x >= mass:
            x -= mass
            continue
        share = x / gammas[k]
        share -= min(int(share), phases[k] - 1)
        way = pick(share, ways[k])
        phases[k] -= 1
        if way > 0:
            phases[way - 1] += 1
            counts[PHASES] += 1
        else:
            if state[TASKS] > state[ON]:
                phases[pick(share / min(ways[k, 0], 1.0), initial)] += 1
            state[TASKS] -= 1
            counts[DEPARTURES] += 1
        return
    standby = mu * max(state[ON] - state[TASKS], 0)
    if x < standby:
        state[ON] -= 1
        counts[RED] += 1
    elif x - standby < nu * state[IN_SETUP]:
        if state[TASKS] > state[ON]:
            share = (x - standby) / nu
            phases[pick(share - min(int(share), state[IN_SETUP] - 1), initial)] += 1
        state[ON] += 1
        state[IN_SETUP] -= 1
        counts[COMPLETED] += 1


# Without Numba's counting of references (`_nrt`), which would cost more than the event; nothing is allocated there.
@njit(cache=True, error_model="numpy", _nrt=False)
def advance_blocks(n, rate, mu, nu, delta, rule, law, start, end, state, phases, words, counts, integrals):
    """Simulate from `start` to `end` in uniformised blocks, constant arrival rate.

    `delta`: most that one event adds to the total rate. Time integrals are sums over the intervals of a block.
    """
    gammas, initial, ways = law
    instant = math.isinf(mu)
    clock = 0.0 if instant else mu
    arrival = rate * n
    t = start
    while True:
        total = arrival + clock * max(state[ON] - state[TASKS], 0) + nu * state[IN_SETUP]
        for k in range(gammas.size):
            total += gammas[k] * phases[k]
        if total <= 0.0:  # nothing can happen any more
            integrals[IDLE_ON] += (end - t) * state[ON]
            integrals[IDLE_OFF] += (end - t) * (n - state[ON] - state[IN_SETUP])
            integrals[SETUP] += (end - t) * state[IN_SETUP]
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
        s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
        scale = bound * TO_UNIT
        on_sum, busy_sum, tasks_sum, setup_sum = 0, 0, 0, 0  # over the intervals, each after its event
        on_0, tasks_0, setup_0 = state[ON], state[TASKS], state[IN_SETUP]
        for _ in range(events):
            draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
            x = np.float64(draw >> _11) * scale
            if x < arrival:
                arrive(x / arrival, n, rule, initial, state, phases, counts)
            else:
                evolve(x - arrival, clock, nu, gammas, initial, ways, state, phases, counts)
            settle(n, rule, instant, state)
            on_sum += state[ON]
            busy_sum += min(state[ON], state[TASKS])
            tasks_sum += state[TASKS]
            setup_sum += state[IN_SETUP]
        words[0], words[1], words[2], words[3] = s0, s1, s2, s3
        # the first interval has the state before the first event; a whole block ends at its last event
        on_sum += on_0 - (intervals == events) * state[ON]
        busy_sum += min(on_0, tasks_0) - (intervals == events) * min(state[ON], state[TASKS])
        tasks_sum += tasks_0 - (intervals == events) * state[TASKS]
        setup_sum += setup_0 - (intervals == events) * state[IN_SETUP]
        weight = length / intervals
        integrals[BUSY] += weight * busy_sum
        integrals[IDLE_ON] += weight * (on_sum - busy_sum)
        integrals[IDLE_OFF] += weight * (n * intervals - on_sum - setup_sum)
        integrals[SETUP] += weight * setup_sum
        integrals[WAITING] += weight * (tasks_sum - busy_sum)
        t += length
        if last:
            break
