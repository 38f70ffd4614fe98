"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def markdown_table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table."""
    return [_line(cells) for cells in (heads, ["---"] * len(heads), *rows)]


def read_markdown_table(text: str) -> tuple[str, list[str], list[list[str]]]:
    """What stands above a table, its heads and its rows."""
    before, *lines = text.partition("| ")[0].strip(), *(line for line in text.splitlines() if line.startswith("| "))
    heads, _, *rows = (
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines
    )
    return before, heads, rows


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
