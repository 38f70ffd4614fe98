"""What the commands share: a scenario read with `--set`, and the file that `--json` names."""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

from elastiqueue.scenarios.reading import ConfigError, Scenario, parse_yaml, read_scenario


def read(options: argparse.Namespace) -> Scenario:
    changes: dict[str, Any] = {}
    for text in options.set:
        key, separator, value = text.partition("=")
        if not separator or not all(part.strip() for part in key.split(".")):
            raise ConfigError(f"--set = {text}: must be KEY=VALUE, with a KEY such as servers or arrivals.load")
        changes[key] = parse_yaml(value, f"--set {key} = {value}")
    check_json(options.json)
    return read_scenario(options.scenario, changes)


def check_json(file: str | None) -> None:
    """Raise ConfigError unless a file of this name can be written, found out by making one beside it."""
    if file is None or file == "-":
        return
    try:
        path = Path(file)
        if file.endswith("/") or (path.exists() and not path.is_file()):
            raise ConfigError(f"--json = {file!r}: must be a file, or - for standard output")
        if not path.parent.is_dir():
            raise ConfigError(f"--json = {file}: its folder must exist")
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--json = {file}: must be a file that can be written: {getattr(error, 'strerror', None) or error}"
        ) from None


def finite(value: Any) -> Any:
    """The same with null for what is not a finite number, which JSON cannot say."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
