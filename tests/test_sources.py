"""Digests of sources: the cache of compiled kernels never serves code of other sources."""

from __future__ import annotations

import ast
from pathlib import Path

from elastiqueue.sources import PACKAGE, kernel_files


def _kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions with a decorator `njit` or `njit(...)`."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(one) for one in node.decorator_list)
    ]


def _imported(tree: ast.Module) -> dict[str, Path]:
    """Name -> file of what a module imports from this package."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            inside = (node.module or "").split(".")[1:]
            for alias in node.names:
                module = PACKAGE.joinpath(*inside, f"{alias.name}.py")
                file = module if module.is_file() else PACKAGE.joinpath(*inside).with_suffix(".py")
                found[alias.asname or alias.name] = file
    return found


def test_kernels_use_nothing_outside_the_files_that_their_cache_is_keyed_by() -> None:
    known, kernels, foreign = set(kernel_files()), 0, []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        imported = _imported(tree)
        for kernel in _kernels(tree):
            kernels += 1
            names = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
            foreign += [(path.name, kernel.name, name) for name in names & set(imported) if imported[name] not in known]
    assert kernels > 40
    assert foreign == []
