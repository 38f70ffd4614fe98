"""Mean wait and loss against the buffer size under TABS: one curve per number of servers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH, curve

METRICS = {
    "mean_wait": "mean wait (mean service times)",
    "loss_full_probability": "loss at a full buffer (probability)",
}
SMALLEST = 1e-5  # of the loss axis; smaller probabilities are below what the runs can show


def draw(data: pd.DataFrame) -> Figure:
    """Both axes logarithmic; where nothing was lost the loss curve ends.

    Dashed: what an unstable system loses with long buffers, the predicted growth over the arrival rate,
    m D_m / (lambda N).
    """
    growth = data[(data["experiment"] == "stability_panel") & (data["metric"] == "growth") & (data["mean"] > 0)]
    data = data[data["experiment"] == "buffer_size"]
    figure, grid = plt.subplots(1, 2, figsize=(TEXT_WIDTH, 2.8))
    for axes, (metric, text) in zip(grid, METRICS.items(), strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, size in enumerate(sorted(data["servers"].unique())):
            rows = data[(data["metric"] == metric) & (data["servers"] == size)]
            curve(axes, rows, "buffer", index, f"$N$ = {size:g}")
            if metric == "loss_full_probability":
                for _, one in growth[growth["servers"] == size].iterrows():
                    axes.axhline(one["mean"] / (one["arrival_rate"] * size), **{**LIMIT, "color": COLOURS[index]})
        axes.set_xlabel("buffer $B$ (tasks per server)")
        axes.set_ylabel(text)
    grid[1].set_ylim(bottom=max(SMALLEST, grid[1].get_ylim()[0]))
    handles, texts = grid[0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], **LIMIT))
    texts.append("loss of long buffers by the drift")
    figure.legend(handles, texts, loc="outside upper center", ncols=6, columnspacing=1.2)
    return figure
