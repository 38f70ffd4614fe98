"""The papers' claims, judged on the results of a run: supported, contradicted or undecided.

`config/claims.yaml` states each claim and the *parts* that it consists of. A part names quantities (a metric of an
experiment, for a selection of its scenarios) and a test of a small vocabulary:

    bound          every value lies below, above or within a number
    ordering       of two values that belong together, one is the greater
    monotonicity   along a column, each value is above (below) the one before it
    rate           the least-squares slope of log |value| over the log of a column is below (above) a number
    limit          the distance from a limit falls like a power, and at the far end it is within a tolerance
    effect         one quotient of two values is farther from 1 than another

Every test comes down to *contrasts*: numbers d, linear in the estimates (or in their logarithms, by the delta method),
that must be positive. With its standard error s and Welch-Satterthwaite degrees of freedom f, t = d / s, and

    p for = P(T_f > t), small when the statement holds          p against = P(T_f < t), small when it fails.

Estimates of different scenarios are independent; of the same scenario they are not, and their errors are then added,
not their squares. The weights of a slope depend on the column only, so that it is a fixed function of the true means,
whatever their course; a logarithm is taken only of what is 4 standard errors from 0.

Verdicts. A claim holds if all its contrasts are positive, thus

    supported      every contrast has p for <= alpha. This is an intersection-union test (Berger 1982): its level is
                   alpha without a correction for the number of contrasts.
    contradicted   some contrast is negative: Holm's procedure (1979) at level alpha over the claim's contrasts.
    undecided      neither; also where the run lacks data that a part asks for.

alpha = level / number of claims in the file. Of the two verdicts on a claim only one can be wrong, whatever the truth,
so that by Bonferroni's inequality the probability of any wrong verdict in the whole table is at most `level`.
A contrast without scatter is judged by its sign where it is exact, or no two of at least 30 replications differed.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from elastiqueue.scenarios.base import ConfigError, Strict, one_line

if TYPE_CHECKING:
    import pandas as pd

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
RESOLVED = 4.0  # standard errors from 0 at which a logarithm may be taken
REPLICATIONS_WITHOUT_SCATTER = 30
KINDS = ("summaries", "computed")  # folders of a run that hold tables
VALUES = ("metric", "time", "statistic", "mean", "se", "ci_low", "ci_high", "n")
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=60)]
Scalar = bool | float | str


# ---- The file of claims ----------------------------------------------------------------------------------------------


class Range(Strict):
    """Numbers from `min` to `max`, both included."""

    min: float | None = Field(None, description="Smallest value; null: none.")
    max: float | None = Field(None, description="Largest value; null: none.")


class Quantity(Strict):
    """A metric of an experiment for some of its scenarios, less another one."""

    experiment: Name = Field(description="Experiment whose table is read.")
    metric: str | list[str] = Field(description="Metric; of a list, the sum.")
    where: dict[str, Range | list[Scalar] | Scalar] = Field(
        default_factory=dict,
        description="Column -> value, values (each must be in the run) or {min, max}.",
    )
    minus: Quantity | float = Field(0.0, description="What is taken off: a number or another quantity.")
    match: list[str] = Field(default_factory=list, description="Columns in which a row and what is taken off it agree.")
    scale: str | None = Field(None, description="Column by whose value each value is multiplied; null: none.")
    relative: bool = Field(False, description="The difference is divided by what is taken off, which must be exact.")
    average: list[str] = Field(default_factory=list, description="Columns over whose values the mean is taken.")


class Part(Strict):
    """What all tests have."""

    says: str = Field(description="The statement that this part tests, in words.")


class Bound(Part):
    """Every value lies below, above or within a number."""

    test: Literal["bound"]
    of: Quantity
    below: float | None = Field(None, description="No value is greater.")
    above: float | None = Field(None, description="No value is smaller.")
    within: Annotated[float, Field(gt=0)] | None = Field(None, description="No value is farther from 0.")

    @model_validator(mode="after")
    def _something(self) -> Bound:
        if self.below is None and self.above is None and self.within is None:
            raise ConfigError("bound: needs below, above or within")
        return self


class Ordering(Part):
    """greater > factor * lesser - slack, for every pair of rows that agree in `match`."""

    test: Literal["ordering"]
    greater: Quantity
    lesser: Quantity
    match: list[str] = Field(default_factory=list, description="Columns in which the two rows of a pair agree.")
    factor: Annotated[float, Field(gt=0)] = Field(1.0, description="The lesser is multiplied by it.")
    slack: Annotated[float, Field(ge=0)] = Field(0.0, description="How far the greater may be the smaller.")


class Monotonicity(Part):
    """Along a column each value is above (below) the one before it, up to the slack."""

    test: Literal["monotonicity"]
    of: Quantity
    along: str
    direction: Literal["increasing", "decreasing"]
    slack: Annotated[float, Field(ge=0)] = Field(0.0, description="How far one step may go the wrong way.")


class Rate(Part):
    """The slope of log |value| over the log of a column."""

    test: Literal["rate"]
    of: Quantity
    along: str
    below: float | None = Field(None, description="The slope is at most this.")
    above: float | None = Field(None, description="The slope is at least this.")

    @model_validator(mode="after")
    def _something(self) -> Rate:
        if self.below is None and self.above is None:
            raise ConfigError("rate: needs below or above")
        return self


class Limit(Part):
    """The distance from a limit (`of.minus`) falls like a power of a column, and is within the tolerance at its end."""

    test: Literal["limit"]
    of: Quantity
    along: str
    slope: Annotated[float, Field(lt=0)] = Field(description="The slope of log distance is at most this.")
    at: float = Field(description="Value of the column at which the distance is judged; it must be in the run.")
    within: Annotated[float, Field(gt=0)] = Field(description="Largest distance there.")


class Effect(Part):
    """|log(stronger[0] / stronger[1])| > |log(weaker[0] / weaker[1])|, one row each or matched in `match`."""

    test: Literal["effect"]
    stronger: Annotated[list[Quantity], Field(min_length=2, max_length=2)]
    weaker: Annotated[list[Quantity], Field(min_length=2, max_length=2)]
    match: list[str] = Field(default_factory=list, description="Columns in which the four rows agree.")


AnyPart = Annotated[Bound | Ordering | Monotonicity | Rate | Limit | Effect, Field(discriminator="test")]


class Claim(Strict):
    """A statement of a paper."""

    paper: Literal["A", "B"]
    where: str = Field(description="Where in the paper it is made.")
    statement: str = Field(description="The claim, in our words.")
    figures: list[str] = Field(default_factory=list, description="Figures of this project that show it.")
    note: str = Field("", description="What a reader of the verdict must know.")
    parts: Annotated[list[AnyPart], Field(min_length=1)] = Field(description="The claim holds if all of them do.")


class Claims(Strict):
    """The file of claims."""

    level: Annotated[float, Field(gt=0, lt=0.5)] = Field(description="Probability of any wrong verdict in the table.")
    claims: Annotated[dict[str, Claim], Field(min_length=1)]

    @property
    def alpha(self) -> float:
        """Level of one claim."""
        return self.level / len(self.claims)

    def experiments(self) -> list[str]:
        """Experiments that the claims read, in order of appearance."""
        found: dict[str, None] = {}
        for claim in self.claims.values():
            for part in claim.parts:
                for quantity in _quantities(part):
                    found[quantity.experiment] = None
        return list(found)


def _quantities(part: Part) -> Iterator[Quantity]:
    values = [getattr(part, key) for key in type(part).model_fields]
    todo = [one for value in values for one in (value if isinstance(value, list) else [value])]
    while todo:
        value = todo.pop(0)
        if isinstance(value, Quantity):
            yield value
            todo.append(value.minus)


def read_claims(path: str | Path) -> Claims:
    """Read and validate a file of claims; raises ConfigError with one line."""
    from elastiqueue.scenarios.reading import read_yaml

    values = read_yaml(path)
    try:
        return Claims.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error, values)}") from None


# ---- Estimates that can be added -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A number with its variance, and sum of variance^2 / degrees of freedom over what it was added up from."""

    mean: float
    variance: float = 0.0
    spread: float = 0.0
    sources: frozenset[Any] = frozenset()  # the simulated scenarios behind it
    fewest: float = math.inf  # smallest number of replications among them

    @property
    def se(self) -> float:
        return math.sqrt(self.variance)

    @property
    def df(self) -> float:
        """Degrees of freedom (Satterthwaite); infinite where there is no scatter."""
        return self.variance**2 / self.spread if self.spread > 0 else math.inf

    @property
    def resolved(self) -> bool:
        """Whether it can be told from 0 well enough for a logarithm."""
        return self.mean != 0 and abs(self.mean) >= RESOLVED * self.se

    def __mul__(self, factor: float) -> Measured:
        return replace(
            self, mean=self.mean * factor, variance=self.variance * factor**2, spread=self.spread * factor**4
        )

    def __add__(self, other: Measured) -> Measured:
        if self.sources & other.sources:
            variance = (self.se + other.se) ** 2
            df = min(self.df, other.df)
            spread = variance**2 / df
        else:
            variance, spread = self.variance + other.variance, self.spread + other.spread
        return Measured(
            self.mean + other.mean,
            variance,
            spread,
            self.sources | other.sources,
            min(self.fewest, other.fewest),
        )

    def __sub__(self, other: Measured) -> Measured:
        return self + other * -1.0

    def log(self) -> Measured:
        """log |value| by the delta method."""
        scaled = self * (1 / self.mean)
        return replace(scaled, mean=math.log(abs(self.mean)))


