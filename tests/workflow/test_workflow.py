"""The real workflow on a tiny configuration: it lists its jobs, does them once, and redoes what an edit touches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import copy_project

TINY = """
extends: papers
run: tiny
output: results/tiny
replications: 4
experiments:
  convergence: {grid: {servers: [5, 10], setup_rate: [0.1]}, block: 2, split_by: []}
  convergence_large: {grid: {servers: [1000], setup_rate: [0.1], replications: [4]}, block: 4, split_by: []}
  standby_low_load:
    scenario: {replications: 4}
    grid: {servers: [10], setup_rate: [1], standby_rate: [1, 0.1]}
    split_by: []
  comparison_servers:
    scenario: {replications: 4}
    grid: {servers: [5], arrival_rate: [0.3]}
    split_by: [model]
    block: 100
"""
TARGETS = ["results/tiny/fig3.pdf", "results/tiny/fig4.pdf", "results/tiny/summaries/comparison_servers.csv"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_project(tmp_path_factory.mktemp("project"))
    (folder / "tiny.yaml").write_text(TINY)
    run(folder)
    return folder


def run(
    folder: Path,
    *options: str,
    check: bool = True,
    targets: list[str] = TARGETS,
    config: str = "tiny.yaml",
    **surroundings: str,
) -> str:
    command = [sys.executable, "-P", "-m", "snakemake", "--configfile", config, "--cores", "2", *options, *targets]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONWARNINGS": "", **surroundings}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    output = done.stdout + done.stderr
    assert not check or done.returncode == 0, output[-3000:]
    return output


def jobs(output: str) -> dict[str, int]:
    """Job counts of a dry run, `total` left out."""
    table = re.search(r"Job stats:\njob +count\n[- ]+\n(.*?)\n\n", output, re.S)
    if table is None:
        assert "Nothing to be done" in output, output[-2000:]
        return {}
    counts = dict(line.split() for line in table.group(1).splitlines())
    counts.pop("total")
    return {name: int(count) for name, count in counts.items()}


@pytest.fixture
def edited(project: Path):
    """Change a file for one test: edited(path, old, new)."""
    kept: dict[Path, str] = {}

    def edit(path: str, old: str, new: str) -> None:
        file = project / path
        kept.setdefault(file, file.read_text())
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))

    yield edit
    for file, text in kept.items():
        file.write_text(text)


@pytest.mark.parametrize("snakefile", ["Snakefile", "workflow/Snakefile"])
def test_a_dry_run_from_a_clean_clone_lists_every_figure(tmp_path, snakefile):
    folder = copy_project(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    command = [sys.executable, "-m", "snakemake", "-n", "-s", snakefile, "--cores", "1"]
    output = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    counts = jobs(output)
    assert counts["draw"] >= 6
    assert counts["simulate"] >= 50
    assert not (folder / "results").exists()
    assert not (folder / "paper_figures").exists()


def test_in_another_working_folder_the_reference_is_that_of_the_checkout(tmp_path):
    folder = copy_project(tmp_path / "project")
    (folder / "paper_figures/reference").mkdir(parents=True)
    (folder / "paper_figures/reference/machine.json").write_text("{}")
    (folder / "papers.yaml").write_text("extends: papers\n")
    (tmp_path / "elsewhere").mkdir()
    options, targets = ["-n", "--directory", str(tmp_path / "elsewhere")], ["paper_figures/verification.md", "evaluate"]
    counts = jobs(run(folder, *options, targets=["--", *targets], config=str(folder / "papers.yaml")))
    assert counts["verify"] == counts["evaluate"] == 1


def test_a_second_run_has_nothing_to_do(project):
    assert "Nothing to be done" in run(project)
    assert not (project / "paper_figures").exists()


def test_a_plotting_edit_draws_and_does_nothing_else(project, edited):
    edited("config/config.yaml", "&rates {by: setup_rate, ", "&rates {by: setup_rate, width: 2, ")
    assert jobs(run(project, "-n")) == {"draw": 1}
    edited("src/elastiqueue/figures/style.py", '"font.size": 8', '"font.size": 9')
    assert jobs(run(project, "-n")) == {"draw": 2}


def test_a_kernel_edit_reruns_what_uses_the_kernel(project, edited):
    edited("src/elastiqueue/models/central_queue/definition.py", "move(IDLE_ON, 1)", "move(IDLE_ON, 1 + 0)")
    counts = jobs(run(project, "-n"))
    assert counts["simulate"] == 1  # the two delayed-off cases are one chunk
    assert "draw" not in counts
    edited("src/elastiqueue/models/tabs/definition.py", "move(IDLE_ON, 1)", "move(IDLE_ON, 1 + 0)")
    assert jobs(run(project, "-n"))["simulate"] == 3 + 1 + 3  # blocks of convergence, of standby, models of comparison
    assert jobs(run(project, "-n"))["draw"] == 2


def test_a_comment_in_a_kernel_reruns_nothing(project, edited):
    edited("src/elastiqueue/models/tabs/definition.py", "move(IDLE_ON, 1)", "move(IDLE_ON, 1)  # one more\n")
    edited("src/elastiqueue/sampling/rng.py", '"""', '"""Edited. ')
    assert jobs(run(project, "-n")) == {}


def test_nothing_stale_is_drawn_without_the_records_of_the_workflow_engine(project, edited, tmp_path):
    """A folder of results that was copied: what fits stays, what others made or a hand edited does not."""
    (project / ".snakemake").rename(tmp_path / "records")
    try:
        assert jobs(run(project, "-n")) == {}
        (project / "other.yaml").write_text(TINY.replace("standby_rate: [1, 0.1]", "standby_rate: [1, 0.3]"))
        counts = jobs(run(project, "-n", config="other.yaml"))
        assert counts == {"pilot": 1, "simulate": 1, "summarise": 1, "draw": 1}
        edited("results/tiny/data/fig3.csv", "tabs", "tbas")
        assert jobs(run(project, "-n")) == {"draw": 1}
        edited("src/elastiqueue/models/central_queue/definition.py", "move(IDLE_ON, 1)", "move(IDLE_ON, 1 + 0)")
        assert jobs(run(project, "-n")) == {"draw": 1, "pilot": 1, "simulate": 1, "summarise": 1}
    finally:
        shutil.rmtree(project / ".snakemake", ignore_errors=True)
        (tmp_path / "records").rename(project / ".snakemake")


def test_the_surroundings_have_no_say(project):
    """A backend of a notebook, a broken matplotlibrc, modules of the names of the library's in the folder, no HOME."""
    names = ["matplotlibrc", "queue.py", "random.py", "signal.py"]
    for name in names:
        (project / name).write_text("raise SystemExit('imported')\n")
    before = (project / "results/tiny/fig3.pdf").read_bytes()
    (project / "results/tiny/fig3.pdf").unlink()
    try:
        run(project, targets=TARGETS[:1], MPLBACKEND="module://nothing", HOME="/nowhere", XDG_CACHE_HOME="")
    finally:
        for name in names:
            (project / name).unlink()
    assert (project / "results/tiny/fig3.pdf").read_bytes() == before


