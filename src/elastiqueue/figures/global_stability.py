"""The fluid limit from many starts: distance from the fixed point over time, and the time to come close to it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH, note

RADIUS = 1e-3  # that of `elastiqueue.engines.fluid`
STYLES = ["-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (6, 2, 1, 2, 1, 2)), (0, (2, 1.5)), "-"]


def draw(data: pd.DataFrame) -> Figure:
    """Left: largest distance over the starts (thin: the median start); right: share of the starts that have arrived."""
    labels = list(dict.fromkeys(data["label"]))
    arrivals = data[data["metric"] == "time_to_fixed_point"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(TEXT_WIDTH, 3.2))
    for index, label in enumerate(labels):
        style = {"color": COLOURS[index % len(COLOURS)], "linestyle": STYLES[index % len(STYLES)]}
        far = data[(data["label"] == label) & (data["metric"] == "distance") & (data["time"] > 0)].sort_values("time")
        most, middle = far[far["statistic"] == "max"], far[far["statistic"] == "median"]
        left.plot(most["time"], most["mean"], label=label, linewidth=1.3, **style)
        left.plot(middle["time"], middle["mean"], linewidth=0.6, **style)
        times = np.sort(arrivals[arrivals["label"] == label]["mean"].to_numpy(float))
        share = np.arange(1, times.size + 1) / times.size
        seen = np.isfinite(times)
        right.step(times[seen], share[seen], where="post", linewidth=1.3, **style)
    latest = float(arrivals["mean"].max())
    left.axhline(RADIUS, **LIMIT)
    left.annotate(
        f"{RADIUS:g}", (0.01, RADIUS), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
        fontsize=6.5, color=LIMIT["color"],
    )  # fmt: skip
    left.set(xscale="log", yscale="log", ylim=(1e-6, 2), xlabel="time (mean service times)")
    left.set_ylabel("distance from the fixed point")
    left.set_title("largest over all starts (thin: median)", loc="left")
    right.set(xscale="log", ylim=(0, 1.03), xlabel="time (mean service times)")
    right.set_ylabel(f"share of starts within {RADIUS:g} for good")
    right.set_title(f"{int((arrivals['label'] == labels[0]).sum())} starts each", loc="left")
    text = (
        f"every start is there\nby time {latest:g}"
        if np.isfinite(latest)
        else "some starts are not there\nat the horizon"
    )
    note(right, text, where=(0.03, 0.95), ha="left")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, handlelength=3.0)
    return figure
