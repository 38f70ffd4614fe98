"""Control variates: a metric of a steady state with less variance, by totals whose mean is known to be 0.

Let d = numerator - estimate times denominator be the deviation of a stretch of a run, and c its controls, of mean 0.
Then numerator - <b, c> has the same mean as the numerator for every b that does not depend on c, and the least variance
for the b of a regression of d on c. To have both, the runs are dealt into folds (at most FOLDS), and b for the runs of
one fold comes from all others (cross-fitting; Chernozhukov et al., Econometrics J. 21(1), 2018). Controls that nearly
depend on each other are reduced to principal components: those are dropped whose singular value is below SMALLEST of
the largest, and the smallest where they are more than one in ROWS_PER_CONTROL rows.

The controls come from two sorts of columns of the totals (`models.controls`): "sampled X" estimates the same integral
as the column X, so that their difference has mean 0; "generator F" has mean 0 itself. F = A*B is taken about the means
of A and B, which adds multiples of the generators of A and B only: otherwise all products would look alike.

Where more than MAX_LOSS of the arrivals are lost, the system lives on so few states that the functions nearly span
them all: b then fits the runs rather than the system, the error comes out far too small, and the plain estimate serves.

b comes from stretches, PER_BATCH of which make one batch of the estimate. Any b would do: it is rounded, and scales are
powers of two, so that no result depends on the machine by which the regression was solved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

SAMPLED, GENERATOR = "sampled ", "generator "
PER_BATCH = 8
FOLDS, SMALLEST, ROWS_PER_CONTROL = 10, 0.003, 8
MAX_LOSS = 0.01

Floats = NDArray[np.float64]


def has_controls(columns: Sequence[str]) -> bool:
    """Whether totals with these columns have control variates."""
    return any(name.startswith(GENERATOR) for name in columns)


def controls(columns: Sequence[str], totals: Floats) -> Floats:
    """The controls of totals of shape (R, C), those that vary, each scaled to about variance 1: shape (R, K)."""
    if not np.isfinite(totals).all():  # an event had too many outcomes to follow
        return np.empty((len(totals), 0))
    place = {name: index for index, name in enumerate(columns)}
    sums = [math.fsum(values) for values in totals.T]
    found = []
    for name, index in place.items():
        if name.startswith(SAMPLED):
            found.append(totals[:, place[name.removeprefix(SAMPLED)]] - totals[:, index])
        elif name.startswith(GENERATOR):
            one, _, other = name.removeprefix(GENERATOR).partition("*")
            values = totals[:, index].copy()
            for part, factor in ((one, other), (other, one)) if other else ():
                mean = sums[place[f"{SAMPLED}{factor}"]] / sums[place[f"{SAMPLED}time"]]
                values -= mean * totals[:, place[f"{GENERATOR}{part}"]]
            found.append(values)
    noise = 1e-12 * float(np.abs(totals).max())
    varying = [(values, spread) for values in found if not (spread := float(values.std())) <= noise]
    scaled = [values / 2.0 ** np.round(np.log2(spread)) for values, spread in varying]
    return np.array(scaled).reshape(-1, len(totals)).T


class Controls:
    """Controls of R runs of M stretches, and for each fold of runs the regression on those of the other runs."""

    def __init__(self, columns: Sequence[str], totals: Floats) -> None:
        """Of totals of shape (R, M, C)."""
        runs, stretches, width = totals.shape
        found = controls(columns, totals.reshape(-1, width))
        self.values = found.reshape(runs, stretches, -1)
        self.folds: list[tuple[NDArray[np.bool_], Floats]] = []  # runs; from deviations of the others to b
        if runs < 2 or found.shape[1] == 0 or _share_lost(columns, totals) > MAX_LOSS:
            return
        fold = np.arange(runs) % min(FOLDS, runs)
        for one in range(min(FOLDS, runs)):
            others = self.values[fold != one].reshape(-1, found.shape[1])
            centred = others - others.mean(axis=0)
            squares, axes = np.linalg.eigh(centred.T @ centred)  # the smallest first
            kept = min(int((squares >= SMALLEST**2 * squares[-1]).sum()), len(others) // ROWS_PER_CONTROL)
            axes = axes[:, -kept:]
            self.folds.append((fold == one, (axes / squares[-kept:]) @ (axes.T @ centred.T)))

    def without(self) -> Controls:
        """The same runs, of which nothing is explained."""
        plain = copy(self)
        plain.folds = []
        return plain

    def less(self, numerator: Floats, denominator: Floats) -> Floats:
        """The numerators of a ratio, shape (R, M), less what the controls explain; the same where there are none."""
        result, bottom = numerator.copy(), math.fsum(denominator.ravel())
        if bottom == 0.0:
            return result
        deviations = numerator - math.fsum(numerator.ravel()) / bottom * denominator
        for mine, regression in self.folds:
            others = deviations[~mine].ravel()
            b = _rounded(regression @ (others - others.mean()))
            for values, factor in zip(self.values[mine].T, b, strict=True):
                result[mine] -= factor * values.T  # in an order of its own
        return result


def _share_lost(columns: Sequence[str], totals: Floats) -> float:
    """The share of the arrivals that is lost, whatever for; columns of losses begin with "lost"."""
    lost = [index for index, name in enumerate(columns) if name.startswith("lost")]
    arrivals = math.fsum(totals[..., list(columns).index("arrivals")].ravel()) if lost else 0.0
    return math.fsum(totals[..., lost].ravel()) / arrivals if arrivals > 0.0 else 0.0


def _rounded(b: Floats) -> Floats:
    """To 20 bits below the largest of all."""
    largest = float(np.abs(b).max(initial=0.0))
    if largest == 0.0:
        return b
    unit = 2.0 ** (math.ceil(math.log2(largest)) - 20)
    result: Floats = np.round(b / unit) * unit
    return result


def joined(values: Floats) -> Floats:
    """Sums over the stretches of each batch: shape (R, M PER_BATCH) to (R, M)."""
    total: Floats = values.reshape(len(values), -1, PER_BATCH).sum(axis=2)
    return total
