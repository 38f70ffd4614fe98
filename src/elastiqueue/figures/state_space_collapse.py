"""Paper B: along bold c the backlog grows as eps falls, across it stays bounded: E||q_par||^2 and E||q_perp||^2."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.figures.heavy_traffic import bound, experiments, flag, plain_log, title, unsettled
from elastiqueue.figures.style import COLOURS, LIMIT, MARKERS, TEXT_WIDTH, curve

PARTS: dict[str, dict[str, Any]] = {"parallel_sq": {"linestyle": "-"}, "perpendicular_sq": {"linestyle": (0, (5, 1.5))}}


def draw(data: pd.DataFrame) -> Figure:
    """One panel per experiment; solid: along, dashed: across."""
    names = experiments(data)
    rows = -(-len(names) // 2)
    figure, grid = plt.subplots(rows, min(2, len(names)), figsize=(TEXT_WIDTH, 2.35 * rows + 0.5), squeeze=False)
    labels = list(dict.fromkeys(data[data["n"] > 0]["label"]))
    for axes, name in zip(grid.flat, names, strict=False):
        axes.set_xscale("log")
        axes.set_yscale("log")
        here = data[data["experiment"] == name]
        for index, label in enumerate(labels):
            flagged = unsettled(here[here["label"] == label], ["epsilon"])
            for metric, options in PARTS.items():
                own = here[(here["label"] == label) & (here["metric"] == metric)]
                curve(axes, own, "epsilon", index, None, **options)
                flag(axes, own, "epsilon", index, flagged)
        limit = bound(data, name, "facet_limit")
        axes.plot(limit.index, 2 * (limit / limit.index) ** 2, zorder=1, **LIMIT)
        axes.set_title(title(data, name), loc="left")
        axes.set_xlabel("distance to the facet $\\epsilon$ (work per slot)")
        axes.set_ylabel("mean square of the backlog")
        plain_log(axes.xaxis)
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    handles = [Line2D([], [], color=COLOURS[i], marker=MARKERS[i]) for i in range(len(labels))]
    handles += [Line2D([], [], color="black", **options) for options in PARTS.values()] + [Line2D([], [], **LIMIT)]
    texts = [f"{label} + MaxWeight, 95 % band" for label in labels]
    texts += [
        "along $c$, $E\\|q_\\parallel\\|^2$: grows like $1/\\epsilon^2$",
        "across, $E\\|q_\\perp\\|^2$: bounded (theorem; not at a corner)",
        "$2\\,(\\mathrm{limit}/\\epsilon)^2$, exponential law",
    ]
    figure.legend(handles, texts, loc="outside upper center", ncols=2, columnspacing=2.5, handlelength=2.8)
    return figure
