"""`elastiqueue run` and `new`: a run of one's own from any folder, in a checkout and from an installed wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
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
            "y = wait: wait is neither a column nor a metric",
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


CLAIM = {
    "statement": "A threshold of 0 is TABS.",
    "figures": ["power"],
    "parts": [
        {"test": "bound", "says": "the power is that of TABS", "within": 30.0,
         "of": {"experiment": "own", "metric": "power", "where": {"level": 0}, "match": ["servers"],
                "minus": {"experiment": "sweep", "metric": "power"}}},
    ],
}  # fmt: skip


def _with_policy(folder: Path) -> Path:
    """A run whose experiment, figure and claim rest on a policy of its own, beside it."""
    (folder / "policies").mkdir()
    shutil.copy(ROOT / "config/examples/policies/tabs_threshold.py", folder / "policies")
    own = {**TINY["experiments"]["sweep"], "metrics": ["power"]}
    own |= {
        "scenario": {**own["scenario"], "model": "policies/tabs_threshold.py"},
        "grid": {**own["grid"], "level": [0, 1]},
    }
    figure = {"experiments": ["own"], "x": "level", "y": "power", "curves": {"by": "servers"}}
    values = {"replications": 10, "experiments": {**TINY["experiments"], "own": own}, "figures": {"power": figure}}
    values["tables"] = {"power": {"experiments": ["own"], "rows": "servers", "columns": "level", "value": "power"}}
    (folder / "study.yaml").write_text(yaml.safe_dump({"run": "study", "claims": "claims.yaml", **values}))
    (folder / "claims.yaml").write_text(yaml.safe_dump({"level": 0.05, "claims": {"T": CLAIM}}))
    return folder / "study.yaml"


def _verdicts(folder: Path) -> dict[str, str]:
    claims = json.loads((folder / "results/study/claims.json").read_text())["claims"]
    return {name: claim["verdict"] for name, claim in claims.items()}


def test_a_policy_of_ones_own_has_its_figure_and_its_claim(tmp_path, capfd, monkeypatch):
    study = _with_policy(tmp_path)
    assert main(["run", str(study), "--cores", "2"]) == 0
    assert (tmp_path / "results/study/power.pdf").stat().st_size > 5_000
    assert _verdicts(tmp_path) == {"T": "supported"}
    assert "| servers | level 0 | level 1 |" in (tmp_path / "results/study/tables/power.md").read_text()
    page = (tmp_path / "results/study/index.html").read_text()
    assert "A threshold of 0 is TABS." in page
    assert "<th>servers</th><th>level 0</th>" in page
    monkeypatch.chdir(ROOT)
    assert main(["run", str(study), "-n"]) == 0
    assert capfd.readouterr().out.endswith("nothing to be done\n")
    policy = tmp_path / "policies/tabs_threshold.py"
    policy.write_text(policy.read_text().replace("busy == 0", "busy <= 1"))
    assert main(["run", str(study), "-n"]) == 0  # an edited policy simulates its own experiment again
    rows = dict(line.split() for line in capfd.readouterr().out.splitlines()[2:])
    assert {rows[name] for name in ("simulate", "summarise", "draw", "tabulate", "claims")} == {"1"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("experiment: own", "experiment: owns", "claims.T: experiment = owns: must be one of own, sweep"),
        ("metric: power", "metric: mean_wait", "claims.T: metric = mean_wait: is none that own keeps"),
        ("level: 0\n", "levels: 0\n", "claims.T: where = levels: must be one of abort_setups,"),
        ("- servers", "- server", "claims.T: match = server: must be one of abort_setups,"),
        ("- power", "- powers", "claims.T: figures = powers: must be one of power"),
        ("test: bound", "test: bind", "'bind'"),
        ("within: 30.0", "within: -1", "within = -1"),
        ("level: 0.05", "level: 5", "level = 5"),
        ("statement", "sentence", "statement: is missing"),
    ],
)
def test_a_mistake_in_a_claim_is_one_line_before_anything_is_simulated(tmp_path, capfd, old, new, says):
    study = _with_policy(tmp_path)
    text = (tmp_path / "claims.yaml").read_text()
    assert old in text
    (tmp_path / "claims.yaml").write_text(text.replace(old, new))
    assert main(["run", str(study)]) == 2
    error = capfd.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("key", ["mean", "label", "note", "time"])
def test_a_key_of_a_policy_that_is_a_column_of_tables_is_refused(tmp_path, capfd, key):
    study = _with_policy(tmp_path)
    policy = tmp_path / "policies/tabs_threshold.py"
    policy.write_text(policy.read_text().replace("    level: Ann", f"    {key}: int = 1\n    level: Ann"))
    assert main(["run", str(study)]) == 2
    assert f"its key {key} must be renamed" in capfd.readouterr().err


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
    _with_policy(tmp_path)
    command = str(tmp_path / "venv/bin/elastiqueue")
    assert "study: complete" in call(command, "run", "study.yaml", "--cores", "2")
    assert (tmp_path / "results/study/power.pdf").exists()
    assert _verdicts(tmp_path) == {"T": "supported"}
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
    alone = (python, "-m", "snakemake", "--snakefile", f"{ROOT}/workflow/Snakefile", "-n", "--cores", "1")
    assert "nothing to be done" in call(*alone, "--configfile", "study.yaml").lower()
    module = (python, "-m", "snakemake", "-n", "--cores", "1", "--configfile", "own.yaml")
    assert "results/own/power.pdf" in call(*module, "--", "results/own/power.pdf")