def measured(mean: float, se: float, n: int, source: Any = None) -> Measured:
    """An estimate from n replications (0: exact)."""
    if n == 0:
        return Measured(mean)
    sources = frozenset({source}) if source is not None else frozenset()
    return Measured(mean, se**2, se**4 / max(n - 1, 1), sources, n)


@dataclass(frozen=True)
class Contrast:
    """A number that a part compares with a bound. `value` is None where the run does not give it; `why` says so."""

    what: str
    value: Measured | None
    relation: Literal["<", ">"] = "<"
    bound: float = 0.0
    why: str = ""
    verdict: str = field(default=UNDECIDED, compare=False)

    @property
    def margin(self) -> float:
        """How far the value is on the right side of the bound; nan where there is none."""
        if self.value is None:
            return math.nan
        return (self.bound - self.value.mean) if self.relation == "<" else (self.value.mean - self.bound)

    @property
    def margin_in_se(self) -> float:
        if self.value is None or not self.margin:
            return 0.0
        return self.margin / self.value.se if self.value.se > 0 else math.copysign(math.inf, self.margin)

    def p_values(self) -> tuple[float, float]:
        """p for and p against."""
        from scipy.special import stdtr

        value, margin = self.value, self.margin
        if value is None or not math.isfinite(margin) or not math.isfinite(value.variance):
            return 1.0, 1.0
        if value.variance == 0.0:
            if value.fewest < REPLICATIONS_WITHOUT_SCATTER or margin == 0:
                return 1.0, 1.0
            return (0.0, 1.0) if margin > 0 else (1.0, 0.0)
        t, df = margin / value.se, min(value.df, 1e9)
        return float(stdtr(df, -t)), float(stdtr(df, t))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Two-sided interval of the value whose ends are those of the one-sided tests at level alpha."""
        from scipy.special import stdtrit

        if self.value is None:
            return math.nan, math.nan
        half = -float(stdtrit(min(self.value.df, 1e9), alpha)) * self.value.se
        return self.value.mean - half, self.value.mean + half


# ---- From tables to quantities ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One value of a quantity and the scenario it belongs to."""

    key: Mapping[str, Any]
    value: Measured


