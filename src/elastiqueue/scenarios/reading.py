"""Scenario files: read, changed key by key, validated; every mistake is answered by one line.

The pydantic models of `scenarios` and `workflow.experiments` are the only source of truth: the JSON
schema in `config/schema.json` is exported from them, and its descriptions are the manual of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from elastiqueue.scenarios.autoscaling import SERVICE_MODELS, ServiceScenario
from elastiqueue.scenarios.base import ConfigError, Strict, one_line
from elastiqueue.scenarios.cluster import ClusterScenario, SingleTypeScenario
from elastiqueue.scenarios.units import INSTEAD_OF

__all__ = [
    "KINDS",
    "ClusterScenario",
    "ConfigError",
    "Scenario",
    "ServiceScenario",
    "SingleTypeScenario",
    "Strict",
    "changed",
    "one_line",
    "read_scenario",
    "read_yaml",
    "scenario_from",
    "set_key",
]  # fmt: skip

Scenario = ServiceScenario | ClusterScenario | SingleTypeScenario
KINDS: dict[str, type[Scenario]] = {
    **dict.fromkeys(SERVICE_MODELS, ServiceScenario),
    "cluster": ClusterScenario,
    "single_type": SingleTypeScenario,
}


def scenario_from(values: Mapping[str, Any]) -> Scenario:
    """Validate a scenario; raises ConfigError with one line."""
    model = values.get("model")
    if not isinstance(model, str) or model not in KINDS:
        raise ConfigError(f"model = {model!r}: must be one of {', '.join(KINDS)}")
    try:
        return KINDS[model].model_validate(values)
    except (ValidationError, ValueError) as error:
        raise ConfigError(one_line(error, values)) from None


def set_key(values: dict[str, Any], dotted: str, value: Any) -> None:
    """Set `a.b.c` in nested mappings, making those that are not there."""
    for period, rate in INSTEAD_OF.items():  # one replaces the other
        if dotted in (period, rate):
            values.pop(rate if dotted == period else period, None)
    *path, last = dotted.split(".")
    for part in path:
        inner = values.get(part)
        values[part] = dict(inner) if isinstance(inner, Mapping) else {}
        values = values[part]
    values[last] = value


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml takes a tenth of the time
    """Refuses a key that a mapping has twice."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Called before a mapping is made; then `<<` brings in what it merges, which may repeat its own keys."""
        checked = self.__dict__.setdefault("checked", set())
        seen: set[tuple[str, str]] = set()
        for key, _ in () if id(node) in checked else node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"has {key.value} twice", key.start_mark)
                seen.add((key.tag, key.value))
        checked.add(id(node))
        super().flatten_mapping(node)


def parse_yaml(text: str, name: str) -> Any:
    """The value of a YAML text; raises ConfigError with one line that begins with the name."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:  # wrong tags
        raise ConfigError(f"{name}: is not YAML: {error}") from None


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping; raises ConfigError with one line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    values = parse_yaml(text, str(path))
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold a mapping of keys to values")
    return values


def read_scenario(path: str | Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read and validate a scenario file; `changes` are dotted keys set on top of it.

    A relative path of a trace is taken from the folder of the scenario file.
    """
    values = read_yaml(path)
    for key, value in (changes or {}).items():
        set_key(values, key, value)
    arrival = values.get("arrival_rate")
    if isinstance(arrival, dict) and isinstance(arrival.get("trace"), str):
        values["arrival_rate"] = {**arrival, "trace": str(Path(path).parent / arrival["trace"])}
    return scenario_from(values)


def changed(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with dotted keys set on top of it; raises ConfigError with one line."""
    values = scenario.model_dump(exclude_unset=True)
    for key, value in changes.items():
        set_key(values, key, value)
    return scenario_from(values)


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """One configuration on top of another, mapping by mapping, as the workflow engine does it."""
    result = dict(values)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result
