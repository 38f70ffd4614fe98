"""Rows of a tidy table, one per scenario, time and statistic, from which a figure's expressions are evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from elastiqueue.errors import ConfigError
from elastiqueue.figures import expressions
from elastiqueue.results.tidy_tables import FACTS, MEASURES

Array = NDArray[np.float64]
NOT_KEYS = {"metric", *MEASURES, *FACTS}


class Rows:
    """Scenarios of a tidy table: `keys` is their frame of columns, `measures` a frame per measure, metrics its columns.

    `whole` is the table that they are taken from, in which an expression finds the metrics of another experiment.
    """

    def __init__(self, keys: pd.DataFrame, measures: Mapping[str, pd.DataFrame], whole: Rows | None = None) -> None:
        self.keys, self.measures, self.whole = keys, measures, whole or self

    @classmethod
    def of(cls, data: pd.DataFrame) -> Rows:
        """All rows of a tidy table."""
        data = data.reset_index(drop=True)
        keys = [name for name in data if name not in NOT_KEYS]
        same = data.groupby([*keys, "metric"], dropna=False, sort=False).cumcount()
        row = data.groupby([*keys, same], dropna=False, sort=False).ngroup()
        index = row[~row.duplicated()]
        frame = data.loc[index.index, keys].set_index(index.to_numpy())
        wide = {
            part: data.assign(row=row).pivot(index="row", columns="metric", values=part).reindex(frame.index)
            for part in MEASURES
        }
        return cls(frame, wide)

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, conditions: Mapping[str, Any]) -> Rows:
        """Those whose columns have one of the values."""
        kept = np.ones(len(self), bool)
        for column, wanted in conditions.items():
            kept &= self._matches(column, wanted if isinstance(wanted, list) else [wanted])
        return self.only(kept)

    def _matches(self, column: str, wanted: Sequence[Any]) -> NDArray[np.bool_]:
        if column not in self.keys:
            raise ConfigError(f"{column}: no such column; there are {', '.join(map(str, self.keys.columns))}")
        values = self.keys[column]
        hits = np.zeros(len(self), bool)
        for value in wanted:
            if isinstance(value, float | int) and not isinstance(value, bool):
                hits |= np.isclose(pd.to_numeric(values, errors="coerce"), value, rtol=1e-9, atol=0.0)
            else:
                hits |= (values.astype(str).str.lower() == str(value).lower()).to_numpy()
        return hits

    def only(self, kept: NDArray[np.bool_]) -> Rows:
        """Those that are marked."""
        return Rows(self.keys[kept], {part: frame[kept] for part, frame in self.measures.items()}, self.whole)

    def having(self, *texts: str) -> Rows:
        """Those that have all the metrics of the expressions."""
        kept = np.ones(len(self), bool)
        for name in (name for text in texts for name, _ in expressions.names(text)):
            if name in self.measures["mean"]:
                kept &= self.measures["mean"][name].notna().to_numpy()
            elif name not in self.keys and name != "x" and not expressions.split(name)[0]:
                kept[:] = False
        return self.only(kept)

    def simulated(self) -> Rows:
        """Those with replications; all of them where none has any."""
        kept = (self.measures["n"].max(axis=1) > 0).to_numpy()
        return self.only(kept) if kept.any() else self

    def varies(self, column: str) -> bool:
        """Whether a column has several values."""
        return self.keys[column].nunique(dropna=False) > 1

    def values(self, column: str) -> list[Any]:
        """The different values of a column: numbers in increasing order, texts as they come."""
        different = list(dict.fromkeys(self.keys[column].dropna()))
        return (
            sorted(different) if different and all(isinstance(each, float | int) for each in different) else different
        )

    def evaluate(self, text: str, measure: str = "mean", x: Array | None = None, only: str | None = None) -> Array:
        """An expression for each row; a metric (or `only` this one) counts with its mean, or the measure given."""

        def lookup(name: str, part: str) -> Any:
            experiment, metric = expressions.split(name)
            rows = self._joined(experiment) if experiment else self
            used = "se" if part == "se" else measure if only in (None, name) else "mean"
            if metric in rows.measures[used]:
                return rows.measures[used][metric].to_numpy(float)
            if metric in rows.keys:
                return pd.to_numeric(rows.keys[metric], errors="coerce").to_numpy(float)
            if metric == "x" and x is not None:
                return x
            raise ConfigError(f"{text}: the data have no {name}")

        return np.broadcast_to(
            np.asarray(expressions.evaluate(text, lookup), float), (len(self) if x is None else len(x),)
        )

    def _joined(self, experiment: str) -> Rows:
        """For each row that of another experiment at the same scenario; rows of nothing where there is none."""
        other = self.whole.where({"experiment": experiment, "statistic": "estimate"})
        shared = [name for name in self.keys if name not in ("experiment", "time", "statistic")]
        place = {tuple(map(str, row)): i for i, row in enumerate(other.keys[shared].itertuples(index=False))}
        order = [place.get(tuple(map(str, row)), -1) for row in self.keys[shared].itertuples(index=False)]
        labels = [other.keys.index[i] if i >= 0 else -1 for i in order]
        return Rows(other.keys.reindex(labels), {part: frame.reindex(labels) for part, frame in other.measures.items()})

    def interval(self, text: str) -> tuple[Array, Array]:
        """Ends of the 95 % interval of an expression.

        Where several metrics are in it their errors are added up, whatever their correlation: at least 95 %.
        """
        mean, parts = self.evaluate(text), [name for name, part in expressions.names(text) if part == "mean"]
        ends = {name: [self.evaluate(text, end, only=name) for end in ("ci_low", "ci_high")] for name in parts}
        moved = [pair for pair in ends.values() if not all(np.array_equal(end, mean, equal_nan=True) for end in pair)]
        if len(moved) == 1:
            return np.minimum(*moved[0]), np.maximum(*moved[0])
        half = sum((np.maximum(abs(low - mean), abs(high - mean)) for low, high in moved), np.zeros(len(mean)))
        return mean - half, mean + half


def shown(value: Any) -> str:
    """A value in a text: numbers short, powers of ten from 1000 on as such."""
    if not isinstance(value, float | int) or isinstance(value, bool):
        return str(value)
    text = f"{value:g}" if abs(value) < 1e15 else f"{value:.3g}"
    exponent = np.log10(value) if value > 0 else 0.5
    return f"$10^{{{round(exponent)}}}$" if value >= 1000 and abs(exponent - round(exponent)) < 1e-9 else text


def filled(text: str, rows: Rows) -> str:
    """A text with each {{expression}} or {{expression:format}} replaced by its value in the rows."""

    def value(match: re.Match[str]) -> str:
        inner, _, form = match[1].strip().partition(":")
        if inner in rows.keys:
            values: Iterable[Any] = rows.values(inner)
        else:
            numbers = rows.evaluate(inner)
            values = dict.fromkeys(numbers[np.isfinite(numbers)].tolist())
        return ", ".join(format(each, form) if form else shown(each) for each in values)

    return re.sub(r"\{\{(.+?)\}\}", value, text)
