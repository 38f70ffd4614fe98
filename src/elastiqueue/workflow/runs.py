"""Which run a configuration asks for: the papers' run, that run with changes, or a run of the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elastiqueue.scenarios.reading import ConfigError, merged, read_yaml
from elastiqueue.sources import PACKAGE

# The folder of workflow/, config/ and profiles/: the checkout's root, or data of the installed package.
WORKFLOW = next(
    (folder for folder in (PACKAGE / "run_files", PACKAGE.parents[1]) if (folder / "workflow/Snakefile").is_file()),
    PACKAGE.parents[1],
)
CONTENT = ("experiments", "figures", "tables", "claims")


def given(
    config: Mapping[str, Any], files: Iterable[str | Path], changes: Mapping[str, Any], read: Any
) -> dict[str, Any]:
    """What the user has set: files, laid over each other and read by this package's rules of YAML, then `--config`.

    config, read : the configuration of the workflow, and what the workflow engine itself has read from files and
        `--config`. Where they differ another workflow has set the configuration, which is taken as it is.
    """
    try:
        if config != read:
            return dict(config)
    except RecursionError:  # an anchor that holds itself, which is refused below
        pass
    values: dict[str, Any] = {}
    for file in files:
        values = merged(values, read_yaml(_beside(Path(file))))
    return merged(values, dict(changes))


def composed(values: Mapping[str, Any], papers: str | Path, claims: str | Path) -> dict[str, Any]:
    """The whole configuration of a run.

    values : what the user's files and `--config` set. A configuration with content of its own (experiments, figures
        or claims) stands alone, unless it says `extends: papers`; every other one changes the papers' run.
    papers, claims : files of the papers' run and of its claims.
    """
    extends = values.get("extends")
    if extends not in (None, "papers"):
        raise ConfigError(f"extends = {extends!r}: must be papers, or be left out")
    if extends is None and any(values.get(key) for key in CONTENT):
        if values.get("run") == "paper":
            raise ConfigError("run = paper: must be another name; this one is the papers' run (extends: papers)")
        return {"output": f"results/{values.get('run')}", **values}
    return merged({**read_yaml(papers), "claims": _beside(Path(claims))}, dict(values))


def _beside(path: Path) -> str:
    """The path as seen from the working directory, where it is below it."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)