class Missing(Exception):
    """The run does not hold what a part asks for."""


class Results:
    """The tables of a run, read when they are asked for."""

    def __init__(self, folder: str | Path | None = None, tables: Mapping[str, pd.DataFrame] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._tables = dict(tables or {})

    def table(self, experiment: str) -> pd.DataFrame:
        """Estimates of an experiment; raises Missing."""
        if experiment not in self._tables and self.folder is not None:
            from elastiqueue.results.tidy_tables import read_table

            for kind in KINDS:
                path = self.folder / kind / f"{experiment}.csv"
                if path.exists():
                    self._tables[experiment] = read_table(path)
        if experiment not in self._tables:
            raise Missing(f"no results of {experiment}")
        table = self._tables[experiment]
        return table[table["statistic"] == "estimate"] if "statistic" in table else table


def _plain(value: Any) -> Any:
    """A cell as a plain value; None where it is empty."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value


def _same(cell: Any, wanted: Any) -> bool:
    if isinstance(cell, bool) or isinstance(wanted, bool) or cell is None or wanted is None:
        return str(cell).lower() == str(wanted).lower()
    if isinstance(cell, int | float) and isinstance(wanted, int | float):
        return math.isclose(cell, wanted, rel_tol=1e-9)
    return str(cell) == str(wanted)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def rows_of(results: Results, quantity: Quantity) -> list[Row]:
    """The values of a quantity; raises Missing where the run lacks one."""
    table = results.table(quantity.experiment)
    metrics = [quantity.metric] if isinstance(quantity.metric, str) else quantity.metric
    columns = [name for name in table.columns if name not in VALUES and name != "experiment"]
    for column in [*quantity.where, *quantity.match, *([quantity.scale] if quantity.scale else [])]:
        if column not in columns:
            raise Missing(f"{quantity.experiment} has no column {column}")
    found: dict[str, dict[str, tuple[dict[str, Any], Measured]]] = {}
    for record in table[table["metric"].isin(metrics)].to_dict("records"):
        key = {name: _plain(record[name]) for name in columns}
        if not all(_selected(key[column], wanted) for column, wanted in quantity.where.items()):
            continue
        text = json.dumps(key, sort_keys=True)
        source = json.dumps({name: key[name] for name in columns if name != "label"}, sort_keys=True)
        value = measured(float(record["mean"]), float(record["se"]), int(record["n"]), source)
        if quantity.scale:
            value = value * float(key[quantity.scale])
        if record["metric"] in found.setdefault(text, {}):
            raise Missing(f"{quantity.experiment} has two rows of {record['metric']} at {_at(key, quantity.where)}")
        found[text][record["metric"]] = key, value
    if not found:
        chosen = ", ".join(f"{column} = {_shown(wanted)}" for column, wanted in quantity.where.items())
        raise Missing(f"{quantity.experiment} has no {' + '.join(metrics)}" + (f" at {chosen}" if chosen else ""))
    rows: list[Row] = []
    for parts in found.values():
        if len(parts) < len(metrics):
            raise Missing(f"{quantity.experiment} lacks one of {', '.join(metrics)}")
        first, *others = (parts[name] for name in metrics)
        total = first[1]
        for _, other in others:
            total = total + other
        rows.append(Row(first[0], total))
    for column, wanted in quantity.where.items():
        for one in wanted if isinstance(wanted, list) else []:
            if not any(_same(row.key[column], one) for row in rows):
                raise Missing(f"{quantity.experiment} has no {column} = {_text(one)}")
    if isinstance(quantity.minus, Quantity) or quantity.minus:
        rows = _differences(results, quantity, rows)
    return _averages(rows, quantity.average) if quantity.average else rows


def _differences(results: Results, quantity: Quantity, rows: Sequence[Row]) -> list[Row]:
    """Each row less the quantity's `minus`, divided by it if `relative`."""
    minus = quantity.minus
    others = rows_of(results, minus) if isinstance(minus, Quantity) else []
    found = []
    for row in rows:
        taken = _partner(row, others, quantity.match).value if isinstance(minus, Quantity) else Measured(minus)
        difference = row.value - taken
        if quantity.relative:
            if taken.variance or not taken.mean:
                raise Missing("what a relative difference is divided by must be exact and not 0")
            difference = difference * (1 / taken.mean)
        found.append(Row(row.key, difference))
    return found


def _averages(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Means over the rows that agree in all other columns."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        key = {name: value for name, value in row.key.items() if name not in columns}
        groups.setdefault(json.dumps(key, sort_keys=True), []).append(row)
    found = []
    for text, group in groups.items():
        total = group[0].value
        for row in group[1:]:
            total = total + row.value
        found.append(Row(json.loads(text), total * (1 / len(group))))
    return found


def _selected(cell: Any, wanted: Range | list[Scalar] | Scalar) -> bool:
    if isinstance(wanted, Range):
        if not isinstance(cell, int | float):
            return False
        # Values such as 0.1 pass through text: compare with room for rounding.
        room = 1e-9 * abs(cell)
        return (wanted.min is None or cell >= wanted.min - room) and (wanted.max is None or cell <= wanted.max + room)
    if isinstance(wanted, list):
        return any(_same(cell, one) for one in wanted)
    return _same(cell, wanted)


def _shown(wanted: Range | list[Scalar] | Scalar) -> str:
    if isinstance(wanted, Range):
        return f"{'' if wanted.min is None else _text(wanted.min)}..{'' if wanted.max is None else _text(wanted.max)}"
    return " or ".join(map(_text, wanted)) if isinstance(wanted, list) else _text(wanted)


def _partner(row: Row, rows: Sequence[Row], on: Sequence[str]) -> Row:
    """The one row that agrees with a given one in the columns `match`; raises Missing."""
    found = [other for other in rows if all(_same(row.key.get(name), other.key.get(name)) for name in on)]
    if len(found) != 1:
        at = ", ".join(f"{name} = {_text(row.key.get(name))}" for name in on)
        raise Missing(f"{len(found)} partners{' at ' + at if at else ''}, where one is needed")
    return found[0]


def _varying(rows: Sequence[Row]) -> list[str]:
    """Columns in which the rows differ; `label` only where nothing else tells them apart."""
    names = [name for name in rows[0].key if any(not _same(rows[0].key[name], row.key[name]) for row in rows)]
    return [name for name in names if name != "label"] or names


def _at(key: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {_text(key[name])}" for name in names)


def _metric(quantity: Quantity) -> str:
    return quantity.metric if isinstance(quantity.metric, str) else " + ".join(quantity.metric)


def _series(rows: Sequence[Row], along: str) -> Iterator[tuple[str, list[tuple[float, Measured]]]]:
    """Rows grouped by all that varies but `along`, each group sorted by it."""
    if along not in rows[0].key:
        raise Missing(f"no column {along}")
    names = [name for name in rows[0].key if name != along]
    fixed = [name for name in _varying(rows) if name != along]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row.key[name] for name in names]), []).append(row)
    for group in groups.values():
        ordered = sorted(group, key=lambda row: float(row.key[along]))
        if len(ordered) < 2:
            raise Missing(f"fewer than two values of {along}")
        yield _at(ordered[0].key, fixed), [(float(row.key[along]), row.value) for row in ordered]


