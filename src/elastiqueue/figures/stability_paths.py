"""Sample paths of the tasks per server under TABS with unlimited buffers: one panel per number of servers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH

WORDS = {1.0: "stable", 0.0: "undecided", -1.0: "unstable"}


def draw(data: pd.DataFrame) -> Figure:
    """Thin: one path; thick with band: mean of the replications; dashed: predicted growth m D_m, where it is not 0.

    The prediction is for long queues; it starts from the mean at half time, when those have formed.
    """
    paths = data[(data["metric"] == "tasks") & data["time"].notna()]
    said = data[data["experiment"] == "stability_panel"].pivot_table(index="servers", columns="metric", values="mean")
    sizes = sorted(paths["servers"].unique())
    figure, grid = plt.subplots(1, len(sizes), figsize=(TEXT_WIDTH, 2.2), sharex=True, squeeze=False)
    for axes, size in zip(grid[0], sizes, strict=True):
        here = paths[paths["servers"] == size].sort_values("time")
        mean, one = here[here["statistic"] == "path mean"], here[here["statistic"] == "path"]
        times = mean["time"] / 1000
        axes.plot(one["time"] / 1000, one["mean"], color=COLOURS[4], linewidth=0.7, label="one path")
        axes.fill_between(times, mean["ci_low"], mean["ci_high"], color=COLOURS[0], alpha=0.25, linewidth=0)
        axes.plot(times, mean["mean"], color=COLOURS[0], label="mean, 95 % band")
        row = said.loc[size]
        growth = row.get("growth", np.nan)
        if growth > 0:
            late = mean[mean["time"] >= mean["time"].max() / 2]
            since = late["time"] - late["time"].iloc[0]
            axes.plot(
                late["time"] / 1000, late["mean"].iloc[0] + growth / size * since, zorder=3,
                **{**LIMIT, "color": COLOURS[1], "linewidth": 1.4},
            )  # fmt: skip
        axes.set_title(f"$N$ = {size:g}: {WORDS[row['verdict']]}\ndrift {row['drift']:+.3f}")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("time / 1000")
        axes.set_xticks([0, mean["time"].max() / 2000, mean["time"].max() / 1000])
    grid[0, 0].set_ylabel("tasks per server")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], **{**LIMIT, "color": COLOURS[1], "linewidth": 1.4}))
    figure.legend(handles, [*texts, "predicted growth"], loc="outside upper center", ncols=3)
    return figure
