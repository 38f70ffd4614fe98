"""What all scenarios share: strict pydantic models, and errors of one line."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elastiqueue.errors import ConfigError

__all__ = ["ConfigError", "Positive", "Rate", "Strict", "one_line"]

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Strict(BaseModel):
    """A model that refuses unknown keys and cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def one_line(error: Exception, value: Any = None) -> str:
    """The first complaint of an error as one line: key, value, what is allowed."""
    if not isinstance(error, ValidationError):
        return " ".join(str(error).split())
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return " ".join(message.split())
    path = [str(part) for part in first["loc"]]
    if path[:1] in (["arrival_rate"], ["service"]):
        del path[1:2]  # the tag of the alternative that was tried
    key = ".".join(part for part in path if "[" not in part and "-" not in part)
    if first["type"] == "extra_forbidden":
        return f"{key} = {first['input']!r}: is not a known key"
    if first["type"] == "missing":
        return f"{key}: is missing"
    return f"{key} = {first['input']!r}: {message[0].lower() + message[1:]}"
