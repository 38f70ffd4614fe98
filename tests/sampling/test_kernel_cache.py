"""Compiled kernels: a folder per version under any root, damage named and mended, nobody else's code run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elastiqueue.sampling import kernel_cache
from elastiqueue.sources import kernel_digest

CODE = """
import numpy as np, elastiqueue
from elastiqueue.sampling.rng import next_word
print(next_word(np.arange(1, 5, dtype=np.uint64)))
"""


def _draw(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )


def test_damaged_files_are_named_and_made_again(tmp_path):
    first = _draw(NUMBA_CACHE_DIR=str(tmp_path))
    folder = tmp_path / "elastiqueue" / kernel_digest()
    files = [path for path in folder.rglob("*.nb[ci]") if "next_word" in path.name]
    assert {path.suffix for path in files} == {".nbc", ".nbi"}
    for path in files:
        content = path.read_bytes()
        for damaged in (content[:40], content[:500] + bytes([content[500] ^ 1]) + content[501:]):
            if path.suffix == ".nbi" and damaged != content[:40]:
                continue
            path.write_bytes(damaged)
            again = _draw(NUMBA_CACHE_DIR=str(tmp_path))
            assert again.stdout == first.stdout
            assert again.stderr == f"elastiqueue: {path}: is damaged; removed, its kernel is compiled anew\n"
    assert _draw(NUMBA_CACHE_DIR=str(tmp_path)).stderr == ""


def test_a_folder_of_another_version_is_a_root_of_this_one(tmp_path, monkeypatch):
    for given in (tmp_path, tmp_path / "elastiqueue" / ("0" * 32), tmp_path / "elastiqueue" / kernel_digest()):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(given))
        assert kernel_cache._folder() == tmp_path / "elastiqueue" / kernel_digest()


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No folder of the user's takes files; the folder for temporary files is tmp_path."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/dev/null/nowhere")
    monkeypatch.setattr(kernel_cache.tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"elastiqueue-{os.getuid()}"


def test_the_fallback_is_closed_to_others(nowhere):
    assert kernel_cache._folder() == nowhere / "elastiqueue" / kernel_digest()
    assert nowhere.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trap", ["open", "link", "file"])
def test_a_fallback_that_others_could_write_to_is_not_used(nowhere, tmp_path, trap):
    if trap == "open":
        nowhere.mkdir(mode=0o777)
        nowhere.chmod(0o777)
    elif trap == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        nowhere.symlink_to(tmp_path / "theirs")
    else:
        nowhere.write_text("")
    folder = kernel_cache._folder()
    assert not folder.is_relative_to(nowhere)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Path(folder).parent == tmp_path