# ---- The tests -------------------------------------------------------------------------------------------------------


def contrasts(results: Results, part: Part) -> list[Contrast]:
    """The contrasts of a part; one without a value where the run lacks what it needs."""
    makers = {
        Bound: _bound,
        Ordering: _ordering,
        Monotonicity: _monotonicity,
        Rate: _rate,
        Limit: _limit,
        Effect: _effect,
    }
    try:
        return makers[type(part)](results, part)  # type: ignore[operator]
    except Missing as error:
        return [Contrast("not in this run", None, why=str(error))]


def _bounds(what: str, value: Measured, below: float | None, above: float | None) -> Iterator[Contrast]:
    if below is not None:
        yield Contrast(what, value, "<", below)
    if above is not None:
        yield Contrast(what, value, ">", above)


def _bound(results: Results, part: Bound) -> list[Contrast]:
    rows = rows_of(results, part.of)
    names = _varying(rows)
    found: list[Contrast] = []
    for row in rows:
        what = " at ".join(filter(None, (_metric(part.of), _at(row.key, names))))
        found += _bounds(what, row.value, part.below, part.above)
        if part.within is not None:
            found += _bounds(what, row.value, part.within, -part.within)
    return found


def _ordering(results: Results, part: Ordering) -> list[Contrast]:
    greater, lesser = rows_of(results, part.greater), rows_of(results, part.lesser)
    found = []
    for row in greater:
        difference = row.value - _partner(row, lesser, part.match).value * part.factor
        what = " at ".join(filter(None, (f"difference of {_metric(part.greater)}", _at(row.key, part.match))))
        found.append(Contrast(what, difference, ">", 0.0 - part.slack))
    return found


