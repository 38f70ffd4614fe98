"""What tests share: the repository's root, and copies of it in which a test may edit and run the workflow."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the repository."""
    return ROOT


def copy_project(target: Path) -> Path:
    """A copy of what the workflow needs, without results."""
    for name in ("src", "workflow", "config", "profiles"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "pyproject.toml"):
        shutil.copy(ROOT / name, target / name)
    return target
