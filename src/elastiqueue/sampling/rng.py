"""Random numbers inside compiled kernels: xoshiro256++ and the few distributions that the kernels need.

The state is an array of four uint64 words. Hot loops carry the words as four local variables instead
(`step` takes and returns them), because a store and a load per draw would sit on the critical path of the generator;
LLVM keeps the four words in registers. The generator is that of Blackman and Vigna, "Scrambled linear pseudorandom
number generators", ACM TOMS 47(4), 2021. All functions give the same bits compiled and interpreted.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_17, _19, _23, _41, _45, _11 = (np.uint64(k) for k in (17, 19, 23, 41, 45, 11))
_1, _2, _4, _56 = (np.uint64(k) for k in (1, 2, 4, 56))
_PAIRS, _FOURS, _EIGHTS, _BYTES = (np.uint64(0xFFFFFFFFFFFFFFFF // k) for k in (3, 5, 17, 255))
TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53
TICKS = 2**62  # range of 62 bits of a draw: half of what a signed word can hold, so that sums of rates do not overflow


@njit(cache=True)
def step(s0, s1, s2, s3):
    """One step: the draw (uint64) and the four new words."""
    total = s0 + s3
    draw = ((total << _23) | (total >> _41)) + s0
    t = s1 << _17
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = (s3 << _45) | (s3 >> _19)
    return draw, s0, s1, s2, s3


@njit(cache=True)
def ones(word):
    """Number of ones among the 64 bits; LLVM knows this sum, and makes it one instruction."""
    word -= (word >> _1) & _PAIRS
    word = (word & _FOURS) + ((word >> _2) & _FOURS)
    word = (word + (word >> _4)) & _EIGHTS
    return np.int64((word * _BYTES) >> _56)


@njit(cache=True, inline="always")
def ticks(rate, bound):
    """A rate in whole ticks of bound / 2^62; one above the bound is that of what cannot happen."""
    return int(min(rate / bound, 1.0) * TICKS)


@njit(cache=True)
def next_word(words):
    """A uniform 64-bit word; advances the state array."""
    draw, words[0], words[1], words[2], words[3] = step(words[0], words[1], words[2], words[3])
    return draw


@njit(cache=True)
def uniform(words):
    """A uniform number in [0, 1) on the grid of 2^-53."""
    return np.float64(next_word(words) >> _11) * TO_UNIT


@njit(cache=True)
def exponential(words):
    """An exponential number of mean 1."""
    return -math.log(1.0 - uniform(words))


@njit(cache=True)
def normal(words):
    """A standard normal number (Marsaglia's polar method, one of the pair)."""
    while True:
        x = 2.0 * uniform(words) - 1.0
        y = 2.0 * uniform(words) - 1.0
        r = x * x + y * y
        if 0.0 < r < 1.0:
            return x * math.sqrt(-2.0 * math.log(r) / r)


@njit(cache=True)
def gamma(shape, words):
    """A Gamma(shape, 1) number, shape >= 1 (Marsaglia and Tsang, ACM TOMS 26(3), 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(words)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = 1.0 - uniform(words)  # the first test implies the second, and spares the logarithms
        if u < 1.0 - 0.0331 * (x * x) * (x * x) or math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


@njit(cache=True)
def beta(a, b, words):
    """A Beta(a, b) number, a, b >= 1: where the a-th of a + b - 1 uniform points lies."""
    x = gamma(a, words)
    return x / (x + gamma(b, words))


@njit(cache=True)
def binomial(trials, probability, words):
    """A Binomial(trials, probability) number: how many of as many uniform points lie below the probability.

    While there are many points, the middle one is placed, and those on one side of it are left to place (Relles, JASA
    67(340), 1972).
    """
    successes, low, high = 0, 0.0, 1.0
    while trials > 32:
        middle = (trials + 1) // 2
        point = low + (high - low) * beta(float(middle), float(trials + 1 - middle), words)
        if point < probability:
            successes += middle
            trials -= middle
            low = point
        else:
            trials = middle - 1
            high = point
    for _ in range(trials):
        if low + (high - low) * uniform(words) < probability:
            successes += 1
    return successes