def _monotonicity(results: Results, part: Monotonicity) -> list[Contrast]:
    found = []
    for at, series in _series(rows_of(results, part.of), part.along):
        for (x, before), (y, after) in itertools.pairwise(series):
            what = f"change of {_metric(part.of)}, {part.along} {_text(x)} to {_text(y)}" + (f", {at}" if at else "")
            if part.direction == "increasing":
                found.append(Contrast(what, after - before, ">", 0.0 - part.slack))
            else:
                found.append(Contrast(what, after - before, "<", part.slack))
    return found


def _slope(series: Sequence[tuple[float, Measured]]) -> Measured | None:
    """Slope of log |value| over log x by ordinary least squares; None where a value cannot be told from 0."""
    if not all(value.resolved for _, value in series):
        return None
    logs = [math.log(x) for x, _ in series]
    centre = math.fsum(logs) / len(logs)
    square = math.fsum((x - centre) ** 2 for x in logs)
    total = Measured(0.0)
    for x, (_, value) in zip(logs, series, strict=True):
        total = total + value.log() * ((x - centre) / square)
    return total


def _slopes(
    results: Results, quantity: Quantity, along: str, below: float | None, above: float | None
) -> list[Contrast]:
    found: list[Contrast] = []
    for at, series in _series(rows_of(results, quantity), along):
        what = f"slope of {_metric(quantity)} over {along}" + (f" at {at}" if at else "")
        slope = _slope(series)
        if slope is None:
            found.append(Contrast(what, None, why=f"a value is less than {RESOLVED:g} standard errors from 0"))
        else:
            found += _bounds(what, slope, below, above)
    return found


