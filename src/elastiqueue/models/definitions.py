"""From a definition to its simulators, its chain for the exact solver, its totals and its metrics.

A definition is a Python file (`models.tabs.definition`, or one of the user's) that says what a system is:

    COUNTS, EVENTS                what `happen` records, by column; those of them that are events
    KINDS                         optional, names of the kinds of event, by which two systems are coupled; the last name
                                  is that of all further ones, which are numbered
    parameters(scenario, level)   a NamedTuple of numbers and of (nested) sequences of numbers, which the events depend
                                  on; `level` cuts what is unlimited, for the exact solver
    kinds(p)                      number of kinds of event; kind 0 is the arrival, whose rate is that of the scenario
    initial(scenario, p)          state at time 0: numbers of servers, tasks, ... of each kind
    rates(state, p, out)          writes the rates of the other kinds, per mean service time
    happen(kind, system, p)       what an event does, by `system.move`, `.record` and `.pick` (`models.events`)
    integrals(scenario)           names of what is integrated over time
    observed(x, p)                these from the state; linear, so that it holds for integrals of the state too
    path(scenario)                name -> those of them whose sum per server is recorded along a path
    metrics(scenario)             name -> (numerator, denominator), each column -> weight
    more_counts(scenario)         optional, names of further counts behind COUNTS
    QUEUE                         optional, the place in the state of the tasks that wait, if each event that changes it
                                  by k lets k tasks join its end or k start from its head
    level_size(p)                 where the state may grow: by how many components at a time

`rates`, `happen` and what they call are compiled by Numba: plain loops, numbers and arrays, no imports.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.models.base import Batch, Replication, batch
from elastiqueue.models.events import Queue, outcomes
from elastiqueue.models.events import System as Events
from elastiqueue.models.quantities import metrics_of, queue_columns_of
from elastiqueue.sampling.phases import kernel_service
from elastiqueue.sampling.streams import digest
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.scenarios.registry import load, row_of
from elastiqueue.sources import PACKAGE, source_digest
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.statistics.queue_waits import ends_of_bins
from elastiqueue.theory.chains import Chain, State, Transition

CHUNK = 4096  # events between two looks at the room that is left in a state that grows
BLOCKS_FROM = 200.0  # least rate of arrivals at which blocks pay
_IMPORTS = re.compile(r"^if TYPE_CHECKING:\n(    from .*\n)+", re.MULTILINE)  # what templates have in their place


def compiled(name: str) -> tuple[Any, Any]:
    """The functions `rates` and `happen` of a definition, and what they call, for Numba."""
    from numba import njit

    definition = load(name)
    copies: dict[int, dict[str, Any]] = {}  # the globals of a file, in which functions are compiled ones
    done: dict[FunctionType, Any] = {}

    def compile_(function: FunctionType) -> Any:
        if function not in done:
            names = copies.setdefault(id(function.__globals__), dict(function.__globals__))
            copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
            done[function] = njit(error_model="numpy", _nrt=False, forceinline=True)(copy)
            for called in function.__code__.co_names:
                if isinstance(names.get(called), FunctionType):
                    names[called] = compile_(names[called])
        return done[function]

    return compile_(definition.rates), compile_(definition.happen)


def simulators(*models: DefinedModel) -> ModuleType:
    """The module of the generic simulators of a definition, or of the coupled one of two of them."""
    return _simulators(tuple(model.name for model in models), tuple(model.definition for model in models))


@cache
def _simulators(names: Sequence[str], definitions: Sequence[ModuleType]) -> ModuleType:
    """A copy of a template for these definitions, written where compiled kernels are kept.

    It is another one once the file of a definition, which may be the user's, has been edited and loaded again.
    """
    importlib.import_module("numba.core.caching")  # sets the folder
    template, ends = ("simulators", [""]) if len(names) == 1 else ("coupled", ["_1", "_2"])
    own = [f"rates{end}, happen{end} = compiled({name!r})\n" for end, name in zip(ends, names, strict=True)]
    lines = "from elastiqueue.models.definitions import compiled\n\n" + "".join(own)
    text, replaced = _IMPORTS.subn(lambda _: lines, (PACKAGE / "models" / f"{template}.py").read_text(encoding="utf-8"))
    assert replaced == 1
    title = f"{template}_{digest({'definition': source_digest(*names), 'text': text})[:32]}"
    path = Path(os.environ["NUMBA_CACHE_DIR"]) / f"{title}.py"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    spec = importlib.util.spec_from_file_location(title, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[title] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def for_numba(p: Any) -> Any:
    """Parameters with sequences of numbers as arrays."""
    return type(p)(*(np.array(value, np.float64) if isinstance(value, Sequence) else value for value in p))


def accelerated(scenario: ServiceScenario) -> Any:
    """The module of the first accelerated simulator of the model that applies; None where none does."""
    modules = map(importlib.import_module, row_of(scenario).kernels)
    return next((module for module in modules if module.applies(scenario)), None)


class Generic:
    """A replication of a definition by its generic simulators (`models.base.System`)."""

    def __init__(self, model: DefinedModel, scenario: ServiceScenario, words: NDArray[np.uint64], direct: bool) -> None:
        self.model, self.scenario = model, scenario
        self.plain = model.parameters(scenario)
        self.p = for_numba(self.plain)
        kernels = simulators(model)
        fast = max(getattr(self.plain, "standby_rate", 0.0), getattr(self.plain, "setup_rate", 0.0))
        least = BLOCKS_FROM * max(1.0, fast / 100)  # of the rate of arrivals: one event may add so much to the total
        self.queue = self._watched(scenario)
        use_blocks = not direct and self.queue is None and scenario.servers * scenario.arrival.mean() >= least
        self.advance = kernels.blocks if use_blocks else kernels.direct
        self.advance_by_pauses = kernels.pauses_of_blocks if use_blocks else kernels.pauses_of_direct
        self.out = np.zeros(model.definition.kinds(self.p))
        self.grows = getattr(model.definition, "level_size", lambda p: 0)(self.p) if scenario.buffer is None else 0
        state = np.array(model.definition.initial(scenario, self.plain), np.int64)
        self.system = Events(state, np.zeros(state.size), np.zeros(len(model.counts(scenario))), np.zeros(1), words)
        self.integrals = np.zeros(state.size)
        if self.queue is not None:
            self.queue.ends[1] = state[self.queue.place]  # as if they came at time 0
        self.path = model.path_weights(scenario)

    def _watched(self, scenario: ServiceScenario) -> Queue | None:
        """The queue whose waits are observed, empty; None where they are not asked for."""
        names = queue_columns_of(self.model.definition, scenario)
        if not names:
            return None
        place, column = self.model.definition.QUEUE, len(self.model.counts(scenario)) - len(names)
        bins = np.array(ends_of_bins(tuple(scenario.asked_of_waits.times)))
        return Queue(place, np.zeros(0), np.zeros(2, np.int64), bins, column, *kernel_service(scenario.phase_type))

    def arguments(self) -> tuple[Any, ...]:
        """What a compiled simulator takes of the system, with room for CHUNK events where its state grows."""
        if self.grows:
            self.make_room()
        arrival = self.scenario.arrival
        rate = (np.array(arrival.times), np.array(arrival.rates), arrival.amplitude, 2 * math.pi / arrival.period)
        return (self.system, self.integrals, self.p, self.out, float(self.scenario.servers), *rate)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.empty((ends.size, len(self.path)))
        events = CHUNK if self.grows or self.queue is not None else 2**62
        for row, end in enumerate(ends):
            while start < end:
                watched = () if self.queue is None else (self.with_room(self.queue),)
                start = self.advance(*self.arguments(), start, float(end), events, *watched)
            state = self.model.definition.observed(self.system.state, self.plain)
            rows[row] = [sum(state[place] for place in places) for places in self.path]
        return rows / self.scenario.servers

    def states(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.int64]:
        """As `follow`: the states at the pauses, shape (T, S)."""
        states, done = np.zeros((0, 0), np.int64), 0
        while done < ends.size:
            arguments = self.arguments()
            states = np.pad(states, ((0, ends.size - len(states)), (0, self.system.state.size - states.shape[1])))
            if self.queue is not None:
                self.follow(start, ends[done : done + 1])
                states[done] = self.system.state
                start, done = float(ends[done]), done + 1
            else:
                events = CHUNK if self.grows else 2**62
                done, start = self.advance_by_pauses(*arguments, start, ends, done, self.grows, events, states)
        return states

    def make_room(self) -> None:
        """No event lengthens a queue by more than one."""
        used = int(np.flatnonzero(self.system.state)[-1]) + 1
        missing = used + (2 * CHUNK + 1) * self.grows - self.system.state.size  # a last block may go beyond CHUNK
        if missing > 0:
            room = np.zeros(missing + -missing % self.grows)
            grown = [np.concatenate([values, room.astype(values.dtype)]) for values in self.system[:2]]
            self.system = self.system._replace(state=grown[0], moved=grown[1])
            self.integrals = np.concatenate([self.integrals, room])

    def with_room(self, queue: Queue) -> Queue:
        """The queue from its head on, with room for CHUNK more tasks."""
        first, last = queue.ends
        if last + CHUNK > queue.since.size:
            waiting = queue.since[first:last]
            self.queue = queue = queue._replace(since=np.concatenate([waiting, np.zeros(waiting.size + 4 * CHUNK)]))
            queue.ends[:] = 0, last - first
        return queue

    def totals(self) -> list[float]:
        return [*self.system.counts, *self.model.definition.observed(self.integrals, self.plain)]

    def reset(self) -> None:
        self.system.counts[:] = 0.0
        self.integrals[:] = 0.0


class DefinedModel:
    """A model by its definition: what the engines ask for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.definition = load(name)

    def columns(self, scenario: ServiceScenario) -> tuple[str, ...]:
        """Names of the totals: time, counts of events, time integrals (all for the whole system)."""
        return ("time", *self.counts(scenario), *self.definition.integrals(scenario))

    def counts(self, scenario: ServiceScenario) -> tuple[str, ...]:
        """Names of what `happen` records."""
        more = getattr(self.definition, "more_counts", lambda _: ())(scenario)
        return (*self.definition.COUNTS, *more, *queue_columns_of(self.definition, scenario))

    def parameters(self, scenario: ServiceScenario, level: int | None = None) -> Any:
        """Those of the definition; one that borrows them from TABS counts what tasks find only if it says so."""
        p = self.definition.parameters(scenario, level)
        return p if hasattr(self.definition, "more_counts") or not hasattr(p, "levels") else p._replace(levels=0)

    def metrics(self, scenario: ServiceScenario) -> dict[str, Ratio]:
        """The metrics as ratios of totals."""
        known = metrics_of(self.definition, scenario)
        return {name: Ratio(*part) if isinstance(part, tuple) else part for name, part in known.items()}

    def components(self, scenario: ServiceScenario) -> tuple[str, ...]:
        """Names of the columns of a path."""
        return tuple(self.definition.path(scenario))

    def path_weights(self, scenario: ServiceScenario) -> list[list[int]]:
        """For each column of a path the places, among `integrals`, of what it is the sum of."""
        places = {name: place for place, name in enumerate(self.definition.integrals(scenario))}
        return [[places[name] for name in parts] for parts in self.definition.path(scenario).values()]

    def events(self, totals: dict[str, float]) -> float:
        """Number of real events behind the totals: what the speed of a simulator is counted in."""
        return sum(totals[name] for name in self.definition.EVENTS)

    def simulate_batch(
        self,
        scenario: ServiceScenario,
        words: NDArray[np.uint64],
        edges: Sequence[float],
        grid: NDArray[np.float64],
        direct: bool = False,
    ) -> Batch:
        """Replications by the first accelerated kernel of the model that applies, else by a generic simulator.

        Parameters
        ----------
        words : states of the generator, shape (R, 4); are advanced.
        edges, grid : as `models.base.replicate` takes them, in mean service times.
        direct : event by event, even where a faster simulator applies.

        Returns
        -------
        totals by `columns`, shape (R M, C), replication by replication; paths by `components`, per server, (R, T, K).
        """
        kernel = None if direct else self.kernel(scenario)
        if kernel is None:
            return batch((Generic(self, scenario, one, direct) for one in words), edges, grid)
        result: Batch = kernel.simulate(scenario, words, edges, grid)
        return result

    def kernel(self, scenario: ServiceScenario) -> Any:
        """The module of the accelerated simulator; None where none applies, or the waits in a queue are observed."""
        return None if queue_columns_of(self.definition, scenario) else accelerated(scenario)

    def system(self, scenario: ServiceScenario, words: NDArray[np.uint64]) -> Any:
        """A replication at time 0 (`models.base.System`), whose `states` are those of the definition."""
        kernel = self.kernel(scenario)
        return Generic(self, scenario, words, False) if kernel is None else kernel.Kernel(scenario, words)

    def simulate(
        self,
        scenario: ServiceScenario,
        words: NDArray[np.uint64],
        edges: Sequence[float],
        grid: NDArray[np.float64],
        direct: bool = False,
    ) -> Replication:
        """One replication: words of shape (4,)."""
        totals, paths = self.simulate_batch(scenario, words[None], edges, grid, direct)
        return Replication(totals, paths[0])

    def signals(
        self, scenario: ServiceScenario, path: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Waiting tasks and power per server along a path, each of shape (T,): what a pilot run looks at."""
        part = dict(zip(self.components(scenario), path.T, strict=True))
        busy = part["busy"] if "busy" in part else part["queue_tail[1]"]
        waiting = part["waiting"] if "waiting" in part else part["tasks"] - busy
        power = scenario.power
        return waiting, power.full * (busy + part["setup"]) + power.idle * part["idle_on"] + power.off * part[
            "idle_off"
        ]

    def chain(self, scenario: ServiceScenario, level: int | None = None) -> Chain:
        """The chain for the exact solver, by replaying every outcome of every event; see `parameters` for the level."""
        definition = self.definition
        p = self.parameters(scenario, level)
        initial = tuple(definition.initial(scenario, p))
        size, arrival, names = definition.kinds(p), scenario.servers * scenario.arrival.at(0.0), self.counts(scenario)

        def transitions(state: State) -> Iterator[Transition]:
            out = [0.0] * size
            definition.rates(state, p, out)
            out[0] = arrival
            for kind, rate in enumerate(out):
                if rate > 0.0:
                    for probability, after, counts in outcomes(definition.happen, kind, state, p):
                        yield rate * probability, after, {names[column]: n for column, n in counts.items()}

        def occupancy(states: Sequence[State]) -> dict[str, NDArray[np.float64]]:
            return dict(zip(definition.integrals(scenario), definition.observed(np.array(states).T, p), strict=True))

        return Chain(initial, transitions, occupancy)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Modules that its results depend on, beside those that the engine imports."""
        return (self.name, "elastiqueue.models.definitions")
