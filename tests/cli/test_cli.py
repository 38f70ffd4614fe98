"""The command line: help, tables, files, progress, interrupts; and that it starts without the libraries."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from elastiqueue.cli.main import COMMANDS, main
from elastiqueue.cli.options import aligned
from elastiqueue.statistics.estimates import with_error
from tests.conftest import ROOT

SMALL = ["--set", "servers=2", "--set", "horizon=50", "--set", "warm_up=0", "--set", "replications=5"]


@pytest.fixture
def tabs(root):
    return str(root / "config/examples/tabs.yaml")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "\nExample" in text
    assert f"  elastiqueue {command}" in text


def test_the_version_needs_none_of_the_libraries():
    code = (
        "import sys; from elastiqueue.cli.main import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: print([m for m in ('numpy', 'pydantic', 'yaml', 'pandas') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[1] == "[]"


def test_simulated_and_exact_values_side_by_side(tabs, capsys):
    assert main(["simulate", tabs, *SMALL, "--exact"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tabs, 2 servers"
    assert lines[1].split() == ["metric", "mean", "(s.e.)", "value", "(exact)", "95", "%", "interval", "n", "unit"]
    assert any(line.startswith("mean_wait ") for line in lines)
    assert len({len(line) for line in lines[1:]}) == 1


def test_csv_is_the_table(tabs, tmp_path, capsys):
    assert main(["simulate", tabs, *SMALL, "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["simulate", tabs, *SMALL, "--csv", str(tmp_path / "a.csv"), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert rows == list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    power = next(row for row in rows if row["metric"] == "power")
    assert float(power["mean"]) == pytest.approx(found["metrics"]["power"]["mean"], rel=1e-12)
    assert power["n"] == "5"
    assert main(["simulate", tabs, *SMALL, "--csv", "-", "--json", "-"]) == 2
    assert capsys.readouterr().err == "elastiqueue: --csv = -: must be a file where --json is -\n"
    assert main(["simulate", tabs, "--csv", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("elastiqueue: --csv = ")


@pytest.mark.parametrize(
    ("mean", "se", "text"),
    [
        (0.010893, 0.00021, "0.0109(2)"), (0.010893, 0.000149, "0.01089(15)"), (1234.4, 14.2, "1234(14)"),
        (12345, 670, "12300(700)"), (0, 0.02, "0.00(2)"), (-1.2345, 0.031, "-1.23(3)"), (9.996, 0.0096, "9.996(10)"),
        (1.234e-9, 4e-11, "1.23(4)e-09"), (3.21e9, 2e7, "3.21(2)e+09"), (5, 30, "0(30)"), (1, 0.00999, "1.000(10)"),
    ],
)  # fmt: skip
def test_numbers_are_rounded_to_their_error(mean, se, text):
    assert with_error(mean, se) == text


def test_columns_are_aligned():
    assert aligned([["a", "bb"], ["ccc", "d"]]) == "a    bb\nccc   d"


def test_plan_prints_the_answer_and_writes_the_figure(tabs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    system = ["--set", "servers=2", "--set", "buffer=5", "--set", "units.service_time=200 ms", "--exact"]
    assert main(["plan", tabs, *system, "--max-wait", "100 ms"]) == 0
    shown = capsys.readouterr().out
    assert "<- answer" in shown
    assert "with mean_wait <= 0.5" in shown
    assert " s) takes " in shown
    assert (tmp_path / "tabs_plan.pdf").read_bytes().startswith(b"%PDF")
    assert main(["plan", tabs, *system, "--max-wait", "100 ms", "--figure", "a.svg", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["saving"] <= 0.01
    first = (tmp_path / "a.svg").read_bytes()
    assert main(["plan", tabs, *system, "--max-wait", "0.5", "--figure", "a.svg", "--csv", "-"]) == 0
    assert (tmp_path / "a.svg").read_bytes() == first
    assert capsys.readouterr().out.startswith("standby_time,power,")
    assert main(["plan", tabs, *system, "--max-wait", "0.001"]) == 1
    assert "no answer: mean_wait <= 0.001 (0.0002 s) is out of reach here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-wait", "soon"], "--max-wait = soon: must be a number (the scenario has no units)"),
        (["--max-wait", "1", "--figure", "a.txt"], "--figure = a.txt: must end in .pdf, .png or .svg"),
        (["--max-wait", "1", "--jobs", "0"], "--jobs = 0: must be >= 1"),
        (["--max-wait", "nan"], "limit of mean_wait = nan: must be a number > 0"),
    ],
)
def test_mistakes_of_a_plan_are_one_line(tabs, options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", tabs, *options]) == 2
    assert capsys.readouterr().err == f"elastiqueue: {message}\n"
    assert list(tmp_path.iterdir()) == []


def _start(tabs, *more, **options):
    command = [sys.executable, "-m", "elastiqueue", "simulate", tabs, "--set", "servers=1000", *more]
    return subprocess.Popen(command, **options)


def test_progress_is_shown_on_a_terminal_only(tabs):
    command = [sys.executable, "-m", "elastiqueue", "simulate", tabs, *SMALL]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""
    parent, child = pty.openpty()
    with _start(tabs, "--set", "replications=20", stderr=child, stdout=subprocess.DEVNULL) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                shown += os.read(parent, 1000)
            except OSError:  # the other end is closed
                break
    assert process.returncode == 0
    assert b"replications: 20 of 20, 0:00:00 left" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_two_scenarios_side_by_side(tabs, tmp_path, capsys):
    file = tmp_path / "comparison.json"
    assert main(["compare", tabs, *SMALL, "--with", "standby_rate=0.2", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["metric", "first", "second", "difference", "95", "%", "interval", "gain", "unit"]
    power = json.loads(file.read_text())["metrics"]["power"]
    assert power["difference"] == pytest.approx(power["first"] - power["second"])
    assert power["ci_low"] < power["difference"] < power["ci_high"]
    assert main(["compare", tabs, tabs, *SMALL, "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["difference"] for row in rows} == {"0.0"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "OTHER.yaml or --with: must say what the scenario is compared with"),
        (["--with", "servers"], "--with = servers: must be KEY=VALUE"),
        (["--with", "servers=0"], "servers = 0: "),
        (["--with", "horizon=600"], "horizon = 600.0: must be that of the other scenario, "),
        (["nowhere.yaml"], "nowhere.yaml: "),
    ],
)
def test_mistakes_of_a_comparison_are_one_line(tabs, options, message, capsys):
    assert main(["compare", tabs, *options]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert message in shown.err


@pytest.mark.parametrize("command", ["simulate", "plan"])
def test_an_interrupt_leaves_nothing_behind(command, tabs, tmp_path):
    long = {"simulate": ["--set", "replications=1000000"], "plan": ["--max-wait", ".01", "--within", "1e-5"]}[command]
    words = [sys.executable, "-m", "elastiqueue", command, tabs, "--set", "servers=1000", *long, "--json", "a.json"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, cwd=tmp_path, start_new_session=True) as process:
        time.sleep(4)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the processes of the command as well
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, b"elastiqueue: interrupted\n")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize("option", ["--csv", "--json"])
@pytest.mark.parametrize("name", ["mine.yaml", "policy.py", "rates.csv"])
def test_a_result_does_not_replace_what_it_was_made_of(tmp_path, capsys, option, name):
    (tmp_path / "policy.py").write_bytes((ROOT / "config/examples/policies/tabs_threshold.py").read_bytes())
    (tmp_path / "rates.csv").write_text("time,rate\n0,0.3\n10,0.5\n")
    keys = "servers: 3\nbuffer: 4\nstandby_rate: 1\nsetup_rate: 1\nlevel: 0.5\nhorizon: 5\nreplications: 2\n"
    (tmp_path / "mine.yaml").write_text(f"model: policy.py\n{keys}arrival_rate: {{trace: rates.csv}}\n")
    before = (tmp_path / name).read_bytes()
    assert main(["simulate", str(tmp_path / "mine.yaml"), option, str(tmp_path / name)]) == 2
    assert "must not be a file that is read" in capsys.readouterr().err
    assert (tmp_path / name).read_bytes() == before