def _rate(results: Results, part: Rate) -> list[Contrast]:
    return _slopes(results, part.of, part.along, part.below, part.above)


def _limit(results: Results, part: Limit) -> list[Contrast]:
    found = _slopes(results, part.of, part.along, part.slope, None)
    for at, series in _series(rows_of(results, part.of), part.along):
        what = f"{_metric(part.of)} less its limit at {part.along} = {_text(part.at)}" + (f", {at}" if at else "")
        there = [value for x, value in series if _same(x, part.at)]
        if there:
            found += _bounds(what, there[0], part.within, -part.within)
        else:
            found.append(Contrast(what, None, why=f"no {part.along} = {_text(part.at)} in this run"))
    return found


def _effect(results: Results, part: Effect) -> list[Contrast]:
    numerators = rows_of(results, part.stronger[0])
    tables = [rows_of(results, quantity) for quantity in (part.stronger[1], *part.weaker)]
    found: list[Contrast] = []
    for row in numerators:
        rows = [row, *(_partner(row, table, part.match) for table in tables)]
        what = f"log ratio of effects on {_metric(part.stronger[0])}"
        what += f" at {_at(row.key, part.match)}" if part.match else ""
        if not all(one.value.resolved for one in rows):
            found.append(Contrast(what, None, why=f"a value is less than {RESOLVED:g} standard errors from 0"))
            continue
        a, b, c, d = (one.value.log() for one in rows)
        strong, weak = a - b, c - d
        # |x| > |y| with x's sign known from the data of x, y > 0 or < 0: (x - y) and (x + y) have the sign of x.
        sign = math.copysign(1.0, strong.mean)
        for other in (weak, weak * -1.0):
            found.append(Contrast(what, strong * sign - other, ">", 0.0))
    return found


