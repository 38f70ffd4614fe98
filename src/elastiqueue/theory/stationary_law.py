"""Stationary rates of a Markov chain, by sparse linear algebra instead of simulation.

The chain is enumerated from its initial state, which gives the generator Q on the reachable states. Its stationary
law is the solution of

    pi Q = 0,    sum(pi) = 1,

and the stationary rate of a column is the sum over states of pi(x) times (its integrand in x + the sum over the
transitions out of x of rate times increment). "time" always has rate 1, so that every metric of a model, being a ratio
of totals, is read from these rates exactly as from a simulation.

Method. States outside the closed class (transient ones) have probability 0 and are set aside; more than one closed
class has no unique stationary law and is refused. The rest is solved in one of two ways.

(1) Elimination of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985) on the band that the reverse
    Cuthill-McKee order leaves: the chain watched only while in states 0 .. k - 1 has the rates

        q_ij + q_ik q_kj / sum_{l < k} q_kl,

    for k from the last state down to 1. Nothing is subtracted, hence each probability, however small, has a relative
    error of about (number of states) x 1e-16, whatever the rates. Work: (number of states) x (bandwidth)^2.
(2) Where that is too much (large chains of many dimensions), Gauss-Seidel sweeps show where the mass is; the likeliest
    state r is the reference: pi(r) = 1, its equation is dropped, and the others, an M-matrix dominated by its diagonal
    column by column, are solved by GMRES with an incomplete factor. Errors are then relative to the largest
    probability, and grow with the number of jumps that the chain needs to reach equilibrium.

The answer is accepted only if its residual, relative to the probability flow,

    |pi Q|_1 / sum_x pi(x) |q_xx|,

is at most 1e-11. Rates that differ by many orders of magnitude are no problem for these, while they are the worst case
of every plain iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg as sparse_linalg
from numba import njit
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from elastiqueue.theory.chains import Chain, State

DEFAULT_MAX_STATES = 200_000
RESIDUAL_LIMIT = 1e-11
_ELIMINATION_WORK = 4e9  # multiplications: a few seconds
_ELIMINATION_ENTRIES = 3e7  # of the band: 240 MB

__all__ = [
    "DEFAULT_MAX_STATES",
    "ConvergedRates",
    "StateSpace",
    "closed_class",
    "converged_rates",
    "enumerate_states",
    "relative_residual",
    "stationary_law",
    "stationary_rates",
]


@dataclass(frozen=True)
class StateSpace:
    """The reachable states of a chain, its generator, and its rewards per unit of time in each state.

    Attributes
    ----------
    states : reachable states, in order of discovery (breadth first); the initial state is number 0.
    generator : (n, n) sparse matrix Q, rows sum to 0; transitions that do not change the state are left out.
    rewards : column -> (n,) mean increase of the column's total per unit of time spent in each state.
    """

    states: list[State]
    generator: sparse.csr_matrix
    rewards: dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class ConvergedRates:
    """Stationary rates of a truncated chain at a level where they no longer move.

    Attributes
    ----------
    rates : column -> rate at `level`.
    level : the truncation level of these rates.
    change : largest relative change of any column between `level / 2` and `level`.
    changes : that number after each doubling.
    states : number of states at `level`.
    """

    rates: dict[str, float]
    level: int
    change: float
    changes: tuple[float, ...]
    states: int


def enumerate_states(chain: Chain, max_states: int = DEFAULT_MAX_STATES) -> StateSpace:
    """Find all states reachable from the initial one, breadth first, and build the generator.

    Raises ValueError if there are more than `max_states` states, or if a rate is negative or not finite. The
    chain's functions are called once per state.
    """
    states: list[State] = [chain.initial]
    number: dict[State, int] = {chain.initial: 0}
    sources: list[int] = []
    targets: list[int] = []
    rates: list[float] = []
    counted: dict[str, dict[int, float]] = {}
    here = 0
    while here < len(states):
        state = states[here]
        for rate, following, increments in chain.transitions(state):
            if rate == 0.0:
                continue
            if not 0.0 < rate < math.inf:
                raise ValueError(f"rate = {rate} from state {state} to {following}: must be finite and >= 0")
            there = number.get(following)
            if there is None:
                there = number[following] = len(states)
                if there >= max_states:
                    raise ValueError(f"states = more than {max_states}: at most max_states = {max_states} are allowed")
                states.append(following)
            if there != here:
                sources.append(here)
                targets.append(there)
                rates.append(rate)
            for column, increment in increments.items():
                sums = counted.setdefault(column, {})
                sums[here] = sums.get(here, 0.0) + rate * increment
        here += 1
    size = len(states)
    flows = sparse.csr_matrix(
        (np.array(rates, float), (np.array(sources, int), np.array(targets, int))), shape=(size, size)
    )
    exits = np.asarray(flows.sum(axis=1)).ravel()
    rewards = {}
    for column, sums in counted.items():
        rewards[column] = np.zeros(size)
        rewards[column][list(sums.keys())] = list(sums.values())
    for column, integrand in chain.occupancy(states).items():
        rewards[column] = np.broadcast_to(np.asarray(integrand, float), size)
    return StateSpace(states, sparse.csr_matrix(flows - sparse.diags(exits)), rewards)


def closed_class(generator: sparse.csr_matrix) -> NDArray[np.intp]:
    """Return the numbers of the states of the only closed communicating class; the others are transient.

    Raises ValueError if there are several closed classes: then there is no unique stationary law.
    """
    flows = sparse.coo_matrix(generator)
    count, label = connected_components(generator, directed=True, connection="strong")
    crossing = (label[flows.row] != label[flows.col]) & (flows.data > 0.0)
    is_closed = np.ones(count, bool)
    is_closed[label[flows.row[crossing]]] = False
    closed = np.flatnonzero(is_closed)
    if len(closed) != 1:
        raise ValueError(f"closed classes = {len(closed)}: a chain must have exactly 1 for a unique stationary law")
    return np.flatnonzero(label == closed[0])


@njit(cache=True)
def _gauss_seidel_kernel(pointers, indices, inflows, exits, law, sweeps):
    """Sweep law[j] = inflow(j) / exit(j) forwards and backwards in turn; columns of the flow matrix in CSC form."""
    size = law.shape[0]
    for sweep in range(sweeps):
        for step in range(size):
            j = step if sweep % 2 == 0 else size - 1 - step
            inflow = 0.0
            for k in range(pointers[j], pointers[j + 1]):
                inflow += inflows[k] * law[indices[k]]
            law[j] = inflow / exits[j]
        total = 0.0
        for j in range(size):
            total += law[j]
        for j in range(size):
            law[j] /= total


def relative_residual(law: NDArray[np.float64], generator: sparse.csr_matrix) -> float:
    """Return |law Q|_1 / sum_x law(x) |q_xx|, the unbalanced part of the probability flow (one state: 0)."""
    flow = float(np.sum(np.abs(law * generator.diagonal())))
    return float(np.sum(np.abs(generator.T @ law))) / flow if flow > 0.0 else 0.0


def stationary_law(generator: sparse.csr_matrix) -> NDArray[np.float64]:
    """Solve pi Q = 0, sum(pi) = 1 for an (n, n) sparse generator with one closed class.

    Returns the (n,) stationary law, 0 on transient states. Raises ValueError for several closed classes, and
    ArithmeticError if the residual exceeds 1e-11.
    """
    recurrent = closed_class(generator)
    law = np.zeros(generator.shape[0])
    law[recurrent] = _irreducible_law(sparse.csr_matrix(generator[recurrent][:, recurrent]))
    return law


def _irreducible_law(generator: sparse.csr_matrix) -> NDArray[np.float64]:
    size = generator.shape[0]
    if size == 1:
        return np.ones(1)
    exits = -generator.diagonal()
    flows = sparse.csc_matrix(generator + sparse.diags(exits))
    place = np.empty(size, int)
    place[reverse_cuthill_mckee(sparse.csr_matrix(flows + flows.T), symmetric_mode=True)] = np.arange(size)
    width = _bandwidth(flows, place)
    if size * width**2 <= _ELIMINATION_WORK and size * (2 * width + 1) <= _ELIMINATION_ENTRIES:
        law = _eliminate(flows, place, width)
    else:
        law = _iterate(generator, flows, exits)
    law = law / math.fsum(law)
    residual = relative_residual(law, generator)
    if not residual <= RESIDUAL_LIMIT:
        raise ArithmeticError(f"residual = {residual:.1e} of the stationary law: must be <= {RESIDUAL_LIMIT:g}")
    return law


def _bandwidth(flows: sparse.csc_matrix, place: NDArray[np.intp]) -> int:
    """Largest distance of a transition in the given order."""
    entries = flows.tocoo()
    return int(np.max(np.abs(place[entries.row] - place[entries.col])))


def _eliminate(flows: sparse.csc_matrix, place: NDArray[np.intp], width: int) -> NDArray[np.float64]:
    """Stationary weights by elimination without subtraction, states in the order `place`."""
    entries = flows.tocoo()
    band = np.zeros((flows.shape[0], 2 * width + 1))
    band[place[entries.row], place[entries.col] - place[entries.row] + width] = entries.data
    law = np.empty(flows.shape[0])
    _elimination_kernel(band, width, law)
    return law[place]


@njit(cache=True)
def _elimination_kernel(band, width, law):
    """band[i, j - i + width] = rate from i to j; is overwritten. law: stationary weights, the largest near 1."""
    size = law.shape[0]
    for k in range(size - 1, 0, -1):
        first = max(0, k - width)
        down = 0.0
        for j in range(first, k):
            down += band[k, j - k + width]
        for i in range(first, k):
            share = band[i, k - i + width]
            if share > 0.0:
                share /= down
                band[i, k - i + width] = share
                shift_i, shift_k = width - i, width - k
                for j in range(first, k):
                    band[i, j + shift_i] += share * band[k, j + shift_k]
    law[0] = 1.0
    for k in range(1, size):
        weight = 0.0
        for i in range(max(0, k - width), k):
            weight += law[i] * band[i, k - i + width]
        law[k] = weight
        if weight > 1e100:  # keep far from overflow; what falls below the smallest number is 0 beside this
            for i in range(k + 1):
                law[i] /= weight


def _iterate(generator: sparse.csr_matrix, flows: sparse.csc_matrix, exits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stationary weights by GMRES with an incomplete factor, refined until the residual is that of rounding."""
    size = generator.shape[0]
    law = np.full(size, 1.0 / size)
    _gauss_seidel_kernel(flows.indptr, flows.indices, flows.data, exits, law, 200)
    reference = int(np.argmax(law))
    others = np.delete(np.arange(size), reference)
    matrix = sparse.csc_matrix(-generator[others][:, others].T)
    source = np.asarray(generator[reference].todense()).ravel()[others]
    # No pivoting: elimination is stable where the diagonal dominates. The breadth-first order suits the incomplete
    # factor: orders that reduce the fill-in of a complete one took 10 to 100 times longer here.
    factor = sparse_linalg.spilu(
        matrix,
        drop_tol=0.03,
        fill_factor=10.0,
        permc_spec="NATURAL",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    preconditioner = sparse_linalg.LinearOperator(matrix.shape, factor.solve)
    weights = law[others] / law[reference]
    for _ in range(8):
        correction, _ = sparse_linalg.gmres(
            matrix, source - matrix @ weights, M=preconditioner, rtol=1e-10, restart=60, maxiter=8
        )
        weights = weights + correction
        law = np.maximum(np.insert(weights, reference, 1.0), 0.0)
        if relative_residual(law, generator) < 1e-15:
            break
    return law


def stationary_rates(chain: Chain, max_states: int = DEFAULT_MAX_STATES) -> dict[str, float]:
    """Return column -> stationary increase of its total per unit of time ("time" has 1.0).

    Raises ValueError for too many states or several closed classes, ArithmeticError if the solution is inaccurate.
    """
    return _rates(enumerate_states(chain, max_states))


def _rates(space: StateSpace) -> dict[str, float]:
    law = stationary_law(space.generator)
    rates = {column: math.fsum(law * reward) for column, reward in space.rewards.items()}
    rates["time"] = 1.0
    return rates


def converged_rates(
    make_chain: Callable[[int], Chain],
    first_level: int,
    tolerance: float = 1e-9,
    max_states: int = DEFAULT_MAX_STATES,
    floor: float = 1e-6,
) -> ConvergedRates:
    """Double a truncation level until no stationary rate moves any more.

    `make_chain(level)` is the chain with its infinite component cut at `level`. The change of a column is relative to
    max(|rate|, floor * largest |rate|): a column that vanishes without truncation, such as the tasks lost at it, would
    otherwise never settle. The doubling stops when the largest change is at most `tolerance` and at most half
    the one before.

    Error bound. If each further doubling at least halves the distance to the limit, as it does for a stationary tail
    that decays geometrically (the distance is squared) or like a power -1 or faster, the distance of the rates to their
    limit is at most the last change. The two observed changes test this condition; they do not prove it.

    Raises ValueError if `max_states` does not suffice, with the level and change reached.
    """
    level = first_level
    rates = stationary_rates(make_chain(level), max_states)
    changes: list[float] = []
    while True:
        level *= 2
        try:
            space = enumerate_states(make_chain(level), max_states)
        except ValueError as error:
            reached = f"{changes[-1]:.1e}" if changes else "unknown"
            raise ValueError(f"{error} (truncation {level}; relative change so far {reached})") from None
        finer = _rates(space)
        changes.append(_largest_change(rates, finer, floor))
        rates = finer
        settled = changes[-1] <= tolerance
        shrinking = len(changes) > 1 and changes[-1] <= max(0.5 * changes[-2], 1e-14)
        if settled and shrinking:
            return ConvergedRates(rates, level, changes[-1], tuple(changes), len(space.states))


def _largest_change(coarse: dict[str, float], fine: dict[str, float], floor: float) -> float:
    """Of all columns but the counts by what tasks find, whose sum is a column of its own."""
    smallest_scale = floor * max(abs(rate) for rate in fine.values())
    return max(
        abs(rate - coarse.get(column, 0.0)) / max(abs(rate), smallest_scale)
        for column, rate in fine.items()
        if not column.startswith("found_")
    )
