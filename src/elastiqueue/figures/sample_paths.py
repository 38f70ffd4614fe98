"""Sample paths of the occupancy over the fluid trajectory: rows by arrival rate, columns by number of servers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, TEXT_WIDTH, power_of_ten

PARTS = {
    "queue_tail[1]": "$q_1$ busy",
    "queue_tail[2]": "$q_2$ two tasks or more",
    "idle_off": "$\\delta_0$ off",
    "setup": "$\\delta_1$ in setup",
    "idle_on": "$u$ idle-on",
}


def draw(data: pd.DataFrame) -> Figure:
    """Rows: labels of the cases; thick: one path, band: 95 % interval of the mean path; dashed black: fluid limit."""
    paths = data[data["statistic"].isin(["path", "path mean"])]
    simulated, fluid = paths[paths["n"] > 0], paths[paths["n"] == 0]
    labels, sizes = list(dict.fromkeys(simulated["label"])), sorted(simulated["servers"].unique())
    figure, grid = plt.subplots(
        len(labels), len(sizes), figsize=(TEXT_WIDTH, 2.2 * len(labels)), sharex=True, sharey="row", squeeze=False
    )
    for row, label in enumerate(labels):
        for column, size in enumerate(sizes):
            axes = grid[row, column]
            here = simulated[(simulated["label"] == label) & (simulated["servers"] == size)]
            for index, name in enumerate(PARTS):
                part = here[here["metric"] == name]
                mean = part[part["statistic"] == "path mean"]
                one = part[part["statistic"] == "path"]
                limit = fluid[(fluid["label"] == label) & (fluid["metric"] == name)]
                axes.fill_between(
                    mean["time"], mean["ci_low"], mean["ci_high"], color=COLOURS[index], alpha=0.25, linewidth=0
                )
                axes.plot(one["time"], one["mean"], color=COLOURS[index], linewidth=1.1, label=PARTS[name])
                axes.plot(
                    limit["time"], limit["mean"], color="black", linewidth=0.8, linestyle=(0, (3, 2)),
                    label="fluid limit" if index == len(PARTS) - 1 else None,
                )  # fmt: skip
            axes.set_title(f"{label}, $N$ = {power_of_ten(size)}")
            axes.set(xlim=(0, paths["time"].max()), ylim=(-0.02, None))
            if row == len(labels) - 1:
                axes.set_xlabel("time (mean service times)")
            if column == 0:
                axes.set_ylabel("fraction of servers")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper center", ncols=6, columnspacing=1.2, handlelength=1.6)
    return figure
