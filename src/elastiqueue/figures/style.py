"""How figures look: sizes, colours that colour-blind readers can tell apart, bands, and files with equal bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

# Neither the backend of a notebook nor a matplotlibrc, the user's or the folder's, has a say in how a figure looks.
os.environ.update(MPLBACKEND="agg", MATPLOTLIBRC=os.devnull)
with chdir(Path(__file__).parent):
    import matplotlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elastiqueue.results.files import write_atomically

TEXT_WIDTH = 7.0  # inches; figures are read at this width, a single column is 3.4
# Okabe and Ito's palette, darkest first; yellow is left out, it is too pale for lines.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
LIMIT: dict[str, Any] = {"color": "#555555", "linestyle": (0, (4, 2)), "linewidth": 1.0}
SETTINGS: Any = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.2,
    "lines.markersize": 3.2, "axes.grid": True, "grid.linewidth": 0.4, "grid.alpha": 0.4, "legend.frameon": False,
    "figure.constrained_layout.use": True, "figure.dpi": 200, "axes.titley": 1.0, "pdf.fonttype": 42,
    "font.family": "DejaVu Sans", "svg.hashsalt": "elastiqueue", "axes.prop_cycle": cycler(color=COLOURS),
}  # fmt: skip


@contextmanager
def applied() -> Iterator[None]:
    """The project's style, and no figure left open behind it."""
    with matplotlib.rc_context(SETTINGS):
        try:
            yield
        finally:
            plt.close("all")


def save(figure: Figure, pdf: str | Path, png: str | Path) -> None:
    """Write a figure as PDF and PNG, without dates or versions in the files.

    The layout is found once for both; with it, and with no ticks between the powers of ten, drawing takes a quarter of
    the time.
    """
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                axis.set_minor_locator(NullLocator())
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    outputs = ((pdf, {"CreationDate": None, "Producer": None, "Creator": None}), (png, {"Software": None}))
    with matplotlib.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)  # keeps what was found; savefig would turn on again what the settings name
        for path, metadata in outputs:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=Path(path).suffix[1:], metadata=metadata)
            write_atomically(path, buffer.getvalue())


def curve(axes: Axes, rows: pd.DataFrame, x: str, index: int, label: str | None, **options: Any) -> None:
    """A curve of estimates against column x with its 95 % band; values that are not positive break a log curve."""
    rows = rows.sort_values(x)
    style = {"color": COLOURS[index], "marker": MARKERS[index], **options}
    mean = rows["mean"].to_numpy(float)
    low, high = rows["ci_low"].to_numpy(float), rows["ci_high"].to_numpy(float)
    if axes.get_yscale() == "log":
        hidden = mean <= 0
        mean = np.where(hidden, np.nan, mean)
        low = np.where(hidden, np.nan, np.maximum(low, mean * 1e-3))
    axes.plot(rows[x], mean, label=label, **style)
    axes.fill_between(rows[x], low, high, color=style["color"], alpha=0.22, linewidth=0)


def limit_line(axes: Axes, value: float, text: str) -> None:
    """A horizontal line at a limit, with its name at the right end."""
    axes.axhline(value, zorder=1, **LIMIT)
    axes.annotate(
        text, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-2, 2), textcoords="offset points", ha="right",
        va="bottom", fontsize=6.5, color=LIMIT["color"],
    )  # fmt: skip


def note(axes: Axes, text: str, where: tuple[float, float] = (0.98, 0.95), **options: Any) -> None:
    """A remark inside the axes."""
    style = {"ha": "right", "va": "top", "fontsize": 6.5, "color": "#444444", **options}
    axes.annotate(text, where, xycoords="axes fraction", **style)


def power_of_ten(value: float) -> str:
    """10^k for powers of ten, else the number."""
    exponent = np.log10(value)
    if abs(exponent - round(exponent)) < 1e-9 and exponent >= 2:
        return f"$10^{{{round(exponent)}}}$"
    return f"{value:g}"
