"""Paper A, Figure 1: the states of a server under TABS, what moves it between them, and the messages it sends."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from elastiqueue.figures.style import TEXT_WIDTH

WIDTH, HEIGHT = 2.0, 0.9
STATES = {
    "idle-on": ((5.0, 3.2), "no task, draws $P_{idle}$"),
    "busy": ((9.3, 3.2), "1 to B tasks, draws $P_{full}$"),
    "idle-off": ((5.0, 0.4), "draws $P_{off}$"),
    "setup": ((0.7, 1.8), "takes no task, draws $P_{full}$"),
}
GREEN, RED, GREY = "#009E73", "#D55E00", "#333333"


def _box(axes: Axes, name: str) -> None:
    (x, y), text = STATES[name]
    axes.add_patch(
        FancyBboxPatch((x, y), WIDTH, HEIGHT, boxstyle="round,pad=0.08", facecolor="#EEF3F8", edgecolor="#0072B2")
    )
    axes.text(x + WIDTH / 2, y + 0.58, name, ha="center", va="center", fontweight="bold", fontsize=9)
    axes.text(x + WIDTH / 2, y + 0.2, text, ha="center", va="center", fontsize=6.2)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float, colour: str = GREY) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=9,
            color=colour,
            linewidth=1.2,
        )
    )


def draw(data: None = None) -> Figure:
    """The diagram; it has no data."""
    figure, axes = plt.subplots(figsize=(TEXT_WIDTH, 3.2))
    axes.set(xlim=(0.4, 11.8), ylim=(-0.15, 5.75))
    axes.axis("off")
    for name in STATES:
        _box(axes, name)
    _arrow(axes, (7.1, 3.95), (9.2, 3.95), -0.25)
    axes.text(
        8.15, 4.36, "a task arrives (dispatcher holds\na token of this server)", ha="center", va="bottom", fontsize=6.5
    )
    _arrow(axes, (9.2, 3.35), (7.1, 3.35), -0.25, GREEN)
    axes.text(8.15, 2.86, "last task leaves, rate 1:\ngreen message", ha="center", va="top", color=GREEN, fontsize=6.5)
    _arrow(axes, (6.0, 3.1), (6.0, 1.4), 0.0, RED)
    axes.text(6.12, 2.25, "standby ends, rate $\\mu$:\nred message", ha="left", va="center", color=RED, fontsize=6.5)
    _arrow(axes, (4.9, 0.75), (1.7, 1.7), -0.2)
    axes.text(2.35, 0.72, "a task arrives and no server\nis idle-on: setup starts", ha="center", va="top", fontsize=6.5)
    _arrow(axes, (1.7, 2.8), (4.9, 3.75), -0.2, GREEN)
    axes.text(
        2.5, 3.86, "setup ends, rate $\\nu$:\nreported as idle-on", ha="center", va="bottom", color=GREEN, fontsize=6.5
    )
    _arrow(axes, (10.55, 4.18), (11.15, 4.14), -2.4)
    axes.text(
        10.3, 5.7, "a task arrives and no server is idle-on:\njoins a busy server chosen at random",
        ha="center", va="top", fontsize=6.5,
    )  # fmt: skip
    return figure
