"""What an event of a definition works on: its state, the changes it makes, what it records, its random choices.

`happen(kind, system, p)` of a definition (`models.base`) calls three methods and reads `system.state`:

    system.move(place, by)          state[place] += by
    system.record(column, amount)   the total of that count += amount
    system.pick(weights, total)     an index, with probability weights[index] / total

`System` is what the compiled simulators hand in. Numba knows a named tuple by its fields, and the methods through the
overloads below. `Replay` is its plain counterpart: it takes the choices of a script, and notes where the script ends,
so that all outcomes of an event can be had one after the other, each with its probability (`outcomes`). `Outcomes` does
so in compiled code, and keeps what changes rather than states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload_method
from numpy.typing import NDArray

from elastiqueue.sampling.phases import pick
from elastiqueue.sampling.rng import exponential, uniform


class System(NamedTuple):
    """A system that is simulated.

    Attributes
    ----------
    state : number of servers, tasks, ... of each kind, shape (S,).
    moved : by component of the state, the sum of its changes times the clock at each, shape (S,).
    counts : by column, shape (C,).
    clock : time, or the number of intervals, since the time integrals were last brought up to date, shape (1,).
    words : state of the random generator, shape (4,).
    """

    state: NDArray[np.int64]
    moved: NDArray[np.float64]
    counts: NDArray[np.float64]
    clock: NDArray[np.float64]
    words: NDArray[np.uint64]

    def move(self, place, by):
        self.state[place] += by
        self.moved[place] += by * self.clock[0]

    def record(self, column, amount=1):
        self.counts[column] += amount

    def pick(self, weights, total):
        rest = uniform(self.words) * total
        index = 0
        while rest >= weights[index]:
            rest -= weights[index]
            index += 1
            if index == len(weights):  # by rounding
                index -= 1
                while weights[index] <= 0:
                    index -= 1
                return index
        return index


MAX_CHOICES, MAX_CHANGES = 8, 64  # of an event, where its outcomes are enumerated in compiled code
CHOICES, POSITION, MOVES, RECORDS = range(4)  # numbers that `Outcomes` keeps


class Outcomes(NamedTuple):
    """A system on which the outcomes of an event are enumerated, in compiled code.

    Attributes
    ----------
    state : shape (S,).
    moves, records : changes by an outcome, (place, by) and (column, amount); shape (MAX_CHANGES, 2).
    script, following : for each random choice the index, and the next one that is possible or -1; (MAX_CHOICES,).
    numbers : of choices in the script, of those made so far, of moves, of records; shape (4,).
    probability : of the outcome, shape (1,).
    """

    state: NDArray[np.int64]
    moves: NDArray[np.int64]
    records: NDArray[np.float64]
    script: NDArray[np.int64]
    following: NDArray[np.int64]
    numbers: NDArray[np.int64]
    probability: NDArray[np.float64]

    def move(self, place, by):
        self.state[place] += by
        row = self.numbers[MOVES] % MAX_CHANGES
        self.moves[row, 0] = place
        self.moves[row, 1] = by
        self.numbers[MOVES] += 1

    def record(self, column, amount=1):
        row = self.numbers[RECORDS] % MAX_CHANGES
        self.records[row, 0] = column
        self.records[row, 1] = amount
        self.numbers[RECORDS] += 1

    def pick(self, weights, total):
        position = self.numbers[POSITION] % MAX_CHOICES
        index = 0
        if position < self.numbers[CHOICES]:
            index = self.script[position]
        else:
            while weights[index] <= 0:
                index += 1
            self.script[position] = index
            self.numbers[CHOICES] = position + 1
        following = index + 1
        while following < len(weights) and weights[following] <= 0:
            following += 1
        self.following[position] = following if following < len(weights) else -1
        self.numbers[POSITION] += 1
        self.probability[0] *= weights[index] / total
        return index


@overload_method(types.NamedTuple, "move", inline="always")
def _move(self, place, by):
    return self.instance_class.move


@overload_method(types.NamedTuple, "record", inline="always")
def _record(self, column, amount=1):
    return self.instance_class.record


@overload_method(types.NamedTuple, "pick")
def _pick(self, weights, total):
    return self.instance_class.pick


class Queue(NamedTuple):
    """The tasks that wait in a queue that is served in the order of arrival; see `statistics.queue_waits`.

    Attributes
    ----------
    place : of their number in the state.
    since : when they came, in this order, shape (M,). ends : where the first and the next one stand, shape (2,).
    bins : ends of bins, ascending, shape (B,).
    column : in the counts, of the tasks that come and wait; then B + 1 bins of waits, B + 1 of response times.
    gammas, initial, ways : of the service times (`sampling.phases.kernel_law`).
    """

    place: int
    since: NDArray[np.float64]
    ends: NDArray[np.int64]
    bins: NDArray[np.float64]
    column: int
    gammas: NDArray[np.float64]
    initial: NDArray[np.float64]
    ways: NDArray[np.float64]


@njit(cache=True)
def watch(queue, before, now, system):
    """Take notice of an event at the time `now`, before which so many tasks waited."""
    after, ends, counts, size = system.state[queue.place], queue.ends, system.counts, queue.bins.size
    for _ in range(before, after):
        queue.since[ends[1]] = now
        ends[1] += 1
        counts[queue.column] += 1
    for _ in range(after, before):
        wait = now - queue.since[ends[0]]
        ends[0] += 1
        counts[queue.column + 1 + np.searchsorted(queue.bins, wait)] += 1
        response, phase = wait, pick(uniform(system.words), queue.initial)
        while phase >= 0:
            response += exponential(system.words) / queue.gammas[phase]
            phase = pick(uniform(system.words), queue.ways[phase]) - 1
        counts[queue.column + 2 + size + np.searchsorted(queue.bins, response)] += 1


class Replay:
    """A system on which an event is replayed with choices that are given."""

    def __init__(self, state: Sequence[int]) -> None:
        self.before = list(state)
        self.script: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Back to the state before the event, to replay it with the script as it is now."""
        self.state = self.before.copy()
        self.counts: dict[int, float] = {}
        self.probability = 1.0
        self.position = 0
        self.branches: list[list[int]] = []

    def move(self, place: int, by: int) -> None:
        self.state[place] += by

    def record(self, column: int, amount: float = 1) -> None:
        self.counts[column] = self.counts.get(column, 0) + amount

    def pick(self, weights: Sequence[float], total: float) -> int:
        if self.position == len(self.script):
            possible = [index for index, weight in enumerate(weights) if weight > 0]
            self.branches += [[*self.script, index] for index in possible[1:]]
            self.script = [*self.script, possible[0]]
        index = self.script[self.position]
        self.position += 1
        self.probability *= weights[index] / total
        return index


def outcomes(
    happen: Callable[[int, Any, Any], None], kind: int, state: Sequence[int], p: Any
) -> Iterator[tuple[float, tuple[int, ...], dict[int, float]]]:
    """Every outcome of an event: its probability, the state after it, what it records."""
    system = Replay(state)
    todo: list[list[int]] = [[]]
    while todo:
        system.script = todo.pop()
        system.begin()
        happen(kind, system, p)
        todo += system.branches
        yield system.probability, tuple(system.state), system.counts
