"""Figures: one module each, whose function `draw(data)` turns a tidy table into a matplotlib figure."""

from __future__ import annotations

import importlib
from pathlib import Path


def draw(name: str, data: str | Path | None, pdf: str | Path, png: str | Path) -> None:
    """Draw a figure from its data file into a PDF and a PNG file."""
    from elastiqueue.figures import style
    from elastiqueue.results.tidy_tables import read_table

    module = importlib.import_module(f"elastiqueue.figures.{name}")
    with style.applied():
        figure = module.draw(read_table(data) if data else None)
        style.save(figure, pdf, png)
