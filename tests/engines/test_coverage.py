"""The coverage experiment in little: default procedures cover, negative controls do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastiqueue.engines import coverage
from elastiqueue.errors import ConfigError
from elastiqueue.scenarios.reading import read_yaml, scenario_from
from elastiqueue.workflow.experiments import load, points

ROOT = Path(__file__).parents[2]
SMALL = {
    "model": "tabs", "servers": 3, "arrival_rate": 0.3, "standby_rate": 0.2, "setup_rate": 0.05, "buffer": 5,
    "horizon": "auto", "warm_up": "auto",
}  # fmt: skip


def test_defaults_cover_and_controls_fail() -> None:
    rows = coverage.compute_rows("coverage", scenario_from({**SMALL, "replications": 150}))
    share = {row["metric"]: row["mean"] for row in rows}
    assert {row["n"] for row in rows} == {150, 30}
    for name in ("runs_wait", "runs_power", "many_wait", "many_power"):
        assert share[name] > 0.95 - 4 * (0.95 * 0.05 / 150) ** 0.5
    assert share["cold_power"] < 0.5
    assert share["warm_up"] > 100


def test_the_run_is_large_enough_to_tell_94_from_95_percent() -> None:
    config = load(read_yaml(ROOT / "config" / "coverage.yaml"))
    systems = [one for experiment in config.experiments.values() for one in points(config, experiment)]
    assert len(systems) >= 6
    assert min(one.scenario.replications for one in systems) >= 2000


def test_it_is_about_steady_states() -> None:
    with pytest.raises(ConfigError, match="must be auto for the engine coverage"):
        coverage.compute_rows("coverage", scenario_from({**SMALL, "horizon": 100, "warm_up": 10}))
