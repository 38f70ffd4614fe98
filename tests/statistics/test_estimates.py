"""Estimators against closed forms and against samples of known law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from elastiqueue.statistics.autocorrelation import autocorrelation_time
from elastiqueue.statistics.estimates import Estimate, Ratio, estimate, mean_estimate, ratio_estimate
from elastiqueue.statistics.waiting import metric_from, parts_of


def test_a_constant_denominator_gives_the_plain_mean_and_error():
    values = [1.0, 2.0, 4.0, 8.0]
    one = ratio_estimate(values, [2.0] * 4)
    assert one.mean == pytest.approx(np.mean(values) / 2)
    assert one.se == pytest.approx(np.std(values, ddof=1) / math.sqrt(4) / 2)
    plain = mean_estimate(values)
    assert plain.mean == pytest.approx(np.mean(values))
    assert plain.interval() == pytest.approx(stats.t.interval(0.95, 3, np.mean(values), stats.sem(values)))


def test_an_exact_value_has_no_interval():
    assert Estimate(0.3, 0.0, 0).interval() == (0.3, 0.3)


def test_a_ratio_without_denominator_is_not_a_number():
    assert math.isnan(ratio_estimate([0.0, 0.0], [0.0, 0.0]).mean)
    assert math.isnan(ratio_estimate([1.0, 0.0], [1.0, 0.0]).se)


def test_linear_forms_pick_columns_by_name():
    totals = np.array([[1.0, 10.0, 5.0], [3.0, 10.0, 6.0]])
    one = estimate(Ratio({"a": 2.0, "c": -1.0}), ("a", "time", "c"), totals)
    assert one.mean == pytest.approx((2 - 5 + 6 - 6) / 20)


def test_jackknifed_ratios_cover_where_means_of_ratios_do_not():
    """Correlated numerator and denominator, 20 replications: coverage within 5 sigma of 95 %."""
    random = np.random.default_rng(2)
    hits, runs = 0, 2000
    for _ in range(runs):
        size = random.exponential(1.0, 20) + 0.05
        work = size * random.exponential(1.0, 20) * 3
        low, high = ratio_estimate(work.tolist(), size.tolist()).interval()
        hits += low <= 3.0 <= high
    assert hits / runs > 0.87  # skewed data with n = 20: below nominal, far from the 72 % of means of ratios
    assert hits / runs < 0.95 + 5 * math.sqrt(0.95 * 0.05 / runs)


@pytest.mark.parametrize("time", [2.0, 10.0, 40.0])
def test_autocorrelation_time_of_an_autoregression(time):
    """AR(1) with rho(t) = exp(-t / T): tau = T up to the spacing; error of the estimate after Sokal."""
    spacing, n = 0.5, 200_000
    rho = math.exp(-spacing / time)
    noise = np.random.default_rng(7).normal(size=n)
    series = np.empty(n)
    series[0] = noise[0]
    for i in range(1, n):
        series[i] = rho * series[i - 1] + math.sqrt(1 - rho * rho) * noise[i]
    exact = spacing * (0.5 + rho / (1 - rho))
    error = exact * math.sqrt(2 * (2 * 6 + 1) * (exact / spacing) / n)
    truncated = exact * math.exp(-6)
    assert abs(autocorrelation_time(series, spacing) - exact) <= 5 * error + truncated


def test_autocorrelation_time_of_a_constant_is_zero():
    assert autocorrelation_time(np.full(100, 3.0), 1.0) == 0.0


def test_the_interval_of_a_skewed_metric_reaches_farther_up():
    rows = np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [8.0, 1.0]])
    plain, skewed = (estimate(Ratio({"x": 1.0}, {"n": 1.0}, skewed), ["x", "n"], rows) for skewed in (False, True))
    assert (plain.mean, plain.se, plain.n) == (skewed.mean, skewed.se, skewed.n)
    (low, high), (lower, higher) = plain.interval(), skewed.interval()
    u = (high - plain.mean) / plain.mean
    assert lower == pytest.approx(plain.mean / math.sqrt(1 + 2 * u))
    assert higher == pytest.approx(plain.mean * math.exp(u + u * u))
    assert low < 0 < lower < plain.mean < high < higher
    assert metric_from(parts_of(Ratio({"x": 1.0}, skewed=True))) == Ratio({"x": 1.0}, skewed=True)


def test_a_skewed_metric_that_is_nowhere_has_a_point():
    assert Estimate(0.0, 0.0, 5, skewed=True).interval() == (0.0, 0.0)
    assert Estimate(2.0, 1e-9, 5, skewed=True).interval() == pytest.approx(Estimate(2.0, 1e-9, 5).interval(), rel=1e-12)
