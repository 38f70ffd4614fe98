"""The smallest number of servers from which TABS is stable, over standby and setup rate: one panel per load."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from elastiqueue.figures.style import TEXT_WIDTH

UNDECIDED, BEYOND = "#D9B3E0", "#555555"


def cell(smallest: float, lowest: float, certain: bool, most: int) -> str:
    """What a cell says: N0, or the range that is left open; `lowest` is one more than the largest N known unstable."""
    low = "?" if math.isnan(lowest) else f"{lowest:g}"
    if math.isnan(smallest):
        return f"> {most}" if certain else f"{low}..?"
    return f"{smallest:g}" if certain else f"{low}..{smallest:g}"


def draw(data: pd.DataFrame) -> Figure:
    """Blue: N0, dark for many; violet: undecided at the budget of the run; grey: unstable at the largest N."""
    loads = sorted(data["arrival_rate"].unique())
    standby, setup = sorted(data["standby_rate"].unique()), sorted(data["setup_rate"].unique())
    most = int(data["servers"].max())
    norm, colours, beyond = LogNorm(1, most), plt.get_cmap("Blues"), False
    figure, grid = plt.subplots(1, len(loads), figsize=(TEXT_WIDTH, 2.6), sharey=True, squeeze=False)
    for axes, load in zip(grid[0], loads, strict=True):
        here = data[data["arrival_rate"] == load].set_index(["standby_rate", "setup_rate"])
        smallest, certain = here[here["metric"] == "smallest_stable"], here[here["metric"] == "certain"]["mean"]
        for x, mu in enumerate(standby):
            for y, nu in enumerate(setup):
                row, sure = smallest.loc[(mu, nu)], bool(certain.loc[(mu, nu)])
                if not sure:
                    colour = UNDECIDED
                elif math.isnan(row["mean"]):
                    colour, beyond = BEYOND, True
                else:
                    colour = colours(0.05 + 0.75 * norm(row["mean"]))
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.8))
                dark = sure and (math.isnan(row["mean"]) or row["mean"] > math.sqrt(most) * 1.5)
                text = cell(row["mean"], row["ci_low"], sure, most)
                axes.text(x, y, text, ha="center", va="center", fontsize=6, color="white" if dark else "black")
        axes.set_xticks(range(len(standby)), [f"{mu:g}" for mu in standby])
        axes.set_yticks(range(len(setup)), [f"{nu:g}" for nu in setup])
        axes.set(xlim=(-0.5, len(standby) - 0.5), ylim=(-0.5, len(setup) - 0.5))
        axes.grid(False)
        axes.tick_params(length=0)
        axes.set_xlabel("standby rate $\\mu$")
        axes.set_title(f"$\\lambda$ = {load:g}")
    grid[0, 0].set_ylabel("setup rate $\\nu$")
    handles = [
        Patch(color=colours(0.05), label="1: stable for every $N$"),
        Patch(color=colours(0.5), label="$N_0$: stable from there on"),
        Patch(color=UNDECIDED, label="undecided: $N_0$ in the range"),
        Patch(color=BEYOND, label=f"unstable at $N$ = {most}"),
    ]
    if not math.isnan(least := data[data["metric"] == "events_needed"]["mean"].min()):
        most_needed = data[data["metric"] == "events_needed"]["mean"].max()
        handles[2].set_label(f"undecided: $N_0$ in the range ({least:.0e} to {most_needed:.0e} more events)")
    figure.legend(handles=handles if beyond else handles[:3], loc="outside upper center", ncols=4)
    return figure
