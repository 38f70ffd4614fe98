"""The file of claims: each claim, and the *parts* that it consists of.

A part names quantities (a metric of an experiment, for a selection of its scenarios) and a test:

    bound          every value lies below, above or within a number
    ordering       of two values that belong together, one is the greater
    monotonicity   along a column, each value is above (below) the one before it
    rate           the least-squares slope of log |value| over the log of a column is below (above) a number
    effect         changing one column moves a value more than changing another, as a quotient or as a difference

A claim is the conjunction of its parts. A sentence that can be read in several ways has *readings* instead, one part
for each, and its verdict says whether it depends on the reading. Nothing heavy is imported: the workflow reads this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from elastiqueue.scenarios.base import ConfigError, Strict, one_line
from elastiqueue.scenarios.reading import set_key

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=60)]
Scalar = bool | float | str


class Range(Strict):
    """Numbers from `min` to `max`, both included."""

    min: float | None = Field(None, description="Smallest value; null: none.")
    max: float | None = Field(None, description="Largest value; null: none.")


Where = dict[str, Range | list[Scalar] | Scalar]


class Quantity(Strict):
    """A metric of an experiment for some of its scenarios, less another one."""

    experiment: Name = Field(description="Experiment whose table is read.")
    metric: str | list[str] = Field(description="Metric; of a list, the sum.")
    where: Where = Field(
        default_factory=dict,
        description="Column -> value, values (each must be in the run) or {min, max}.",
    )
    minus: Quantity | float = Field(0.0, description="What is taken off: a number or another quantity.")
    match: list[str] = Field(default_factory=list, description="Columns in which a row and what is taken off it agree.")
    scale: str | None = Field(None, description="Column by whose value each value is multiplied; null: none.")
    relative: bool = Field(False, description="The difference is divided by what is taken off, which must be exact.")


class Part(Strict):
    """What all tests have."""

    says: str = Field(description="The statement that this part tests, in words.")


class Bounded(Part):
    """A part that compares values with numbers of the file."""

    below: float | None = Field(None, description="No value is greater.")
    above: float | None = Field(None, description="No value is smaller.")
    within: Annotated[float, Field(gt=0)] | None = Field(None, description="No value is farther from 0.")

    @model_validator(mode="after")
    def _something(self) -> Bounded:
        if self.below is None and self.above is None and self.within is None:
            raise ConfigError("bound: needs below, above or within")
        return self


class Bound(Bounded):
    """Every value lies below, above or within a number."""

    test: Literal["bound"]
    of: Quantity


class Rate(Bounded):
    """The slope of log |value| over the log of a column."""

    test: Literal["rate"]
    of: Quantity
    along: str


class Ordering(Part):
    """greater > factor * lesser, for every pair of rows that agree in `match`."""

    test: Literal["ordering"]
    greater: Quantity
    lesser: Quantity
    match: list[str] = Field(default_factory=list, description="Columns in which the two rows of a pair agree.")
    factor: Annotated[float, Field(gt=0)] = Field(1.0, description="The lesser is multiplied by it.")


class Monotonicity(Part):
    """Along a column each value is above (below) the one before it."""

    test: Literal["monotonicity"]
    of: Quantity
    along: str
    direction: Literal["increasing", "decreasing"]


class Change(Strict):
    """A column that is changed from one value to another, the other columns being held."""

    column: str
    values: Annotated[list[float], Field(min_length=2, max_length=2)]
    at: dict[str, Scalar] = Field(default_factory=dict, description="Values at which other columns are held.")


class Effect(Part):
    """|change of the value by `stronger`| > |change by `weaker`|; a quotient's change is that of the logarithm."""

    test: Literal["effect"]
    of: Quantity
    stronger: Change
    weaker: Change
    scale: Literal["quotient", "difference"]


AnyPart = Annotated[Bound | Ordering | Monotonicity | Rate | Effect, Field(discriminator="test")]


@cache
def _any_part() -> TypeAdapter[Part]:
    return TypeAdapter(AnyPart)


class Readings(Strict):
    """One test in all combinations of ways to read a sentence."""

    part: dict[str, Any] = Field(description="Keys that all readings share.")
    vary: Annotated[list[dict[str, dict[str, Any]]], Field(min_length=1)] = Field(
        description="Questions that the sentence leaves open: answer -> keys of the part (dotted keys reach inside). "
        "The answers to the last one are the columns of the table."
    )

    def parts(self) -> Iterator[tuple[tuple[str, ...], Part]]:
        """The answers that make a reading, and its part."""
        for answers in itertools.product(*(question.items() for question in self.vary)):
            names = tuple(name for name, _ in answers)
            values: dict[str, Any] = {"says": ", ".join(names)}
            for keys in (self.part, *(keys for _, keys in answers)):
                for key, value in keys.items():
                    set_key(values, key, value)
            yield names, _any_part().validate_python(values)


class Claim(Strict):
    """A statement, of a paper or of the user's own."""

    paper: Literal["A", "B"] | None = Field(None, description="Paper that makes it; null: it is the user's own.")
    where: str = Field("", description="Where in the paper it is made.")
    statement: str = Field(description="The claim, in our words.")
    figures: list[str] = Field(default_factory=list, description="Figures of this project that show it.")
    note: str = Field("", description="What a reader of the verdict must know.")
    parts: list[AnyPart] = Field(default_factory=list, description="The claim holds if all of them do.")
    readings: Readings | None = Field(None, description="Ways to read the sentence, in place of parts.")

    @model_validator(mode="after")
    def _either(self) -> Claim:
        if bool(self.parts) == (self.readings is not None):
            raise ConfigError("parts: must not be empty, or there are readings in their place")
        if self.paper and "where" not in self.model_fields_set:
            raise ConfigError("where: is missing")
        if self.readings:
            list(self.readings.parts())
        return self

    def tested(self) -> list[Part]:
        """The parts, or the readings."""
        return [part for _, part in self.readings.parts()] if self.readings else list(self.parts)

    def quantities(self) -> list[Quantity]:
        """All quantities that its tests compare."""
        return [one for part in self.tested() for one in _quantities(part)]

    def experiments(self) -> set[str]:
        """Experiments that the claim reads."""
        return {one.experiment for one in self.quantities()}


class Claims(Strict):
    """The file of claims."""

    level: Annotated[float, Field(gt=0, lt=0.5)] = Field(description="Probability of any wrong verdict in the table.")
    tolerance: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="Fraction of its limit by which a value may differ where it is to be near it."
    )
    claims: Annotated[dict[str, Claim], Field(min_length=1)]

    @property
    def alpha(self) -> float:
        """Level of one claim."""
        return self.level / len(self.claims)

    def experiments(self) -> list[str]:
        """Experiments that the claims read."""
        return sorted(set().union(*(claim.experiments() for claim in self.claims.values())))


def _quantities(part: BaseModel) -> Iterator[Quantity]:
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Quantity):
            yield value
            yield from _quantities(value)


def read_claims(path: str | Path) -> Claims:
    """Read and validate a file of claims; raises ConfigError with one line."""
    from elastiqueue.scenarios.reading import read_yaml

    values = read_yaml(path)
    try:
        return Claims.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error, values)}") from None
