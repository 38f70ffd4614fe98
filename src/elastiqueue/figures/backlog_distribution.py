"""Paper B: the tail of the weighted backlog, in units of its limiting mean, beside that of the exponential limit."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH


def draw(data: pd.DataFrame) -> Figure:
    """One panel per policy, one curve per epsilon."""
    tails = data[data["metric"] == "tail"]
    labels, distances = list(dict.fromkeys(tails["label"])), sorted(tails["epsilon"].unique(), reverse=True)
    figure, grid = plt.subplots(1, len(labels), figsize=(TEXT_WIDTH, 2.9), sharey=True, squeeze=False)
    for axes, label in zip(grid.flat, labels, strict=True):
        axes.set_yscale("log")
        for index, distance in enumerate(distances):
            own = tails[(tails["label"] == label) & (tails["epsilon"] == distance)].sort_values("time")
            own = own[own["mean"] > 0]
            low = np.maximum(own["ci_low"], own["mean"] * 1e-2)
            axes.fill_between(own["time"], low, own["ci_high"], color=COLOURS[index], alpha=0.22, linewidth=0)
            axes.plot(own["time"], own["mean"], color=COLOURS[index], label=f"$\\epsilon$ = {distance:g}, 95 % band")
        x = np.linspace(0.0, tails["time"].max(), 50)
        axes.plot(x, np.exp(-x), zorder=1, **LIMIT)
        axes.set(xlim=(0, x[-1]), ylim=(np.exp(-x[-1]) / 1.5, 1.2), xlabel="$x$, in units of $\\zeta/(2\\epsilon)$")
        axes.set_title(f"{label} + MaxWeight, $M$ = {tails['servers'].iloc[0]:g}", loc="left")
    grid[0, 0].set_ylabel("$P(\\langle\\mathbf{c},q\\rangle > x\\,\\zeta/(2\\epsilon))$")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    handles.append(Line2D([], [], **LIMIT))
    figure.legend(handles, [*texts, "limit $e^{-x}$"], loc="outside upper center", ncols=5)
    return figure
