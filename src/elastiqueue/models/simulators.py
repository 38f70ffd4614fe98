"""Two simulators of any definition: event by event, and in uniformised blocks. Both are exact in distribution.

And its generator L (`drifts`), which the control variates of `models.controls` are made of.

This file is a template. Numba keeps no machine code of a function that takes other compiled functions as arguments or
closes over them; it keeps that of a function that finds them as globals of its file. So `models.definitions` writes a
copy of this file for each definition, in which other lines give the compiled `rates` and `happen` of that definition.

The arrival rate per server at time t is steps[k] + amplitude sin(omega t), times[k] <= t < times[k + 1]; kind 0 of an
event is an arrival.

Direct method (Gillespie, J. Phys. Chem. 81(25), 1977): the time of each event is drawn, and its kind; arrivals come at
the largest rate and are thinned (Lewis and Shedler, Naval Res. Logist. 26(3), 1979).

Uniformised blocks. While the total rate stays below a bound, events, some of which are none, come at the rate of the
bound. The m-th comes after a Gamma(m) time G. A block ends there; or where the run ends, before which
Binomial(m - 1, rest/G) events come; or after the k-th event, k < m, at G times a Beta(k, m - k) number, if that event
took the total rate out of its band, or was one that may be an arrival, depending on the time: its draw lies between the
least arrival rate in the block and the largest. Given its length, the intervals of a block are exchangeable, so that
each counts alike in a time integral, which is its conditional expectation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numba import njit

from elastiqueue.models.events import CHOICES, MAX_CHANGES, MAX_CHOICES, MOVES, POSITION, RECORDS, watch
from elastiqueue.sampling.rng import beta, binomial, exponential, gamma, uniform
from elastiqueue.sampling.thinning import rate_at, window

if TYPE_CHECKING:
    from elastiqueue.models.tabs.definition import happen, rates

MAX_BLOCK = 4096  # events


@njit(cache=True, error_model="numpy", _nrt=False)
def direct(system, integrals, p, out, servers, times, steps, amplitude, omega, start, end, events, queue=None):
    """Simulate from `start` until `end`, or until that many events are done; the time reached.

    out: room for the rate of each kind of event; integrals: of the components of the state; queue: a
    `models.events.Queue` whose waits are observed.
    """
    bound = 0.0
    for k in range(steps.size):
        bound = max(bound, steps[k])
    bound = (bound + abs(amplitude)) * servers
    t, k = start, 0
    for _ in range(events):
        rates(system.state, p, out)
        total = bound
        for kind in range(1, out.size):
            total += out[kind]
        t += exponential(system.words) / total if total > 0.0 else end
        if t >= end:
            break
        x = uniform(system.words) * total
        system.clock[0] = t - start
        kind = 0
        if x < bound:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            if x >= rate * servers:
                continue  # thinned
        else:
            x -= bound
            kind = 1
            while kind < out.size - 1 and x >= out[kind]:
                x -= out[kind]
                kind += 1
            if out[kind] <= 0.0:  # by rounding
                continue
        if queue is None:
            happen(kind, system, p)
        else:
            before = system.state[queue.place]
            happen(kind, system, p)
            watch(queue, before, t, system)
    t = min(t, end)
    for place in range(integrals.size):
        integrals[place] += (t - start) * system.state[place] - system.moved[place]
        system.moved[place] = 0.0
    return t


@njit(cache=True)
def has_room(state, level, events):
    """Whether the last of the longest queues stays within the state for `events`, and a last block beyond them."""
    used = state.size
    while used > 0 and state[used - 1] == 0:
        used -= 1
    return used + (2 * events + 1) * level <= state.size


@njit(cache=True)
def pauses_of_direct(
    system, integrals, p, out, servers, times, steps, amplitude, omega, start, ends, done, level, events, states
):  # fmt: skip
    """`direct` from `start` to the pauses ends[done:], each with its row of `states`.

    Before each `events` the state must have room for them; it grows by `level` components at a time, if at all. Returns
    the pauses done, fewer than all where there is no room, and the time.
    """
    while done < ends.size:
        if start < ends[done]:
            if level > 0 and not has_room(system.state, level, events):
                break
            end = ends[done]
            start = direct(system, integrals, p, out, servers, times, steps, amplitude, omega, start, end, events)
        if start >= ends[done]:
            states[done] = system.state
            done += 1
    return done, start


@njit(cache=True)
def pauses_of_blocks(
    system, integrals, p, out, servers, times, steps, amplitude, omega, start, ends, done, level, events, states
):  # fmt: skip
    """As `pauses_of_direct`, by `blocks`."""
    while done < ends.size:
        if start < ends[done]:
            if level > 0 and not has_room(system.state, level, events):
                break
            end = ends[done]
            start = blocks(system, integrals, p, out, servers, times, steps, amplitude, omega, start, end, events)
        if start >= ends[done]:
            states[done] = system.state
            done += 1
    return done, start


@njit(cache=True, error_model="numpy", _nrt=False)
def blocks(system, integrals, p, out, servers, times, steps, amplitude, omega, start, end, events):
    """As `direct`, in uniformised blocks."""
    t, k, step = start, 0, 1.0  # step: largest change of the total rate by an event so far
    due = False  # an arrival happens now
    while t < end and events > 0:
        k, until, least, most = window(t, end, k, servers, times, steps, amplitude, omega)
        low, high = least * servers, most * servers
        rates(system.state, p, out)
        active = 0.0
        for kind in range(1, out.size):
            active += out[kind]
        total = active + high
        if total <= 0.0:
            for place in range(integrals.size):
                integrals[place] += (until - t) * system.state[place]
            t = until
            continue
        wander = 5.0 * math.sqrt(math.sqrt(total))
        slack = min(wander * step, 0.25 * total) + 1e-9 * total
        m = min(max(4.0 * wander * wander, 16.0), float(MAX_BLOCK))
        bound = high + active + slack
        fewest = 0.5 * active - 1.0
        m = int(min(m, 32.0 + min(bound * (until - t), float(MAX_BLOCK))))
        length = gamma(float(m), system.words) / bound
        count, intervals = m, m
        if t + length >= until:
            count = binomial(m - 1, (until - t) / length, system.words)
            intervals = count + 1
            length = until - t
        done, gap, ended = 0, -1.0, False
        while done < count or due:
            kind = 0
            if due:
                due = False
            else:
                done += 1
                x = uniform(system.words) * bound
                if x >= high + active:
                    continue
                if x >= high:
                    x -= high
                    kind = 1
                    while kind < out.size - 1 and x >= out[kind]:
                        x -= out[kind]
                        kind += 1
                    if out[kind] <= 0.0:  # by rounding
                        continue
                elif x >= low:
                    gap, ended = x, True
                    break
            system.clock[0] = done
            happen(kind, system, p)
            before = active
            rates(system.state, p, out)
            active = 0.0
            for kind in range(1, out.size):
                active += out[kind]
            step = max(step, abs(active - before))
            if high + active > bound or active < fewest:
                ended = True
                break
        if ended:
            if done < intervals:
                length *= beta(float(done), float(intervals - done), system.words)
            intervals = done
        weight = length / intervals
        for place in range(integrals.size):
            integrals[place] += weight * (intervals * system.state[place] - system.moved[place])
            system.moved[place] = 0.0
        events -= done
        t = until if intervals > count else t + length
        if gap >= 0.0:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            due = gap < rate * servers
    return min(t, end)


@njit(cache=True, error_model="numpy", _nrt=False)
def drifts(outcomes, states, weights, ends, p, out, arrivals, places, scales, sampled, counts, generator, work):
    """Sums over states of shape (T, S), up to each of the M `ends`: of weight times

        1 and the features, into `sampled`, shape (M, 1 + F)
        the drift of what is counted, into `counts`, (M, C)
        (L f)(x) = sum over events and their outcomes of rate (f(x') - f(x)), into `generator`, (M, number of f)

    places: of linear features y of the state, the coefficient of each component, shape (F, S). The functions f are y_i,
    then y_i y_j for i <= j, then 1 / (1 + y_1 / scale). work: room for the features, their changes by an outcome and
    per unit of time, shape (3, F), and for products of changes per unit of time, (F, F).

    Returns whether each event had few enough changes and choices to follow.
    """
    (values, change, drift), spread = work
    features, numbers, stretch = change.size, outcomes.numbers, 0
    for row in range(len(states)):
        while row == ends[stretch]:
            stretch += 1
        weight = weights[row]
        for place in range(states.shape[1]):
            outcomes.state[place] = states[row, place]
        for i in range(features):
            values[i] = 0.0
            for place in range(states.shape[1]):
                values[i] += places[i, place] * states[row, place]
        drift[:] = 0.0
        spread[:] = 0.0
        idle, rising, falling = values[1], 0.0, 0.0
        rates(outcomes.state, p, out)
        out[0] = arrivals
        for kind in range(out.size):
            if out[kind] <= 0.0:
                continue
            numbers[CHOICES] = 0
            while True:
                numbers[POSITION], numbers[MOVES], numbers[RECORDS] = 0, 0, 0
                outcomes.probability[0] = out[kind]
                happen(kind, outcomes, p)
                if numbers[POSITION] > MAX_CHOICES or max(numbers[MOVES], numbers[RECORDS]) > MAX_CHANGES:
                    return False
                rate = outcomes.probability[0]
                for k in range(numbers[RECORDS]):
                    counts[stretch, int(outcomes.records[k, 0])] += weight * rate * outcomes.records[k, 1]
                change[:] = 0.0
                for k in range(numbers[MOVES]):
                    place, by = outcomes.moves[k, 0], outcomes.moves[k, 1]
                    outcomes.state[place] -= by
                    for i in range(features):
                        change[i] += by * places[i, place]
                for i in range(features):
                    drift[i] += rate * change[i]
                    for j in range(i, features):
                        spread[i, j] += rate * change[i] * change[j]
                if change[1] == 1.0:
                    rising += rate
                elif change[1] == -1.0:
                    falling += rate
                elif change[1] != 0.0:
                    for k in range(scales.size):
                        after = 1.0 / (1.0 + (idle + change[1]) / scales[k])
                        generator[stretch, k - scales.size] += weight * rate * (after - 1.0 / (1.0 + idle / scales[k]))
                while numbers[CHOICES] > 0 and outcomes.following[numbers[CHOICES] - 1] < 0:
                    numbers[CHOICES] -= 1
                if numbers[CHOICES] == 0:
                    break
                outcomes.script[numbers[CHOICES] - 1] = outcomes.following[numbers[CHOICES] - 1]
        sampled[stretch, 0] += weight
        column = features
        for i in range(features):
            sampled[stretch, 1 + i] += weight * values[i]
            generator[stretch, i] += weight * drift[i]
            for j in range(i, features):
                product = values[i] * drift[j] + values[j] * drift[i] + spread[i, j]
                generator[stretch, column] += weight * product
                column += 1
        for k in range(scales.size):
            scale = scales[k] / (scales[k] + idle)
            change_of_ratio = falling / (scales[k] + idle - 1.0) - rising / (scales[k] + idle + 1.0)
            generator[stretch, column + k] += weight * scale * change_of_ratio
    return True
