"""The time-varying arrival rate inside compiled kernels; events of the bounding Poisson process are thinned by it."""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True)
def rate_at(t, k, times, steps, amplitude, omega):
    """Arrival rate per server at time t, and the index of its step (k is the index at an earlier time)."""
    while k + 1 < times.size and times[k + 1] <= t:
        k += 1
    rate = steps[k]
    if amplitude != 0.0:
        rate += amplitude * math.sin(omega * t)
    return rate, k


@njit(cache=True)
def window(t, end, k, n, times, steps, amplitude, omega):
    """From time t on, a stretch over which n servers' arrival rate hardly moves, at most to `end`.

    Returns the index of the step, the end of the stretch, and the least and the largest rate per server in it. A step
    is not passed. A sinusoid of amplitude a stays within a (omega h)^2 / 8 of its chord over a stretch h; h is such
    that about one arrival of n servers lies between the two rates.
    """
    while k + 1 < times.size and times[k + 1] <= t:
        k += 1
    if k + 1 < times.size:
        end = min(end, times[k + 1])
    if amplitude == 0.0:
        return k, end, steps[k], steps[k]
    end = min(end, t + min(1.0 / math.sqrt(n * abs(amplitude) * omega), 1.0 / omega))
    first, last = amplitude * math.sin(omega * t), amplitude * math.sin(omega * end)
    bend = abs(amplitude) * (omega * (end - t)) ** 2 / 8.0
    return k, end, max(steps[k] + min(first, last) - bend, 0.0), steps[k] + max(first, last) + bend
