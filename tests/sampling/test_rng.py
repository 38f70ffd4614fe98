"""Random numbers of the kernels: their laws, at 5 standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from elastiqueue.sampling.rng import TICKS, beta, binomial, gamma, next_word, ones, ticks
from elastiqueue.sampling.streams import stream

SAMPLES = 200_000


@njit
def _betas(count, a, b, words):
    return np.array([beta(a, b, words) for _ in range(count)])


@njit
def _binomials(count, trials, probability, words):
    return np.array([binomial(trials, probability, words) for _ in range(count)])


@njit
def _gammas(count, shape, words):
    return np.array([gamma(shape, words) for _ in range(count)])


def _agree(values, mean, variance):
    """Mean and variance at 5 standard errors, that of the variance from the sample's fourth moment."""
    assert abs(values.mean() - mean) <= 5 * math.sqrt(variance / len(values))
    squares = (values - mean) ** 2
    assert abs(squares.mean() - variance) <= 5 * squares.std() / math.sqrt(len(values))


@pytest.mark.parametrize("shape", [1.0, 1.5, 16.0, 4096.0])
def test_gamma(shape):
    _agree(_gammas(SAMPLES, shape, stream(1, "ab", 0)), shape, shape)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (1.0, 40.0), (300.0, 5.0)])
def test_beta(a, b):
    _agree(_betas(SAMPLES, a, b, stream(1, "ab", 1)), a / (a + b), a * b / (a + b) ** 2 / (a + b + 1))


@pytest.mark.parametrize(("trials", "p"), [(0, 0.5), (1, 0.3), (32, 0.9), (33, 0.02), (100, 0.5), (4095, 0.997)])
def test_binomial(trials, p):
    values = _binomials(SAMPLES, trials, p, stream(1, "ab", 2))
    assert values.min() >= 0
    assert values.max() <= trials
    if trials == 0:
        return
    _agree(values, trials * p, trials * p * (1 - p))
    for k in range(max(0, int(trials * p) - 3), min(trials, int(trials * p) + 3) + 1):
        chance = math.comb(trials, k) * math.exp(k * math.log(p) + (trials - k) * math.log1p(-p)) if trials < 200 else 0
        error = math.sqrt(chance * (1 - chance) / SAMPLES)
        assert trials >= 200 or abs((values == k).mean() - chance) <= 5 * error


def test_ones_counts_the_bits_of_a_word():
    words = stream(1, "ab", 3)
    with np.errstate(over="ignore"):
        some = [np.uint64(next_word(words)) for _ in range(100)]
        for word in [*some, np.uint64(0), np.uint64(2**64 - 1)]:
            assert ones(word) == ones.py_func(word) == int(word).bit_count()


def test_ticks_are_shares_of_the_bound():
    assert ticks(0.0, 3.0) == 0
    assert ticks(3.0, 3.0) == ticks(5.0, 3.0) == TICKS
    assert ticks(0.75, 3.0) == TICKS // 4
