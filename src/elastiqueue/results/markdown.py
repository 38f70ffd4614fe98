"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table."""
    return [_line(cells) for cells in (heads, ["---"] * len(heads), *rows)]


def _line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
