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
