"""Scenario files: read, changed key by key, validated; every mistake is answered by one line.

The pydantic models of `scenarios` and `workflow.experiments` are the only source of truth: the JSON
schema in `config/schema.json` is exported from them, and its descriptions are the manual of the parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import ValidationError

from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.scenarios.base import ConfigError, Strict, one_line
from elastiqueue.scenarios.cluster import ClusterScenario, SingleTypeScenario
from elastiqueue.scenarios.registry import MODELS, scenario_class
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
KINDS: dict[str, type[Scenario]] = {name: scenario_class(name) for name in MODELS}


def scenario_from(values: Mapping[str, Any]) -> Scenario:
    """Validate a scenario; raises ConfigError with one line."""
    kind = scenario_class(values.get("model"))
    try:
        scenario: Scenario = kind.model_validate(values)
        return scenario
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
    """YAML by the core schema of version 1.2, and `<<`: 010 is 10, 1e2 a number; 1:30, 2024-05-01, no and on are texts.

    Refuses a key that a mapping has twice or that is not text, and tags beyond those of JSON's values.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Called before a mapping is made; then `<<` brings in what it merges, which may repeat its own keys."""
        checked = self.__dict__.setdefault("checked", set())
        seen: set[str] = set()
        for key, _ in () if id(node) in checked else node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                shown = getattr(key, "value", "") if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise yaml.constructor.ConstructorError(
                    None, None, f"has a key that is not text: {shown}", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"has {key.value} twice", key.start_mark)
            seen.add(key.value)
        checked.add(id(node))
        super().flatten_mapping(node)

    def plain(self, node: yaml.ScalarNode) -> Any:
        """The value of a number, a truth value or null."""
        text, tag = str(self.construct_scalar(node)), node.tag.removeprefix(_TAG)
        if not re.fullmatch(_PLAIN[tag][0], text):
            raise ValueError(f"{text} is not a valid {tag}")
        if tag == "int":
            if len(text) > MAX_DIGITS:
                raise ValueError(f"{text[:10]}... has {len(text):,} digits: at most {MAX_DIGITS} are allowed")
            return int(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
        if tag == "float":
            return float(re.sub(r"\.(?=[in])", "", text.lower()))  # .inf and .nan
        return {"n": None, "~": None, "": None, "t": True, "f": False}[text[:1].lower()]


_TAG = "tag:yaml.org,2002:"
_PLAIN = {  # YAML 1.2, section 10.3.2: what a text without quotes means, and the characters with which it may begin
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    "merge": (r"<<", ["<"]),
}
for _name, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)
    _Loader.add_constructor(_TAG + _name, _Loader.plain)
for _name, _method in (("str", "scalar"), ("seq", "yaml_seq"), ("map", "yaml_map")):
    _Loader.add_constructor(_TAG + _name, getattr(_Loader, f"construct_{_method}"))
_Loader.add_constructor(None, _Loader.construct_undefined)

MAX_DEPTH, MAX_VALUES = 50, 1_000_000  # of what a file holds, with aliases written out
MAX_DIGITS = 1000


def _count(value: Any, depth: int, known: dict[int, int]) -> int:
    """Number of values in a value; raises ValueError where it holds itself, is nested too deep or too large."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        if depth == MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} deep, or an anchor holds itself")
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(each, depth + 1, known) for each in inner)
    if known[id(value)] > MAX_VALUES:
        raise ValueError(f"holds more than {MAX_VALUES:,} values")
    return known[id(value)]


def parse_yaml(text: str, name: str) -> Any:
    """The value of a YAML text; raises ConfigError with one line that begins with the name."""
    try:
        value = yaml.load(text, _Loader)
        _count(value, 0, {})
        return value
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:  # wrong tags
        complaint = str(error).replace(' in "<unicode string>",', " at")
        raise ConfigError(f"{name}: is not YAML: {complaint}") from None


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping; relative paths in it are taken from its folder. Raises ConfigError with one line."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start + 1} is not UTF-8: must be text in this encoding") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    values = parse_yaml(text, str(path))
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: must hold a mapping of keys to values")
    _take_paths_from(path.parent, values, set())
    return values


def _take_paths_from(folder: Path, value: Any, seen: set[int]) -> None:
    """Put a folder before the files that traces, models and `claims` name, in place."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        part = str(key).rpartition(".")[2]
        if part in ("trace", "model", "claims"):
            value[key] = (
                [_beside(folder, part, each) for each in inner]
                if isinstance(inner, list)
                else _beside(folder, part, inner)
            )
        else:
            _take_paths_from(folder, inner, seen)


def _beside(folder: Path, key: str, value: Any) -> Any:
    is_path = isinstance(value, str) and (key != "model" or value.endswith(".py"))
    return str(folder / value) if is_path else value


def read_scenario(path: str | Path, changes: Mapping[str, Any] | None = None) -> Scenario:
    """Read and validate a scenario file; `changes` are dotted keys set on top of it.

    A relative path in the file is taken from its folder, one in `changes` from the working directory.
    """
    values = read_yaml(path)
    for key, value in (changes or {}).items():
        set_key(values, key, value)
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
