"""Control variates from the generator of a definition: what is known to have mean 0 in a steady state.

For any function f of the state, E[(L f)(X_t)] = 0 at any time t of a steady state, where

    (L f)(x) = sum over events and their outcomes of rate(x) (f(x') - f(x)).

Rates and outcomes are those of the definition (`models.simulators.drifts`). f is one of four features y of the state
that every definition integrates over time - waiting tasks, servers idle-on, in setup and busy -, a product of two of
them, or 1 / (1 + U / s), U the servers idle-on, which tells small U apart; s = 1.5, N^(1/4) + 1.5, N^(1/2) + 2.

A simulator does not stop for this at every event: it visits some states, whose weighted sums estimate time integrals
without bias. That costs precision, most of which comes back from what the totals know better than those states: a count
less the sum of its rate over the states visited has mean 0, as has a time integral less that of the states.

So the totals of a run (`models.base`) get further columns, integrals estimated by the states visited: `sampled X` of
the drift of every X that is counted or integrated, and `generator F` of L F. `statistics.control_variates` uses them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import warm_up
from elastiqueue.models.definitions import DefinedModel, for_numba, simulators
from elastiqueue.models.events import MAX_CHANGES, MAX_CHOICES, Outcomes
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.statistics.control_variates import GENERATOR, SAMPLED

EVENTS, SHORTEST, LONGEST = 400.0, 0.25, 5.0  # between two states: about so many events, within these times
FEW = 20  # servers of a system whose states are visited once per mean service time, so that rare ones are not missed
PIECE = 4096  # states that are visited between two sums, at most about

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def features(model: DefinedModel, scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the features, as time integrals: the second one is that of servers idle-on."""
    busy = "busy" if "busy" in model.definition.integrals(scenario) else "q_1"
    return "waiting", "idle_on", "setup", busy


