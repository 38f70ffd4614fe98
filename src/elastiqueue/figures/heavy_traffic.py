"""Paper B: eps E<c,q> against the distance eps to a facet, beside the lower bound and the limit of the theorem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from elastiqueue.figures.style import COLOURS, LIMIT, MARKERS, TEXT_WIDTH, curve, power_of_ten

BOUNDS = "_bounds"  # the bounds of an experiment are in the experiment of this suffix
STANDARD_ERRORS = 3.0
BOUND: dict[str, Any] = {"color": "black", "linestyle": (0, (1, 1)), "linewidth": 1.1}


def unsettled(data: pd.DataFrame, keys: Sequence[str], metrics: Sequence[str] = ("warm_up_test",)) -> pd.DataFrame:
    """The values of `keys` where a test of stationarity is more than three standard errors off zero."""
    tests = data[data["metric"].isin(metrics) & (data["n"] > 0)]
    return tests[tests["mean"].abs() > STANDARD_ERRORS * tests["se"]][list(keys)].drop_duplicates()


def flag(axes: Axes, rows: pd.DataFrame, x: str, index: int, flagged: pd.DataFrame) -> None:
    """Whiten the markers of the rows whose scenario is flagged."""
    shown = rows.merge(flagged, on=list(flagged.columns))
    axes.plot(
        shown[x], shown["mean"], linestyle="none", marker=MARKERS[index], color=COLOURS[index], markerfacecolor="white",
        zorder=5,
    )  # fmt: skip


def scaled(rows: pd.DataFrame, factor: pd.Series | float) -> pd.DataFrame:
    """The rows with their mean, error and interval times a factor."""
    return rows.assign(**{name: rows[name] * factor for name in ("mean", "se", "ci_low", "ci_high")})


def plain_log(*axes: Axis) -> None:
    """Ticks at 1, 2, 5 times powers of ten where the range is short, written as plain numbers."""
    for axis in axes:
        low, high = axis.get_view_interval()
        subs = (1.0, 2.0, 5.0) if high < 40 * low else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=100))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(lambda value, _: power_of_ten(value) if value >= 1e5 else f"{value:g}")


def bound(data: pd.DataFrame, experiment: str, metric: str) -> pd.Series:
    """A metric of the bounds of an experiment by epsilon, increasing."""
    rows = data[(data["experiment"] == experiment + BOUNDS) & (data["metric"] == metric)]
    return rows.set_index("epsilon")["mean"].sort_index()


def experiments(data: pd.DataFrame) -> list[str]:
    """The simulated experiments, in the data's order."""
    return [name for name in dict.fromkeys(data["experiment"]) if not name.endswith(BOUNDS)]


def title(data: pd.DataFrame, name: str) -> str:
    """What a panel shows."""
    servers = f"$M$ = {data[data['experiment'] == name]['servers'].iloc[0]:g}"
    return f"{servers}, corner (control)" if name.endswith("_corner") else f"{servers}"


def draw(data: pd.DataFrame) -> Figure:
    """One panel per experiment."""
    names = experiments(data)
    rows = -(-len(names) // 2)
    figure, grid = plt.subplots(rows, min(2, len(names)), figsize=(TEXT_WIDTH, 2.35 * rows + 0.4), squeeze=False)
    labels = list(dict.fromkeys(data[data["n"] > 0]["label"]))
    for axes, name in zip(grid.flat, names, strict=False):
        axes.set_xscale("log")
        here = data[data["experiment"] == name]
        limit = bound(data, name, "facet_limit").iloc[0]
        lower = bound(data, name, "lower_bound")
        for index, label in enumerate(labels):
            own = here[(here["label"] == label) & (here["metric"] == "weighted_backlog")]
            own = scaled(own, own["epsilon"])
            curve(axes, own, "epsilon", index, f"{label} + MaxWeight, 95 % band")
            flag(axes, own, "epsilon", index, unsettled(here[here["label"] == label], ["epsilon"]))
        lower = lower[lower > 0]
        axes.plot(lower.index, lower * lower.index, **BOUND)
        axes.axhline(limit, zorder=1, **LIMIT)
        axes.set_yscale("log")
        axes.set_ylim(bottom=limit / 2.5)
        axes.set_title(title(data, name), loc="left")
        axes.set_xlabel("distance to the facet $\\epsilon$ (work per slot)")
        axes.set_ylabel("$\\epsilon\\,E\\langle\\mathbf{c},q\\rangle$")
        plain_log(axes.xaxis, axes.yaxis)
        last = here[here["metric"] == "weighted_backlog"].sort_values("epsilon").iloc[0]
        ratio = last["epsilon"] * last["mean"] / limit
        half = last["epsilon"] * (last["ci_high"] - last["mean"]) / limit
        at = f"{last['label']} at $\\epsilon$ = {last['epsilon']:g}: {ratio:.2f} $\\pm$ {half:.2f} of limit"
        axes.set_title(at, loc="right", fontsize=6.5, color="#444444")
    for axes in grid.flat[len(names) :]:
        axes.axis("off")
    handles, texts = grid[0, 0].get_legend_handles_labels()
    handles += [Line2D([], [], **LIMIT), Line2D([], [], **BOUND)]
    texts += [
        "limit $\\langle c^2,\\sigma^2\\rangle/(2\\sqrt{M})$",
        "lower bound $\\epsilon\\,(\\zeta/(2\\epsilon) - B_1)$",
    ]
    figure.legend(handles, texts, loc="outside upper center", ncols=4, columnspacing=1.2)
    return figure
