"""Both profiles on a real Slurm of four nodes: the bytes of a local run, also after what befalls jobs and nodes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.checkouts import LIMIT, LONG, TABLE, TINY, Checkout, kill_all_in, processes_in, snakemake_of, undisturbed
from tests.conftest import ROOT

pytestmark = pytest.mark.slurm
SCRIPT = Path(__file__).with_name("slurm.sh")
LINES = {"my_account": "test", "my_partition": "main"}
PACKAGES = {
    "slurm": "snakemake_executor_plugin_slurm",
    "slurm-generic": "snakemake_executor_plugin_cluster_generic",
}


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Slurm that runs while the tests do."""
    folder = tmp_path_factory.mktemp("slurm") / "state"
    started = subprocess.run(["bash", str(SCRIPT), "up", str(folder)], capture_output=True, text=True)
    if started.returncode == 3:
        pytest.skip(started.stderr.strip())
    try:
        assert started.returncode == 0, started.stderr
        os.environ["SLURM_CONF"] = started.stdout.split()[-1]
        yield
    finally:
        subprocess.run(["bash", str(SCRIPT), "down", str(folder)], check=True)
        os.environ.pop("SLURM_CONF", None)


class Cluster(Checkout):
    """A checkout with a profile copied and its marked lines edited, as the documentation says."""

    def __init__(self, folder: Path, profile: str, values: dict = TINY, cpus: int = 2) -> None:
        super().__init__(folder, values)
        mine = self.folder / "profiles/mycluster/profile.yaml"
        shutil.copytree(self.folder / "profiles" / profile, mine.parent)
        text, count = re.subn("my_account|my_partition", lambda name: LINES[name[0]], mine.read_text())
        assert count == 2
        mine.write_text(re.sub(r"(?m)^cores: (\d+)", lambda found: f"cores: {min(cpus, int(found[1]))}", text))
        self.extra = ["--slurm-init-seconds-before-status-checks", "3"] if profile == "slurm" else []

    def start(self, *arguments: str, **options) -> subprocess.Popen[str]:
        if "--unlock" in arguments:
            return super().start(*arguments, **options)
        return super().start("--profile", "profiles/mycluster", *self.extra, *arguments, **options)


@pytest.fixture(params=PACKAGES)
def profile(request: pytest.FixtureRequest, slurm: None) -> str:
    pytest.importorskip(PACKAGES[request.param], reason=f"no {PACKAGES[request.param]}: pip install --group hpc")
    return request.param


@pytest.fixture
def long_run(profile: str, tmp_path: Path) -> Iterator[Cluster]:
    checkout = Cluster(tmp_path / "project", profile, LONG)
    yield checkout
    for job in jobs():
        subprocess.run(["scancel", job], check=True)
    kill_all_in(checkout.folder)


