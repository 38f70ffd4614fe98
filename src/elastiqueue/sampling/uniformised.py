"""Blocks of a Poisson process of events: how long they last, and how many events they hold."""

from __future__ import annotations

from numba import njit

from elastiqueue.sampling.rng import beta, binomial, gamma


@njit(cache=True)
def planned(m, bound, t, stop, words):
    """A block of m events of rate `bound` from time t on, or of those before `stop`.

    Returns its length and its end, its number of events, and that of the intervals, exchangeable, that they make of it:
    one more where it is cut. The m-th event comes after a Gamma(m) time G; Binomial(m - 1, rest/G) of those before it
    come in the rest of the time.
    """
    length = gamma(float(m), words) / bound
    until = t + length
    if until < stop:
        return length, until, m, m
    events = binomial(m - 1, (stop - t) / length, words)
    return stop - t, stop, events, events + 1


@njit(cache=True)
def cut(done, intervals, length, words):
    """Length of the first `done` of a block's intervals, 0 < done < intervals: a Beta share of the whole."""
    return length * beta(float(done), float(intervals - done), words)
