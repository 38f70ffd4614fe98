"""What all scenarios share: strict pydantic models, and errors of one line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from elastiqueue.errors import ConfigError, printable
from elastiqueue.sampling.streams import digest

__all__ = ["MAX_EVENTS", "ConfigError", "CpuHours", "Positive", "Rate", "Strict", "check_hours", "one_line"]

# Within these bounds no product of two or three numbers leaves the range of doubles, and no run is endless.
Rate = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]
MAX_EVENTS = 1e15  # of all replications of a scenario: counts of events are exact as doubles
CpuHours = Annotated[
    float, Field(gt=0, le=1e5, description="Expected CPU hours of all replications above which a scenario is refused.")
]


def check_hours(key: str, seconds: float, most: float) -> None:
    """Raise ConfigError, about a key and its value, where a scenario is expected to take more than `most` CPU hours."""
    if seconds > 3600 * most:
        raise ConfigError(
            f"{key}: all replications would take some {seconds / 3600:.2g} CPU hours: must be at most "
            f"max_cpu_hours = {most:g}, which can be set"
        )


class Strict(BaseModel):
    """A model that refuses unknown keys, and true and false as numbers, and cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _no_booleans_as_numbers(cls, values: Any) -> Any:
        for key, value in values.items() if isinstance(values, Mapping) else ():
            if _holds_boolean(value) and key in _numeric(cls):
                raise ConfigError(f"{key} = {value!r}: must not be true or false")
        return values


def _holds_boolean(value: Any) -> bool:
    return any(map(_holds_boolean, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


@cache
def _numeric(model: type[BaseModel]) -> frozenset[str]:
    """Fields that take neither booleans nor anything."""

    def named(annotation: Any) -> set[Any]:
        return {annotation}.union(*map(named, get_args(annotation)))

    return frozenset(name for name, field in model.model_fields.items() if not {bool, Any} & named(field.annotation))


def settings_digest(scenario: BaseModel) -> str:
    """Digest (8 hex digits) of what the rows of a scenario are made under: its keys without the seed.

    The number of replications counts where lengths depend on it; keys left at their defaults do not.
    """
    values = scenario.model_dump(mode="json", exclude_defaults=True, exclude={"seed", "max_cpu_hours"})
    if getattr(scenario, "slots", None) != "auto":
        values.pop("replications", None)
    return digest(values)[:8]


def one_line(error: Exception, values: Any) -> str:
    """The first complaint of an error about `values` as one line: key, value, what is allowed."""
    if not isinstance(error, ValidationError):
        return printable(error)
    first = error.errors()[0]
    path: list[str] = []
    for part in first["loc"]:  # those that are keys; the others name the alternatives that were tried
        inside = isinstance(values, Mapping) and part in values
        if inside or (isinstance(values, list | tuple) and isinstance(part, int) and part < len(values)):
            values = values[part]
            path.append(str(part))
    key, message = ".".join(path), first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return printable(message if message.startswith(key.split(".")[0]) else f"{key}.{message}")
    if first["type"] == "missing":
        return printable(f"{'.'.join([*path, str(first['loc'][-1])])}: is missing")
    shown = repr(first["input"])
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    if first["type"] == "extra_forbidden":
        return printable(f"{key} = {shown}: is not a known key")
    if first["type"] == "union_tag_invalid":
        message = "must be " + " or ".join("a " + tag.strip("'") for tag in first["ctx"]["expected_tags"].split(", "))
    return printable(f"{key} = {shown}: {message[0].lower() + message[1:]}")
