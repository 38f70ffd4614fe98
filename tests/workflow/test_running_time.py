"""The prediction of a run's time: the reference record, scaled by how fast this machine is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elastiqueue.cli.main import main
from elastiqueue.sampling.streams import scenarios_digest
from elastiqueue.scenarios.base import ConfigError
from elastiqueue.workflow import running_time
from elastiqueue.workflow.experiments import chunks, load, specified_points
from elastiqueue.workflow.running_time import STEP, makespan, predict

BASE = {"model": "tabs", "servers": 10, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "horizon": 100}
RUN: dict[str, Any] = {
    "run": "a", "output": "a", "seed": 1, "replications": 4, "figures": {}, "experiments": {
        "one": {"scenario": BASE},
        "limit": {"engine": "fluid", "scenario": BASE},
        "unknown": {"scenario": {**BASE, "servers": 11}},
    },
}  # fmt: skip


def _record(path: Path) -> Path:
    config = load(RUN)
    digests = {
        name: scenarios_digest(
            point.scenario.model_dump(mode="json")
            for chunk in chunks(config, name)
            for point in specified_points(chunk.specification())
        )
        for name in config.experiments
    }
    experiments = {
        "one": {"scenarios": digests["one"], "cpu_seconds": 100.0, "jobs": 10},
        "limit": {"scenarios": digests["limit"], "cpu_seconds": 30.0, "jobs": 1},
        "unknown": {"scenarios": "those of another run", "cpu_seconds": 1000.0, "jobs": 1},
    }
    path.write_text(json.dumps({"yardstick_seconds": 2.0, "experiments": experiments}))
    return path


def test_longest_step_first() -> None:
    assert makespan([1, 2, 3, 4], 1) == 10
    assert makespan([1, 2, 3, 4], 2) == 5
    assert makespan([7, 1, 1], 2) == 7
    assert makespan([], 2) == 0


def test_a_machine_half_as_fast_takes_twice_the_time_of_the_record(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(running_time, "yardstick", lambda: 4.0)
    prediction = predict(load(RUN), 1, _record(tmp_path / "machine.json"))
    assert prediction.cpu == {"one": 200.0, "limit": 60.0, "unknown": None}
    assert prediction.total == 260.0
    assert prediction.wall == pytest.approx(260.0 + 3 * 2 * STEP)
    assert predict(load(RUN), 4, tmp_path / "machine.json").wall == pytest.approx((260.0 + 6 * STEP) / 4, rel=0.2)


def test_a_record_without_the_yardstick_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"machine\.json: must hold the record of a reference run"):
        predict(load(RUN), 1, tmp_path / "machine.json")


def test_the_command_names_what_the_record_does_not_hold(root, monkeypatch, capsys) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setattr(running_time, "yardstick", lambda: 1.0)
    assert main(["estimate", "--cores", "2"]) == 0
    printed = capsys.readouterr().out
    assert "minutes" in printed
    assert "standby_low_load" in printed
    assert main(["estimate", "--cores", "0"]) == 2
    assert capsys.readouterr().err == "elastiqueue: --cores = 0: must be from 1 to 1,000,000\n"
