"""What a model is to the engines: named totals, metrics as ratios of totals, and a readable Markov chain.

A replication ends in a vector of *totals* (time integrals of the state, counts of events), one per named column.
Every metric is a ratio of two linear forms in the totals,

    metric = <numerator, totals> / <denominator, totals>,

which lets one definition serve the simulator (ratio of sums over replications, jackknifed), and the exact solver
(ratio of stationary rates).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Replication:
    """Totals of one replication (by column), and its path on a time grid (rows: times; may be empty)."""

    totals: NDArray[np.float64]
    path: NDArray[np.float64]


def stops(grid: NDArray[np.float64], warm_up: float, horizon: float) -> Iterator[tuple[float, int]]:
    """The times at which a simulator pauses, in order, each with its row of the grid (-1: none).

    The pauses are the grid times, the end of the warm-up and the horizon.
    """
    rows = {float(time): row for row, time in enumerate(grid)}
    for time in sorted({*rows, float(warm_up), float(horizon)}):
        yield time, rows.get(time, -1)
