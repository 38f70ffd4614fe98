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
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

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

    The layout is found once for both; with it, drawing takes a quarter of the time.
    """
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


def note(axes: Axes, text: str, where: tuple[float, float] = (0.98, 0.95), **options: Any) -> None:
    """A remark inside the axes."""
    style = {"ha": "right", "va": "top", "fontsize": 6.5, "color": "#444444", **options}
    axes.annotate(text, where, xycoords="axes fraction", **style)


def plain_log(*axes: Axis) -> None:
    """Ticks of logarithmic axes: 1, 2, 5 times powers of ten where the range is short; plain numbers where they are.

    There are none between them: they would take most of the time of a drawing.
    """
    for axis in axes:
        if axis.get_scale() != "log":
            continue
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 40 * low else (1.0,)))
        axis.set_minor_locator(NullLocator())
        if high < 1e5 and low > 1e-4:
            axis.set_major_formatter(lambda value, _: f"{value:g}")
