"""TABS under several laws of the service time: wait and power against the number of servers and against 1/mu."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import LIMIT, TEXT_WIDTH, curve, limit_line, note, power_of_ten

METRICS = {"mean_wait": "mean wait $E[W]$", "power": "power $E[P]$ (W per server)"}
SWEEPS = {"servers": "number of servers $N$", "standby": "mean standby period $1/\\mu$ (mean service times)"}


def draw(data: pd.DataFrame) -> Figure:
    """Rows: against N, against 1/mu (the experiments' names end so); left wait, right power; one curve per law."""
    data = data.assign(standby=1 / data["standby_rate"])
    simulated, fluid = data[data["n"] > 0], data[data["n"] == 0]
    names = list(dict.fromkeys(simulated["label"]))
    limits = fluid[fluid["metric"] == "power"]["mean"]
    figure, grid = plt.subplots(2, 2, figsize=(TEXT_WIDTH, 4.6), squeeze=False)
    for row, (sweep, along) in enumerate(SWEEPS.items()):
        swept = simulated[simulated["experiment"].str.endswith(sweep)]
        fixed = swept.iloc[0]
        rest = f"$1/\\mu$ = {fixed['standby']:g}" if sweep == "servers" else f"$N$ = {power_of_ten(fixed['servers'])}"
        for column, (metric, text) in enumerate(METRICS.items()):
            axes = grid[row, column]
            axes.set_xscale("log")
            if column == 0:
                axes.set_yscale("log")
            for index, name in enumerate(names):
                curve(axes, swept[(swept["metric"] == metric) & (swept["label"] == name)], sweep, index, name)
            axes.set_title(
                f"$\\lambda$ = {fixed['arrival_rate']:g}, {rest}, $1/\\nu$ = {1 / fixed['setup_rate']:g}", loc="left"
            )
            axes.set_xlabel(along)
            axes.set_ylabel(text)
            if column == 0:
                note(axes, "fluid limit, every law: 0")
            else:
                for value in sorted(set(limits.round(9))):
                    limit_line(axes, value, "")
                axes.set_ylim(bottom=limits.min() - 4)
    handles, texts = grid[0, 1].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], **LIMIT))
    figure.legend(handles, [*texts, "fluid limit, every law"], loc="outside upper center", ncols=5, columnspacing=1.2)
    return figure
