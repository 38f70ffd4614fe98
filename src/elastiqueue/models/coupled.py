"""Two systems on common clocks, event by event: what they have in common cancels in their difference.

Kinds of event are matched by their names. Let r_1 and r_2 be the rates of a kind in the two systems, which depend on
the states of each; a kind that a system lacks has rate 0. The clock of the kind rings at the rate max(r_1, r_2), and
with U uniform on [0, max(r_1, r_2)] each system takes the event if U < r_i, the random choices within `happen` of both
being made with the same uniform numbers.

Each system alone has the distribution that it has when it is simulated by itself. Given the past of both, its events of
that kind come at the rate max(r_1, r_2) P(U < r_i) = r_i (thinning), independent of the other clocks (superposition);
the numbers behind its choices are uniform, and independent of the past and of U. So the pair is a Markov chain that, of
functions of the state of system i, has the generator of system i. Both move together at the rate min(r_1, r_2), the
largest that is possible, and two equal systems that start alike stay so for ever. Arrivals with rates that vary are
thinned in the same manner: U lies below the largest rate of both at any time.

This file is a template, as `models.simulators` is; other lines give it the compiled functions of two definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

from elastiqueue.models.events import watch
from elastiqueue.sampling.rng import exponential, next_word, uniform
from elastiqueue.sampling.thinning import rate_at

if TYPE_CHECKING:
    from elastiqueue.models.tabs.definition import happen as happen_1
    from elastiqueue.models.tabs.definition import happen as happen_2
    from elastiqueue.models.tabs.definition import rates as rates_1
    from elastiqueue.models.tabs.definition import rates as rates_2


@njit(cache=True, error_model="numpy", _nrt=False)
def direct(first, second, kinds, largest, words, start, end, events, queue_1=None, queue_2=None):
    """Simulate both from `start` until `end`, or until that many events are done; the time reached.

    first, second : each (system, integrals, p, out, servers, times, steps, amplitude, omega), as `simulators.direct`
        takes them.
    kinds : of each event that there is, its number in each system, -1 where it has none, shape (K, 2); 0 is arrivals.
    largest : the largest rate of arrivals, then room for the rates of the other clocks, shape (K,).
    words : state of the generator. queue_1, queue_2 : those whose waits are observed (`models.events.Queue`).
    """
    one, areas_1, p_1, out_1, servers_1, times_1, steps_1, amplitude_1, omega_1 = first
    two, areas_2, p_2, out_2, servers_2, times_2, steps_2, amplitude_2, omega_2 = second
    t, k_1, k_2 = start, 0, 0
    rates_1(one.state, p_1, out_1)
    rates_2(two.state, p_2, out_2)
    for _ in range(events):
        total = largest[0]
        for kind in range(1, largest.size):
            rate_1 = out_1[kinds[kind, 0]] if kinds[kind, 0] > 0 else 0.0
            rate_2 = out_2[kinds[kind, 1]] if kinds[kind, 1] > 0 else 0.0
            largest[kind] = max(rate_1, rate_2)
            total += largest[kind]
        t += exponential(words) / total if total > 0.0 else end
        if t >= end:
            break
        x = uniform(words) * total
        kind = 0
        while kind < largest.size - 1 and x >= largest[kind]:
            x -= largest[kind]
            kind += 1
        if kind == 0:
            rate, k_1 = rate_at(t, k_1, times_1, steps_1, amplitude_1, omega_1)
            takes_1 = x < rate * servers_1
            rate, k_2 = rate_at(t, k_2, times_2, steps_2, amplitude_2, omega_2)
            takes_2 = x < rate * servers_2
        else:
            takes_1 = kinds[kind, 0] > 0 and x < out_1[kinds[kind, 0]]
            takes_2 = kinds[kind, 1] > 0 and x < out_2[kinds[kind, 1]]
        for k in range(4):
            one.words[k] = two.words[k] = words[k]
        if takes_1:
            one.clock[0] = t - start
            if queue_1 is None:
                happen_1(kinds[kind, 0], one, p_1)
            else:
                before = one.state[queue_1.place]
                happen_1(kinds[kind, 0], one, p_1)
                watch(queue_1, before, t, one)
            rates_1(one.state, p_1, out_1)
        if takes_2:
            two.clock[0] = t - start
            if queue_2 is None:
                happen_2(kinds[kind, 1], two, p_2)
            else:
                before = two.state[queue_2.place]
                happen_2(kinds[kind, 1], two, p_2)
                watch(queue_2, before, t, two)
            rates_2(two.state, p_2, out_2)
        # On to where the system that has drawn more numbers stands.
        drawn_1, drawn_2 = same(words, one.words), same(words, two.words)
        while not (drawn_1 and drawn_2):
            next_word(words)
            drawn_1 = drawn_1 or same(words, one.words)
            drawn_2 = drawn_2 or same(words, two.words)
    t = min(t, end)
    for place in range(areas_1.size):
        areas_1[place] += (t - start) * one.state[place] - one.moved[place]
        one.moved[place] = 0.0
    for place in range(areas_2.size):
        areas_2[place] += (t - start) * two.state[place] - two.moved[place]
        two.moved[place] = 0.0
    return t


@njit(cache=True, inline="always")
def same(words, others):
    """Whether two generators are in the same state."""
    return (words[0] == others[0]) & (words[1] == others[1]) & (words[2] == others[2]) & (words[3] == others[3])
