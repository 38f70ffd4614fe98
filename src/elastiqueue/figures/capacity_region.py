"""Paper B: capacity regions with their facets, and the distances and projections of arrival rates, in 2 and 3 types."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from elastiqueue.figures.style import COLOURS, TEXT_WIDTH

Array = NDArray[np.float64]
RATES: dict[str, Any] = {"color": "black", "marker": "*", "linestyle": "none", "markersize": 8}


def _indexed(values: pd.Series, name: str) -> dict[tuple[int, ...], float]:
    """name[i,j,...] -> value, for all metrics of this name."""
    indexed = {}
    for metric, value in values.items():
        base, _, rest = str(metric).partition("[")
        if base == name and rest:
            indexed[tuple(int(i) for i in rest.rstrip("]").split(","))] = float(value)
    return indexed


def _array(values: pd.Series, name: str) -> Array:
    """The metrics name[i,j] as a matrix, in the order of their indices; name[i] as a vector."""
    indexed = _indexed(values, name)
    rows = sorted({key[0] for key in indexed})
    if len(next(iter(indexed))) == 1:
        return np.array([indexed[(i,)] for i in rows])
    columns = sorted({key[1] for key in indexed})
    return np.array([[indexed[(i, j)] for j in columns] for i in rows])


def _corners(values: pd.Series) -> Array:
    """Points whose convex hull is the region: those that span its facets, and what is below them on the axes."""
    faces: dict[tuple[int, int], dict[int, float]] = {}
    for (k, i, j), value in _indexed(values, "face").items():
        faces.setdefault((k, i), {})[j] = value
    points = {tuple(coordinates[j] for j in sorted(coordinates)) for coordinates in faces.values()}
    kept = itertools.product((0.0, 1.0), repeat=len(next(iter(points))))
    below = {tuple(x * y for x, y in zip(point, mask, strict=True)) for mask in kept for point in points}
    return np.array(sorted(below))


def _mark(axes: Axes, point: Array, colour: str, in_k: bool, interior: bool) -> None:
    axes.plot(
        *[[x] for x in point], "o", color=colour, markerfacecolor=colour if in_k else "white", markersize=5, zorder=6
    )
    if interior:
        axes.plot(*[[x] for x in point], "o", color="black", markerfacecolor="none", markersize=8.5, zorder=6)


def _plane(axes: Axes, values: pd.Series) -> None:
    corners, rates = _corners(values), _array(values, "rate")
    polygon = corners[ConvexHull(corners).vertices]
    axes.fill(*polygon.T, color="#DDE6EF", zorder=0)
    normals, projections, offsets = _array(values, "c"), _array(values, "projection"), _array(values, "b")
    in_k, interior = _array(values, "in_K"), _array(values, "in_K_interior")
    top = corners.max() * 1.06
    for k, (c, b) in enumerate(zip(normals, offsets, strict=True)):
        colour = COLOURS[k % len(COLOURS)]
        on = polygon[np.abs(polygon @ c - b) < 1e-9 * max(1.0, b)]
        order = np.argsort(on @ np.array([-c[1], c[0]]))
        ends = on[order][[0, -1]]
        axes.plot(*ends.T, color=colour, linewidth=2.2, solid_capstyle="butt", label="_", zorder=3)
        along = np.array([-c[1], c[0]])
        axes.plot(
            *np.stack([ends[0] - 30 * along, ends[1] + 30 * along]).T, color=colour, linewidth=0.6, linestyle=":",
            zorder=1,
        )  # fmt: skip
        axes.plot(*np.stack([rates, projections[k]]).T, color=colour, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2)
        middle = ends.mean(axis=0)
        axes.annotate(
            "", middle + c * top * 0.085, middle, zorder=4,
            arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.1},
        )  # fmt: skip
        axes.annotate(
            f"$c^{{{k}}}$", middle + c * top * 0.115, color=colour, ha="center", va="center", annotation_clip=False
        )
        _mark(axes, projections[k], colour, bool(in_k[k]), bool(interior[k]))
    axes.plot(*[[x] for x in rates], **RATES, zorder=7)
    axes.annotate(
        "$\\lambda$",
        (rates[0], rates[1]),
        xytext=(-5, -5),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9,
    )
    axes.set(
        xlim=(0, top * 1.12), ylim=(0, top * 1.12), aspect="equal", xlabel="work of type 1 per slot",
        ylabel="work of type 2 per slot",
    )  # fmt: skip
    text = [f"$\\epsilon^{{{k}}}$ = {eps:.3g}" for k, eps in enumerate(_array(values, "epsilon"))]
    axes.annotate(
        "\n".join(text), (0.98, 0.98), xycoords="axes fraction", ha="right", va="top", fontsize=7,
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "#BBBBBB", "linewidth": 0.5},
    )  # fmt: skip


def _space(axes: Any, values: pd.Series) -> None:
    corners, rates = _corners(values), _array(values, "rate")
    normals, projections, offsets = _array(values, "c"), _array(values, "projection"), _array(values, "b")
    in_k, interior = _array(values, "in_K"), _array(values, "in_K_interior")
    vertices = corners[ConvexHull(corners).vertices]
    for k, (c, b) in enumerate(zip(normals, offsets, strict=True)):
        colour = COLOURS[k % len(COLOURS)]
        on = vertices[np.abs(vertices @ c - b) < 1e-9 * max(1.0, b)]
        centre = on.mean(axis=0)
        first = on[0] - centre
        first = first / np.linalg.norm(first)
        second = np.cross(c, first)
        angles = np.arctan2((on - centre) @ second, (on - centre) @ first)
        face = Poly3DCollection([on[np.argsort(angles)]], facecolor=colour, edgecolor=colour, alpha=0.28, linewidth=1.2)
        axes.add_collection3d(face)
        normal = "(" + ", ".join(f"{x:.2g}" for x in c) + ")"
        axes.plot([], [], "s", color=colour, alpha=0.6, label=f"facet {k}: $c$ = {normal}, $b$ = {b:.3g}")
        axes.plot(*np.stack([rates, projections[k]]).T, color=colour, linewidth=1.1, linestyle=(0, (4, 2)), zorder=5)
        _mark(axes, projections[k], colour, bool(in_k[k]), bool(interior[k]))
    axes.plot(*[[x] for x in rates], **RATES, zorder=7)
    edges = [(0, 1), (0, 2), (1, 2)]
    top = corners.max(axis=0)
    for i in range(3):  # the axes
        end = np.zeros(3)
        end[i] = top[i]
        axes.plot(*np.stack([np.zeros(3), end]).T, color="#777777", linewidth=0.7)
    for i, j in edges:  # the region's outline in the planes of the axes
        plane = corners[np.delete(corners, [i, j], axis=1)[:, 0] == 0]
        outline = plane[ConvexHull(plane[:, [i, j]]).vertices]
        axes.plot(*np.vstack([outline, outline[:1]]).T, color="#999999", linewidth=0.6)
    axes.set(xlabel="type 1", ylabel="type 2", xlim=(0, top[0]), ylim=(0, top[1]))
    axes.set(zlabel="type 3", zlim=(0, top[2]))
    axes.view_init(elev=24, azim=52)
    axes.set_box_aspect((1, 1, 0.85), zoom=0.9)
    axes.tick_params(pad=-2, labelsize=6.5)
    axes.set(xticks=np.linspace(0, top[0], 3), yticks=np.linspace(0, top[1], 3), zticks=np.linspace(0, top[2], 3))
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.14), fontsize=6.5, handletextpad=0.2)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.labelpad = -5


def draw(data: pd.DataFrame) -> Figure:
    """One panel per label, of clusters with two or three job types."""
    labels = list(dict.fromkeys(data["label"]))
    figure = plt.figure(figsize=(TEXT_WIDTH, 3.7))
    for column, label in enumerate(labels, 1):
        values = data[data["label"] == label].drop_duplicates("metric").set_index("metric")["mean"]
        types = len(_array(values, "rate"))
        axes = figure.add_subplot(1, len(labels), column, projection=None if types == 2 else "3d")
        axes.set_title(label, y=1.02 if types == 2 else 1.0)
        if types == 2:
            _plane(axes, values)
        else:
            _space(axes, values)
    grey: dict[str, Any] = {"color": "#555555", "marker": "o", "linestyle": "none", "markersize": 5}
    handles = [
        Line2D([], [], **RATES),
        Line2D([], [], **grey),
        Line2D([], [], **{**grey, "markerfacecolor": "white"}),
        Line2D([], [], **{**grey, "markersize": 8.5, "color": "black", "markerfacecolor": "none"}),
    ]
    texts = [
        "arrival rates $\\lambda$",
        "$\\lambda^k$ in the region: $k \\in K$",
        "$\\lambda^k$ outside",
        "in the facet's relative interior: $k \\in K^o$",
    ]
    figure.legend(handles, texts, loc="outside lower center", ncols=4, columnspacing=1.2)
    return figure
