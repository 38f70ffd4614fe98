"""TABS beside the centralised delayed-off scheme and JIQ: wait and power against N and against 1/mu, per load."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import LIMIT, TEXT_WIDTH, curve, limit_line, note

METRICS = {"mean_wait_integral": "mean wait $E[W]$", "power": "power $E[P]$ (W)"}


def draw(data: pd.DataFrame) -> Figure:
    """Rows: load, then the swept parameter; the experiments are told apart by what varies in them."""
    data = data.assign(standby=1 / data["standby_rate"])
    simulated, fluid = data[data["n"] > 0], data[data["n"] == 0]
    loads = sorted(simulated["arrival_rate"].unique())
    names = list(dict.fromkeys(simulated["label"]))
    figure, grid = plt.subplots(2 * len(loads), 2, figsize=(TEXT_WIDTH, 3.3 * len(loads) + 0.4), squeeze=False)
    for row, (load, sweep) in enumerate((load, sweep) for load in loads for sweep in ("servers", "standby")):
        for column, (metric, text) in enumerate(METRICS.items()):
            axes = grid[row, column]
            axes.set_xscale("log")
            if column == 0:
                axes.set_yscale("log")
            for index, name in enumerate(names):
                here = simulated[
                    (simulated["arrival_rate"] == load) & (simulated["metric"] == metric) & (simulated["label"] == name)
                ]
                swept = here[here["experiment"].str.endswith(sweep)]
                if sweep == "standby" and swept["standby"].isna().all():
                    for _, one in swept.iterrows():  # JIQ knows no standby period
                        if one["mean"] > 0 or column == 1:
                            axes.axhline(one["mean"], color=f"C{index}", linewidth=1.2, label=name)
                    continue
                curve(axes, swept, sweep, index, name)
            fixed = simulated[simulated["experiment"].str.endswith(sweep)]
            if sweep == "servers":
                axes.set_xlabel("number of servers $N$")
                rest = f"$1/\\mu$ = {fixed['standby'].dropna().iloc[0]:g}"
            else:
                axes.set_xlabel("mean standby period $1/\\mu$ (mean service times)")
                rest = f"$N$ = {fixed['servers'].iloc[0]:g}"
            axes.set_title(
                f"$\\lambda$ = {load:g}, {rest}, $1/\\nu$ = {1 / fixed['setup_rate'].dropna().iloc[0]:g}", loc="left"
            )
            axes.set_ylabel(text)
            if column == 1:
                at_load = fluid[(fluid["metric"] == "power") & (fluid["arrival_rate"] == load)]
                limit_line(axes, at_load["mean"].iloc[0], "")
            else:
                note(axes, "fluid limit: 0")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    handles.append(plt.Line2D([], [], **LIMIT))
    figure.legend(handles, [*texts, "fluid limit of TABS"], loc="outside upper center", ncols=5, columnspacing=1.0)
    return figure
