"""Figures: curves as the configuration describes them, and one module per drawing of another kind."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastiqueue.figures.schema import FigureSpec


def draw(spec: FigureSpec, data: str | Path | None, pdf: str | Path, png: str | Path) -> None:
    """Draw a figure from its data file into a PDF and a PNG file."""
    from elastiqueue.figures import style
    from elastiqueue.results.tidy_tables import read_table

    table = read_table(data) if data else None
    module = importlib.import_module(f"elastiqueue.figures.{spec.draw}")
    with style.applied():
        figure = module.draw(table, spec) if spec.draw == "curves" else module.draw(table)
        style.save(figure, pdf, png)
