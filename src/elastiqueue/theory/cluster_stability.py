"""The largest load that a cluster can serve under a routing: a linear programme over what each server gets and does.

Arrivals of type j (work lambda_j per slot) draw a set of servers, d without or with replacement or, under JSQ, all of
them; they join one of the set. If any routing within the drawn sets and any schedule can be stable, the
long-run rates z_j(T, m) of the work that draws T and goes to m in T satisfy, with P(T) the probability of T,

    sum_{m in T} z_j(T, m) = lambda_j P(T),        ( sum_T z_j(T, m) )_j in C_m for every server m.            (*)

Conversely, where (*) holds for (1 + delta) lambda, the shortest queue of the drawn set with MaxWeight is stable: that
queue is at most the z-average of the queues in T, and no point of C_m serves more in the sense of <., q_m>, so that

    E[ |q(t+1)|^2 - |q(t)|^2 | q(t) ] <= const - 2 delta / (1 + delta) sum_m max_s <s, q_m(t)>

(the drift argument of Maguluri, Srikant, Ying 2012 for throughput optimality, with the draws kept). Servers of a class
may share alike, C_m being convex, so that (*) is a linear programme over classes. The largest a for which a lambda is
feasible is the largest stable load: for JSQ that of the capacity region; for random routing each server must serve its
own share. On identical servers all agree; where servers differ, pairs of weak ones are what power of two cannot avoid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction


def drawn_classes(counts: Sequence[int], draws: int, replacement: bool) -> dict[tuple[int, ...], Fraction]:
    """Probability that the servers drawn are of exactly these classes; no draws: all servers are looked at."""
    everything = tuple(range(len(counts)))
    if draws == 0:
        return {everything: Fraction(1)}
    total = sum(counts)

    def within(classes: tuple[int, ...]) -> Fraction:
        servers = sum(counts[k] for k in classes)
        if replacement:
            return Fraction(servers, total) ** draws
        return Fraction(math.comb(servers, draws), math.comb(total, draws))

    probabilities = {}
    for size in range(1, min(draws, len(counts)) + 1):
        for classes in itertools.combinations(everything, size):
            inside = (
                (-1) ** (size - part) * within(some)
                for part in range(1, size + 1)
                for some in itertools.combinations(classes, part)
            )
            probability = sum(inside, Fraction(0))
            if probability > 0:
                probabilities[classes] = probability
    return probabilities


def largest_routed_load(
    counts: Sequence[int],
    configurations: Sequence[Sequence[Sequence[int]]],
    load: Sequence[float],
    draws: int = 0,
    replacement: bool = False,
) -> float:
    """The largest a for which a * load is feasible, (*).

    Parameters
    ----------
    counts : servers of each class. configurations : per class its maximal configurations, one integer per type.
    load : work per slot and type in the whole cluster, shape (J,); not all zero.
    draws : servers drawn by an arrival, 1 for random routing; 0: it may join any server (JSQ).
    replacement : whether servers are drawn with replacement.
    """
    import numpy as np
    from scipy.optimize import linprog  # slow to import

    if not any(load) or min(load) < 0:
        raise ValueError(f"load = {list(load)}: must be >= 0, and > 0 for some job type")
    types, total, scale = len(load), sum(counts), max(load)
    drawn = drawn_classes(counts, draws, replacement)
    # Variables: a, then work z_j(T, k) per server of the cluster, then shares of all servers' time x(k, s).
    shares = [(j, classes, k) for j in range(types) for classes in drawn for k in classes]
    served = [(k, s) for k, group in enumerate(configurations) for s in group]
    width = 1 + len(shares) + len(served)
    split = np.zeros((types * len(drawn), width))
    for row, (j, (classes, probability)) in zip(split, itertools.product(range(types), drawn.items()), strict=True):
        row[0] = -load[j] / scale * float(probability)
        for column, share in enumerate(shares, 1):
            row[column] = share[:2] == (j, classes)
    capacity = np.zeros((types * len(counts), width))
    for row, (j, k) in zip(capacity, itertools.product(range(types), range(len(counts))), strict=True):
        for column, share in enumerate(shares, 1):
            row[column] = share[0] == j and share[2] == k
        for column, (group, s) in enumerate(served, 1 + len(shares)):
            row[column] = -s[j] if group == k else 0.0
    time = np.zeros((len(counts), width))
    for k, row in enumerate(time):
        for column, (group, _) in enumerate(served, 1 + len(shares)):
            row[column] = group == k
    result = linprog(
        np.array([-1.0, *[0.0] * (width - 1)]),
        np.vstack([capacity, time]),
        np.array([*[0.0] * len(capacity), *(count / total for count in counts)]),
        split,
        np.zeros(len(split)),
        method="highs",
    )
    if result.status != 0 or result.x is None:
        raise RuntimeError(f"largest stable load: {result.message}")
    return float(result.x[0]) * total / scale