def test_more_replications_simulate_only_the_new_ones(project):
    (project / "more.yaml").write_text(TINY.replace("replications: 4", "replications: 6"))
    counts = jobs(run(project, "-n", config="more.yaml", targets=TARGETS[:1]))
    assert counts["simulate"] == 1  # blocks of two: 0-2 and 2-4 are there
    before = (project / "results/tiny/data/fig3.csv").read_text()
    run(project, config="more.yaml", targets=TARGETS[:1])
    after = (project / "results/tiny/data/fig3.csv").read_text()
    assert ",4\n" in before
    assert ",6\n" in after
    run(project, targets=TARGETS[:1])
    assert (project / "results/tiny/data/fig3.csv").read_text() == before


def test_a_changed_parameter_is_computed_anew_and_an_old_one_is_found_again(project):
    (project / "other.yaml").write_text(TINY.replace("standby_rate: [1, 0.1]", "standby_rate: [1, 0.2]"))
    assert jobs(run(project, "-n", config="other.yaml", targets=TARGETS[1:2]))["simulate"] == 1
    assert "Nothing to be done" in run(project, "-n", targets=TARGETS[1:2])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("replications: 1", "replications = 1"),
        ("experiments: {convergence: {grid: {servers: [0]}}}", "servers = 0"),
        ("experiments: {convergence: {gird: {servers: [2]}}}", "gird"),
        ("speed: 3", "speed = 3"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_line_and_writes_nothing(project, line, says, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(f"extends: papers\nrun: bad\noutput: results/bad\n{line}\n")
    output = run(project, config=str(bad), check=False, targets=[])
    ours = [text for text in output.splitlines() if "elastiqueue:" in text]
    assert len(ours) == 1
    assert says in ours[0]
    assert "Traceback" not in output
    assert not (project / "results/bad").exists()


def test_a_step_that_fails_fails_its_job_and_is_heard(project):
    """A metric that is not among those that are computed: known to the step only."""
    scenario = "{model: tabs, servers: 1, arrival_rate: 0.3, standby_rate: 1, setup_rate: 1}"
    wrong = f"run: own\nexperiments: {{limit: {{engine: fluid, scenario: {scenario}, metrics: [mean_wiat]}}}}\n"
    (project / "wrong.yaml").write_text(wrong)
    target = "results/own/computed/limit.csv"
    output = run(project, config="wrong.yaml", check=False, targets=[target])
    assert "elastiqueue: experiments.limit.metrics = mean_wiat: must be one of busy, " in output
    assert "CalledProcessError" in output or "non-zero exit code" in output
    assert "MissingOutputException" not in output
    assert not (project / target).exists()


def test_the_order_and_number_of_cores_change_no_byte(project, tmp_path):
    other = copy_project(tmp_path / "other")
    (other / "tiny.yaml").write_text(TINY.replace("block: 2", "block: 3"))
    run(other, "--cores", "1")
    for name in ("data/fig3.csv", "data/fig4.csv", "summaries/comparison_servers.csv", "fig3.png", "fig4.pdf"):
        one, two = project / "results/tiny" / name, other / "results/tiny" / name
        assert one.read_bytes() == two.read_bytes(), name
