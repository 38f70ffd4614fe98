"""The tests of the vocabulary (`claims.schema`): how each becomes contrasts.

The weights of a slope depend on the column only, so that it is a fixed function of the true means, whatever their
course; a logarithm is taken only of what is 4 standard errors from 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from elastiqueue.claims.contrasts import Contrast
from elastiqueue.claims.quantities import (
    RESOLVED,
    Measured,
    Missing,
    Results,
    Row,
    partner,
    place,
    rows_of,
    series,
    text,
    varying,
)
from elastiqueue.claims.schema import Bound, Bounded, Change, Effect, Monotonicity, Ordering, Part, Quantity, Rate

UNRESOLVED = f"a value is less than {RESOLVED:g} standard errors from 0"


def contrasts(results: Results, part: Part) -> list[Contrast]:
    """The contrasts of a part; one without a value where the run lacks what it needs."""
    makers = {Bound: _bound, Ordering: _ordering, Monotonicity: _monotonicity, Rate: _rate, Effect: _effect}
    try:
        return list(makers[type(part)](results, part))  # type: ignore[operator]
    except Missing as error:
        return [Contrast("not in this run", None, why=str(error))]


def _metric(quantity: Quantity) -> str:
    return quantity.metric if isinstance(quantity.metric, str) else " + ".join(quantity.metric)


def _phrase(what: str, where: str) -> str:
    return f"{what} at {where}" if where else what


def _bounded(what: str, value: Measured, part: Bounded) -> Iterator[Contrast]:
    for bound in (part.below, part.within):
        if bound is not None:
            yield Contrast(what, value, "<", bound)
    for bound in (part.above, None if part.within is None else -part.within):
        if bound is not None:
            yield Contrast(what, value, ">", bound)


def _bound(results: Results, part: Bound) -> Iterator[Contrast]:
    rows = rows_of(results, part.of)
    names = varying(rows)
    for row in rows:
        yield from _bounded(_phrase(_metric(part.of), place(row.key, names)), row.value, part)


def _ordering(results: Results, part: Ordering) -> Iterator[Contrast]:
    lesser = rows_of(results, part.lesser)
    for row in rows_of(results, part.greater):
        difference = row.value - partner(row, lesser, part.match).value * part.factor
        yield Contrast(_phrase(f"difference of {_metric(part.greater)}", place(row.key, part.match)), difference, ">")


def _monotonicity(results: Results, part: Monotonicity) -> Iterator[Contrast]:
    for where, points in series(rows_of(results, part.of), part.along):
        for (x, before), (y, after) in itertools.pairwise(points):
            what = f"change of {_metric(part.of)} from {part.along} = {text(x)} to {text(y)}"
            yield Contrast(_phrase(what, where), after - before, ">" if part.direction == "increasing" else "<")


def _slope(points: Sequence[tuple[float, Measured]]) -> Measured | None:
    """Slope of log |value| over log x by ordinary least squares; None where a value cannot be told from 0."""
    if not all(value.resolved for _, value in points):
        return None
    logs = [math.log(x) for x, _ in points]
    centre = math.fsum(logs) / len(logs)
    square = math.fsum((x - centre) ** 2 for x in logs)
    total = Measured(0.0)
    for x, (_, value) in zip(logs, points, strict=True):
        total = total + value.log() * ((x - centre) / square)
    return total


def _rate(results: Results, part: Rate) -> Iterator[Contrast]:
    for where, points in series(rows_of(results, part.of), part.along):
        what, slope = _phrase(f"slope of {_metric(part.of)} over {part.along}", where), _slope(points)
        if slope is None:
            yield Contrast(what, None, why=UNRESOLVED)
        else:
            yield from _bounded(what, slope, part)


def _ends(results: Results, part: Effect, change: Change) -> list[list[Row]]:
    """Rows at the two values of a change."""
    held = {**part.of.where, **change.at}
    wheres = [{**held, change.column: value} for value in change.values]
    return [rows_of(results, part.of.model_copy(update={"where": where})) for where in wheres]


def _effect(results: Results, part: Effect) -> Iterator[Contrast]:
    first, *others = [*_ends(results, part, part.stronger), *_ends(results, part, part.weaker)]
    moved = {name for change in (part.stronger, part.weaker) for name in (change.column, *change.at)}
    match = [name for name in first[0].key if name not in moved]
    for row in first:
        values = [row.value, *(partner(row, rows, match).value for rows in others)]
        what = _phrase(f"{part.scale} of effects on {_metric(part.of)}", place(row.key, varying(first)))
        if part.scale == "quotient":
            known = all(value.resolved for value in values)
            values = [value.log() for value in values] if known else values
        else:
            known = True
        strong, weak = values[1] - values[0], values[3] - values[2]
        if not known or not (strong.resolved or weak.resolved):
            yield Contrast(what, None, why=UNRESOLVED)
            continue
        # |x| > |y|: with the signs that x and y have in the data, of x - y and x + y the lesser decides.
        signs = (math.copysign(1.0, strong.mean), math.copysign(1.0, weak.mean))
        yield Contrast(what, strong * signs[0] - weak * signs[1], ">")
