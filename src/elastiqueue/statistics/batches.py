"""Estimates of a steady state from independent runs that are cut into batches, and what casts doubt on them.

R independent runs, each measured in M batches of equal length, give R M totals. A metric is a ratio of sums over all of
them, jackknifed over batches (`statistics.estimates`), with Student's quantile of as many degrees of freedom, less one.

Guard. With d_rk what batch k of run r deviates, numerator less estimate times denominator,

    r_1 = M / (M - 1)  sum_r sum_k d_rk d_r,k+1 / sum_rk d_rk^2,        R (M - 1) pairs.

Where r_1 > 1.645 / sqrt(pairs) the batches are too short: they are joined in pairs, and looked at again. At last each
run is one batch. Runs are independent whatever their length, so that the interval then is valid, only wider.

Two starts. Even runs start where the scenario says, odd ones under an overload. Their estimates must meet: a difference
that Student's t with R - 2 degrees of freedom exceeds once in 10,000 times is a warning, as is one between the first
and the last quarters of the runs: then the warm-up was too short, or there is no steady state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.statistics.control_variates import Controls, has_controls, joined
from elastiqueue.statistics.estimates import Estimate, Ratio, linear_form, mean_estimate, pooled, ratio_estimate

DOUBT = 1e-4  # probability of a warning about a difference where there is none
SERIOUS = 3.09  # standard errors of the correlation of the halves of the runs that make a warning


@dataclass(frozen=True)
class SteadyEstimate:
    """An estimate of a steady-state value, and how far it is to be trusted.

    Attributes
    ----------
    estimate : n is the number of batches that it was made of.
    batches : batches per run that the guard left, M, M/2, ..., 1.
    correlation : lag-1 autocorrelation of these; 0 where each run is one batch.
    effective : effective sample size, n (1 - r) / (1 + r) for a correlation r > 0.
    warning : what is wrong; empty if nothing is.
    reduction : by what control variates divide the variance; 1 where the estimate does without, nan where there are
        none.
    """

    estimate: Estimate
    batches: int
    correlation: float
    effective: float
    warning: str
    reduction: float = math.nan


def _lag_one(deviations: NDArray[np.float64]) -> float:
    """Lag-1 autocorrelation within the runs, shape (R, M); 0 for constant values or a single batch."""
    batches = deviations.shape[1]
    total = math.fsum((deviations**2).ravel())
    if batches == 1 or total == 0.0:
        return 0.0
    return batches / (batches - 1) * math.fsum((deviations[:, 1:] * deviations[:, :-1]).ravel()) / total


def _differ(difference: float, error: float, degrees: int) -> bool:
    """Whether a difference of that standard error is one that chance hardly brings."""
    from scipy.special import stdtrit  # slow to import, and simulations need none of it

    return error > 0.0 and abs(difference) > float(stdtrit(degrees, 1 - DOUBT / 2)) * error


def _sums(metric: Ratio, columns: Sequence[str], totals: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Numerator and denominator of each batch, both of shape (R, M)."""
    flat = totals.reshape(-1, totals.shape[2])
    forms = (linear_form(weights, columns, flat) for weights in (metric.numerator, metric.denominator))
    return tuple(np.array(form).reshape(totals.shape[:2]) for form in forms)


def _estimate(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> Estimate:
    return ratio_estimate(numerator.ravel().tolist(), denominator.ravel().tolist())


def steady_estimate(metric: Any, columns: Sequence[str], totals: NDArray[np.float64]) -> SteadyEstimate:
    """A metric from the totals of the batches of each run, shape (R, M, C), M a power of two, R >= 2.

    Where the totals have control variates, M PER_BATCH stretches instead (`statistics.control_variates`).
    """
    return next(steady_estimates([metric], columns, totals))


def steady_estimates(
    metrics: Iterable[Any], columns: Sequence[str], totals: NDArray[np.float64]
) -> Iterator[SteadyEstimate]:
    """`steady_estimate` of each of the metrics."""
    controls = Controls(columns, totals) if has_controls(columns) else None
    for metric in metrics:
        if isinstance(metric, Ratio):
            yield _ratio_estimate(metric, columns, totals, controls)
            continue
        ratio, back = metric.resolve(pooled(columns, totals.reshape(-1, totals.shape[2])))
        # A percentile is read off the totals themselves: controls would shrink its error without moving the estimate.
        tail = _ratio_estimate(ratio, columns, totals, controls and controls.without())
        yield replace(tail, estimate=back(tail.estimate))


def _ratio_estimate(
    metric: Ratio, columns: Sequence[str], totals: NDArray[np.float64], controls: Controls | None
) -> SteadyEstimate:
    numerator, denominator = _sums(metric, columns, totals)
    if controls is None:
        return _steady(numerator, denominator)
    less, numerator, denominator = map(joined, (controls.less(numerator, denominator), numerator, denominator))
    plain, better = _steady(numerator, denominator), _steady(less, denominator)
    if math.isnan(plain.estimate.se) or not better.estimate.se < plain.estimate.se:
        return replace(plain, reduction=1.0)
    return replace(better, reduction=(plain.estimate.se / better.estimate.se) ** 2 if better.estimate.se else math.inf)


def steady_mean(values: NDArray[np.float64]) -> SteadyEstimate:
    """The mean of values of the batches of each run, shape (R, M), as `estimates.linearised` makes them of a metric."""
    return _steady(values, np.ones_like(values))


def _steady(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> SteadyEstimate:
    runs, batches = numerator.shape
    joined = _estimate(numerator.sum(axis=1), denominator.sum(axis=1))
    if math.isnan(joined.se):
        return SteadyEstimate(joined, 1, 0.0, float(runs), "")
    warning = _doubt(numerator, denominator, joined.mean)
    correlation = _lag_one(numerator - joined.mean * denominator)
    while batches > 1 and correlation > 1.645 / math.sqrt(runs * (batches - 1)):
        if batches == 2 and correlation > SERIOUS / math.sqrt(runs):
            warning = warning or "the two halves of the runs are correlated"
        numerator, denominator = (part[:, ::2] + part[:, 1::2] for part in (numerator, denominator))
        batches //= 2
        correlation = _lag_one(numerator - joined.mean * denominator)
    found = _estimate(numerator, denominator)
    kept = max(correlation, 0.0)
    return SteadyEstimate(found, batches, correlation, found.n * (1 - kept) / (1 + kept), warning)


def _doubt(numerator: NDArray[np.float64], denominator: NDArray[np.float64], mean: float) -> str:
    """What speaks against a steady state; empty where nothing does, or there are less than four runs."""
    runs, batches = numerator.shape
    if runs < 4:
        return ""
    low, high = (_estimate(numerator[first::2].sum(axis=1), denominator[first::2].sum(axis=1)) for first in (0, 1))
    if _differ(high.mean - low.mean, math.hypot(low.se, high.se), runs - 2):
        return f"runs from below and from above have not met: {low.mean:.4g}, {high.mean:.4g}"
    rest, part = numerator - mean * denominator, max(1, batches // 4)
    change = mean_estimate((rest[:, -part:].sum(axis=1) - rest[:, :part].sum(axis=1)).tolist())
    if batches > 1 and _differ(change.mean, change.se, runs - 1):
        return f"still {'rises' if change.mean > 0 else 'falls'} during the runs"
    return ""
