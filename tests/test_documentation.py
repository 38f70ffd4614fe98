"""The documentation is true: links resolve, commands exist, every figure is named, nothing names a machine."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from elastiqueue.cli.main import COMMANDS, main

PAGES = ["README.md", "ARTIFACT.md", "CONTRIBUTING.md", "DEVIATIONS.md", "config/README.md", "paper_figures/README.md"]


@pytest.mark.parametrize("page", [*PAGES, "profiles/README.md"])
def test_links_resolve(root: Path, page: str):
    text = (root / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith(("http://", "https://")):
            assert ((root / page).parent / target).exists(), target


def _commands(root: Path) -> list[str]:
    return [line for block in _blocks(root, "") for line in block.strip().splitlines()]


def _blocks(root: Path, language: str) -> list[str]:
    """Code blocks of the README in a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (root / "README.md").read_text(), re.S | re.M)
    return [text for name, text in blocks if name == language]


def test_lines_of_the_readme_are_short(root: Path):
    assert [line for line in (root / "README.md").read_text().splitlines() if len(line) > 120] == []


def test_the_layout_of_the_readme_names_every_folder_and_no_other(root: Path):
    table = (root / "README.md").read_text().partition("## Layout")[2]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {
        name.rstrip("/").removeprefix("src/elastiqueue/") for cell in cells for name in re.findall(r"`(.*?)`", cell)
    }
    tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    folders = {name.split("/")[0] for name in tracked if "/" in name and not name.startswith((".", "src/"))}
    package = {name.split("/")[2] for name in tracked if name.startswith("src/elastiqueue/") and name.count("/") > 2}
    assert named - {"Snakefile", "DEVIATIONS.md"} == folders | package


def test_the_python_of_the_readme_runs(root: Path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    for block in _blocks(root, "python"):
        exec(block, {})
    assert capsys.readouterr().out.count("mean_wait ") >= 2


def test_every_make_target_of_the_readme_exists(root: Path):
    listed = subprocess.run(["make", "-s"], cwd=root, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^make ([a-z-]+)", listed, re.M))
    for page in PAGES:
        used = set(re.findall(r"`make ([a-z-]+)`", (root / page).read_text()))
        assert used <= targets, (page, used - targets)
    assert {"figures", "test", "quick"} <= targets


def test_the_commands_of_the_readme_run(root: Path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    small = {
        "simulate": ["--set", "replications=4", "--set", "horizon=300"],
        "plan": [
            "--set",
            "servers=3",
            "--set",
            "arrival_rate=.3",
            "--exact",
            "--max-wait",
            "0.2",
            "--figure",
            f"{tmp_path}/plan.pdf",
        ],
    }
    run = 0
    for command in _commands(root):
        words = shlex.split(command)
        assert words[0] in ("elastiqueue", "make", "snakemake"), command
        assert words[0] != "elastiqueue" or words[1] in COMMANDS, command
        if words[0] == "elastiqueue" and words[1] not in ("new", "run"):  # tests/cli/test_run.py runs these
            assert main([*words[1:], *small.get(words[1], [])]) == 0, command
            assert capsys.readouterr().out
            run += 1
    assert run >= 7


def test_every_figure_of_the_configuration_is_in_the_gallery_and_no_other(root: Path):
    figures = set(yaml.safe_load((root / "config/config.yaml").read_text())["figures"])
    gallery = (root / "paper_figures/README.md").read_text()
    assert set(re.findall(r"^\| \[(\w+)\]", gallery, re.M)) == figures
    named = set(re.findall(r"`(\w+)\.pdf`", (root / "README.md").read_text()))
    assert named <= figures
    assert figures - named <= {"fig1"}


def claimed_minutes(root: Path, files: str) -> float:
    """CPU minutes of the experiments behind the files that a row of the readme's table names, in the reference run."""
    spent = json.loads((root / "paper_figures/reference/machine.json").read_text())["experiments"]
    figures = yaml.safe_load((root / "config/config.yaml").read_text())["figures"]
    named = [figures[name]["experiments"] for name in re.findall(r"`(?:data/)?(\w+)\.(?:pdf|csv)`", files)]
    return sum(spent[name]["cpu_seconds"] for name in {one for names in named for one in names}) / 60


def test_the_times_of_the_readme_are_those_of_the_reference_run(root: Path):
    rows = re.findall(r"^\|.*\| ([^|]*`\w[^|]*) \| ([\d.]+) min \|$", (root / "README.md").read_text(), re.M)
    assert len(rows) >= 17
    for files, minutes in rows:
        assert abs(float(minutes) - claimed_minutes(root, files)) <= 0.051, files


def test_every_claim_is_in_the_readme(root: Path):
    claims = set(yaml.safe_load((root / "config/claims.yaml").read_text())["claims"])
    text = (root / "README.md").read_text()
    missing = {claim for claim in claims if not re.search(rf"\b{claim}\b", text)}
    assert missing == set()


if __name__ == "__main__":  # writes the times of the reference run into the README
    here = Path(__file__).parents[1]
    pattern = re.compile(r"^(\|.*\| ([^|]*`\w[^|]*) \|) [\d.]+ min \|$", re.M)
    text = (here / "README.md").read_text()
    text = pattern.sub(lambda row: f"{row[1]} {claimed_minutes(here, row[2]):.1f} min |", text)
    (here / "README.md").write_text(text)