def columns(model: DefinedModel, scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the further columns of the totals."""
    names = features(model, scenario)
    functions = [*names, *map("*".join, combinations_with_replacement(names, 2))]
    functions += [f"1/(1+{names[1]}/{scale:.6g})" for scale in scales(scenario)]
    sampled = ("time", *model.definition.COUNTS, *names)
    return *(f"{SAMPLED}{name}" for name in sampled), *(f"{GENERATOR}{name}" for name in functions)


def scales(scenario: ServiceScenario) -> NDArray[np.float64]:
    """The scales s of the functions 1 / (1 + U / s)."""
    return np.array([1.5, scenario.servers**0.25 + 1.5, scenario.servers**0.5 + 2.0])


def spacing(scenario: ServiceScenario) -> float:
    """Time between two states that are visited."""
    longest = min(max(1.0, scenario.servers / FEW), LONGEST)
    return min(max(EVENTS / (2 * scenario.servers * max(scenario.arrival.mean(), 1e-9)), SHORTEST), longest)


class Drifts:
    """Sums of drifts over states of one scenario."""

    def __init__(self, model: DefinedModel, scenario: ServiceScenario) -> None:
        definition = model.definition
        self.observed, self.compiled = definition.observed, simulators(model).drifts
        self.plain = model.parameters(scenario)
        self.p = for_numba(self.plain)
        self.level = getattr(definition, "level_size", lambda p: 0)(self.plain)
        self.aligned = len(definition.initial(scenario, self.plain))
        self.arrivals, self.scales = float(scenario.servers * scenario.arrival.at(0.0)), scales(scenario)
        self.features = list(map(definition.integrals(scenario).index, features(model, scenario)))
        self.kinds, self.counts = definition.kinds(self.p), len(model.counts(scenario))
        self.recorded, self.places = len(definition.COUNTS), {}  # type: int, dict[int, Floats]

    def sums(self, states: Integers, weights: Floats, ends: Integers) -> Floats:
        """The further `columns` over states of shape (T, S) up to each of the M ends: shape (M, K)."""
        if self.level and len(states):  # as many queue lengths as are needed, and one that an event may add
            used = int(np.flatnonzero(states.max(axis=0))[-1]) + 1 + self.level
            width = used + (self.aligned - used) % self.level
            missing = max(0, width - states.shape[1])
            states = np.ascontiguousarray(np.pad(states, ((0, 0), (0, missing)))[:, :width])
        size, room = len(self.features), states.shape[1]
        if room not in self.places:
            self.places[room] = np.array(self.observed(np.eye(room), self.plain))[self.features]
        sampled, counts = np.zeros((len(ends), 1 + size)), np.zeros((len(ends), self.counts))
        generator = np.zeros((len(ends), size + size * (size + 1) // 2 + self.scales.size))
        outcomes = Outcomes(
            np.zeros(room, np.int64), np.zeros((MAX_CHANGES, 2), np.int64), np.zeros((MAX_CHANGES, 2)),
            np.zeros(MAX_CHOICES, np.int64), np.zeros(MAX_CHOICES, np.int64), np.zeros(4, np.int64), np.ones(1),
        )  # fmt: skip
        work = ((np.zeros(size), np.zeros(size), np.zeros(size)), np.zeros((size, size)))
        followed = self.compiled(
            outcomes, states, weights, ends, self.p, np.zeros(self.kinds), self.arrivals, self.places[room],
            self.scales, sampled, counts, generator, work,
        )  # fmt: skip
        if not followed:  # an event has too many outcomes: no control
            generator[:] = np.nan
        return np.hstack([sampled[:, :1], counts[:, : self.recorded], sampled[:, 1:], generator])


def visit(system: Any, start: float, ends: Floats, spacing: float) -> tuple[Floats, Integers, Floats, Integers]:
    """Simulate on, up to each of M ends; states on the way, about `spacing` apart.

    Returns
    -------
    totals : shape (M, C), without the time; states, (T, S); weights, (T,); the number of states up to each end, (M,).
    """
    if hasattr(system, "visit"):
        own: tuple[Floats, Integers, Floats, Integers] = system.visit(start, ends, spacing)
        return own
    totals, states, weights = [], [], []
    for end in ends:
        number = max(1, round((end - start) / spacing))
        times = start + (end - start) * (np.arange(number) + 0.5) / number
        states.append(system.states(start, np.append(times, end))[:-1])
        weights.append(np.full(number, (end - start) / number))
        totals.append(system.totals())
        system.reset()
        start = float(end)
    room = states[-1].shape[1]
    joined = np.concatenate([np.pad(some, ((0, 0), (0, room - some.shape[1]))) for some in states])
    return np.array(totals), joined, np.concatenate(weights), np.cumsum([len(some) for some in weights])


def simulate(model: DefinedModel, scenarios: Sequence[ServiceScenario], words: Any, edges: Sequence[float]) -> Floats:
    """Totals with the further `columns`, as `models.base.replicate` makes them: shape (R M, C).

    scenarios, words : of each of the R replications, which differ in their start.
    """
    rows, length = [], (edges[-1] - edges[0]) / (len(edges) - 1)
    drifts, step = Drifts(model, scenarios[0]), spacing(scenarios[0])
    parts = math.ceil(length / (PIECE * step))
    ends = np.linspace(edges[0], edges[-1], (len(edges) - 1) * parts + 1)[1:]
    together = max(1, int(PIECE * step * parts / length))
    for scenario, stream in zip(scenarios, words, strict=True):
        system = model.system(scenario, stream)
        start = warm_up(system, edges[0])
        for first in range(0, len(ends), together):
            some = ends[first : first + together]
            totals, states, weights, visited = visit(system, start, some, step)
            further = drifts.sums(states, weights, visited)
            rows.append(np.hstack([np.diff(some, prepend=start)[:, None], totals, further]))
            start = float(some[-1])
    every: Floats = np.concatenate(rows)
    return every.reshape(-1, parts, every.shape[1]).sum(axis=1)
