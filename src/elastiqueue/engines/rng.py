"""Random numbers inside compiled kernels: xoshiro256++ and the few laws that the kernels need.

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
TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


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
        if math.log(1.0 - uniform(words)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


@njit(cache=True)
def binomial(trials, probability, words):
    """A Binomial(trials, probability) number as a sum of trials: exact, and rare enough to afford it."""
    successes = 0
    for _ in range(trials):
        if uniform(words) < probability:
            successes += 1
    return successes
