"""Phase-type distributions as the compiled kernels take them: cumulated probabilities, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.sampling.phase_type import PhaseType, phase_counts

__all__ = ["SURE", "cumulated", "kernel_kinds", "kernel_service", "largest_rise", "phase_counts", "pick"]
SURE = 2.0  # above every number in [0, 1], rounded up or not


@njit(cache=True, inline="always")
def pick(share, cumulated):
    """Index whose interval of [0, 1) holds `share`."""
    j = 0
    while share >= cumulated[j]:
        j += 1
    return j


def cumulated(probabilities: Sequence[float]) -> list[float]:
    """Upper ends of the intervals; that of the last possible index, and those behind it, are out of reach."""
    last = max(j for j, p in enumerate(probabilities) if p > 0)
    return [end if j < last else SURE for j, end in enumerate(accumulate(probabilities))]


def kernel_service(service: PhaseType) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Rates gamma_k, shape (K,); cumulated initial probabilities, (K,), and those of (end, next phase), (K, K + 1)."""
    ways = [cumulated([end, *row]) for end, row in zip(service.exit, service.routing, strict=True)]
    return np.array(service.rates), np.array(cumulated(service.initial)), np.array(ways)


def kernel_kinds(service: PhaseType) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Starts, changes of phase and ends of service: the phase before and after (K: none), and the chance of that.

    The most frequent come first.
    """
    none, visits = service.phases, service.visits()
    kinds = [(p, none, j, p) for j, p in enumerate(service.initial)]
    for k, (visit, end, row) in enumerate(zip(visits, service.exit, service.routing, strict=True)):
        kinds += [(visit * p, k, j, p) for j, p in enumerate([*row, end])]
    kinds = sorted((kind for kind in kinds if kind[-1] > 0), key=lambda kind: -kind[0])
    _, before, after, chances = zip(*kinds, strict=True)
    return np.array(before), np.array(after), np.minimum(chances, 1.0)


def largest_rise(service: PhaseType, others: Sequence[float], idle_on: float) -> float:
    """Most that one event adds to the total rate, >= 0: a change of phase, a start or an end of service, or `others`.

    `idle_on` is the rate of the clock of a server without tasks.
    """
    first = [rate for rate, p in zip(service.rates, service.initial, strict=True) if p > 0]
    rises = [0.0, *others, max(first) - idle_on]
    for k, (rate, end) in enumerate(zip(service.rates, service.exit, strict=True)):
        after = [service.rates[j] for j, p in enumerate(service.routing[k]) if p > 0]
        if end > 0:
            after += [idle_on, *first]
        rises.append(max(after) - rate)
    return max(rises)