def jobs(states: str = "PENDING,RUNNING,COMPLETING") -> list[str]:
    command = ["squeue", "--noheader", f"--states={states}", "--format=%A"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def node_of(job: str) -> str:
    command = ["squeue", "--noheader", f"--jobs={job}", "--format=%N"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def wait_until(condition: Callable[[], object], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def simulating(checkout: Checkout) -> bool:
    """Whether a block of replications is being simulated."""
    for pid in processes_in(checkout.folder):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:4] == [b"-m", b"elastiqueue.workflow.steps", b"block"]:
            return True
    return False


@cache
def quick_locally() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="quick-") as folder:
        checkout = Checkout(Path(folder) / "project", yaml.safe_load((ROOT / "config/quick.yaml").read_text()))
        checkout.run(targets=["all"])
        return checkout.whole()


def test_the_quick_workflow_gives_the_bytes_of_a_local_run(profile, tmp_path):
    checkout = Cluster(tmp_path / "project", profile, yaml.safe_load((ROOT / "config/quick.yaml").read_text()))
    checkout.run(targets=["all"])
    files, local = checkout.whole(), quick_locally()
    assert files.keys() == local.keys()
    assert [name for name in local if files[name] != local[name]] == []
    assert sum(name.startswith("results/quick/data/") and name.endswith(".csv") for name in local) >= 5


def test_a_job_that_can_never_start_is_reported_within_a_minute_and_ends_the_run(profile, tmp_path):
    checkout = Cluster(tmp_path / "project", profile)
    run = checkout.start("--retries", "0", "--set-resources", "pilot:runtime=500", "compute:runtime=500")
    wait_until(jobs)
    wait_until(lambda: "can never start: PartitionTimeLimit" in checkout.log, 60)
    assert run.wait(120) == 1
    assert not jobs()


@pytest.mark.parametrize(
    "ask",
    [
        ["--set-resources", "pilot:mem_mb=900000", "compute:mem_mb=900000"],
        ["--default-resources", "slurm_account=test", "slurm_partition=nowhere"],
    ],
    ids=["memory", "partition"],
)
def test_what_slurm_refuses_at_once_ends_the_run(profile, ask, tmp_path):
    checkout = Cluster(tmp_path / "project", profile)
    assert checkout.start("--retries", "0", *ask).wait(120) == 1
    assert "Error in " in checkout.log
    assert not jobs()


def test_a_cancelled_job_is_noticed_and_tried_again(long_run):
    run = long_run.start()
    wait_until(lambda: simulating(long_run))
    subprocess.run(["scancel", *jobs("RUNNING")], check=True)
    assert run.wait() == 0, long_run.log
    assert "rying to restart" in long_run.log
    assert long_run.whole() == undisturbed(long=True)


def test_a_cancelled_job_without_retries_fails_and_a_rerun_completes(long_run):
    run = long_run.start("--retries", "0")
    wait_until(lambda: simulating(long_run))
    subprocess.run(["scancel", *jobs("RUNNING")], check=True)
    assert run.wait() == 1, long_run.log
    assert "Error in " in long_run.log
    long_run.run()
    assert long_run.whole() == undisturbed(long=True)


@pytest.mark.parametrize("sent", [signal.SIGTERM])  # which ends a run as SIGINT does
def test_a_run_that_is_told_to_end_cancels_its_jobs_and_resumes_without_unlocking(long_run, sent):
    run = long_run.start()
    wait_until(lambda: simulating(long_run))
    os.kill(snakemake_of(long_run.folder), sent)
    assert run.wait(60) == 1
    wait_until(lambda: not jobs(), 20)
    assert not list(long_run.folder.glob("results/tiny/blocks/*/*/*.npz"))  # nothing was waited for
    long_run.run()
    assert long_run.whole() == undisturbed(long=True)


def test_a_job_over_its_memory_is_ended_and_tried_again_with_more(long_run):
    """30 MB are too few for Python, 30 x 64 MB are not."""
    little = ["--set-resources", "pilot:mem_mb=30*attempt**6", "simulate:mem_mb=30*attempt**6"]
    log = long_run.run(*little)
    assert "rying to restart" in log
    assert long_run.whole() == undisturbed(long=True)


def test_a_job_always_over_its_memory_fails_and_a_rerun_completes(long_run):
    log = long_run.fail("--retries", "0", "--set-resources", "pilot:mem_mb=30", "simulate:mem_mb=30")
    assert "Error in " in log
    assert "xceeded memory limit" in log or "OUT_OF_MEMORY" in log
    assert all(undisturbed(long=True)[name] == data for name, data in long_run.files().items())
    long_run.run()
    assert long_run.whole() == undisturbed(long=True)


def test_a_node_that_goes_down_loses_nothing(long_run):
    run = long_run.start()
    wait_until(lambda: simulating(long_run))
    node = node_of(jobs("RUNNING")[0])
    subprocess.run(["scontrol", "update", f"nodename={node}", "state=down", "reason=test"], check=True)
    try:
        assert run.wait() == 0, long_run.log
    finally:
        # without effect where the node's daemon has answered again and made it idle
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"])
    assert long_run.whole() == undisturbed(long=True)


def test_snakemake_killed_and_resumed_at_once_while_its_jobs_go_on(long_run):
    run = long_run.start()
    wait_until(lambda: simulating(long_run))
    os.kill(snakemake_of(long_run.folder), signal.SIGKILL)
    run.wait()
    assert jobs("RUNNING")
    long_run.unlock()
    long_run.run()
    wait_until(lambda: not jobs())
    assert long_run.whole() == undisturbed(long=True)


def test_the_documented_way_after_a_crash(long_run):
    """The commands of the README, word for word; the last one is told what to make, too."""
    text = (ROOT / "README.md").read_text().partition("After a crash")[2]
    block = re.search(r"(?m)(^    .+\n)+", text)
    assert block
    look, unlock, rerun = (shlex.split(line, comments=True) for line in block[0].splitlines())
    run = long_run.start()
    wait_until(lambda: simulating(long_run))
    os.kill(snakemake_of(long_run.folder), signal.SIGKILL)
    run.wait()

    def type_in(command: list[str]) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.run(
            command, cwd=long_run.folder, env={**long_run.environment, "PATH": path}, check=True, timeout=LIMIT,
            stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip

    left = [line.split()[0] for line in type_in(look).splitlines()[1:]]
    assert left
    type_in(["scancel", *left])
    wait_until(lambda: not jobs())
    type_in(unlock)
    type_in([*rerun, "--configfile", "tiny.yaml", *long_run.extra, "--", TABLE])
    assert long_run.whole() == undisturbed(long=True)
