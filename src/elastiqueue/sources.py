"""Which source files a result depends on: digests that make caches safe and reruns exact."""

from __future__ import annotations

import ast
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# They map names to modules and compute nothing: a new model must not make the results of the others stale.
WITHOUT_EFFECT = frozenset({"elastiqueue.models.registry", "elastiqueue.engines.registry"})


def _file_of(module: str) -> Path | None:
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
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue  # imports for annotations only
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):  # statements hold statements: no expressions
            todo.extend(getattr(node, part, ()))
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{name.name}" for name in node.names)
            found.add(node.module)
    return frozenset(name for name in found - WITHOUT_EFFECT if _file_of(name))


@cache
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
        todo.extend(_imports(path))
    return tuple(sorted(seen))


@cache
def source_digest(*modules: str) -> str:
    """Digest (32 hex digits) of the sources that the modules consist of."""
    total = hashlib.sha256()
    for path in source_files(*modules):
        total.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:32]


def kernel_files() -> list[Path]:
    """The files that compiled kernels consist of: those that import numba. A kernel uses nothing of another file."""
    return sorted(path for path in PACKAGE.rglob("*.py") if b"from numba import" in path.read_bytes())


def kernel_digest() -> str:
    """Digest of the files of kernels."""
    total = hashlib.sha256()
    for path in kernel_files():
        total.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:32]


def use_kernel_cache() -> None:
    """Keep compiled kernels in a folder named after their sources, unless NUMBA_CACHE_DIR says where.

    Numba looks at the file of a kernel but not at those of its callees; a folder per source digest never serves
    machine code of another version, and concurrent jobs of two versions do not meet.
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = root / PACKAGE.name / kernel_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"{PACKAGE.name}-{os.getuid()}" / kernel_digest()
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
