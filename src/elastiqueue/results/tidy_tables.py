"""Tidy tables: how an estimate becomes a row, and tables of such rows as files.

Kept apart from the engines, so that whoever only reads or draws a table starts without them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastiqueue.results.files import read_checked, write_checked

if TYPE_CHECKING:  # slow to import, and whoever only writes rows needs none of it
    import pandas as pd

    from elastiqueue.statistics.estimates import Estimate

# Columns of texts that may look like numbers. Others are what their cells look like: `level` is a text of a cluster,
# and may be a number of a policy.
TEXTS = ("experiment", "label", "metric", "model", "service", "start", "statistic", "settings")
MISSING: Any = {
    "keep_default_na": False,
    "na_values": [""],
}  # for pandas.read_csv: NA, null and nan are texts like others
MEASURES = ("mean", "se", "ci_low", "ci_high", "n")
# Columns that tell how a value was found, which differs from metric to metric of the same scenario.
FACTS = ("settings", "note", "warm_up", "batches", "lag_1", "effective", "variance_reduction")
VALUES = ["metric", "time", "statistic", "mean", "se", "ci_low", "ci_high", "n"]


def value_row(
    metric: str, estimate: Estimate, time: float | None = None, statistic: str = "estimate"
) -> dict[str, Any]:
    low, high = estimate.interval()
    return dict(zip(VALUES, (metric, time, statistic, estimate.mean, estimate.se, low, high, estimate.n), strict=True))


def write_rows(rows: Sequence[Mapping[str, Any]], output: str | Path, made_by: str = "") -> None:
    """Write rows as a tidy table; its columns are their keys, in the order in which they first appear."""
    buffer = io.StringIO()
    table = csv.DictWriter(buffer, dict.fromkeys(key for row in rows for key in row), lineterminator="\n")
    table.writeheader()
    table.writerows({key: _text(value) for key, value in row.items()} for row in rows)
    write_checked(output, buffer.getvalue(), made_by)


def write_table(table: pd.DataFrame, output: str | Path) -> None:
    """Write a tidy table as CSV: ten significant digits, nothing for what does not apply."""
    write_checked(output, table.map(_text).to_csv(index=False, lineterminator="\n"))


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.10g}"
    return value


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a tidy table."""
    import pandas as pd

    return pd.read_csv(io.StringIO(read_checked(path)), dtype=dict.fromkeys(TEXTS, str), **MISSING)
