"""Batches within independent runs: the guard joins what is correlated, starts that have not met are told."""

from __future__ import annotations

import numpy as np
import pytest

from elastiqueue.statistics.batches import steady_estimate
from elastiqueue.statistics.estimates import Ratio

MEAN, COLUMNS = Ratio({"x": 1.0}), ("time", "x")


def totals(runs: int, batches: int, memory: float, seed: int, shift: float = 0.0) -> np.ndarray:
    """Batches of an autoregression with that correlation, mean 10; odd runs lie higher by `shift`."""
    random = np.random.default_rng(seed)
    x = np.empty((runs, batches))
    x[:, 0] = random.normal(size=runs)
    for k in range(1, batches):
        x[:, k] = memory * x[:, k - 1] + np.sqrt(1 - memory**2) * random.normal(size=runs)
    x[1::2] += shift
    return np.stack([np.ones_like(x), x + 10], axis=2)


def covered(memory: float, guard: bool) -> float:
    hits = 0
    for seed in range(1000):
        data = totals(12, 4, memory, seed)
        one = steady_estimate(MEAN, COLUMNS, data if guard else data.reshape(48, 1, 2))
        low, high = one.estimate.interval()
        hits += low <= 10 <= high
    return hits / 1000


@pytest.mark.parametrize("memory", [0.0, 0.6, 0.9])
def test_intervals_cover_whatever_the_correlation_of_the_batches(memory) -> None:
    assert covered(memory, guard=True) > 0.95 - 0.02 - 5 * 0.007 * (memory > 0)
    if memory > 0:
        assert covered(memory, guard=False) < 0.85  # taken for independent, as five batches of one run would be


def test_the_guard_joins_batches_and_says_how_many_are_left() -> None:
    free, bound = (steady_estimate(MEAN, COLUMNS, totals(12, 4, memory, 1)) for memory in (0.0, 0.99))
    assert (free.batches, free.estimate.n, bound.batches, bound.estimate.n) == (4, 48, 1, 12)
    assert bound.warning == "the two halves of the runs are correlated"
    assert free.warning == ""
    assert 12 <= bound.effective <= free.effective <= 48


def test_two_starts_that_have_not_met_are_told() -> None:
    found = steady_estimate(MEAN, COLUMNS, totals(12, 4, 0.0, 1, shift=3.0))
    assert found.warning.startswith("runs from below and from above have not met: ")


def test_a_trend_is_told() -> None:
    data = totals(12, 4, 0.0, 1)
    data[:, :, 1] += np.arange(4) * 2
    assert steady_estimate(MEAN, COLUMNS, data).warning == "still rises during the runs"


def test_false_warnings_are_rare() -> None:
    warned = sum(bool(steady_estimate(MEAN, COLUMNS, totals(12, 4, 0.0, seed)).warning) for seed in range(1000))
    assert warned <= 5


def test_constants_have_no_doubt() -> None:
    data = np.ones((12, 4, 2))
    found = steady_estimate(MEAN, COLUMNS, data)
    assert (found.estimate.mean, found.estimate.se, found.warning, found.batches) == (1.0, 0.0, "", 4)
