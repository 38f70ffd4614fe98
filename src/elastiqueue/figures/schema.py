"""Figures as data: what a figure of the configuration may say. Its drawing is `elastiqueue.figures.curves`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from elastiqueue.errors import ConfigError
from elastiqueue.figures import expressions
from elastiqueue.scenarios.base import Strict

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=60)]
Value = str | bool | int | float
MODULES = Path(__file__).parent
SUPPORT = {"__init__", "expressions", "rows", "schema", "style"}  # files of the folder that draw nothing
DIAGRAMS = ("protocol",)  # drawings without data


def _expression(text: Any) -> str:
    expressions.parse(str(text))
    return str(text)


def form_of(value: Any) -> str:
    """The form of a key that has a short and a long one; an error speaks of the form that was meant."""
    return "list" if isinstance(value, list) else "mapping" if isinstance(value, Mapping | Strict) else "text"


Expression = Annotated[str, AfterValidator(_expression)]
Values = Annotated[
    Annotated[Expression, Tag("text")] | Annotated[dict[Expression, str], Tag("mapping")], Discriminator(form_of)
]
Where = dict[str, Value | list[Value]]
Keeps = Callable[[str, str], bool]


class Axis(Strict):
    """What stands along an axis."""

    value: Values = Field(
        description="Column, metric or arithmetic of them; a mapping of several to their texts in the legend."
    )
    label: str | None = Field(None, description="Text at the axis; by default that of the value.")
    unit: str | None = Field(None, description="Unit, in brackets after the label.")
    scale: Literal["linear", "log"] = Field("linear", description="Scale of the axis.")
    low: float | None = Field(None, description="Lower end; by default that of the data.")
    high: float | None = Field(None, description="Upper end; by default that of the data.")


class Layer(Strict):
    """Curves of one kind: one per value of `by`, each with its band."""

    experiment: str | list[str] | None = Field(
        None, description="Experiments that it shows; by default all that are simulated (if none is: all)."
    )
    where: Where = Field(default_factory=dict, description="Column -> value or values that are shown.")
    x: Expression | None = Field(None, description="In place of the x of the panel.")
    y: Values | None = Field(None, description="In place of the y of the panel.")
    by: str | None = Field(None, description="Column: a curve of its own for each of its values.")
    label: str | None = Field(None, description="Text in the legend; {{column}} is replaced by its value.")
    names: dict[str, str] = Field(default_factory=dict, description="Value of `by` -> its text in the legend.")
    line: Literal["solid", "dashed", "dotted", "none"] = Field("solid", description="Line through the points.")
    marker: bool = Field(True, description="Whether points have markers.")
    band: Literal["band", "bars", "none"] = Field("band", description="How 95 % intervals are shown.")
    width: float | None = Field(None, gt=0, le=10, description="Width of the line in points.")
    colour: str | None = Field(None, description="A colour of matplotlib, C0 to C6 among them; by default in turn.")
    hollow: Expression | None = Field(None, description="Condition under which points are hollow.")
    cross: Expression | None = Field(
        None, description="Condition under which a point has no value: a cross at the upper end."
    )
    cross_label: str = Field("no value", description="Text of the crosses in the legend.")
    fit: Literal["power_law"] | None = Field(None, description="A fitted power law, with its exponent and interval.")
    cumulative: bool = Field(False, description="The share of the values of x up to each of them, in place of y.")


class Limit(Layer):
    """What curves are compared with: a horizontal or vertical line, a curve, a function of x or a slope.

    With `x` alone it is vertical, with `curve: true` it runs along the panel's x, with the name x in its y it is that
    function; otherwise it is horizontal at its y, that of the panel by default.
    """

    line: Literal["solid", "dashed", "dotted", "none"] = Field("dashed", description="Line through the points.")
    marker: bool = Field(False, description="Whether points have markers.")
    band: Literal["band", "bars", "none"] = Field("none", description="How 95 % intervals are shown.")
    curve: bool = Field(False, description="Along the panel's x.")
    slope: float | None = Field(None, description="A power of x of this exponent, below the curves.")
    shade: bool = Field(False, description="Whether what is to the right of a vertical line is shaded.")


class Note(Strict):
    """A remark inside a panel."""

    text: str = Field(description="The remark; {{expression}} is replaced by its value.")
    at: Literal["upper right", "upper left", "lower right", "lower left"] = Field("upper right", description="Place.")


AxisOrValue = Annotated[Annotated[Expression, Tag("text")] | Annotated[Axis, Tag("mapping")], Discriminator(form_of)]
Layers = Annotated[Annotated[list[Layer], Tag("list")] | Annotated[Layer, Tag("mapping")], Discriminator(form_of)]
Remark = Annotated[Annotated[str, Tag("text")] | Annotated[Note, Tag("mapping")], Discriminator(form_of)]


class Panel(Strict):
    """What a panel shows; a row or a column of panels sets keys of its own."""

    where: Where = Field(default_factory=dict, description="Column -> value or values that are shown.")
    x: AxisOrValue | None = Field(None, description="Along the horizontal axis.")
    y: AxisOrValue | None = Field(None, description="Along the vertical axis.")
    curves: Layers | None = Field(None, description="Curves; by default one.")
    limits: list[Limit] | None = Field(None, description="What they are compared with.")
    title: str | None = Field(None, description="Above the panel; {{column}} is replaced by its value.")
    note: Remark | None = Field(None, description="A remark inside the panel.")
    each: str | None = Field(None, description="Column: an entry of rows or columns for each of its values.")


Facet = Annotated[Annotated[str, Tag("text")] | Annotated[list[Panel], Tag("list")], Discriminator(form_of)]


class FigureSpec(Panel):
    """A figure: the experiments that it reads and what it shows of them, or the module that draws it."""

    draw: Name = Field(
        "curves", description="curves, or a module of elastiqueue.figures for a drawing of its own kind."
    )
    experiments: list[Name] = Field(description="Experiments whose tables it reads; none for a diagram.")
    caption: str = Field(
        "", description="What the figure shows. {{key}} is replaced by the values of that key in its scenarios."
    )
    paper: Literal["A", "B", "both"] | None = Field(None, description="Category in the report.")
    rows: Facet | None = Field(None, description="A row per value of a column, or per entry.")
    columns: Facet | None = Field(None, description="A column per value of a column, or per entry.")
    wrap: int | None = Field(None, ge=1, le=6, description="Panels per row, where there is one row of many.")
    share_y: bool = Field(False, description="Whether the panels of a row share their vertical axis.")
    height: float | None = Field(None, gt=0.5, le=6, description="Height of a panel in inches.")

    @model_validator(mode="after")
    def _whole(self) -> FigureSpec:
        own = self.model_fields_set & (set(Panel.model_fields) | {"rows", "columns", "wrap", "share_y", "height"})
        if self.draw != "curves":
            if self.draw not in drawings():
                raise ConfigError(f"draw = {self.draw}: must be one of {', '.join(drawings())}")
            if own:
                raise ConfigError(f"{min(own)}: is for draw = curves")
        if not self.experiments and self.draw not in DIAGRAMS:
            raise ConfigError(f"experiments = []: must name at least one for draw = {self.draw}")
        if self.draw != "curves":
            return self
        for _, panel in panels(self):
            for key in ("x", "y"):
                shown = all(getattr(layer, key) is not None or layer.cumulative for layer in layers(panel))
                if getattr(panel, key) is None and not shown:
                    raise ConfigError(f"{key}: is missing; a column, a metric or arithmetic of them")
        return self


def drawings() -> list[str]:
    """Names that a figure may give in `draw`; none is imported here."""
    return sorted({path.stem for path in MODULES.glob("*.py")} - SUPPORT)


def axis(value: Axis | str | None) -> Axis:
    """An axis written short or long."""
    return value if isinstance(value, Axis) else Axis.model_validate({"value": value or "0"})


def layers(panel: Panel) -> list[Layer]:
    """The layers of curves of a panel."""
    return panel.curves if isinstance(panel.curves, list) else [panel.curves or Layer.model_validate({})]


def changed(panel: Panel, change: Panel) -> Panel:
    """A panel with the keys of a row or column set; conditions are joined, titles too, an axis key by key."""
    values: dict[str, Any] = {key: getattr(change, key) for key in change.model_fields_set}
    values["where"] = {**panel.where, **change.where}
    if panel.title and change.title:
        values["title"] = f"{panel.title}, {change.title}"
    return Panel.model_construct(**{**{key: getattr(panel, key) for key in Panel.model_fields}, **values})


def panels(spec: FigureSpec) -> Iterator[tuple[tuple[str | Panel | None, str | Panel | None], Panel]]:
    """Panels that the configuration alone tells apart: a facet that is a column stands for all of its values."""
    for row in spec.rows if isinstance(spec.rows, list) else [spec.rows]:
        for column in spec.columns if isinstance(spec.columns, list) else [spec.columns]:
            panel = changed(spec, Panel.model_validate({}))
            for change in (row, column):
                panel = changed(panel, change) if isinstance(change, Panel) else panel
            yield (row, column), panel


def _values(layer: Layer, panel: Panel) -> Iterator[tuple[str, str]]:
    """Key and expression of all that a layer shows."""
    for key in ("x", "y"):
        given = getattr(layer, key)
        shown = given if given is not None else axis(getattr(panel, key)).value
        for text in shown if isinstance(shown, Mapping) else [shown]:
            yield key, text
    for key in ("hollow", "cross"):
        if getattr(layer, key) is not None:
            yield key, getattr(layer, key)


def check(name: str, spec: FigureSpec, heads: Mapping[str, list[Mapping[str, Any]]], keeps: Keeps) -> None:
    """Raise ConfigError where a figure asks for what its experiments do not have, before they are run.

    heads : experiment -> columns and their values of each of its scenarios.
    keeps : whether an experiment keeps a metric, as far as this is known before it is run.
    """
    if spec.draw != "curves":
        return
    columns = {key for each in spec.experiments for head in heads[each] for key in head}
    columns |= {"experiment", "label", "time", "statistic"}

    def complain(key: str, value: str, message: str) -> NoReturn:
        raise ConfigError(f"figures.{name}.{key} = {value}: {message}")

    for facets, panel in panels(spec):
        for key, facet in zip(("rows", "columns"), facets, strict=True):
            facet = facet.each if isinstance(facet, Panel) else facet
            if facet is not None and facet not in columns:
                complain(key, facet, f"must be a column, one of {', '.join(sorted(columns))}")
        conditions = [{**panel.where, **layer.where} for layer in layers(panel)]
        for where in conditions:
            for key in ("experiment", "time", "statistic"):
                where.pop(key, None)
        shown = [each for layer in layers(panel) for each in _experiments(layer, panel, spec) if each in heads]
        if not any(has_values(head, where) for where in conditions for each in shown for head in heads[each]):
            text = ", ".join(f"{key} = {value}" for key, value in conditions[0].items())
            complain("where", text, "its experiments have no such scenario")
        for layer in [*layers(panel), *(panel.limits or [])]:
            for key in (*panel.where, *layer.where, *filter(None, [layer.by])):
                if key not in columns:
                    complain("where" if key != layer.by else "by", key, f"must be one of {', '.join(sorted(columns))}")
            experiments = _experiments(layer, panel, spec)
            for experiment in experiments:
                if experiment not in spec.experiments:
                    complain("experiment", experiment, f"must be one of its experiments, {', '.join(spec.experiments)}")
            where = {**panel.where, **layer.where}
            recorded = where.get("statistic", "estimate") != "estimate"
            for key, text in _values(layer, panel):
                for each, _ in expressions.names(text):
                    experiment, metric = expressions.split(each)
                    if experiment and experiment not in spec.experiments:
                        complain(key, text, f"{experiment} must be one of its experiments")
                    sources = [experiment] if experiment else experiments
                    if (
                        metric not in columns | {"x"}
                        and not recorded
                        and not any(keeps(one, metric) for one in sources)
                    ):
                        complain(
                            key, text, f"{metric} is neither a column nor a metric that {' or '.join(sources)} keeps"
                        )


def _experiments(layer: Layer, panel: Panel, spec: FigureSpec) -> list[str]:
    """The experiments that a layer may show."""
    shown = panel.where.get("experiment", spec.experiments)
    shown = [str(one) for one in shown] if isinstance(shown, list) else [str(shown)]
    if layer.experiment is None:
        return shown
    wanted = layer.experiment if isinstance(layer.experiment, list) else [layer.experiment]
    return [one.replace("{{experiment}}", each) for one in wanted for each in shown[: 1 if "{{" not in one else None]]


def has_values(head: Mapping[str, Any], where: Where) -> bool:
    """Whether a scenario with these columns is one that is asked for."""

    def same(value: Any, wanted: Value) -> bool:
        if isinstance(value, float | int) and isinstance(wanted, float | int) and not isinstance(wanted, bool):
            return math.isclose(value, wanted, rel_tol=1e-9)
        return str(value).lower() == str(wanted).lower()

    return all(
        any(same(head.get(key), one) for one in (wanted if isinstance(wanted, list) else [wanted]))
        for key, wanted in where.items()
    )