# ---- Verdicts --------------------------------------------------------------------------------------------------------


def _judged(found: Sequence[Contrast], alpha: float) -> list[Contrast]:
    """The contrasts with their verdicts: each `for` at alpha, `against` by Holm's step-down procedure."""
    pairs = [contrast.p_values() for contrast in found]
    order = sorted(range(len(found)), key=lambda i: pairs[i][1])
    against: set[int] = set()
    for rank, i in enumerate(order):
        if pairs[i][1] > alpha / (len(found) - rank):
            break
        against.add(i)
    return [
        replace(one, verdict=CONTRADICTED if i in against else SUPPORTED if pairs[i][0] <= alpha else UNDECIDED)
        for i, one in enumerate(found)
    ]


def _together(verdicts: Sequence[str]) -> str:
    if CONTRADICTED in verdicts:
        return CONTRADICTED
    return UNDECIDED if UNDECIDED in verdicts else SUPPORTED


def _tightest(found: Sequence[Contrast]) -> Contrast:
    """The contrast on which the verdict hangs: the least margin in standard errors among those of the worst verdict."""
    rank = {CONTRADICTED: 0, UNDECIDED: 1, SUPPORTED: 2}
    return min(found, key=lambda one: (rank[one.verdict], one.value is None, one.margin_in_se))


def _number(value: float) -> float | None:
    return float(f"{value:.10g}") if math.isfinite(value) else None


def _record(one: Contrast, alpha: float) -> dict[str, Any]:
    low, high = one.interval(alpha)
    value = one.value
    p_for, p_against = one.p_values()
    return {
        "what": one.what,
        "verdict": one.verdict,
        "value": None if value is None else _number(value.mean),
        "se": None if value is None else _number(value.se),
        "df": None if value is None else _number(value.df),
        "interval": [_number(low), _number(high)],
        "requirement": f"{one.relation} {_text(one.bound)}",
        "margin": _number(one.margin),
        "margin_in_se": _number(one.margin_in_se),
        "p_for": _number(p_for),
        "p_against": _number(p_against),
        **({"why": one.why} if one.why else {}),
    }


def judge(claims: Claims, results: Results) -> dict[str, Any]:
    """The verdicts on all claims, as they are written to claims.json."""
    alpha = claims.alpha
    verdicts: dict[str, Any] = {}
    for name, claim in claims.claims.items():
        found = [contrasts(results, part) for part in claim.parts]
        judged = iter(_judged([one for group in found for one in group], alpha))
        groups = [list(itertools.islice(judged, len(group))) for group in found]
        flat = [one for group in groups for one in group]
        verdict = _together([one.verdict for one in flat])
        verdicts[name] = {
            "paper": claim.paper,
            "where": claim.where,
            "statement": " ".join(claim.statement.split()),
            "figures": claim.figures,
            "note": " ".join(claim.note.split()),
            "verdict": verdict,
            "tightest": _record(_tightest(flat), alpha),
            "parts": [
                {
                    "test": part.test,
                    "says": " ".join(part.says.split()),
                    "verdict": _together([one.verdict for one in group]),
                    "tightest": _record(_tightest(group), alpha),
                    "contrasts": [_record(one, alpha) for one in group],
                }
                for part, group in zip(claim.parts, groups, strict=True)
            ],
        }
    return {"level": claims.level, "alpha": _number(alpha), "claims": verdicts}


# ---- Tables for readers ----------------------------------------------------------------------------------------------


def measured_text(record: Mapping[str, Any]) -> str:
    if record["value"] is None:
        return record.get("why", "")
    low, high = record["interval"]
    span = "exact" if not record["se"] else f"[{low:.4g}, {high:.4g}]"
    return f"{record['value']:.4g} {span}"


def margin_text(record: Mapping[str, Any]) -> str:
    if record["value"] is None:
        return ""
    if record["margin_in_se"] is None:
        return "no scatter"
    return f"{record['margin_in_se']:.1f}"


