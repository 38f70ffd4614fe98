"""The same bits whatever the cores, the blocks and the processor; where a library rounds otherwise, how far it goes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from elastiqueue.results.files import read_arrays
from tests.checkouts import TABLE, TINY, Checkout, changed, undisturbed


def blocks_of(size: int) -> dict:
    return changed(TINY, {"experiments": {"standby_low_load": {"block": size, "scenario": {"replications": 8}}}})


@pytest.mark.slow
def test_cores_and_blocks_change_no_byte(tmp_path):
    """Blocks of 1, of 7 and of all 8 replications, by one core and by two."""
    results = []
    for size, cores in ((1, 2), (7, 1), (8, 2)):
        checkout = Checkout(tmp_path / f"{size}" / "project", blocks_of(size))
        checkout.run(cores=cores)
        results.append({name: data for name, data in checkout.whole().items() if "/blocks/" not in name})
    assert {name.rsplit("/", 1)[0] for name in results[0]} >= {f"results/tiny/{part}" for part in ("summaries", "data")}
    assert results[0] == results[1] == results[2]


def plain_variants() -> dict[str, str]:
    """Environment in which kernels are compiled for a generic processor, and libraries take their plain code."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name]),
        "OPENBLAS_CORETYPE": "Nehalem",
    }


@pytest.mark.slow
def test_a_generic_processor_gives_the_same_bytes(tmp_path):
    """By one core, and blocks and pilots at full precision included."""
    checkout = Checkout(tmp_path / "project", **plain_variants())
    checkout.run(cores=1)
    files, usual = checkout.whole(), undisturbed()
    assert files.keys() == usual.keys()
    assert [name for name in usual if files[name] != usual[name]] == []


@pytest.mark.slow
def test_without_fused_multiply_add_only_roundings_differ(tmp_path):
    """glibc's log, exp and sin round otherwise on processors without FMA (before 2013), by a unit in the last place.

    The events are the same; sums of n of their durations differ by at most n units: 1e-11 for the 1e5 events here.
    """
    tunables = "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA_Usable,-FMA,-FMA4"
    checkout = Checkout(tmp_path / "project", **plain_variants(), GLIBC_TUNABLES=tunables)
    checkout.run(cores=1)
    files, usual = checkout.whole(), undisturbed()
    assert files.keys() == usual.keys()
    assert files[TABLE] == usual[TABLE]  # ten digits
    for path in (checkout.folder / "results").rglob("*.npz"):
        (tmp_path / "usual.npz").write_bytes(usual[os.path.relpath(path, checkout.folder)])
        (meta, arrays), (usual_meta, usual_arrays) = read_arrays(path), read_arrays(tmp_path / "usual.npz")
        assert meta == usual_meta
        for name, values in arrays.items():
            np.testing.assert_allclose(values, usual_arrays[name], rtol=1e-11, atol=0)
