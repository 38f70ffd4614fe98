"""Paper B, Section IV: eps E[sum q] of one job type against eps, per number of servers and routing, over its bounds."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.figures.heavy_traffic import BOUND, BOUNDS, flag, plain_log, scaled, unsettled
from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH, curve

ROUTING = {
    "jsq": "JSQ",
    "power_of_two": "power of two",
    "power_of_two_with_replacement": "power of two with replacement",
    "random": "random",
}


def draw(data: pd.DataFrame) -> Figure:
    """One panel per number of servers."""
    sizes = sorted(data["servers"].unique())
    simulated = data[data["n"] > 0]
    policies = [name for name in ROUTING if name in set(simulated["routing"])]
    figure, grid = plt.subplots(1, len(sizes), figsize=(TEXT_WIDTH, 2.9), sharey=True, squeeze=False)
    for axes, size in zip(grid.flat, sizes, strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log")
        for index, policy in enumerate(policies):
            here = simulated[(simulated["servers"] == size) & (simulated["routing"] == policy)]
            own = here[here["metric"] == "total_backlog"]
            own = scaled(own, own["epsilon"])
            curve(axes, own, "epsilon", index, f"{ROUTING[policy]}, 95 % band")
            flag(axes, own, "epsilon", index, unsettled(here, ["epsilon"]))
            if policy == "jsq":
                pooled = here[here["metric"] == "pooled_backlog"]
                pooled = scaled(pooled, pooled["epsilon"])
                curve(axes, pooled, "epsilon", len(ROUTING), "one pooled server", linewidth=0.8)
        exact = data[data["experiment"].str.endswith(BOUNDS) & (data["servers"] == size)]
        lower = exact[exact["metric"] == "lower_bound"].set_index("epsilon")["mean"].sort_index()
        lower = lower[lower > 0]
        axes.plot(lower.index, lower * lower.index, **BOUND)
        limit = exact[exact["metric"] == "facet_limit"]["mean"].iloc[0]
        axes.axhline(limit, zorder=1, **LIMIT)
        if "random" in policies:
            far = exact[exact["metric"] == "random_limit"]["mean"].iloc[0]
            axes.axhline(far, zorder=1, **{**LIMIT, "color": COLOURS[policies.index("random")]})
        axes.set_title(f"$M$ = {size:g}, limit {limit:.3g}", loc="left")
        axes.set_xlabel("$\\epsilon$ (work per slot)")
    low = min(data[(data["metric"] == "facet_limit")]["mean"])
    grid[0, 0].set_ylim(bottom=low / 2)
    grid[0, 0].set_ylabel("$\\epsilon\\,E[\\sum_m q_m]$")
    for axes in grid.flat:
        plain_log(axes.xaxis, axes.yaxis)
    handles, texts = grid[0, 0].get_legend_handles_labels()
    handles += [Line2D([], [], **LIMIT), Line2D([], [], **BOUND)]
    texts += [
        "limit $(\\sigma^2 + M\\nu_s^2)/2$ (green: that of random)",
        "lower bound $\\epsilon\\,(\\zeta/(2\\epsilon) - B_1)$",
    ]
    figure.legend(handles, texts, loc="outside upper center", ncols=4, columnspacing=1.5)
    return figure
