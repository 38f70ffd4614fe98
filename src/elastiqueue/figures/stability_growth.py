"""Growth of the total number of tasks under TABS with unlimited buffers: simulated against predicted, per point."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elastiqueue.figures.style import COLOURS, LIMIT, MARKERS, TEXT_WIDTH

POINT = ["label", "servers", "arrival_rate", "standby_rate", "setup_rate"]
STANDARD_ERRORS = 4


def compare(data: pd.DataFrame) -> pd.DataFrame:
    """One row per point: predicted and simulated growth, the deciding drift, and the error of the difference.

    error : standard error of the difference; bound : what the truncation of an exact prediction may add to it.
    """
    said = data[data["experiment"] == "stability_points"]
    growth = said[said["metric"] == "growth"].set_index(POINT)
    drift = said[said["metric"] == "drift"].set_index(POINT)["mean"]
    simulated = data[(data["experiment"] == "stability_growth") & (data["metric"] == "growth")].set_index(POINT)
    bound = ((growth["ci_high"] - growth["ci_low"]) / 2).where(growth["n"] == 0, 0.0)
    table = pd.DataFrame({"predicted": growth["mean"], "drift": drift, "bound": bound, "se": growth["se"]})
    measured = simulated[["mean", "se", "ci_low", "ci_high"]].rename(columns={"se": "se_simulated"})
    table = table.join(measured, how="inner")
    table["difference"] = table["mean"] - table["predicted"]
    table["error"] = np.hypot(table["se"], table["se_simulated"])
    table["agrees"] = table["difference"].abs() <= STANDARD_ERRORS * table["error"] + table["bound"]
    return table.reset_index()


def draw(data: pd.DataFrame) -> Figure:
    """Left: simulated over predicted growth. Right: their difference in standard errors, over the deciding drift."""
    table = compare(data)
    figure, (left, right) = plt.subplots(1, 2, figsize=(TEXT_WIDTH, 3.0))
    for index, (label, rows) in enumerate(table.groupby("label", sort=False)):
        style = {"color": COLOURS[index], "marker": MARKERS[index], "linestyle": "none"}
        spread = [rows["mean"] - rows["ci_low"], rows["ci_high"] - rows["mean"]]
        left.errorbar(rows["predicted"], rows["mean"], yerr=spread, elinewidth=0.9, capsize=2, label=label, **style)
        # The truncation error counts against the difference, not for it.
        beyond = np.sign(rows["difference"]) * np.maximum(rows["difference"].abs() - rows["bound"], 0.0)
        right.plot(rows["drift"], beyond / rows["error"], **style)
    top = 1.05 * max(table["predicted"].max(), table["mean"].max())
    left.plot([0, top], [0, top], **LIMIT)
    left.set_xlabel("predicted growth $m D_m$ (0 where stable)")
    left.set_ylabel("simulated growth (tasks per service time)")
    for value in (-STANDARD_ERRORS, STANDARD_ERRORS):
        right.axhline(value, **LIMIT)
    right.axhline(0, color="#AAAAAA", linewidth=0.6, zorder=0)
    right.axvline(0, color="#AAAAAA", linewidth=0.6, zorder=0)
    right.set_ylim(-STANDARD_ERRORS - 0.8, STANDARD_ERRORS + 0.8)
    right.set_xlabel("deciding drift: stable $<$ 0 $<$ unstable")
    right.set_ylabel("simulated $-$ predicted (standard errors)")
    right.set_title(
        f"{int(table['agrees'].sum())} of {len(table)} within {STANDARD_ERRORS} standard errors", loc="left"
    )
    figure.legend(loc="outside upper center", ncols=2)
    return figure
