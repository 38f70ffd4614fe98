"""A replication: its totals, by which metrics are ratios, and its path; pauses, stretches and resets in one place.

A replication ends in a vector of *totals* (time integrals of the state, counts of events), one per named column.
Every metric is a ratio of two linear forms in the totals,

    metric = <numerator, totals> / <denominator, totals>,

which lets one definition serve the simulator (ratio of sums over replications, jackknifed), and the exact solver
(ratio of stationary rates).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Replication:
    """Totals of one replication, shape (M, C): a row per measured stretch; its path on a time grid, shape (T, K)."""

    totals: NDArray[np.float64]
    path: NDArray[np.float64]


class System(Protocol):
    """A system in the middle of a replication: its state, what it has counted, and its random stream.

    Its `scenario` is read again at each call of `follow`; one of several systems has them as `coupled` instead
    (`models.coupling`), each with its own.
    """

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Simulate on from `start`, pausing at each of `ends`, shape (T,). Returns the path there, shape (T, K)."""

    def totals(self) -> Sequence[float]:
        """What was counted since the last reset: the columns without the first, which is the time."""

    def reset(self) -> None:
        """Count from 0 again."""


def overload(scenario: Any, warm_up: float) -> tuple[float, float] | None:
    """Arrival rate of the start `overloaded`, half as high again, but no more than half-way from load 1 beyond it.

    It lasts for a quarter of the warm-up. Returns rate and end; None where the scenario starts otherwise.
    """
    if getattr(scenario, "start", None) != "overloaded" or warm_up <= 0.0:
        return None
    rate = scenario.arrival.at(0.0)
    return max(min(1.5 * rate, 1.0 + (1.0 - rate) / 2), 1.1 * rate), warm_up / 4


def _overloaded(system: System, warm_up: float) -> float:
    """Simulate the time in which more tasks arrive, where the start is `overloaded`; the time reached."""
    start = 0.0
    coupled: Sequence[Any] = getattr(system, "coupled", (system,))
    scenarios = [one.scenario for one in coupled]
    for one in coupled:
        if raised := overload(one.scenario, warm_up):
            rate, start = raised
            one.scenario = one.scenario.model_copy(update={"arrival_rate": rate})
    if start > 0.0:
        system.follow(0.0, np.array([start]))
    for one, scenario in zip(coupled, scenarios, strict=True):
        one.scenario = scenario
    return start


def warm_up(system: System, end: float) -> float:
    """Simulate to the end of the warm-up, from where on is counted; the time reached."""
    system.follow(_overloaded(system, end), np.array([end]))
    system.reset()
    return end


def replicate(system: System, edges: Sequence[float], grid: NDArray[np.float64]) -> Replication:
    """One replication from time 0 on.

    Parameters
    ----------
    edges : e_0 < ... < e_M; row k of the totals is what is counted in (e_(k-1), e_k], in mean service times.
    grid : increasing times in [0, e_M] at which the state is recorded, shape (T,).

    The pauses are the times of both, also one at 0; a kernel may draw afresh at each. Where the scenario's start is
    `overloaded`, more tasks arrive in the first quarter of the time to e_0, where nothing may be recorded.
    """
    recorded = {float(time) for time in grid}
    pauses = np.array(sorted(recorded | {float(edge) for edge in edges}))
    rows, totals, done = [], [], 0
    with np.errstate(over="ignore"):  # the generator wraps around, also where it is interpreted
        start = _overloaded(system, edges[0])
        for number, edge in enumerate(edges):
            until = int(np.searchsorted(pauses, edge, side="right"))
            path = system.follow(start, pauses[done:until])
            rows.append(path[[float(time) in recorded for time in pauses[done:until]]])
            if number > 0:
                totals.append([edge - start, *system.totals()])
            system.reset()
            start, done = float(edge), until
    return Replication(np.array(totals, np.float64), np.concatenate(rows))


Batch = tuple[NDArray[np.float64], NDArray[np.float64]]  # totals, shape (R M, C), and paths, shape (R, T, K)


def batch(systems: Iterable[System], edges: Sequence[float], grid: NDArray[np.float64]) -> Batch:
    """One replication of each system."""
    runs = [replicate(system, edges, grid) for system in systems]
    return np.concatenate([run.totals for run in runs]), np.array([run.path for run in runs])
