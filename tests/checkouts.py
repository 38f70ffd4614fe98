"""Copies of the project in which tests run, disturb and edit the workflow, at a size of seconds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from tests.conftest import ROOT, copy_project

# Laid over config/config.yaml. Figure 4: a pilot run, two blocks of replications, a summary, a fluid limit, a table.
LIMIT = 1500  # seconds of a run, after which it is ended: executors may hang for ever
TABLE, FIGURE = "results/tiny/data/fig4.csv", "results/tiny/fig4.pdf"
TINY = {
    "extends": "papers",
    "run": "tiny",
    "output": "results/tiny",
    "experiments": {
        "standby_low_load": {
            "scenario": {"replications": 4},
            "grid": {"servers": [10], "setup_rate": [1], "standby_rate": [1, 0.1]},
            "block": 2,
        }
    },
}
# Figure 4 with blocks that take some ten seconds each: they can be interrupted, and overlap in spite of other jobs.
LONG = {
    **TINY,
    "experiments": {
        "standby_low_load": {
            "scenario": {"measured": 1200, "replications": 12},
            "grid": {"servers": [10000], "setup_rate": [1], "standby_rate": [0.02]},
            "block": 6,
        }
    },
}


def changed(values: dict, changes: dict) -> dict:
    """A nested mapping with some keys changed."""
    inner = {key: changed(values.get(key, {}), value) for key, value in changes.items() if isinstance(value, dict)}
    return {**values, **changes, **inner}


class Checkout:
    """A copy of the project in a folder of its own.

    With `own_sources` the package is taken from the copy, so that a test may edit it; otherwise from the repository,
    whose compiled kernels are shared.
    """

    def __init__(self, folder: Path, values: dict = TINY, own_sources: bool = False, **environment: str) -> None:
        self.folder = copy_project(folder)
        self.configure(values)
        sources = (folder if own_sources else ROOT) / "src"
        self.environment = {**os.environ, "PYTHONPATH": str(sources), **environment}
        self.environment.pop("SNAKEMAKE_PROFILE", None)
        self.python = sys.executable
        self.started: list[subprocess.Popen[str]] = []

    def configure(self, values: dict) -> None:
        (self.folder / "tiny.yaml").write_text(yaml.safe_dump(values))

    def start(self, *arguments: str, targets: Sequence[str] = (TABLE,), cores: int = 2) -> subprocess.Popen[str]:
        """Snakemake in a process group of its own; what it prints goes to the file `log`."""
        command = [self.python, "-m", "snakemake", "--configfile", "tiny.yaml", *arguments]
        if "--profile" not in arguments:
            command[3:3] = ["--cores", str(cores)]
        with open(self.folder / "log", "w") as log:
            run = subprocess.Popen(
                ["timeout", "-k", "10", str(LIMIT), *command, "--", *targets],
                cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT, text=True,
                start_new_session=True,
            )  # fmt: skip
        self.started.append(run)
        return run

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def run(self, *arguments: str, **options) -> str:
        """Run to the end and without an error; returns what snakemake printed."""
        assert self.start(*arguments, **options).wait() == 0, self.log
        return self.log

    def fail(self, *arguments: str, **options) -> str:
        """Run to an error; returns what snakemake printed."""
        assert self.start(*arguments, **options).wait() == 1, self.log
        return self.log

    def unlock(self) -> None:
        self.run("--unlock")

    def files(self, pattern: str = "*") -> dict[str, bytes]:
        """Contents of the results whose bytes are determined: all but logs and records of time and machine."""
        found = sorted((self.folder / "results").rglob(pattern))
        names = {path.relative_to(self.folder).as_posix(): path for path in found if path.is_file()}
        timed = r"\.provenance\.json$|/(manifest|verification|index|report)\."
        undetermined = re.compile(rf"{timed}|\.sha256$|/logs/|/\.specifications/")
        return {name: path.read_bytes() for name, path in names.items() if not undetermined.search(name)}

    def whole(self) -> dict[str, bytes]:
        """The same, after a look that nobody's temporary file is left."""
        files = self.files()
        assert not [name for name in files if re.search(r"/\.[^/]*\.\w{8}$", name)]
        return files


@cache
def undisturbed(long: bool = False) -> dict[str, bytes]:
    """The results of a run that nothing disturbs."""
    with tempfile.TemporaryDirectory(prefix="undisturbed-") as folder:
        checkout = Checkout(Path(folder) / "project", LONG if long else TINY)
        checkout.run()
        return checkout.whole()


def executed(log: str) -> list[str]:
    """The rules of the jobs that a run did, in their order."""
    return re.findall(r"^ *\d+ of \d+  (\w+) ", log, re.MULTILINE)


def processes_in(folder: Path) -> list[int]:
    """Processes whose working folder is this one or below it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(path / "cwd")).is_relative_to(folder):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def snakemake_of(folder: Path) -> int:
    """The process of the running snakemake itself."""
    for pid in processes_in(folder):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:3] == [b"-m", b"snakemake"]:
            return pid
    raise AssertionError("snakemake does not run")


def kill_all_in(folder: Path) -> None:
    """SIGKILL to every process that works in a folder."""
    for pid in processes_in(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
