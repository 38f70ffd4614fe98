"""Mean wait and power against the mean standby period 1/mu: one row per setup rate, one curve per number of servers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import LIMIT, TEXT_WIDTH, curve, limit_line, note, power_of_ten

METRICS = {"mean_wait": "mean wait $E[W]$", "power": "power $E[P]$ (W)"}


def draw(data: pd.DataFrame) -> Figure:
    """Left column wait (log scale, fluid limit 0), right column power with the fluid limit P_full lambda."""
    data = data.assign(standby=1 / data["standby_rate"])
    simulated, fluid = data[data["n"] > 0], data[data["n"] == 0]
    rates, sizes = sorted(simulated["setup_rate"].unique()), sorted(simulated["servers"].unique())
    figure, grid = plt.subplots(
        len(rates), 2, figsize=(TEXT_WIDTH, 1.75 * len(rates) + 0.5), sharex=True, squeeze=False
    )
    for row, rate in enumerate(rates):
        for column, (metric, text) in enumerate(METRICS.items()):
            axes = grid[row, column]
            axes.set_xscale("log")
            if metric == "mean_wait":
                axes.set_yscale("log")
            for index, size in enumerate(sizes):
                here = simulated[
                    (simulated["metric"] == metric) & (simulated["setup_rate"] == rate) & (simulated["servers"] == size)
                ]
                curve(axes, here, "standby", index, f"$N$ = {power_of_ten(size)}, 95 % band")
            if metric == "mean_wait":
                note(axes, "fluid limit: 0")
            else:
                limit_line(axes, fluid[fluid["metric"] == "power"]["mean"].iloc[0], "")
                axes.set_ylim(bottom=fluid[fluid["metric"] == "power"]["mean"].iloc[0] - 4)
            axes.set_ylabel(text)
            axes.set_title(f"mean setup period $1/\\nu$ = {1 / rate:g}", loc="left")
            if row == len(rates) - 1:
                axes.set_xlabel("mean standby period $1/\\mu$ (mean service times)")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], **LIMIT))
    figure.legend(handles, [*texts, "fluid limit"], loc="outside upper center", ncols=4)
    return figure
