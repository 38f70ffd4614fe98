"""Which run a configuration asks for: the papers' run, that run with changes, or a run of the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elastiqueue.scenarios.reading import ConfigError, merged, read_yaml

CONTENT = ("experiments", "figures", "tables", "claims")


def composed(values: Mapping[str, Any], papers: str | Path, claims: str | Path) -> dict[str, Any]:
    """The whole configuration of a run.

    values : what the user's files and `--config` set. A configuration with content of its own (experiments, figures,
        tables or claims) stands alone, unless it says `extends: papers`; every other one changes the papers' run.
    papers, claims : files of the papers' run and of its claims.
    """
    extends = values.get("extends")
    if extends not in (None, "papers"):
        raise ConfigError(f"extends = {extends!r}: must be papers, or be left out")
    if extends is None and any(values.get(key) for key in CONTENT):
        return {"output": f"results/{values.get('run')}", **values}
    return merged({**read_yaml(papers), "claims": _beside(Path(claims))}, dict(values))


def _beside(path: Path) -> str:
    """The path as seen from the working directory, where it is below it."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)
