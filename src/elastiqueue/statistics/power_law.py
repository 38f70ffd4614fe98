"""Power laws fitted to estimates: how fast an error falls with the size of the system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PowerLaw:
    """y = factor * x^exponent, with the 95 % interval of the exponent."""

    factor: float
    exponent: float
    low: float
    high: float


def power_law(x: Sequence[float], mean: Sequence[float], se: Sequence[float], confidence: float = 0.95) -> PowerLaw:
    """Weighted least squares of log(mean) on log(x), weights (mean / se)^2.

    The interval is Student's with n - 2 degrees of freedom; its error is that of the given standard errors, or of the
    scatter about the line where that is larger (Birge's ratio above 1), so that a curve that is no power law widens it.

    Raises
    ------
    ValueError : fewer than three points, or one that is not positive.
    """
    from scipy.special import stdtrit  # slow to import, and most figures need none of it

    n = len(x)
    if n < 3 or len(mean) != n or len(se) != n or min(*x, *mean, *se) <= 0:
        raise ValueError(f"power law: {n} points given, must be three or more, all positive with positive errors")
    u, v = [math.log(value) for value in x], [math.log(value) for value in mean]
    weights = [(m / s) ** 2 for m, s in zip(mean, se, strict=True)]
    total = math.fsum(weights)
    centre_u = math.fsum(w * a for w, a in zip(weights, u, strict=True)) / total
    centre_v = math.fsum(w * b for w, b in zip(weights, v, strict=True)) / total
    spread = math.fsum(w * (a - centre_u) ** 2 for w, a in zip(weights, u, strict=True))
    if spread == 0:
        raise ValueError("power law: all points at one x, must differ")
    slope = math.fsum(w * (a - centre_u) * b for w, a, b in zip(weights, u, v, strict=True)) / spread
    rest = [b - centre_v - slope * (a - centre_u) for a, b in zip(u, v, strict=True)]
    chi = math.fsum(w * r * r for w, r in zip(weights, rest, strict=True)) / (n - 2)
    half = float(stdtrit(n - 2, 0.5 + confidence / 2)) * math.sqrt(max(1.0, chi) / spread)
    return PowerLaw(math.exp(centre_v - slope * centre_u), slope, slope - half, slope + half)


def pooled_errors(mean: Sequence[float], se: Sequence[float], n: Sequence[int]) -> list[float]:
    """Standard errors of means of n replications each, from one relative spread for all of them.

    Where the relative spread is the same at every size, the error of a mean of very few replications is known much
    better from all of them than from its own.
    """
    free = sum(count - 1 for count in n)
    relative = math.fsum((c - 1) * c * (s / m) ** 2 for m, s, c in zip(mean, se, n, strict=True)) / free
    return [m * math.sqrt(relative / c) for m, c in zip(mean, n, strict=True)]
