"""Power laws fitted to estimates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elastiqueue.statistics.power_law import pooled_errors, power_law


def test_an_exact_power_law_is_found():
    x = [10.0, 100.0, 1000.0, 1e5]
    fit = power_law(x, [3 * value**-0.5 for value in x], [0.1 * value**-0.5 for value in x])
    assert fit.exponent == pytest.approx(-0.5, abs=1e-12)
    assert fit.factor == pytest.approx(3, rel=1e-12)
    assert fit.low < -0.5 < fit.high


def test_the_interval_covers():
    """400 fits with known noise: coverage of the 95 % interval within 5 standard errors, and no less."""
    rng = np.random.default_rng(1)
    x = np.array([100.0, 1e3, 1e4, 1e5, 1e6])
    covered = 0
    for _ in range(400):
        truth = 2 * x**-0.4
        mean = truth * np.exp(0.05 * rng.standard_normal(5))
        fit = power_law(x, mean, 0.05 * mean)
        covered += fit.low <= -0.4 <= fit.high
    assert covered / 400 >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / 400)


def test_scatter_beyond_the_errors_widens_the_interval():
    x, mean = [10.0, 100.0, 1000.0, 10_000.0], [1.0, 0.5, 0.05, 0.02]
    fit = power_law(x, mean, [0.001 * value for value in mean])
    assert fit.high - fit.low > 0.5


@pytest.mark.parametrize(
    ("x", "mean", "se"),
    [([1, 2], [1, 1], [1, 1]), ([1, 2, 3], [1, 0, 1], [1, 1, 1]), ([2, 2, 2], [1, 1, 1], [1, 1, 1])],
)
def test_what_is_no_fit_is_refused(x, mean, se):
    with pytest.raises(ValueError, match="power law"):
        power_law(x, mean, se)


def test_pooled_errors_are_the_own_errors_where_the_relative_spread_is_the_same():
    mean, n = [1.0, 10.0, 3.0], [5, 20, 2]
    se = [0.3 * m / math.sqrt(c) for m, c in zip(mean, n, strict=True)]
    assert pooled_errors(mean, se, n) == pytest.approx(se)
    uneven = pooled_errors(mean, [se[0], se[1], se[2] / 100], n)
    assert uneven[2] == pytest.approx(se[2], rel=0.1)  # not misled by one lucky pair
