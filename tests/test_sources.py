"""Digests of sources: the cache of compiled kernels never serves code of other sources."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

from elastiqueue.sources import PACKAGE, code_of, kernel_files


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
    # copies of these files are named after the sources of the definitions that they are filled in with
    expected = {("simulators.py", name) for name in ("rates", "happen")}
    expected |= {("coupled.py", f"{name}_{i}") for name in ("rates", "happen") for i in (1, 2)}
    assert {(file, name) for file, _, name in foreign} == expected


def _dump(text: str) -> str:
    """The syntax tree without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            strings = [one for one in body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
            node.body = [one for one in body if one not in strings] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def test_comments_and_docstrings_are_no_code_and_everything_else_is() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        code = code_of(text)
        try:
            assert _dump(code) == _dump(text), path
        except SyntaxError:  # a class of nothing but a docstring
            assert "class " in code
    text = textwrap.dedent("""
        def f(x):
            a = "# no comment"  # a comment
            return {"key":
                    '''a value''', 1: x}
    """)
    plain = code_of(text)
    assert plain == code_of(text.replace("  # a comment", "\n\n# another"))
    assert plain == code_of(text.replace("(x):\n", '(x):\n    """What it does, "quoted" # and all."""\n'))
    for old, new in (("# no", "# a"), ("a value", "b"), ("1: x", "2: x"), ("    return", "      return")):
        assert plain != code_of(text.replace(old, new)), old
