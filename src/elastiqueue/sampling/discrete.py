"""Finite distributions on the non-negative integers: moments, and draws inside compiled kernels.

A distribution is a list of values with probabilities. A draw inverts its distribution function: a uniform number u on
the grid of 2^-53 gives the first value whose cumulative probability exceeds u, found from a guide table of 256 starting
points (Chen and Asau, AIIE Transactions 6(2), 1974). A distribution with one value draws nothing.

Infinite ones are cut where the remaining tail is below 2^-60: less than the grid of the uniform number can resolve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.sampling.rng import next_word

GUIDE = 256  # starting points per distribution
_TAIL = 2.0**-60
_ROUNDING = 1e-9  # slack for probabilities written in decimals, which must sum to one
_11, _32, _56 = np.uint64(11), np.uint64(32), np.uint64(56)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class FiniteDistribution:
    """A distribution on finitely many non-negative integers.

    Values must be distinct and are kept in increasing order; probabilities must sum to 1 (within 1e-9, then scaled).
    """

    values: tuple[int, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.probabilities) or not self.values:
            raise ValueError(
                f"probabilities = {list(self.probabilities)}: must be one for each of {len(self.values)} values"
            )
        if len(set(self.values)) != len(self.values):
            raise ValueError(f"values = {list(self.values)}: must be distinct")
        total = math.fsum(self.probabilities)
        if not all(0.0 <= p <= 1.0 for p in self.probabilities) or abs(total - 1.0) > _ROUNDING:
            raise ValueError(f"probabilities = {list(self.probabilities)}: must be >= 0 and sum to 1")
        pairs = sorted((int(v), p / total) for v, p in zip(self.values, self.probabilities, strict=True) if p > 0.0)
        object.__setattr__(self, "values", tuple(v for v, _ in pairs))
        object.__setattr__(self, "probabilities", tuple(p for _, p in pairs))

    @property
    def mean(self) -> float:
        return math.fsum(v * p for v, p in zip(self.values, self.probabilities, strict=True))

    @property
    def variance(self) -> float:
        mean = self.mean
        return math.fsum((v - mean) ** 2 * p for v, p in zip(self.values, self.probabilities, strict=True))


def deterministic(value: int) -> FiniteDistribution:
    """The distribution of a constant."""
    return FiniteDistribution((value,), (1.0,))


def uniform_mixture(parts: Sequence[tuple[int, int, float]]) -> FiniteDistribution:
    """Uniform on first..last with the given weight, for each (first, last, weight); weights must sum to 1."""
    weights: dict[int, float] = {}
    for first, last, weight in parts:
        if not 0 <= first <= last:
            raise ValueError(f"uniform = [{first}, {last}, {weight}]: must be 0 <= first <= last")
        for value in range(int(first), int(last) + 1):
            weights[value] = weights.get(value, 0.0) + weight / (last - first + 1)
    return FiniteDistribution(tuple(weights), tuple(weights.values()))


def batch_bernoulli(batch: int, mean: float) -> FiniteDistribution:
    """`batch` at once with probability mean/batch, else none."""
    if not 0.0 <= mean <= batch:
        raise ValueError(f"mean = {mean}: must be between 0 and batch = {batch}")
    return FiniteDistribution((0, int(batch)), (1.0 - mean / batch, mean / batch))


def _from_weights(first: int, weights: Sequence[float]) -> FiniteDistribution:
    total = math.fsum(weights)
    return FiniteDistribution(tuple(range(first, first + len(weights))), tuple(w / total for w in weights))


def _unimodal(mode: int, last: int | None, up, down) -> FiniteDistribution:
    """Probabilities p(k+1) = up(k) p(k), p(k-1) = down(k) p(k), cut at relative weight 2^-60 / 8."""
    right, left = [1.0], []
    k = mode
    while (last is None or k < last) and right[-1] > _TAIL / 8:
        right.append(right[-1] * up(k))
        k += 1
    k, weight = mode, 1.0
    while k > 0 and weight > _TAIL / 8:
        weight *= down(k)
        left.append(weight)
        k -= 1
    return _from_weights(k, [*reversed(left), *right])


def binomial(trials: int, mean: float) -> FiniteDistribution:
    """Binomial(trials, mean/trials)."""
    if not 0.0 <= mean <= trials:
        raise ValueError(f"mean = {mean}: must be between 0 and trials = {trials}")
    p = mean / trials
    if p in (0.0, 1.0):
        return deterministic(round(mean))
    odds = p / (1.0 - p)
    return _unimodal(
        int((trials + 1) * p) if (trials + 1) * p < trials else trials,
        trials,
        lambda k: (trials - k) / (k + 1) * odds,
        lambda k: k / (trials - k + 1) / odds,
    )


def poisson(mean: float) -> FiniteDistribution:
    """Poisson(mean), cut where the tail is below 2^-60."""
    if mean == 0.0:
        return deterministic(0)
    return _unimodal(int(mean), None, lambda k: mean / (k + 1), lambda k: k / mean)


class Tables(NamedTuple):
    """Distributions side by side, for `draw`: number k has the entries start[k]..start[k+1] of cdf and values."""

    cdf: NDArray[np.uint64]  # in units of 2^-53, rounded up: u < cdf is exact
    values: NDArray[np.int64]
    guide: NDArray[np.int64]
    start: NDArray[np.int64]


def tables(distributions: Sequence[FiniteDistribution]) -> Tables:
    """The sampling tables of the distributions."""
    cdf, guide = [], []
    start = np.cumsum([0] + [len(each.values) for each in distributions])
    for each, first in zip(distributions, start, strict=False):
        own = np.cumsum(each.probabilities)
        own[-1] = 1.0
        guide.append(first + np.searchsorted(own, np.arange(GUIDE) / GUIDE, side="right"))
        cdf.append(np.ceil(own * 2.0**53).astype(np.uint64))  # times a power of 2: exact
    values = np.array([value for each in distributions for value in each.values], np.int64)
    return Tables(np.concatenate(cdf), values, np.concatenate(guide), start)


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def invert(cdf, values, guide, start, k, word):
    """The number of distribution k of the tables for a random word, whose first 53 bits are u.

    The tables come as four arrays, since a tuple of them would be counted (reference counts) at every call.
    """
    i, u = np.uint64(start[k]), word >> _11  # unsigned indices: no test for negative ones
    if u >= cdf[i]:  # mostly the first value: no need for the guide then
        i = np.uint64(guide[np.uint64(k * GUIDE) + (word >> _56)])
        i += np.uint64(cdf[i] <= u)  # one step without a branch, which would be unpredictable
        while cdf[i] <= u:
            i += np.uint64(1)
    return values[i]


@njit(cache=True, boundscheck=False, error_model="numpy", forceinline=True)
def draw(cdf, values, guide, start, k, words):
    """A number from distribution k of the tables; no random word is used where it has one value."""
    i = start[k]
    if start[k + 1] - i > 1:
        return invert(cdf, values, guide, start, k, next_word(words))
    return values[i]


@njit(cache=True)
def below(n, words):
    """A uniform integer in 0..n-1, exactly, 1 <= n < 2^32 (Lemire, ACM TOMACS 29(1), 2019, on 32-bit halves)."""
    bound = np.uint64(n)
    while True:
        product = (next_word(words) >> _32) * bound
        low = product & _LOW
        if low >= bound or low >= (_LOW + np.uint64(1)) % bound:
            return np.int64(product >> _32)
