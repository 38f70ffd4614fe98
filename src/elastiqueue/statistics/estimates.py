"""Estimators: ratios with jackknifed errors, and t intervals.

    theta = sum_r num_r / sum_r den_r,    theta_(r) = the same without replication r,
    estimate = n theta - (n - 1) mean_r theta_(r),    se^2 = (n - 1)/n sum_r (theta_(r) - mean theta_(.))^2

(Quenouille 1956, Tukey 1958). Second moments of a backlog near its boundary are skewed: their errors grow about as the
cube of what is estimated, so that where an estimate is low, its error is lower still. On 1/mean^2 it is constant; with
u = t se / mean the interval of such a metric is, to second order and finite for any u,

    mean / sqrt(1 + 2 u)  to  mean exp(u + u^2).

Sums are correctly rounded (`math.fsum`), so that no data file depends on the order of
additions or on the machine's vector width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ratio:
    """A metric: the ratio of two linear forms in totals, each given as column -> weight; `skewed`: see above."""

    numerator: Mapping[str, float]
    denominator: Mapping[str, float] = field(default_factory=lambda: {"time": 1.0})
    skewed: bool = False


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error and the number of independent replications behind it (0: exact, se = 0)."""

    mean: float
    se: float
    n: int
    skewed: bool = False

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided t interval with n - 1 degrees of freedom; a point where the value is exact."""
        if self.n == 0:
            return self.mean, self.mean
        from scipy.special import stdtrit  # slow to import, and simulations need none of it

        half = float(stdtrit(self.n - 1, 0.5 + confidence / 2)) * self.se
        if self.skewed and self.mean > 0.0:
            u = half / self.mean
            return self.mean / math.sqrt(1.0 + 2.0 * u), self.mean * math.exp(min(u + u * u, 700.0))
        return self.mean - half, self.mean + half

    def __str__(self) -> str:
        """The mean rounded to its error, 0.0109(2): one digit of the error, two where the first is 1.

        >>> print(Estimate(0.010893, 0.00021, 9), Estimate(1234.4, 14.2, 9), Estimate(2 / 3, 0, 0))
        0.0109(2) 1234(14) 0.666667
        """
        if self.n == 0 or not (math.isfinite(self.se) and math.isfinite(self.mean)) or self.se <= 0:
            return f"{self.mean:.6g}"
        return with_error(self.mean, self.se)


def with_error(mean: float, se: float) -> str:
    """A mean and its standard error > 0 as one number, the error in units of the last digit: 0.0109(2), 1.23(4)e-9."""
    exponent = math.floor(math.log10(max(abs(mean), se)))
    scale = exponent if exponent < -4 or exponent > 6 else 0
    mean, se = mean / 10.0**scale, se / 10.0**scale
    first = math.floor(math.log10(se))
    decimals = -first + (1 if se / 10.0**first < 1.95 else 0)
    shown = round(se * 10.0**decimals) if decimals > 0 else round(se / 10.0**-decimals) * 10**-decimals
    text = f"{round(mean, decimals):.{max(decimals, 0)}f}({shown})"
    return text + (f"e{scale:+03d}" if scale else "")


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


def estimate(metric: Any, columns: Sequence[str], totals: NDArray[np.float64]) -> Estimate:
    """A metric, a `Ratio` or one with `resolve`, from the totals of n replications, shape (n, number of columns)."""
    if not isinstance(metric, Ratio):
        ratio, back = metric.resolve(pooled(columns, totals))
        return back(estimate(ratio, columns, totals))
    forms = (linear_form(weights, columns, totals) for weights in (metric.numerator, metric.denominator))
    return replace(ratio_estimate(*forms), skewed=metric.skewed)


def linearised(metric: Any, columns: Sequence[str], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """One value per row of totals, shape (n, C), whose mean is the metric and whose spread is that of its estimate.

    Of a ratio theta they are theta + (numerator - theta denominator) / mean denominator (Cochran 1977, Section 6.3), so
    that a difference of two metrics is estimated by the mean of differences, whatever they have in common.
    """
    if not isinstance(metric, Ratio):
        ratio, back = metric.resolve(pooled(columns, totals))
        values = linearised(ratio, columns, totals)
        plain = mean_estimate(values.tolist())
        found = back(plain)
        return found.mean + (values - plain.mean) * (found.se / plain.se if plain.se > 0 else 0.0)
    top, bottom = (np.array(linear_form(form, columns, totals)) for form in (metric.numerator, metric.denominator))
    below = math.fsum(bottom)
    if below == 0.0:
        return np.full(len(top), math.nan)
    theta = math.fsum(top) / below
    return theta + (top - theta * bottom) * (len(top) / below)


def pooled(columns: Sequence[str], totals: NDArray[np.float64]) -> dict[str, float]:
    """The sums of the totals over all rows, shape (n, C), by column."""
    return {name: math.fsum(map(float, values)) for name, values in zip(columns, totals.T, strict=True)}


def mean_estimate(values: Sequence[float]) -> Estimate:
    """Plain mean of n >= 2 independent values."""
    n = len(values)
    mean = math.fsum(values) / n
    return Estimate(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n), n)
