"""Control variates: what they explain goes, the mean stays, and runs do not see their own coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from elastiqueue.statistics.batches import steady_estimate
from elastiqueue.statistics.control_variates import PER_BATCH, Controls
from elastiqueue.statistics.estimates import Ratio

COLUMNS = ("time", "x", "sampled time", "sampled x", "generator x")
METRIC = Ratio({"x": 1.0}, {"time": 1.0})


def totals_of(explained: float, seed: int, runs: int = 12, batches: int = 4) -> np.ndarray:
    """Stretches of mean 3 of x: a generator explains such a share of its variance."""
    rng = np.random.default_rng(seed)
    control, rest = rng.normal(size=(2, runs, batches * PER_BATCH))
    x = 3.0 + np.sqrt(explained) * control + np.sqrt(1.0 - explained) * rest
    return np.stack([np.ones_like(x), x, np.ones_like(x), x, control], axis=-1)


def test_what_is_explained_goes() -> None:
    found = steady_estimate(METRIC, COLUMNS, totals_of(1.0, 1))
    assert found.estimate.mean == pytest.approx(3.0, abs=1e-5)
    assert found.reduction > 1e8  # as far as the coefficient is rounded


@pytest.mark.parametrize("explained", [0.0, 0.5, 0.9])
def test_the_interval_is_right(explained: float) -> None:
    """Over 400 experiments: mean at 5 sigma, coverage, and the variance of the estimate that the errors say."""
    known = [steady_estimate(METRIC, COLUMNS, totals_of(explained, seed)) for seed in range(400)]
    means = np.array([one.estimate.mean for one in known])
    assert abs(means.mean() - 3.0) < 5 * means.std() / 20
    covered = np.mean([one.estimate.interval()[0] <= 3.0 <= one.estimate.interval()[1] for one in known])
    assert abs(covered - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 400)
    plain = 1.0 / (12 * 4 * PER_BATCH)
    assert means.var() == pytest.approx(plain * (1.0 - explained), rel=5 * np.sqrt(2 / 400))


def test_a_run_does_not_see_its_own_coefficients() -> None:
    """b of a fold does not change with the numerators of its runs."""
    totals = totals_of(0.5, 3)
    less = Controls(COLUMNS, totals).less
    one = totals[..., 1].copy()
    other = one.copy()
    other[0] += np.linspace(-1.0, 1.0, other.shape[1])  # the pooled mean stays
    difference = less(other, totals[..., 0]) - less(one, totals[..., 0])
    assert difference[0] == pytest.approx(other[0] - one[0], abs=1e-12)
    assert np.abs(difference[1]).max() > 1e-6


@pytest.mark.parametrize("broken", ["nan", "constant", "one run"])
def test_without_controls_the_estimate_is_the_plain_one(broken: str) -> None:
    totals = totals_of(0.9, 4, runs=2 if broken == "one run" else 12)
    if broken == "one run":
        totals = totals[:1]
        numerator = totals[..., 1]
        assert (Controls(COLUMNS, totals).less(numerator, totals[..., 0]) == numerator).all()
        return
    totals[..., 3:] = {"nan": np.nan, "constant": 0.0}[broken]
    totals[..., 3] = totals[..., 1] if broken == "constant" else np.nan
    plain = steady_estimate(METRIC, COLUMNS[:2], totals[..., :2].reshape(12, 4, PER_BATCH, 2).sum(axis=2))
    found = steady_estimate(METRIC, COLUMNS, totals)
    assert found.reduction == 1.0
    assert found.estimate.mean == pytest.approx(plain.estimate.mean, rel=1e-12)
    assert found.estimate.se == pytest.approx(plain.estimate.se, rel=1e-12)


def test_systems_that_lose_tasks_are_estimated_plainly() -> None:
    """From one task in a hundred on: functions nearly span the states of such systems, and errors came out false."""
    totals = totals_of(0.9, 5)
    arrivals, names = np.full_like(totals[..., :1], 100.0), (*COLUMNS, "arrivals", "lost_full")
    few, many = (np.concatenate([totals, arrivals, arrivals * share], axis=-1) for share in (0.009, 0.011))
    assert steady_estimate(METRIC, names, few).reduction > 5.0
    assert steady_estimate(METRIC, names, many).reduction == 1.0
