"""Distance between sample paths and the fluid path against the number of servers, with the fitted power of N."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, LIMIT, TEXT_WIDTH, curve
from elastiqueue.statistics.power_law import pooled_errors, power_law


def draw(data: pd.DataFrame) -> Figure:
    """Mean over the replications of the largest distance, per case; the fitted lines and, dashed, the slope -1/2."""
    rows = data[data["metric"] == "sup_distance"]
    figure, axes = plt.subplots(figsize=(TEXT_WIDTH, 3.4))
    axes.set(xscale="log", yscale="log")
    for index, label in enumerate(dict.fromkeys(rows["label"])):
        here = rows[rows["label"] == label].sort_values("servers")
        size, mean = here["servers"].to_numpy(float), here["mean"].tolist()
        if len(here) < 3:
            curve(axes, here, "servers", index, label, linestyle="none")
            continue
        fit = power_law(size.tolist(), mean, pooled_errors(mean, here["se"].tolist(), here["n"].astype(int).tolist()))
        text = f"{label}\nfitted $N^{{{fit.exponent:.3f}}}$, 95 % interval [{fit.low:.3f}, {fit.high:.3f}]"
        curve(axes, here, "servers", index, text, linestyle="none")
        axes.plot(size, fit.factor * size**fit.exponent, color=COLOURS[index], linewidth=1.0)
    low, high = rows["servers"].min(), rows["servers"].max()
    start = 0.5 * rows[rows["servers"] == low]["mean"].min()
    end = start * np.sqrt(low / high)
    axes.plot([low, high], [start, end], label="slope $-1/2$, for comparison", **LIMIT)
    axes.set_ylim(bottom=min(end, rows["mean"].min()) / 2)  # whatever the band of two replications would take
    axes.set_xlabel("number of servers $N$")
    axes.set_ylabel("largest distance from the fluid path")
    figure.legend(loc="outside upper center", ncols=3)
    return figure
