"""Estimates that can be added, and the values of a quantity in the tables of a run.

Estimates of different scenarios are independent; of the same scenario they are not, and their errors are then added,
not their squares. Degrees of freedom are those of Welch and Satterthwaite.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastiqueue.claims.schema import Quantity, Range, Where
from elastiqueue.results.tidy_tables import FACTS, VALUES, read_table

if TYPE_CHECKING:
    import pandas as pd

RESOLVED = 4.0  # standard errors from 0 at which a logarithm, or a sign, may be taken
KINDS = ("summaries", "computed")  # folders of a run that hold tables
NOT_KEYS = {*VALUES, *FACTS, "experiment"}  # columns that do not say which scenario a row belongs to


class Missing(Exception):
    """The run does not hold what a part asks for."""


@dataclass(frozen=True)
class Measured:
    """A number with its variance, and sum of variance^2 / degrees of freedom over what it was added up from."""

    mean: float
    variance: float = 0.0
    spread: float = 0.0
    sources: frozenset[str] = frozenset()  # the simulated scenarios behind it
    fewest: float = math.inf  # smallest number of replications among them

    @property
    def se(self) -> float:
        return math.sqrt(self.variance)

    @property
    def df(self) -> float:
        """Degrees of freedom; infinite where there is no scatter."""
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
        variance, spread = self.variance + other.variance, self.spread + other.spread
        if self.sources & other.sources:
            variance = (self.se + other.se) ** 2
            spread = variance**2 / min(self.df, other.df)
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
        return replace(self * (1 / self.mean), mean=math.log(abs(self.mean)))


def measured(mean: float, se: float, n: int, source: str) -> Measured:
    """An estimate from n replications of a scenario (0: exact)."""
    if n == 0:
        return Measured(mean)
    return Measured(mean, se**2, se**4 / max(n - 1, 1), frozenset({source}), n)


class Results:
    """The tables of a run, read when they are asked for."""

    def __init__(self, folder: str | Path | None = None, tables: Mapping[str, pd.DataFrame] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.tables = dict(tables or {})
        self._estimates: dict[str, dict[str, list[tuple[dict[str, Any], float, float, int]]]] = {}

    def estimates(self, experiment: str) -> dict[str, list[tuple[dict[str, Any], float, float, int]]]:
        """Metric -> key, mean, standard error and replications of each of its estimates; raises Missing."""
        if experiment not in self._estimates:
            table, by_metric = self._table(experiment), self._estimates.setdefault(experiment, {})
            names = [name for name in table.columns if name not in NOT_KEYS]
            for record in table.to_dict("records"):
                key = {name: _plain(record[name]) for name in names}
                values = float(record["mean"]), float(record["se"]), int(record["n"])
                by_metric.setdefault(str(record["metric"]), []).append((key, *values))
        return self._estimates[experiment]

    def _table(self, experiment: str) -> pd.DataFrame:
        for path in [self.folder / kind / f"{experiment}.csv" for kind in KINDS] if self.folder else []:
            if experiment not in self.tables and path.exists():
                self.tables[experiment] = read_table(path)
        if experiment not in self.tables:
            raise Missing(f"no results of {experiment}")
        table = self.tables[experiment]
        return table[table["statistic"] == "estimate"] if "statistic" in table else table


@dataclass(frozen=True)
class Row:
    """One value of a quantity and the scenario it belongs to."""

    key: Mapping[str, Any]
    value: Measured


def same(cell: Any, wanted: Any) -> bool:
    """Whether two cells are equal: numbers up to the rounding of files, all else as text."""
    numbers = (cell, wanted)
    if any(value is None or isinstance(value, bool) or not isinstance(value, int | float) for value in numbers):
        return str(cell).lower() == str(wanted).lower()
    return math.isclose(cell, wanted, rel_tol=1e-9)


def text(value: Any) -> str:
    """A cell, a list or a range of cells for readers."""
    if isinstance(value, Range):
        return "..".join("" if end is None else text(end) for end in (value.min, value.max))
    if isinstance(value, list):
        return " or ".join(map(text, value))
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def place(key: Mapping[str, Any], names: Iterable[str]) -> str:
    """Some columns of a row for readers."""
    return ", ".join(f"{name} = {text(key[name])}" for name in names)


def _plain(value: Any) -> Any:
    """A cell as a plain value; None where it is empty."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def _selected(key: Mapping[str, Any], where: Where) -> bool:
    def fits(cell: Any, wanted: Any) -> bool:
        if not isinstance(wanted, Range):
            return any(same(cell, value) for value in (wanted if isinstance(wanted, list) else [wanted]))
        if not isinstance(cell, int | float):
            return False
        low, high = wanted.min, wanted.max
        above = low is None or cell >= low or same(cell, low)
        return above and (high is None or cell <= high or same(cell, high))

    return all(fits(key[column], wanted) for column, wanted in where.items())


