"""Which source files a result depends on: digests that make caches safe and reruns exact."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# They map names to modules and compute nothing: a new model must not make the results of the others stale.
WITHOUT_EFFECT = frozenset(
    {
        "elastiqueue.scenarios.registry", "elastiqueue.models.registry", "elastiqueue.engines.registry",
        "elastiqueue.figures.schema", "elastiqueue.tables.schema", "elastiqueue.workflow.figures",
    }
)  # fmt: skip


def _file_of(module: str) -> Path | None:
    if _is_file(module):
        return Path(module)
    parts = module.split(".")
    if parts[0] != PACKAGE.name:
        return None
    path = PACKAGE.joinpath(*parts[1:])
    if path.is_dir():
        return path / "__init__.py"
    path = path.with_suffix(".py")
    return path if path.is_file() else None


@cache
def _imports(path: Path) -> frozenset[str]:
    """Modules of this package that a file imports, at any depth of its code."""
    names: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue  # imports for annotations only
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):  # statements hold statements: no expressions
            todo.extend(getattr(node, part, ()))
        if isinstance(node, ast.Import):
            names.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{name.name}" for name in node.names)
            names.add(node.module)
    return frozenset(name for name in names - WITHOUT_EFFECT if _file_of(name))


def source_files(*modules: str) -> tuple[Path, ...]:
    """The files of the modules and of all that they import from this package, sorted.

    Modules named only in a string (`elastiqueue.models.registry`) are not followed: name the model's own module too.
    """
    seen: set[Path] = set()
    todo = list(modules)
    while todo:
        path = _file_of(todo.pop())
        if path is None or path in seen:
            continue
        seen.add(path)
        todo.extend(_imports(path) if path.is_relative_to(PACKAGE) else _imports.__wrapped__(path))
    return tuple(sorted(seen))


def source_digest(*modules: str) -> str:
    """Digest (32 hex digits) of the code that the modules consist of."""
    return _digest(source_files(*modules)) if any(map(_is_file, modules)) else _digest_of(modules)


@cache
def _digest_of(modules: tuple[str, ...]) -> str:
    return _digest(source_files(*modules))


def _is_file(module: str) -> bool:
    """Whether it is a file of the user's, which may change while the package is in use."""
    return module.endswith(".py")


def kernel_files() -> list[Path]:
    """The files that compiled kernels consist of: those that import numba. A kernel uses nothing of another file."""
    return sorted(path for path in PACKAGE.rglob("*.py") if b"from numba import" in path.read_bytes())


def kernel_digest() -> str:
    """Digest of the code of the files of kernels."""
    return _digest(kernel_files())


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        text = code_of(path.read_text(encoding="utf-8"))
        name = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name
        total.update(f"{name}\0{text}\0".encode())
    return total.hexdigest()[:32]


def file_digest(path: str | Path) -> str:
    """Digest (32 hex digits) of a file of the user's: of its bytes, or of its code if it is a module.

    Raises OSError where it cannot be read.
    """
    stat = os.stat(path)
    return _file_digest(str(path), stat.st_mtime_ns, stat.st_size)


@cache
def _file_digest(path: str, changed: int, size: int) -> str:
    content = Path(path).read_bytes()
    if path.endswith(".py"):
        content = code_of(content.decode(errors="replace")).encode()
    return hashlib.sha256(content).hexdigest()[:32]


_TRIPLE = r'"""(?:[^\\"]|\\.|"(?!""))*"""'
_WITHOUT_EFFECT = re.compile(
    rf"""(?:(?:\A|(?<=:\n))[ \t]*{_TRIPLE}(?:[ \t]*(?:\#[^\n]*)?\n)+)"""  # a docstring
    rf"""|(?P<kept>{_TRIPLE}|'''(?:[^\\']|\\.|'(?!''))*'''|"(?:[^\\"\n]|\\.)*"|'(?:[^\\'\n]|\\.)*')"""  # another string
    r"""|[ \t]*(?:\#[^\n]*)?(?:\n[ \t]*(?:\#[^\n]*)?)*(?=\n|\Z)""",  # comments and empty lines
    re.DOTALL,
)


def code_of(text: str) -> str:
    """The text of a module without docstrings, comments and empty lines, an edit of which changes no result."""
    return _WITHOUT_EFFECT.sub(lambda match: match["kept"] or "", text)
