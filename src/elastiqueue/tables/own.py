"""Tables of a run as the configuration describes them: a row per value of some columns, a cell per value shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from elastiqueue.errors import ConfigError
from elastiqueue.figures.rows import Rows
from elastiqueue.tables.formats import Table, interval, number
from elastiqueue.tables.schema import Cell, TableSpec


def own(data: pd.DataFrame, spec: TableSpec, caption: str) -> Table:
    """The table that a specification asks for, from the tidy tables of its experiments, with its caption filled in.

    Its data have one row per cell: the columns of its row, the head of its column, mean, ci_low and ci_high.
    """
    rows = Rows.of(data).where({**spec.where, "statistic": "estimate"})
    cells, heads = _cells(spec, rows), [cell.head for cell in spec.by]
    records: list[dict[str, Any]] = []
    lines: list[tuple[str, ...]] = []
    values = [rows.keys[one].array if (one := cell.value) in rows.keys else rows.evaluate(one) for cell in spec.by]
    groups = pd.DataFrame(dict(enumerate(values))).groupby(list(range(len(values))), dropna=False, sort=False)
    for found, places in groups.indices.items():
        here = rows.only(np.isin(np.arange(len(rows)), places))
        key: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
        line: list[str] = [_text(part) for part in key]
        for head, cell in cells:
            chosen = here.where(cell.where).having(cell.value)
            means = chosen.evaluate(cell.value)
            if len(set(means.tolist())) > 1:
                raise ConfigError(f"{cell.value}: has several values in the row {', '.join(line)}")
            if not len(chosen):
                line.append("")
                continue
            low, high = (float(end[0]) for end in chosen.interval(cell.value))
            value = {"mean": float(means[0]), "ci_low": low, "ci_high": high}
            records.append({**dict(zip(heads, key, strict=True)), "column": head, **value})
            plain = spec.format == "number" or high == low
            line.append(number(value["mean"], spec.digits) if plain else interval(pd.Series(value)))
        lines.append(tuple(line))
    return Table(caption, pd.DataFrame(records), (*heads, *(head for head, _ in cells)), lines)


def _cells(spec: TableSpec, rows: Rows) -> list[tuple[str, Cell]]:
    """The cells of a row, each with the head of its column."""
    if isinstance(spec.columns, list):
        return [(cell.head, cell) for cell in spec.cells]
    (cell,) = spec.cells
    name = "" if spec.columns == "label" else spec.columns.replace("_", " ") + " "
    values: list[Any] = rows.having(cell.value).values(spec.columns)
    return [(f"{name}{_text(one)}", cell.model_copy(update={"where": {spec.columns: one}})) for one in values]


def _text(value: Any) -> str:
    """A value of a column of results; nothing where it does not apply."""
    if pd.isna(value):
        return ""
    if isinstance(value, str | bool | np.bool_):
        return str(value)
    return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.10g}"