def rows_of(results: Results, quantity: Quantity) -> list[Row]:
    """The values of a quantity; raises Missing where the run lacks one."""
    name, where = quantity.experiment, quantity.where
    estimates = results.estimates(name)
    metrics = [quantity.metric] if isinstance(quantity.metric, str) else quantity.metric
    columns = next(iter(estimates.values()))[0][0] if estimates else {}
    for column in [*where, *quantity.match, *([quantity.scale] if quantity.scale else [])]:
        if column not in columns:
            raise Missing(f"{name} has no column {column}")
    keys: dict[str, dict[str, Any]] = {}
    values: dict[str, dict[str, Measured]] = {}
    for metric in metrics:
        for key, mean, se, n in estimates.get(metric, ()):
            if not _selected(key, where):
                continue
            label = json.dumps(key, sort_keys=True)
            value = measured(mean, se, n, json.dumps({**key, "label": None}, sort_keys=True))
            if metric in values.setdefault(label, {}):
                raise Missing(f"{name} has two rows of {metric} at {place(key, where)}")
            keys[label] = key
            values[label][metric] = value * float(key[quantity.scale]) if quantity.scale else value
    if not keys:
        chosen = ", ".join(f"{column} = {text(wanted)}" for column, wanted in where.items())
        raise Missing(f"{name} has no {' + '.join(metrics)}" + (f" at {chosen}" if chosen else ""))
    if any(len(found) < len(metrics) for found in values.values()):
        raise Missing(f"{name} lacks one of {', '.join(metrics)}")
    rows = [Row(key, _total(values[label][metric] for metric in metrics)) for label, key in keys.items()]
    for column, wanted in where.items():
        for cell in wanted if isinstance(wanted, list) else []:
            if not any(same(row.key[column], cell) for row in rows):
                raise Missing(f"{name} has no {column} = {text(cell)}")
    return _differences(results, quantity, rows) if quantity.minus else rows


def _total(values: Iterable[Measured]) -> Measured:
    total, *rest = values
    for value in rest:
        total = total + value
    return total


def _differences(results: Results, quantity: Quantity, rows: Sequence[Row]) -> list[Row]:
    """Each row less the quantity's `minus`, divided by it if `relative`."""
    minus = quantity.minus
    partners = rows_of(results, minus) if isinstance(minus, Quantity) else [Row({}, Measured(minus))]
    differences = []
    for row in rows:
        taken = partner(row, partners, quantity.match).value
        if quantity.relative and (taken.variance or not taken.mean):
            raise Missing("what a relative difference is divided by must be exact and not 0")
        differences.append(Row(row.key, (row.value - taken) * (1 / taken.mean if quantity.relative else 1.0)))
    return differences


def partner(row: Row, rows: Sequence[Row], match: Iterable[str]) -> Row:
    """The only row that agrees with a given one in the columns `match`; raises Missing."""
    match = list(match)
    partners = [other for other in rows if all(same(row.key.get(name), other.key.get(name)) for name in match)]
    if len(partners) != 1:
        at = place({name: row.key.get(name) for name in match}, match)
        raise Missing(f"{len(partners)} partners{' at ' + at if at else ''}, where one is needed")
    return partners[0]


def varying(rows: Sequence[Row]) -> list[str]:
    """Columns in which the rows differ; `label` only where nothing else tells them apart."""
    names = [name for name in rows[0].key if any(not same(rows[0].key[name], row.key[name]) for row in rows)]
    return [name for name in names if name != "label"] or names


def series(rows: Sequence[Row], along: str) -> Iterator[tuple[str, list[tuple[float, Measured]]]]:
    """Rows grouped by all that varies but `along`, each group sorted by it."""
    if along not in rows[0].key:
        raise Missing(f"no column {along}")
    fixed = [name for name in varying(rows) if name != along]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([value for name, value in row.key.items() if name != along]), []).append(row)
    for group in groups.values():
        if len(group) < 2:
            raise Missing(f"fewer than two values of {along}")
        group.sort(key=lambda row: float(row.key[along]))
        yield place(group[0].key, fixed), [(float(row.key[along]), row.value) for row in group]
