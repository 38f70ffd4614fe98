"""Continuous-time Markov chains in readable form, as the exact solver reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

State = tuple[int, ...]
Transition = tuple[float, State, Mapping[str, float]]


@dataclass(frozen=True)
class Chain:
    """A continuous-time Markov chain in readable form.

    Attributes
    ----------
    initial : a state from which all recurrent states can be reached.
    transitions : state -> (rate, next state, counts added to columns); rates per mean service time.
    occupancy : state -> integrand of each time-integral column.
    """

    initial: State
    transitions: Callable[[State], Iterable[Transition]]
    occupancy: Callable[[State], Mapping[str, float]]
