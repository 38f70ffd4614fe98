"""Paper B: growth of the backlog against the load for routing and scheduling policies, with the critical loads."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH, curve

PANELS = {"cluster_identical": "identical servers", "cluster_heterogeneous": "heterogeneous servers"}


def draw(data: pd.DataFrame) -> Figure:
    """One panel per cluster. Dashed: largest stable load of a routing with MaxWeight, grey where all agree."""
    figure, grid = plt.subplots(1, len(PANELS), figsize=(TEXT_WIDTH, 2.9))
    labels = list(dict.fromkeys(data[data["experiment"].isin(PANELS)]["label"]))
    for axes, (experiment, title) in zip(grid, PANELS.items(), strict=True):
        simulated = data[(data["experiment"] == experiment) & (data["metric"] == "growth")]
        limits = data[(data["experiment"] == f"{experiment}_limits") & (data["metric"] == "largest_stable_load")]
        critical = {row["label"]: row["load"] * row["mean"] for _, row in limits.iterrows()}
        values = {label: critical[label] for label in labels if "MaxWeight" in label}
        same = max(values.values()) - min(values.values()) < 1e-6
        axes.axhline(0, color="#AAAAAA", linewidth=0.6, zorder=0)
        for index, label in enumerate(labels):
            curve(axes, simulated[simulated["label"] == label], "load", index, label)
            if label in values:
                axes.axvline(values[label], zorder=1, **{**LIMIT, "color": "#555555" if same else COLOURS[index]})
        axes.set_title(title)
        axes.set_xlabel("load $\\rho$")
    grid[0].set_ylabel("growth of the total backlog (work per slot)")
    handles, texts = grid[0].get_legend_handles_labels()
    handles.append(Line2D([], [], **LIMIT))
    figure.legend(
        handles, [*texts, "critical load (linear programme)"], loc="outside upper center", ncols=5, columnspacing=1.0,
        handlelength=1.6,
    )  # fmt: skip
    return figure
