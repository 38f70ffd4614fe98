"""Snakemake's cache between checkouts: what is there is not simulated again, and nothing stale or damaged is served."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elastiqueue.results.files import read_arrays, write_arrays
from tests.checkouts import TABLE, TINY, Checkout, changed, undisturbed
from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # each test runs the workflow in copies of the project, which compile anew

CHUNKS = {"pilot": 1, "block": 2}


def simulated(log: str) -> dict[str, int]:
    """How many pilot runs and blocks were put into the cache, which is how many were simulated."""
    moved = [line.split("output file ")[1] for line in log.splitlines() if line.startswith("Moving output file")]
    return {
        "pilot": sum("/pilots/" in path and "provenance" not in path for path in moved),
        "block": sum(path.endswith(".npz to cache.") for path in moved),
    }


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that one run has filled."""
    folder = tmp_path_factory.mktemp("cache")
    checkout = Checkout(tmp_path_factory.mktemp("first") / "project", SNAKEMAKE_OUTPUT_CACHE=str(folder))
    assert simulated(checkout.run("--cache")) == CHUNKS
    assert checkout.whole() == undisturbed()
    return folder


@pytest.fixture
def second(cache: Path, tmp_path: Path) -> Checkout:
    """A second clone, with its own copy of the package and of the cache."""
    shutil.copytree(cache, tmp_path / "cache")
    return Checkout(tmp_path / "project", own_sources=True, SNAKEMAKE_OUTPUT_CACHE=str(tmp_path / "cache"))


def test_a_second_clone_simulates_nothing(second):
    assert simulated(second.run("--cache")) == {"pilot": 0, "block": 0}
    assert second.whole() == undisturbed()


def test_a_run_of_another_name_and_folder_simulates_nothing(second):
    second.configure({**TINY, "run": "renamed", "output": "elsewhere"})
    assert simulated(second.run("--cache", targets=["elsewhere/data/fig4.csv"])) == {"pilot": 0, "block": 0}
    assert (second.folder / "elsewhere/data/fig4.csv").read_bytes() == undisturbed()[TABLE]


@pytest.mark.parametrize("kinds", [("block",), ("pilot", "block")])
def test_entries_that_were_deleted_are_made_again(second, kinds):
    """The links into the cache that they leave are not in the way of a later run."""
    second.run("--cache")
    for kind in kinds:
        for entry in entries(second, kind):
            entry.unlink()
    shutil.rmtree(second.folder / "results/tiny/summaries")
    (second.folder / TABLE).unlink()
    second.run("--cache")
    assert second.whole() == undisturbed()


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"experiments": {"standby_low_load": {"grid": {"standby_rate": [1, 0.2]}}}},
        {"experiments": {"standby_low_load": {"scenario": {"buffer": 3}}}},
    ],
    ids=["seed", "grid", "scenario"],
)
@pytest.mark.slow
def test_an_edit_of_the_configuration_hits_nothing(second, changes, tmp_path):
    values = changed(TINY, changes)
    second.configure(values)
    assert simulated(second.run("--cache")) == CHUNKS
    without = Checkout(tmp_path / "without" / "project", values)
    without.run()
    assert second.whole() == without.whole()
    assert (second.folder / TABLE).read_bytes() != undisturbed()[TABLE]


def test_an_edit_of_a_kernel_hits_nothing(second):
    """Another shift in the generator, which the kernels of another module call: no number may stay as it was."""
    kernel = second.folder / "src/elastiqueue/sampling/rng.py"
    text = kernel.read_text()
    edited = text.replace("t = s1 << _17", "t = s1 << _19")
    assert edited != text
    kernel.write_text(edited)
    assert simulated(second.run("--cache")) == CHUNKS
    table = (second.folder / TABLE).read_text()
    assert table != undisturbed()[TABLE].decode()
    kernel.write_text(text)  # and back: what was there is found again, the edited version's results are not
    assert simulated(second.run("--cache")) == {"pilot": 0, "block": 0}
    assert second.files()[TABLE] == undisturbed()[TABLE]


