"""Paper B: throughput optimality as growth of the backlog, against the load: MaxWeight and Best-Fit, two routings."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.figures.heavy_traffic import plain_log
from elastiqueue.figures.style import LIMIT, TEXT_WIDTH, curve

METRICS = {
    "growth": "growth of the total backlog\n(work per slot)",
    "total_backlog": "mean total backlog\n(work)",
}


def draw(data: pd.DataFrame) -> Figure:
    """Left the growth, right the mean total backlog in the same window; the region's boundary as a vertical line."""
    simulated, exact = data[data["n"] > 0], data[data["n"] == 0]
    labels = list(dict.fromkeys(simulated["label"]))
    least = exact[exact["metric"] == "least_growth"].set_index("load")["mean"].sort_index()
    largest = exact[exact["metric"] == "largest_stable_load"]
    boundary = (largest["load"] * largest["mean"]).iloc[0]
    figure, grid = plt.subplots(1, 2, figsize=(TEXT_WIDTH, 2.9))
    for axes, (metric, text) in zip(grid, METRICS.items(), strict=True):
        if metric == "total_backlog":
            axes.set_yscale("log")
        axes.axvspan(boundary, max(simulated["load"]), color="#F0F0F0", zorder=0, linewidth=0)
        axes.axvline(boundary, color="#555555", linewidth=0.8, zorder=1)
        for index, label in enumerate(labels):
            own = simulated[(simulated["metric"] == metric) & (simulated["label"] == label)]
            curve(axes, own, "load", index, label)
        axes.set_xlabel("load $\\rho$")
        axes.set_ylabel(text)
    corner = [boundary, *least.index[least.index > boundary]]
    grid[0].plot([min(least.index), *corner], [0.0, 0.0, *least[least.index > boundary]], zorder=6, **LIMIT)
    grid[0].annotate(
        "inside the\ncapacity region", (boundary, 0.97), xycoords=("data", "axes fraction"), xytext=(-4, 0),
        textcoords="offset points", ha="right", va="top", fontsize=6.5, color="#444444",
    )  # fmt: skip
    grid[0].annotate(
        "outside", (boundary, 0.97), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points",
        ha="left", va="top", fontsize=6.5, color="#444444",
    )  # fmt: skip
    plain_log(grid[1].yaxis)
    handles, texts = grid[0].get_legend_handles_labels()
    handles.append(Line2D([], [], **LIMIT))
    figure.legend(handles, [*texts, "no policy can grow less"], loc="outside upper center", ncols=5, columnspacing=1.0)
    return figure
