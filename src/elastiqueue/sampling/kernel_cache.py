"""Where compiled kernels are kept, and what guards them: one folder per digest of their sources.

Numba looks at the file of a kernel but not at those of its callees. A folder per digest never serves machine code of
another version, whoever chose its root (NUMBA_CACHE_DIR, else the user's cache), and concurrent jobs of two versions do
not meet. Numba does not check what it reads either: a damaged file is named, removed, and its kernel compiled anew.
All this waits until numba is imported, so that a command without kernels does not pay for it.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from elastiqueue.errors import printable
from elastiqueue.sources import PACKAGE, kernel_digest


def use_kernel_cache() -> None:
    """Have numba keep compiled kernels in their folder, and check the files of it."""
    if "numba.core.caching" in sys.modules:  # imported before this package
        _guard(sys.modules["numba.core.caching"])
    elif not any(isinstance(finder, _Guard) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Guard())


def _folder() -> Path:
    inside = Path(PACKAGE.name, kernel_digest())
    for root in _roots():
        folder = root / inside
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError):
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    shared = Path(tempfile.gettempdir()) / f"{PACKAGE.name}-{os.getuid()}"
    if _is_private(shared):
        (shared / inside).mkdir(parents=True, exist_ok=True)
        return shared / inside
    folder = Path(tempfile.mkdtemp(prefix=f"{PACKAGE.name}-"))  # for this process and its children
    process = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == process else None)
    return folder


def _roots() -> Iterator[Path]:
    given = os.environ.get("NUMBA_CACHE_DIR", "")
    if given:  # perhaps by a parent process, of this version or of another one
        yield Path(re.sub(rf"/{PACKAGE.name}/[0-9a-f]{{32}}/?$", "", given)).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # unchanged for a user without a home
    if os.path.isabs(home):
        yield Path(home)


def _is_private(folder: Path) -> bool:
    """Whether the folder, made if it is missing, is the user's and closed to others: its code is run."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077


class _Guard(MetaPathFinder):
    """Notices when numba is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "numba.core.caching":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def guarded(module: Any) -> None:
            load(module)
            _guard(module)

        spec.loader.exec_module = guarded  # type: ignore[method-assign]
        return spec


def _guard(caching: Any) -> None:
    """Set the folder, make numba check the files in it, and take a disk that is full for no error."""
    os.environ["NUMBA_CACHE_DIR"] = caching.config.CACHE_DIR = str(_folder())  # of children and of numba
    files = caching.IndexDataCacheFile
    load_index, save = files._load_index, files.save
    refused: list[OSError] = []  # the first of them is said

    def removed(path: str) -> None:
        print(f"elastiqueue: {path}: is damaged; removed, its kernel is compiled anew", file=sys.stderr)
        Path(path).unlink(missing_ok=True)

    def checked_index(self: Any) -> Any:
        try:
            return load_index(self)
        except OSError:
            raise
        except Exception:  # whatever an unpickler raises
            removed(self._index_path)
            return {}

    def load_data(self: Any, name: str) -> Any:
        path = self._data_path(name)
        content = Path(path).read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            removed(path)
            raise FileNotFoundError(path)
        return pickle.loads(content[32:])

    def save_data(self: Any, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def save_or_say(self: Any, key: Any, data: Any) -> None:
        try:
            save(self, key, data)
        except OSError as error:
            if not refused:
                why = error.strerror or printable(error)
                print(f"elastiqueue: {self._index_path}: {why}; compiled kernels are not kept", file=sys.stderr)
            refused.append(error)

    files._load_index, files._load_data, files._save_data = checked_index, load_data, save_data
    files.save = save_or_say