def test_more_replications_find_the_old_ones(second):
    second.configure(changed(TINY, {"experiments": {"standby_low_load": {"scenario": {"replications": 6}}}}))
    assert simulated(second.run("--cache")) == {"pilot": 0, "block": 1}


def entries(second: Checkout, kind: str) -> list[Path]:
    found = sorted(Path(second.environment["SNAKEMAKE_OUTPUT_CACHE"]).iterdir())
    if kind == "block":
        return [path for path in found if path.suffix == ".npz"]
    return [path for path in found if b'"windows": [' in path.read_bytes() and b'"digest"' in path.read_bytes()]


@pytest.mark.parametrize("kind", ["block", pytest.param("pilot", marks=pytest.mark.slow)])
def test_a_damaged_entry_is_named_and_made_again_once_deleted(second, kind):
    entry = entries(second, kind)[0]
    content = bytearray(entry.read_bytes())
    where = content.index(b"warm_up") + 11 if kind == "pilot" else len(content) // 2
    content[where] ^= 1  # one bit
    entry.write_bytes(content)
    if kind == "pilot":  # its blocks come from the cache too, and need it no more, unless they are gone
        for block in entries(second, "block"):
            block.unlink()
    log = second.fail("--cache")
    ours = [line for line in log.splitlines() if "elastiqueue: " in line]
    assert ours
    assert all("is damaged" in line and str(entry) in line for line in ours)
    entry.unlink()
    second.run("--cache")
    assert second.whole() == undisturbed()


def test_entries_that_changed_places_are_noticed(second):
    """Whole files, yet of other replications: check sums see nothing, the record of what they hold does."""
    one, two = entries(second, "block")
    shutil.copy(one, two)
    assert "elastiqueue: " in (log := second.fail("--cache"))
    assert "delete" in log


def test_every_byte_of_a_block_is_guarded(tmp_path):
    """Any single flipped bit is refused or changes nothing that is read."""
    path = tmp_path / "block.npz"
    meta, arrays = {"first": 0}, {"totals_0": np.linspace(0, 1, 40).reshape(4, 10)}
    write_arrays(path, meta, arrays)
    content = path.read_bytes()
    refused = 0
    for k in range(len(content)):
        for bit in (1, 128):
            damaged = bytearray(content)
            damaged[k] ^= bit
            path.write_bytes(damaged)
            try:
                found, values = read_arrays(path)
            except ValueError:
                refused += 1
                continue
            assert found == meta
            assert values.keys() == arrays.keys()
            assert np.array_equal(values["totals_0"], arrays["totals_0"])
    assert refused > len(content)  # more than half of all flips: the arrays and their headers


@pytest.fixture
def cold(tmp_path: Path) -> dict[str, str]:
    return {**Checkout(tmp_path / "project").environment, "XDG_CACHE_HOME": str(tmp_path / "kernels")}


@pytest.mark.slow
def test_many_jobs_may_compile_the_kernels_at_once(cold, tmp_path):
    """Jobs that start together with nothing compiled: all succeed, all write the same bytes, and so does a late one."""
    cold.pop("NUMBA_CACHE_DIR", None)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "{model: tabs, servers: 20, arrival_rate: 0.3, standby_rate: 0.1, setup_rate: 0.1, horizon: 9, replications: 3}"
    )
    cold["PYTHONPATH"] = str(ROOT / "src")

    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "elastiqueue", "simulate", str(scenario), "--json", str(tmp_path / name)]
        return subprocess.Popen(command, env=cold, stdout=subprocess.DEVNULL)

    jobs = [start(f"{k}.json") for k in range(4)]
    assert [job.wait() for job in jobs] == [0] * 4
    assert start("late.json").wait() == 0
    metrics = {path.read_text().split('"provenance"')[0] for path in tmp_path.glob("*.json")}
    assert len(metrics) == 1
    assert len([*(tmp_path / "kernels/elastiqueue").iterdir()]) == 1  # one folder, named after the sources
