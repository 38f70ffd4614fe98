"""Replications of two systems on common clocks, by `models.coupled`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import replicate
from elastiqueue.models.definitions import CHUNK, DefinedModel, Generic, simulators
from elastiqueue.models.registry import model_of
from elastiqueue.scenarios.autoscaling import ServiceScenario


class Pair:
    """A replication of two systems (`models.base.System`): its totals are those of the one, then those of the other."""

    def __init__(self, scenarios: Sequence[ServiceScenario], words: NDArray[np.uint64]) -> None:
        models: list[DefinedModel] = [model_of(scenario) for scenario in scenarios]
        self.coupled = [Generic(model, one, words.copy(), True) for model, one in zip(models, scenarios, strict=True)]
        self.words = words
        self.advance = simulators(*models).direct
        names = [list(_names(model, part.out.size)) for model, part in zip(models, self.coupled, strict=True)]
        known = list(dict.fromkeys([*names[0], *names[1]]))
        self.kinds = np.array([[own.index(name) if name in own else -1 for own in names] for name in known])
        self.largest = np.zeros(len(known))

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        rates = [(part.scenario.servers, part.scenario.arrival) for part in self.coupled]
        self.largest[0] = max(servers * (max(rate.rates) + abs(rate.amplitude)) for servers, rate in rates)
        events = CHUNK if any(part.grows or part.queue is not None for part in self.coupled) else 2**62
        for end in ends:
            while start < end:
                systems = [part.arguments() for part in self.coupled]
                queues = [None if part.queue is None else part.with_room(part.queue) for part in self.coupled]
                start = self.advance(*systems, self.kinds, self.largest, self.words, start, float(end), events, *queues)
        return np.empty((ends.size, 0))

    def totals(self) -> list[float]:
        return [total for part in self.coupled for total in part.totals()]

    def reset(self) -> None:
        for part in self.coupled:
            part.reset()


def _names(model: DefinedModel, kinds: int) -> Iterator[tuple[str, int]]:
    """Names of the kinds of event; those that a definition has no name for are numbered from its last name on."""
    known = getattr(model.definition, "KINDS", ("arrival", ""))
    number: Counter[str] = Counter()
    for kind in range(kinds):
        name = known[min(kind, len(known) - 1)]
        yield name, number[name]
        number[name] += 1


def simulate_coupled(
    scenarios: Sequence[ServiceScenario], words: NDArray[np.uint64], edges: Sequence[float]
) -> list[NDArray[np.float64]]:
    """One replication of two systems: the totals of each, shape (M, C), as `DefinedModel.simulate` gives them."""
    totals = replicate(Pair(scenarios, words), edges, np.empty(0)).totals
    width = len(model_of(scenarios[0]).columns(scenarios[0]))
    return [totals[:, :width], np.concatenate([totals[:, :1], totals[:, width:]], axis=1)]
