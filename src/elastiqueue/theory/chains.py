"""Continuous-time Markov chains as the exact solver reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

State = tuple[int, ...]
Transition = tuple[float, State, Mapping[str, float]]


@dataclass(frozen=True)
class Chain:
    """A continuous-time Markov chain.

    Attributes
    ----------
    initial : a state from which all recurrent states can be reached.
    transitions : state -> (rate, next state, counts added to columns); rates per mean service time.
    occupancy : n states -> integrand of each time-integral column, shape (n,).
    """

    initial: State
    transitions: Callable[[State], Iterable[Transition]]
    occupancy: Callable[[Sequence[State]], Mapping[str, NDArray[np.float64]]]
