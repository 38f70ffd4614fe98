"""A table for readers: its numbers as text, and as Markdown and LaTeX (booktabs)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from elastiqueue.results.files import write_checked
from elastiqueue.results.markdown import markdown_table
from elastiqueue.results.tidy_tables import write_table


@dataclass(frozen=True)
class Table:
    """A table: `data` goes to the CSV file; header and rows, written in Markdown with $math$, are for readers."""

    caption: str
    data: pd.DataFrame
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def write(self, csv: str | Path, md: str | Path, tex: str | Path) -> None:
        """Write the three files."""
        write_table(self.data, csv)
        write_checked(md, markdown(self))
        write_checked(tex, latex(self))


def number(value: float, digits: int = 4) -> str:
    """A number to some digits; nothing for nan."""
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def vector(values: Iterable[float]) -> str:
    """Numbers in brackets; nothing for none."""
    text = ", ".join(map(number, values))
    return f"({text})" if text else ""


def interval(row: pd.Series) -> str:
    """mean and half-width of the 95 % interval, to the half-width's second digit."""
    mean, half = float(row["mean"]), float(row["ci_high"] - row["mean"])
    if not (math.isfinite(half) and half > 0.0):
        return number(mean, 6)
    places = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean:.{places}f} ± {half:.{places}f}"


def markdown(table: Table) -> str:
    """The table with its caption in Markdown."""
    return "\n".join([table.caption, "", *markdown_table(table.header, table.rows)]) + "\n"


def latex(table: Table) -> str:
    """The table with its caption in LaTeX (booktabs)."""
    head, *body = (" & ".join(map(_escaped, row)) + r" \\" for row in (table.header, *table.rows))
    return "\n".join(
        [
            r"\begin{table}", r"\centering", rf"\caption{{{_escaped(table.caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"\toprule", head, r"\midrule", *body,
            r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]
    )  # fmt: skip


def _escaped(text: str) -> str:
    """LaTeX for a cell: special characters escaped outside $math$."""
    parts = text.split("$")
    for i in range(0, len(parts), 2):
        for mark in "%&#_":
            parts[i] = parts[i].replace(mark, f"\\{mark}")
        parts[i] = parts[i].replace("±", r"$\pm$")
    return "$".join(parts)
