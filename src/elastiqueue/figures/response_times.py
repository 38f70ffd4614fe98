"""Paper B: mean response time against the load for the routings under MaxWeight, and Best-Fit where it is stable."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.figures.heavy_traffic import plain_log, unsettled
from elastiqueue.figures.style import COLOURS, TEXT_WIDTH, curve, note


def draw(data: pd.DataFrame) -> Figure:
    """Points where the backlog grows, or its two halves differ, are crosses: no mean exists there, or not yet."""
    labels = list(dict.fromkeys(data["label"]))
    figure, axes = plt.subplots(figsize=(TEXT_WIDTH, 3.5))
    axes.set_yscale("log")
    for index, label in enumerate(labels):
        here = data[data["label"] == label]
        own = here[here["metric"] == "mean_response"]
        flagged = unsettled(here, ["load"], ("growth", "warm_up_test"))
        steady = own[~own["load"].isin(flagged["load"])]
        curve(axes, steady, "load", index, label)
        rest = own[own["load"].isin(flagged["load"])]
        # their value depends on the length of the run: they stand at the top
        top = [0.97] * len(rest)
        axes.plot(
            rest["load"], top, "x", color=COLOURS[index], markersize=6, markeredgewidth=1.4,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.set(xlabel="load $\\rho$", ylabel="mean response time (slots)")
    plain_log(axes.yaxis)
    note(axes, f"$M$ = {data['servers'].iloc[0]:g} servers", where=(0.02, 0.97), ha="left")
    handles, texts = axes.get_legend_handles_labels()
    handles.append(Line2D([], [], color="#555555", marker="x", linestyle="none", markersize=6, markeredgewidth=1.4))
    figure.legend(
        handles, [*texts, "not stationary (grows, or unsettled)"], loc="outside upper center", ncols=3,
        columnspacing=1.5,
    )  # fmt: skip
    return figure
