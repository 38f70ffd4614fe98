"""Crashes, full disks, damaged files: a rerun gives the bytes of an undisturbed run, or one line says what is wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.checkouts import (
    FIGURE,
    LONG,
    TABLE,
    Checkout,
    executed,
    kill_all_in,
    processes_in,
    snakemake_of,
    undisturbed,
)

pytestmark = pytest.mark.slow  # each test runs the workflow in copies of the project, which compile anew

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs, which only root may do")


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def steps_running(checkout: Checkout, step: str) -> int:
    count = 0
    for pid in processes_in(checkout.folder):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        count += words[1:4] == [b"-m", b"elastiqueue.workflow.steps", step.encode()]
    return count


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[Checkout]:
    checkout = Checkout(tmp_path / "project", LONG)
    yield checkout
    kill_all_in(checkout.folder)
    for run in checkout.started:
        run.wait()


def kill_snakemake(checkout: Checkout, run: subprocess.Popen[str]) -> None:
    """SIGKILL to snakemake alone, while two simulations run."""
    wait_until(lambda: steps_running(checkout, "block") == 2)
    os.kill(snakemake_of(checkout.folder), signal.SIGKILL)
    run.wait()
    assert steps_running(checkout, "block") > 0  # orphans, which go on to write


@pytest.mark.slow
def test_killed_and_resumed_at_once_while_orphans_still_write(long_run):
    kill_snakemake(long_run, long_run.start())
    locked = long_run.fail()
    assert "--unlock" in locked  # it says what to do
    long_run.unlock()
    assert "simulate" in executed(long_run.run())
    wait_until(lambda: not processes_in(long_run.folder))
    assert long_run.whole() == undisturbed(long=True)


@pytest.mark.slow
def test_killed_with_all_its_jobs_and_resumed(long_run):
    run = long_run.start()
    wait_until(lambda: steps_running(long_run, "block") == 2)
    kill_all_in(long_run.folder)
    run.wait()
    long_run.unlock()
    long_run.run()
    assert long_run.files() == undisturbed(long=True)


@pytest.mark.slow
def test_terminated_once_snakemake_ends_its_jobs_and_resumes_without_unlocking(long_run):
    run = long_run.start()
    wait_until(lambda: steps_running(long_run, "block") == 2)
    os.kill(snakemake_of(long_run.folder), signal.SIGTERM)
    assert run.wait() != 0
    wait_until(lambda: not processes_in(long_run.folder))
    long_run.run()
    assert long_run.whole() == undisturbed(long=True)


def test_a_second_run_in_the_same_folder_is_refused(long_run):
    """The first run is stopped in its tracks meanwhile: a fast one would be over before the second one looks."""
    run = long_run.start()
    wait_until(lambda: steps_running(long_run, "block") > 0)
    first = snakemake_of(long_run.folder)
    os.kill(first, signal.SIGSTOP)
    try:
        assert "cannot be locked" in long_run.fail()
    finally:
        os.kill(first, signal.SIGCONT)
        os.kill(first, signal.SIGTERM)
        run.wait()


def test_two_runs_at_once_in_two_checkouts_with_one_cache(tmp_path):
    (tmp_path / "cache").mkdir()
    checkouts = [
        Checkout(tmp_path / name / "project", SNAKEMAKE_OUTPUT_CACHE=str(tmp_path / "cache")) for name in ("a", "b")
    ]
    runs = [checkout.start("--cache", cores=1) for checkout in checkouts]
    for run, checkout in zip(runs, checkouts, strict=True):
        assert run.wait() == 0, checkout.log
        assert checkout.whole() == undisturbed()


def test_the_folder_may_have_any_name(tmp_path):
    """Of the checkout and of the environment: braces, quotes, and what shells and formats take for their own."""
    checkout = Checkout(tmp_path / "a {b} 'c' \"d\" %s $HOME é" / "project")
    environment = checkout.folder / ".venv"
    environment.symlink_to(sys.prefix)
    checkout.python = str(environment / "bin/python")
    checkout.run()
    assert checkout.whole() == undisturbed()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@root_only
@pytest.mark.parametrize("free_kb", [0, 12])
def test_a_full_disk_is_named_and_a_rerun_completes(small_disk, tmp_path, free_kb):
    """The results alone are on the disk: a step hits its end, at its first file or a later one."""
    checkout = Checkout(tmp_path / "project")
    (small_disk / "results").mkdir()
    (checkout.folder / "results").symlink_to(small_disk / "results")
    stuff = small_disk / "stuff"
    fill(stuff, small_disk, free_kb)
    log = checkout.fail()
    assert "No space left on device" in log
    full = checkout.files()
    assert all(full[name] == undisturbed()[name] for name in full)  # whole files only
    stuff.unlink()
    checkout.run()
    assert checkout.whole() == undisturbed()


@root_only
def test_a_full_disk_under_snakemake_itself(small_disk):
    checkout = Checkout(small_disk / "project")
    checkout.start("-n").wait()  # what it keeps of a first look is there
    stuff = small_disk / "stuff"
    fill(stuff, small_disk, 64)
    assert checkout.start().wait() != 0
    full = checkout.files()
    stuff.unlink()
    assert all(full[name] == undisturbed()[name] for name in full)
    checkout.start("--unlock").wait()
    checkout.run()
    assert checkout.whole() == undisturbed()


@root_only
def test_a_full_disk_under_the_cache_is_one_line(small_disk, tmp_path):
    checkout = Checkout(tmp_path / "project", SNAKEMAKE_OUTPUT_CACHE=str(small_disk))
    stuff = small_disk / "stuff"
    fill(stuff, small_disk, 0)
    log = checkout.fail("--cache")
    assert f"elastiqueue: {small_disk}/" in log
    assert "No space left on device" in log
    assert "Traceback" not in log
    stuff.unlink()
    checkout.run("--cache")
    assert checkout.whole() == undisturbed()


def fill(stuff: Path, disk: Path, free_kb: int) -> None:
    """Fill a disk with zeros up to so many free kilobytes."""
    with open(stuff, "wb") as file:
        file.write(bytes(shutil.disk_usage(disk).free - 1024 * free_kb))


BLOCK = "blocks/standby_low_load/*/*.npz"
PILOT = "pilots/standby_low_load/*.json"
EDITED = ["summaries/standby_low_load.csv", "computed/standby_low_load_fluid.csv", "data/fig4.csv"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("finished") / "project")
    checkout.run(targets=[FIGURE])
    return checkout


@pytest.mark.parametrize("pattern", [BLOCK, PILOT])
def test_a_file_cut_by_hand_is_refused_and_made_again_once_deleted(finished, pattern):
    (path,) = sorted((finished.folder / "results/tiny").glob(pattern))[:1]
    before = finished.files()
    path.write_bytes(path.read_bytes()[:-5])
    log = finished.fail(targets=[FIGURE])
    ours = [line for line in log.splitlines() if "elastiqueue: " in line]
    assert ours
    assert all("is damaged" in line and path.name in line for line in ours)
    path.unlink()
    finished.run(targets=[FIGURE, TABLE])
    after = finished.files()
    assert after.items() <= before.items()  # snakemake makes nothing again that what is wanted does not need
    finished.run(targets=[name for name in before if "/." not in name])
    assert finished.files() == before


@pytest.mark.parametrize("name", EDITED)
def test_a_table_that_lost_a_line_is_made_again(finished, name):
    """Even where the file looks as old as before, as in a copy that keeps the times."""
    path, before = finished.folder / "results/tiny" / name, finished.files()
    times = path.stat()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    finished.run(targets=[FIGURE])
    assert finished.files() == before


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[tuple[Checkout, Callable[[], None]]]:
    """A checkout whose folder of results refuses writing, and what makes it accept again."""
    checkout = Checkout(tmp_path / "project")
    results = checkout.folder / "results"
    results.mkdir()
    if os.geteuid() == 0:  # permissions do not bind root, a read-only file system does
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(results)]).returncode:
            pytest.skip("no tmpfs can be mounted here")

        def accept() -> None:
            subprocess.run(["mount", "-o", "remount,rw", str(results)], check=True)
    else:
        results.chmod(0o555)

        def accept() -> None:
            results.chmod(0o755)

    yield checkout, accept
    if os.geteuid() == 0:
        subprocess.run(["umount", "--lazy", str(results)], check=True)


def test_an_unwritable_output_folder_is_named(unwritable):
    checkout, accept = unwritable
    log = checkout.fail()
    assert "results/" in log
    assert "Read-only file system" in log or "Permission denied" in log
    assert not checkout.files()
    accept()
    checkout.run()
    assert checkout.whole() == undisturbed()
