"""Mean wait and power against the number of servers, per setup rate and start, over the fluid limit's averages."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH, curve, note

STARTS = {"fixed_point": "start at the fluid fixed point", "all_idle_on": "all idle-on", "all_off": "all off"}
METRICS = {"mean_wait": "mean wait $E[W]$", "power": "power $E[P]$ (W)"}


def draw(data: pd.DataFrame) -> Figure:
    """Columns: starts, that of the paper first, then the controls; upper row wait, lower row power."""
    simulated, fluid = data[data["n"] > 0], data[data["n"] == 0]
    starts = [start for start in STARTS if start in set(simulated["start"])]
    rates = sorted(simulated["setup_rate"].unique())
    figure, grid = plt.subplots(2, len(starts), figsize=(TEXT_WIDTH, 4.2), sharex=True, sharey="row", squeeze=False)
    for row, (metric, text) in enumerate(METRICS.items()):
        for column, start in enumerate(starts):
            axes = grid[row, column]
            axes.set_xscale("log")
            if metric == "mean_wait":
                axes.set_yscale("log")
            for index, rate in enumerate(rates):
                here = simulated[
                    (simulated["metric"] == metric) & (simulated["start"] == start) & (simulated["setup_rate"] == rate)
                ]
                curve(axes, here, "servers", index, f"$\\nu$ = {rate:g}, 95 % band")
                limit = fluid[(fluid["metric"] == metric) & (fluid["start"] == start) & (fluid["setup_rate"] == rate)]
                for value in limit["mean"]:
                    if metric == "power" or value > 1e-6:
                        axes.axhline(value, **{**LIMIT, "color": COLOURS[index]}, label="_")
            if metric == "mean_wait":
                axes.set_title(STARTS[start] + ("" if start == "fixed_point" else " (control)"))
                limits = fluid[(fluid["metric"] == metric) & (fluid["start"] == start)]["mean"]
                if len(limits) and limits.max() <= 1e-6:
                    note(axes, "fluid limit: 0")
                elif not len(limits):
                    note(axes, "fluid limit: none\n(singular start)", where=(0.98, 0.1), va="bottom")
            else:
                axes.set_xlabel("number of servers $N$")
            if column == 0:
                axes.set_ylabel(text)
    handles, texts = grid[1, 0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], **LIMIT))
    figure.legend(handles, [*texts, "fluid limit (average over the same time)"], loc="outside upper center", ncols=4)
    return figure
