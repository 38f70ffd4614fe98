"""Estimators: ratios with jackknifed errors, and t intervals.

    theta = sum_r num_r / sum_r den_r,    theta_(r) = the same without replication r,
    estimate = n theta - (n - 1) mean_r theta_(r),    se^2 = (n - 1)/n sum_r (theta_(r) - mean theta_(.))^2

(Quenouille 1956, Tukey 1958). Sums are correctly rounded (`math.fsum`), so that no data file depends on the order of
additions or on the machine's vector width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ratio:
    """A metric: the ratio of two linear forms in totals, each given as column -> weight."""

    numerator: Mapping[str, float]
    denominator: Mapping[str, float] = field(default_factory=lambda: {"time": 1.0})


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error and the number of independent replications behind it (0: exact, se = 0)."""

    mean: float
    se: float
    n: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Two-sided t interval with n - 1 degrees of freedom; a point where the value is exact."""
        if self.n == 0:
            return self.mean, self.mean
        from scipy.special import stdtrit  # slow to import, and simulations need none of it

        half = float(stdtrit(self.n - 1, 0.5 + level / 2)) * self.se
        return self.mean - half, self.mean + half


def linear_form(weights: Mapping[str, float], columns: Sequence[str], totals: NDArray[np.float64]) -> list[float]:
    """sum_c weights[c] * totals[:, c] for each row of totals, shape (R, C), correctly rounded sums."""
    picked = [(columns.index(name), weight) for name, weight in weights.items()]
    return [math.fsum(weight * float(row[c]) for c, weight in picked) for row in totals]


def ratio_estimate(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """Jackknifed ratio of sums over n >= 2 independent replications; nan where the denominator vanishes."""
    n = len(numerator)
    top, bottom = math.fsum(numerator), math.fsum(denominator)
    if bottom == 0.0:
        return Estimate(math.nan, math.nan, n)
    theta = top / bottom
    rest = [bottom - den for den in denominator]
    if min(map(abs, rest)) == 0.0:
        return Estimate(theta, math.nan, n)
    without = [(top - num) / den for num, den in zip(numerator, rest, strict=True)]
    centre = math.fsum(without) / n
    spread = math.fsum((value - centre) ** 2 for value in without)
    return Estimate(n * theta - (n - 1) * centre, math.sqrt((n - 1) / n * spread), n)


def estimate(metric: Ratio, columns: Sequence[str], totals: NDArray[np.float64]) -> Estimate:
    """A metric from the totals of n replications, shape (n, number of columns)."""
    return ratio_estimate(
        linear_form(metric.numerator, columns, totals), linear_form(metric.denominator, columns, totals)
    )


def mean_estimate(values: Sequence[float]) -> Estimate:
    """Plain mean of n >= 2 independent values."""
    n = len(values)
    mean = math.fsum(values) / n
    return Estimate(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n), n)
