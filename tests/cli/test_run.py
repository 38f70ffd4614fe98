"""`elastiqueue run` and `new`: a run of one's own from any folder, in a checkout and from an installed wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from elastiqueue.cli.main import main
from elastiqueue.workflow.runs import composed
from tests.conftest import ROOT

TINY = {
    "replications": 3,
    "experiments": {
        "sweep": {
            "scenario": {"model": "tabs", "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "horizon": 20},
            "grid": {"servers": [5, 10]},
            "metrics": ["power"],
        }
    },
    "figures": {"power": {"experiments": ["sweep"], "x": "servers", "y": "power"}},
}


def test_the_starting_file_plans_its_own_jobs_and_none_of_the_papers(tmp_path, capfd):
    assert main(["new", str(tmp_path / "study")]) == 0
    assert main(["new", str(tmp_path / "study")]) == 2
    capfd.readouterr()
    assert main(["run", str(tmp_path / "study/run.yaml"), "-n"]) == 0
    rows = dict(line.split() for line in capfd.readouterr().out.splitlines()[2:])
    assert {name: int(rows[name]) for name in ("pilot", "simulate", "summarise", "compute", "draw")} == {
        "pilot": 1, "simulate": 1, "summarise": 1, "compute": 1, "draw": 1,
    }  # fmt: skip
    assert not (tmp_path / "study/results").exists()


def test_results_are_beside_the_file_and_a_second_run_has_nothing_to_do(tmp_path, capfd, monkeypatch):
    (tmp_path / "my-study.yaml").write_text(yaml.safe_dump(TINY))
    assert main(["run", str(tmp_path / "my-study.yaml"), "--cores", "2"]) == 0
    captured = capfd.readouterr()
    assert captured.out.startswith("my_study: complete; figures are in ")
    assert re.search(r"^\d+ of \d+  simulate sweep  [\d.]+ s  \d+:\d\d left$", captured.err, re.M)
    results = tmp_path / "results/my_study"
    assert (results / "power.pdf").stat().st_size > 5_000
    assert (results / "summaries/sweep.csv").exists()
    assert not (results / "claims.md").exists()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "my-study.yaml", "-n"]) == 0
    assert capfd.readouterr().out == "nothing to be done\n"


def test_a_run_without_figures_is_complete(tmp_path, capfd, monkeypatch):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({**TINY, "run": "bare", "figures": {}}))
    assert main(["run", str(tmp_path / "run.yaml"), "--cores", "2"]) == 0
    assert capfd.readouterr().out == f"bare: complete; tables in {tmp_path}/results/bare\n"
    monkeypatch.chdir(tmp_path)
    assert main(["manifest", "--run", "bare", "--check"]) == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"run": "paper"}, "run = paper: must be another name"),
        (
            {"figures": {"power": {"experiments": ["sweep"], "x": "servers", "y": "wait"}}},
            "y = wait: wait is no column",
        ),
        ({"experimnets": {}}, "experimnets = {}: is not a known key"),
        ({"extends": "everything"}, "extends = 'everything': must be papers"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, capfd, change, says):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({**TINY, **change}))
    assert main(["run", str(tmp_path / "run.yaml")]) == 2
    captured = capfd.readouterr()
    assert says in captured.err
    assert len(captured.err.splitlines()) == 1
    assert os.listdir(tmp_path) == ["run.yaml"]


def test_what_stands_alone_and_what_changes_the_papers_run():
    papers = ROOT / "config/config.yaml", ROOT / "config/claims.yaml"
    alone = composed({"run": "own", **TINY}, *papers)
    assert list(alone["experiments"]) == ["sweep"]
    assert alone["output"] == "results/own"
    changed = composed({"extends": "papers", **TINY}, *papers)
    assert {"sweep", "convergence"} <= set(changed["experiments"])
    assert composed({"replications": 3}, *papers)["run"] == "paper"


@pytest.mark.slow
def test_an_installed_wheel_runs_a_file_of_ones_own_without_the_checkout(tmp_path):
    """In a fresh environment with the dependencies but not this checkout; also deployed as a module of Snakemake."""

    def call(*command: str) -> str:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout + done.stderr

    build = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT))
    call(sys.executable, *build)
    call(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv/bin/python")
    own = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")  # whose own .pth files are not read
    call(python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", *map(str, tmp_path.glob("*.whl")))
    assert str(tmp_path) in call(python, "-c", "import elastiqueue; print(elastiqueue.__file__)")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(TINY))
    command = str(tmp_path / "venv/bin/elastiqueue")
    assert "study: complete" in call(command, "run", "study.yaml", "--cores", "2")
    assert (tmp_path / "results/study/power.pdf").exists()
    (tmp_path / "papers.yaml").write_text("extends: papers\nrun: mine\noutput: results/mine\nreplications: 3\n")
    assert "figB7" not in call(command, "run", "papers.yaml", "-n", "--targets", "results/mine/fig3.pdf")
    (tmp_path / "Snakefile").write_text(
        f"""module queues:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config
use rule * from queues
"""
    )
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"run": "own", **TINY}))
    module = (python, "-m", "snakemake", "-n", "--cores", "1", "--configfile", "own.yaml")
    assert "results/own/power.pdf" in call(*module, "--", "results/own/power.pdf")
