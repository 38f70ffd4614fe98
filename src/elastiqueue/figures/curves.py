"""The drawing of every figure that consists of curves: panels, curves with 95 % bands, limits, from the configuration.

matplotlib alone: estimates and their intervals come ready from the tables, so that a plotting grammar would have
nothing to compute, and costs a second of start-up per figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elastiqueue.errors import ConfigError
from elastiqueue.figures.expressions import names
from elastiqueue.figures.rows import Array, Rows, filled
from elastiqueue.figures.schema import Axis, FigureSpec, Layer, Limit, Note, Panel, axis, changed, layers
from elastiqueue.figures.style import COLOURS, LIMIT, MARKERS, TEXT_WIDTH, note, plain_log
from elastiqueue.statistics.power_law import pooled_errors, power_law

LINES: dict[str, Any] = {"solid": "-", "dashed": (0, (4, 2)), "dotted": (0, (1, 1)), "none": "none"}
STYLES: list[Any] = ["-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1))]
GREY = "#555555"
SYMBOLS = {
    "servers": "$N$ = {{servers}}", "arrival_rate": "$\\lambda$ = {{arrival_rate}}", "load": "$\\rho$ = {{load}}",
    "standby_rate": "$1/\\mu$ = {{1 / standby_rate}}", "setup_rate": "$1/\\nu$ = {{1 / setup_rate}}",
    "epsilon": "$\\epsilon$ = {{epsilon}}", "buffer": "$B$ = {{buffer}}", "label": "{{label}}",
}  # fmt: skip
TEXTS = {  # expression -> label, unit
    "servers": ("number of servers $N$", None),
    "arrival_rate": ("arrival rate per server $\\lambda$", None),
    "load": ("load $\\rho$", None),
    "buffer": ("buffer $B$", "tasks per server"),
    "1 / standby_rate": ("mean standby period $1/\\mu$", "mean service times"),
    "1 / setup_rate": ("mean setup period $1/\\nu$", "mean service times"),
    "epsilon": ("distance to the facet $\\epsilon$", "work per slot"),
    "mean_wait": ("mean wait $E[W]$", "mean service times"),
    "mean_wait_integral": ("mean wait $E[W]$", "mean service times"),
    "mean_response": ("mean response time", "slots"),
    "power": ("power $E[P]$", "W per server"),
    "time": ("time", "mean service times"),
}


@dataclass
class Drawing:
    """A figure in the making: the data, and the legend that its panels share."""

    rows: Rows
    legend: dict[str, Any] = field(default_factory=dict)

    def index(self, by: str, value: Any, rows: Rows) -> int:
        """Which colour and marker a value of a column has, the same in every panel."""
        values = self.rows.where({"experiment": list(dict.fromkeys(rows.keys["experiment"]))}).values(by)
        return values.index(value)


def draw(data: pd.DataFrame, spec: FigureSpec) -> Figure:
    """The figure that a specification asks for, from the tidy tables of its experiments."""
    drawing = Drawing(Rows.of(data))
    grid = _panels(spec, drawing.rows)
    if spec.wrap and len(grid) == 1:
        grid = [grid[0][i : i + spec.wrap] for i in range(0, len(grid[0]), spec.wrap)]
    height, width = spec.height or (2.7 if len(grid) == 1 else 2.0), max(map(len, grid))
    size = (TEXT_WIDTH if width > 1 else TEXT_WIDTH * 0.8, height * len(grid) + 0.5)
    share: Literal["row", "none"] = "row" if spec.share_y else "none"
    figure, axes = plt.subplots(len(grid), width, figsize=size, squeeze=False, sharey=share)
    cells = [(i, j, panel, axes[i, j]) for i, row in enumerate(grid) for j, panel in enumerate(row)]
    for each in axes.flat:
        each.set_axis_off()
    for i, j, panel, each in cells:
        each.set_axis_on()
        below = i + 1 < len(grid) and j < len(grid[i + 1]) and grid[i + 1][j].x == panel.x and not spec.wrap
        _draw_curves(drawing, each, panel)
        title = _title(drawing, panel)
        if not (i > 0 and not spec.wrap and _title(drawing, grid[i - 1][j]) == title):
            each.set_title(title, loc="left")
        each.set_xlabel("" if below else _label(axis(panel.x)))
        each.set_ylabel("" if spec.share_y and j else _label(axis(panel.y)))
    notes = {each: [panel.note] if panel.note else [] for _, _, panel, each in cells}
    for along in (False, True):  # lines that an axis makes room for; then, in what there is, those along the curves
        ends = {each: each.get_ylim() for _, _, _, each in cells}
        for _, _, panel, each in cells:
            for limit in panel.limits or []:
                if _is_curve(limit) == along:
                    remarks = _draw_limit(drawing, each, limit, panel, ends[each])
                    notes[each] += [Note(text=text, at="lower left") for text in remarks]
    for _, _, panel, each in cells:
        _finish(drawing, each, panel, notes[each])
    for each in axes.flat:
        plain_log(each.xaxis, each.yaxis)
    if drawing.legend:
        texts = list(drawing.legend)
        columns = max(1, min(len(texts), math.floor(150 / (max(len(_bare(text)) for text in texts) + 9))))
        rows = -(-len(texts) // columns)
        figure.legend(
            drawing.legend.values(), texts, loc="outside upper center", ncols=-(-len(texts) // rows), columnspacing=1.4
        )
    return figure


def _bare(text: str) -> str:
    """A text about as long as it looks."""
    line = max(text.split("\n"), key=len)
    return "".join(
        part if i % 2 == 0 else part.replace("\\", "")[: 2 + len(part) // 2] for i, part in enumerate(line.split("$"))
    )


def _panels(spec: FigureSpec, rows: Rows) -> list[list[Panel]]:
    def changes(facet: str | list[Panel] | None, inner: Panel) -> list[Panel]:
        if facet is None:
            return [Panel.model_validate({})]
        if isinstance(facet, list):
            return [part for entry in facet for part in (each(entry.each, entry, inner) if entry.each else [entry])]
        title = SYMBOLS.get(facet, f"{facet.replace('_', ' ')} = {{{{{facet}}}}}")
        return each(facet, Panel.model_validate({} if spec.title else {"title": title}), inner)

    def each(column: str, entry: Panel, inner: Panel) -> list[Panel]:
        panel = changed(inner, entry)
        values = _select(rows, layers(panel)[0], panel).values(column)
        return [entry.model_copy(update={"where": {**entry.where, column: value}}) for value in values]

    base = changed(spec, Panel.model_validate({}))
    result = []
    for row in changes(spec.rows, base):
        inner = changed(base, row)
        result.append([changed(inner, column) for column in changes(spec.columns, inner)])
    if not any(result):
        raise ConfigError("rows, columns: the data have no value of them")
    return result


def _label(shown_axis: Axis) -> str:
    value = shown_axis.value if isinstance(shown_axis.value, str) else next(iter(shown_axis.value))
    label, unit = TEXTS.get(value.strip(), (value.replace("_", " "), None))
    unit = shown_axis.unit or (unit if shown_axis.label is None else None)
    label = shown_axis.label or label
    return f"{label} ({unit})" if unit else label


# ---- One panel -------------------------------------------------------------------------------------------------------


def _select(rows: Rows, layer: Layer, panel: Panel) -> Rows:
    """The rows of a layer in a panel; what a limit does not tell apart holds in every panel."""
    where = {**panel.where, **layer.where}
    where.setdefault("statistic", "estimate")
    if layer.experiment is not None:
        wanted = layer.experiment if isinstance(layer.experiment, list) else [layer.experiment]
        where["experiment"] = [
            filled(one, rows.where({k: panel.where[k] for k in ("experiment",) if k in panel.where})) for one in wanted
        ]
    elif not isinstance(layer, Limit) and "experiment" not in where:
        rows = rows.simulated()
    chosen = rows.where({key: where.pop(key) for key in ("experiment", "statistic") if key in where})
    texts = [text for key in ("x", "y") for text in _expressions(layer, panel, key)]
    chosen = chosen.having(*texts)
    if isinstance(layer, Limit):
        where = {
            key: value for key, value in where.items() if key in layer.where or (len(chosen) and chosen.varies(key))
        }
    shared = {
        key: value
        for key, value in panel.where.items()
        if key in layer.where and key not in ("experiment", "statistic")
    }
    return chosen.where(where).where(shared)


def _expressions(layer: Layer, panel: Panel, key: str) -> dict[str, str | None]:
    """Each expression along an axis and its text in the legend."""
    given = getattr(layer, key)
    if given is None and isinstance(layer, Limit) and not layer.curve and key == "x":
        return {}
    if given is None and ((isinstance(layer, Limit) and (layer.x or layer.slope)) or layer.cumulative) and key == "y":
        return {}
    value = given if given is not None else axis(getattr(panel, key)).value
    return {value: None} if isinstance(value, str) else dict(value)


def _title(drawing: Drawing, panel: Panel) -> str:
    return filled(panel.title, _select(drawing.rows, layers(panel)[0], panel)) if panel.title else ""


def _draw_curves(drawing: Drawing, axes: Axes, panel: Panel) -> None:
    axes.set(xscale=axis(panel.x).scale, yscale=axis(panel.y).scale)
    for layer in layers(panel):
        _draw_layer(drawing, axes, layer, panel, _select(drawing.rows, layer, panel))


def _finish(drawing: Drawing, axes: Axes, panel: Panel, notes: list[Note | str]) -> None:
    """Ends of the axes that the configuration gives, and remarks."""
    for key, set_ends in (("x", axes.set_xlim), ("y", axes.set_ylim)):
        ends = axis(getattr(panel, key))
        if ends.low is not None or ends.high is not None:
            set_ends(ends.low, ends.high)
    for each in notes:
        remark = each if isinstance(each, Note) else Note.model_validate({"text": each})
        vertical, horizontal = remark.at.split()
        place = (0.98 if horizontal == "right" else 0.02, 0.96 if vertical == "upper" else 0.04)
        text = filled(remark.text, _select(drawing.rows, layers(panel)[0], panel))
        note(axes, text, where=place, ha=horizontal, va="top" if vertical == "upper" else "bottom")


def _groups(drawing: Drawing, layer: Layer, rows: Rows) -> list[tuple[int, Rows, str | None]]:
    """Index of colour, rows and text of each value of `by`."""
    if layer.by is None:
        return [(0, rows, layer.label)]
    result: list[tuple[int, Rows, str | None]] = []
    for value in rows.values(layer.by):
        group = rows.where({layer.by: value})
        text = layer.names.get(str(value)) or layer.names.get(f"{value:g}" if isinstance(value, float) else "")
        text = text or layer.label or SYMBOLS.get(layer.by, f"{{{{{layer.by}}}}}")
        result.append((drawing.index(layer.by, value, rows), group, filled(text, group)))
    return result


def _draw_layer(drawing: Drawing, axes: Axes, layer: Layer, panel: Panel, rows: Rows) -> None:
    several = _expressions(layer, panel, "y") or {"0": None}
    (x_text,) = _expressions(layer, panel, "x")
    for index, group, text in _groups(drawing, layer, rows):
        for number, (y_text, name) in enumerate(several.items()):
            colour = index if layer.by or len(several) == 1 else number
            style: dict[str, Any] = {
                "color": layer.colour or COLOURS[colour % len(COLOURS)],
                "marker": MARKERS[colour % len(MARKERS)] if layer.marker else "",
                "linestyle": LINES[layer.line]
                if layer.line != "solid"
                else STYLES[colour // len(COLOURS) % len(STYLES)],
            }
            if layer.by and len(several) > 1:
                style["linestyle"] = STYLES[number % len(STYLES)]
            if layer.width:
                style["linewidth"] = layer.width
            label = text if layer.by or len(several) == 1 else name or y_text
            if layer.cumulative:
                _cumulative(axes, group.evaluate(x_text), style)
            else:
                label = _curve(drawing, axes, layer, group, x_text, y_text, style, label)
            if label and (style["linestyle"] != "none" or style["marker"] or layer.band == "bars"):
                handle = {**style, "linestyle": "-"} if layer.by and len(several) > 1 else style
                drawing.legend.setdefault(label, Line2D([], [], **handle))
    if layer.by and len(several) > 1:
        for number, (y_text, name) in enumerate(several.items()):
            drawing.legend.setdefault(
                name or y_text, Line2D([], [], color="black", linestyle=STYLES[number % len(STYLES)])
            )
    if layer.cross:
        drawing.legend.setdefault(
            layer.cross_label, Line2D([], [], color=GREY, marker="x", linestyle="none", markersize=6)
        )


def _cumulative(axes: Axes, values: Array, style: dict[str, Any]) -> None:
    ordered = np.sort(values)
    share = np.arange(1, ordered.size + 1) / max(1, ordered.size)
    seen = np.isfinite(ordered)
    axes.step(ordered[seen], share[seen], where="post", **{**style, "marker": ""})


def _curve(
    drawing: Drawing,
    axes: Axes,
    layer: Layer,
    rows: Rows,
    x_text: str,
    y_text: str,
    style: dict[str, Any],
    label: str | None,
) -> str | None:
    """One curve with its intervals; returns its text in the legend."""
    order = np.argsort(rows.evaluate(x_text), kind="stable")
    rows = Rows(rows.keys.iloc[order], {part: frame.iloc[order] for part, frame in rows.measures.items()}, rows.whole)
    x, y, (low, high) = rows.evaluate(x_text), rows.evaluate(y_text), rows.interval(y_text)
    log = axes.get_yscale() == "log"
    if len(x) and np.isnan(x).all():  # what is along the axis does not apply: the same everywhere
        for value in y[(y > 0) | (not log)]:
            axes.axhline(value, color=style["color"], linewidth=style.get("linewidth", 1.2))
        return label
    crosses = _holds(rows, layer.cross)
    if crosses.any():
        mark: dict[str, Any] = {"marker": "x", "linestyle": "none", "markersize": 6, "markeredgewidth": 1.4}
        axes.plot(
            x[crosses], [0.97] * crosses.sum(), color=style["color"], transform=axes.get_xaxis_transform(), **mark
        )
    keep = ~crosses
    x, y, low, high, rows = x[keep], y[keep], low[keep], high[keep], rows.only(keep)
    if log:
        hidden = ~(y > 0)
        y = np.where(hidden, np.nan, y)
        low = np.where(hidden, np.nan, np.maximum(low, y * 1e-3))
    if layer.fit and len(x) >= 3 and not np.isnan(y).any():
        label = _fit(axes, rows, x, y, y_text, style["color"], label)
        style = {**style, "linestyle": "none"}
    if layer.band == "bars":
        bars = np.abs(np.stack([y - low, high - y]))
        axes.errorbar(x, y, yerr=bars, elinewidth=0.9, capsize=2, **{**style, "linestyle": "none"})
    else:
        if layer.band == "band" and (high > low).any():
            axes.fill_between(x, low, high, color=style["color"], alpha=0.22, linewidth=0)
        axes.plot(x, y, **style)
    hollow = _holds(rows, layer.hollow)
    if hollow.any():
        axes.plot(x[hollow], y[hollow], **{**style, "linestyle": "none", "markerfacecolor": "white", "zorder": 5})
    return label


def _holds(rows: Rows, condition: str | None) -> Any:
    return rows.evaluate(condition) != 0 if condition else np.zeros(len(rows), bool)


def _fit(axes: Axes, rows: Rows, x: Array, y: Array, y_text: str, colour: str, label: str | None) -> str:
    """A power law by weighted least squares, with errors pooled over the points."""
    metric = next(name for name, _ in names(y_text) if name in rows.measures["mean"])
    se = (rows.interval(y_text)[1] - y) / np.where(
        rows.measures["se"][metric] > 0,
        (rows.measures["ci_high"][metric] - rows.measures["mean"][metric]) / rows.measures["se"][metric],
        1.0,
    )
    fit = power_law(
        x.tolist(), y.tolist(), pooled_errors(y.tolist(), se.tolist(), rows.measures["n"][metric].astype(int).tolist())
    )
    axes.plot(x, fit.factor * x**fit.exponent, color=colour, linewidth=1.0)
    return (
        f"{label or y_text}\nfitted exponent {fit.exponent:.3f}, 95 % interval [{fit.low:.3f}, {fit.high:.3f}]".replace(
            "-", "\N{MINUS SIGN}"
        )
    )


def _is_curve(limit: Limit) -> bool:
    """Whether a limit runs along the curves, where there is room for it."""
    texts = [limit.y] if isinstance(limit.y, str) else list(limit.y or [])
    return limit.curve or limit.slope is not None or any(name == "x" for text in texts for name, _ in names(text))


def _draw_limit(drawing: Drawing, axes: Axes, limit: Limit, panel: Panel, ends: tuple[float, float]) -> list[str]:
    """A line that curves are compared with, in a panel with these ends; returns what cannot be drawn, in words."""
    style: dict[str, Any] = {**LIMIT, "linestyle": LINES[limit.line]}
    if limit.width:
        style["linewidth"] = limit.width
    style["color"] = limit.colour or ("black" if limit.line == "dotted" else GREY)
    if limit.label and limit.line != "none":
        drawing.legend.setdefault(limit.label, Line2D([], [], **style))
    (y_text, *_), x_text = [*_expressions(limit, panel, "y"), None], limit.x
    if limit.slope is not None:
        drawn = [np.asarray(line.get_xydata(), float) for line in axes.get_lines()]
        points = np.concatenate([line for line in drawn if len(line) > 1])
        points = points[points[:, 1] > 0]
        low, high = points[:, 0].min(), points[:, 0].max()
        start = 0.5 * points[points[:, 0] == low, 1].min()
        axes.plot([low, high], [start, start * (high / low) ** limit.slope], zorder=1, **style)
        return []
    if y_text is not None and any(name == "x" for name, _ in names(y_text)):
        span = (
            np.linspace(*axes.get_xlim(), 200) if axes.get_xscale() == "linear" else np.geomspace(*axes.get_xlim(), 200)
        )
        axes.plot(span, drawing.rows.evaluate(y_text, x=span), zorder=1, **style)
        axes.set_ylim(*ends)
        return []
    rows = _select(drawing.rows, limit, panel)
    groups = _groups(drawing, limit, rows) if limit.by else [(0, rows, None)]
    if not len(rows):
        return [f"{limit.label}: none"] if limit.label and x_text is None and not limit.curve else []
    if limit.curve:
        x_text = next(iter(_expressions(limit, panel, "x")))
        for index, group, _ in groups:
            for each in _expressions(limit, panel, "y"):
                x, y = group.evaluate(x_text), group.evaluate(each)
                order = np.argsort(x)
                y = np.where(y > 0, y, np.nan) if axes.get_yscale() == "log" else y
                colour = {"color": COLOURS[index % len(COLOURS)]} if limit.by and not limit.colour else {}
                axes.plot(x[order], y[order], zorder=2.5, **{**style, **colour})
        factor = 2.0 if axes.get_yscale() == "log" else 1.0
        axes.set_ylim(ends[0] / factor, ends[1])
        return []
    text = x_text or y_text
    assert text is not None
    values = [
        (index, value)
        for index, group, _ in groups
        for value in dict.fromkeys(group.evaluate(text).round(12))
        if np.isfinite(value)
    ]
    same = len({float(f"{value:.9g}") for _, value in values}) == 1
    level = axes.axvline if x_text else axes.axhline
    positive = x_text is not None or axes.get_yscale() == "linear"
    for index, value in values[:1] if same else values:
        if positive or value > 1e-6:
            coloured = limit.by and not same and not limit.colour
            level(value, zorder=1, **{**style, **({"color": COLOURS[index % len(COLOURS)]} if coloured else {})})
        if limit.shade:
            right = axes.get_xlim()[1]
            axes.axvspan(value, max(right, value), color="#F0F0F0", zorder=0, linewidth=0)
            axes.set_xlim(right=right)
    axes.autoscale_view(scalex=False)
    gone = not positive and all(value <= 1e-6 for _, value in values)
    return [f"{limit.label}: 0"] if gone and limit.label else []
