"""Tables as data: what a table of the configuration may say. It is made by `elastiqueue.tables.own`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from elastiqueue.errors import ConfigError
from elastiqueue.figures import expressions
from elastiqueue.figures.schema import Expression, Keeps, Name, Where, form_of, has_values
from elastiqueue.scenarios.base import Strict


class Cell(Strict):
    """What stands in a column."""

    value: Expression = Field(description="Column, metric or arithmetic of them.")
    label: str | None = Field(None, description="Head of the column; by default the value.")
    unit: str | None = Field(None, description="Unit, in brackets after the label.")
    where: Where = Field(default_factory=dict, description="Column -> value or values that are shown.")

    @property
    def head(self) -> str:
        """Head of the column."""
        label = self.label or self.value.replace("_", " ")
        return f"{label} ({self.unit})" if self.unit else label


CellOrValue = Annotated[Annotated[Expression, Tag("text")] | Annotated[Cell, Tag("mapping")], Discriminator(form_of)]
Columns = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[CellOrValue], Field(min_length=1, max_length=50), Tag("list")],
    Discriminator(form_of),
]
Keys = Annotated[
    Annotated[Expression, Tag("text")]
    | Annotated[Cell, Tag("mapping")]
    | Annotated[list[CellOrValue], Field(min_length=1, max_length=20), Tag("list")],
    Discriminator(form_of),
]


class TableSpec(Strict):
    """A table: the experiments that it reads, its rows and what stands in them."""

    experiments: Annotated[list[Name], Field(min_length=1)] = Field(description="Experiments whose results it shows.")
    where: Where = Field(default_factory=dict, description="Column -> value or values that are shown.")
    rows: Keys = Field(description="Columns of results, or arithmetic of them: a row for each of their values.")
    columns: Columns = Field(
        description="List of metrics, each with a column; or a column of results: one for each of its values."
    )
    value: CellOrValue | None = Field(None, description="What is shown where `columns` is a column of results.")
    format: Literal["interval", "number"] = Field(
        "interval", description="interval: the mean and the half-width of its 95 % interval; number: the mean alone."
    )
    digits: Annotated[int, Field(ge=1, le=15)] = Field(4, description="Significant digits of exact values and numbers.")
    caption: str = Field(
        "", description="What it shows. {{key}} is replaced by the values of that key in its scenarios."
    )

    @model_validator(mode="after")
    def _whole(self) -> TableSpec:
        if isinstance(self.columns, str) == (self.value is None):
            raise ConfigError("value: goes with columns that are a column of results, and only with it")
        return self

    @property
    def by(self) -> list[Cell]:
        """What tells rows apart."""
        return _long(self.rows if isinstance(self.rows, list) else [self.rows])

    @property
    def cells(self) -> list[Cell]:
        """What is shown; the only one where `columns` is a column of results."""
        return _long(self.columns if isinstance(self.columns, list) else [self.value or "0"])


def _long(values: Sequence[Cell | str]) -> list[Cell]:
    return [one if isinstance(one, Cell) else Cell.model_validate({"value": one}) for one in values]


def check(name: str, spec: TableSpec, heads: Mapping[str, Sequence[Mapping[str, Any]]], keeps: Keeps) -> None:
    """Raise ConfigError where a table asks for what its experiments do not have, before they are run.

    heads, keeps : as `figures.schema.check` takes them.
    """
    scenarios = {each: [{"experiment": each, **head} for head in heads[each]] for each in spec.experiments}
    columns = {key for some in scenarios.values() for head in some for key in head}
    own = [spec.columns] if isinstance(spec.columns, str) else []
    by = [each for cell in spec.by for each, _ in expressions.names(cell.value)]
    for key, names in (("rows", by), ("columns", own), ("where", spec.where)):
        for one in names:
            if one not in columns:
                raise ConfigError(f"tables.{name}.{key} = {one}: must be one of {', '.join(sorted(columns))}")
    for cell in spec.cells:
        found = [each for each, _ in expressions.names(cell.value)]
        metrics = [each for each in found if each not in columns]
        having = [each for each in spec.experiments if all(keeps(each, metric) for metric in metrics)]
        if not having:
            raise ConfigError(f"tables.{name}: {cell.value}: is nothing that {' or '.join(scenarios)} keeps")
        for column in cell.where.keys() - columns:
            raise ConfigError(f"tables.{name}: where = {column}: must be one of {', '.join(sorted(columns))}")
        where: Where = {**spec.where, **cell.where}
        seen: set[tuple[Any, ...]] = set()
        for head in (head for each in having for head in scenarios[each] if has_values(head, where)):
            place = tuple(head.get(column) for column in (*by, *own))
            if place in seen and metrics:
                text = ", ".join(f"{column} = {value}" for column, value in zip((*by, *own), place, strict=True))
                raise ConfigError(f"tables.{name}: {cell.value}: has several scenarios at {text}: name more rows")
            seen.add(place)
        if not seen:
            raise ConfigError(f"tables.{name}: {cell.value}: its experiments have no such scenario")
