"""The folders of the package stand in one order, and imports run down it: no circle, no arrow that runs up."""

from __future__ import annotations

import ast
from pathlib import Path

from elastiqueue.sources import PACKAGE

# From the bottom to the top; a folder imports from those before it, and from itself.
ORDER = (
    "errors", "sources", "sampling", "statistics", "scenarios", "theory", "results", "models", "engines", "api",
    "figures", "tables", "claims", "workflow", "cli", "__main__",
)  # fmt: skip
AT_THE_TOP = {"__init__", "__main__", "errors", "sources"}


def _folder(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join((PACKAGE.name, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _imports(path: Path, known: set[str]) -> set[str]:
    """Modules of the package that a file imports, at function level and for type checkers too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
            names.add(node.module or "")
    return names & known


def test_imports_run_down() -> None:
    files = {_name(path): path for path in PACKAGE.rglob("*.py")}
    upwards = []
    for module, path in files.items():
        for wanted in _imports(path, set(files)):
            if module == PACKAGE.name or wanted == PACKAGE.name:  # the package itself names what is imported from it
                continue
            if ORDER.index(_folder(wanted)) > ORDER.index(_folder(module)):
                upwards.append(f"{module} -> {wanted}")
    assert upwards == []


def test_nothing_lies_loose_at_the_top() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == AT_THE_TOP