def _heads() -> tuple[str, ...]:
    return ("claim", "verdict", "statement", "where", "tightest contrast", "measured", "required", "margin (s.e.)")


def _lines(verdicts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for name, one in verdicts["claims"].items():
        tight = one["tightest"]
        required = "" if tight["value"] is None else tight["requirement"]
        lines.append(
            (
                name, one["verdict"], one["statement"], f"paper {one['paper']}, {one['where']}", tight["what"],
                measured_text(tight), required, margin_text(tight),
            )
        )  # fmt: skip
    return lines


def _legend(verdicts: Mapping[str, Any]) -> str:
    return (
        "Supported: every contrast of the claim is on the right side; contradicted: one is on the wrong side (Holm "
        "over the contrasts of a claim); undecided: neither. Each claim is judged at level "
        f"{verdicts['alpha']:.2g}, so that the probability of any wrong verdict is at most {verdicts['level']:g}. "
        f"Intervals have the level of the tests, {100 * (1 - 2 * verdicts['alpha']):.4g} %. The tightest contrast is "
        "that with the least margin among those on which the verdict hangs."
    )


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def markdown(verdicts: Mapping[str, Any], run: str) -> str:
    """The table of claims, then what each consists of."""
    heads = _heads()
    lines = [f"# Claims of the papers, judged on the run `{run}`", "", _legend(verdicts), ""]
    lines += [_row(heads), _row("---" for _ in heads), *(_row(cells) for cells in _lines(verdicts))]
    for name, one in verdicts["claims"].items():
        lines += ["", f"## {name}: {one['verdict']}", "", one["statement"]]
        if one["figures"]:
            lines += ["", f"Shown in {', '.join(one['figures'])}."]
        if one["note"]:
            lines += ["", one["note"]]
        heads = ("test", "says", "verdict", "contrasts", "tightest", "measured", "required", "margin (s.e.)")
        lines += ["", _row(heads), _row("---" for _ in heads)]
        for part in one["parts"]:
            tight, counted = part["tightest"], [contrast["verdict"] for contrast in part["contrasts"]]
            required = "" if tight["value"] is None else tight["requirement"]
            lines.append(
                _row(
                    (
                        part["test"], part["says"], part["verdict"],
                        f"{counted.count(SUPPORTED)} of {len(counted)} supported, "
                        f"{counted.count(CONTRADICTED)} contradicted",
                        tight["what"], measured_text(tight), required, margin_text(tight),
                    )
                )
            )  # fmt: skip
    return "\n".join(lines) + "\n"


def page(verdicts: Mapping[str, Any], run: str) -> str:
    """The table of claims as an HTML page, for the workflow's report."""
    body = [f"<h1>Claims of the papers, judged on the run {html.escape(run)}</h1>"]
    body.append(f"<p>{html.escape(_legend(verdicts))}</p><table><thead><tr>")
    body += [f"<th>{html.escape(head)}</th>" for head in _heads()]
    body.append("</tr></thead><tbody>")
    for cells in _lines(verdicts):
        row = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        body.append(f'<tr class="{cells[1]}">{row}</tr>')
    body.append("</tbody></table>")
    style = (
        "body{font:14px sans-serif;margin:1.5em}table{border-collapse:collapse}"
        "td,th{border:1px solid #bbb;padding:.3em .5em;text-align:left;vertical-align:top}"
        ".supported td:nth-child(2){background:#d9f0d3}"
        ".contradicted td:nth-child(2){background:#f4c7c3}.undecided td:nth-child(2){background:#eee}"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Claims</title>'
        f"<style>{style}</style></head><body>{''.join(body)}</body></html>\n"
    )


def write_verdicts(verdicts: Mapping[str, Any], run: str, folder: str | Path) -> None:
    """Write claims.json, claims.md and claims.html."""
    from elastiqueue.results.files import write_atomically, write_json

    folder = Path(folder)
    write_json(folder / "claims.json", {"run": run, **verdicts})
    write_atomically(folder / "claims.md", markdown(verdicts, run))
    write_atomically(folder / "claims.html", page(verdicts, run))
