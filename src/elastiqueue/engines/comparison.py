"""Two scenarios beside each other on common clocks (`models.coupled`), and the differences of their metrics.

Replication r of both is one replication of the pair. With y_i,r the linearised values of a metric of system i
(`statistics.estimates.linearised`) its difference is the mean of y_1,r - y_2,r, with their standard error; in a steady
state r counts the batches, with the guards of `statistics.batches`. The *gain* of a difference,

    (se_1^2 + se_2^2) / se^2,

says as how many times as many replications of independent systems those on common clocks are worth. A pair takes more
CPU time than both systems by the accelerated simulators, though; measured at N = 100, 1000, 10^4, mu = nu = .1:

    first less second          load   times the CPU    gain of the wait   gain of the power
    mu .1 less mu .125          .3     4.6  5.3  15     3.8   12   27      8.3   13   50
                                .9     3.4  7.0  26     42    17   52      25    34   53
    mu .1 less mu .2            .3     4.6  5.1  14     4.5  5.6  8.9      3.7  5.0   34
                                .9     3.2  6.4  24     9.2  5.6  6.6      17   4.6   17
    TABS less delayed-off       .3     3.8  4.0  11     1.5  1.5  1.7      2.7  2.2  5.4
                                .9     3.2  5.7  20     4.1  6.1  1.9      2.3  3.8  2.0

So neighbours are worth comparing on common clocks, and any two systems that have no accelerated simulator, for which a
pair takes as long as both. Two policies, and the steps of 2 to 2.5 of the papers' grids, are better left independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.engines.simulation import estimates
from elastiqueue.engines.steady_state import Window, from_both_sides, is_steady, window
from elastiqueue.models.coupling import simulate_coupled
from elastiqueue.models.registry import model_of
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.sampling.streams import digest, stream
from elastiqueue.scenarios.autoscaling import check_pair
from elastiqueue.scenarios.units import with_costs
from elastiqueue.statistics.batches import steady_mean
from elastiqueue.statistics.estimates import Estimate, linearised, mean_estimate

Pair = tuple[Any, Any]  # scenarios that `common_window` has passed
Totals = list[NDArray[np.float64]]  # of each of both, shape (R M, C)


@dataclass(frozen=True)
class Difference:
    """A metric of two systems, and the first less the second.

    Attributes
    ----------
    both : the two. difference : n is the number of replications or, of a steady state, batches that it was made of.
    warning : what casts doubt on the difference in a steady state.
    """

    both: tuple[Estimate, Estimate]
    difference: Estimate
    warning: str = ""

    @property
    def gain(self) -> float:
        """Variance of the difference of independent replications, over that on common clocks; nan where that is 0."""
        variance = self.difference.se**2
        return math.fsum(one.se**2 for one in self.both) / variance if variance > 0 else math.nan


def common_window(pair: Pair) -> Window:
    """The window of both: that of their keys, or of a steady state the longer one.

    Raises
    ------
    ConfigError : two scenarios that cannot be compared.
    """
    check_pair(pair)
    spans = [window(scenario) for scenario in pair]
    longer = max(spans, key=lambda span: span.horizon)
    return replace(longer, doubt="; ".join(dict.fromkeys(span.doubt for span in spans if span.doubt)))


def simulate_pair(pair: Pair, first: int, last: int, span: Window) -> Totals:
    """Replications first, ..., last - 1 of both; the random streams are those of the pair."""
    name = digest({"coupled": [scenario.digest() for scenario in pair]})
    runs = []
    for index in range(first, last):
        sides: Any = [from_both_sides(scenario, index) for scenario in pair]
        runs.append(simulate_coupled(sides, stream(pair[0].seed, name, index), span.edges))
    return joined(runs)


def joined(parts: Sequence[Totals]) -> Totals:
    """The totals of some replications, then those of the next, and so on."""
    return [np.concatenate(rows) for rows in zip(*parts, strict=True)]


def differences(pair: Pair, totals: Totals, span: Window) -> dict[str, Difference]:
    """The metrics that both have; not the mean wait where one has a central queue, which estimates it in another way.

    There `mean_wait_integral` is what both have.
    """
    columns = [model_of(scenario).columns(scenario) for scenario in pair]
    metrics = [with_costs(scenario, model_of(scenario).metrics(scenario)) for scenario in pair]
    both = [estimates(scenario, values) for scenario, values in zip(pair, totals, strict=True)]
    found = {}
    for name in (name for name in metrics[0] if name in metrics[1]):
        if name == "mean_wait" and pair[0].row.distributed != pair[1].row.distributed:
            continue
        one, other = (linearised(metrics[i][name], columns[i], totals[i]) for i in (0, 1))
        beside = (both[0][name], both[1][name])
        if is_steady(pair[0]):
            steady = steady_mean((one - other).reshape(-1, span.batches))
            found[name] = Difference(beside, steady.estimate, steady.warning)
        else:
            found[name] = Difference(beside, mean_estimate((one - other).tolist()))
    return found


def compute_rows(engine: str, scenario: Any, other: Any) -> list[dict[str, Any]]:
    """Rows of the differences, scenario less other; `note` says how many independent replications one is worth."""
    pair = (scenario, other)
    span = common_window(pair)
    found = differences(pair, simulate_pair(pair, 0, scenario.replications, span), span)
    rows = []
    for name, one in found.items():
        notes = [f"gain {one.gain:.3g}" if one.gain == one.gain else "", span.doubt, one.warning]
        rows.append({**value_row(name, one.difference), "note": "; ".join(filter(None, notes))})
    return rows
