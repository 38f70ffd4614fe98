"""Runs to a precision: they end when it is reached, and say so when it cannot be."""

from __future__ import annotations

import pytest

from elastiqueue.engines import simulation
from elastiqueue.scenarios.reading import ConfigError, scenario_from

BASE = {
    "model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 1, "setup_rate": 1, "buffer": 5, "horizon": 50,
    "replications": 2,
}  # fmt: skip


def test_it_ends_where_the_interval_is_narrow_enough() -> None:
    scenario = scenario_from({**BASE, "precision": {"metric": "mean_wait", "relative": 0.2}})
    totals, _ = simulation.simulate_to_precision(scenario, simulation.window(scenario))
    low, high = simulation.estimates(scenario, totals)["mean_wait"].interval()
    assert len(totals) >= 30
    assert (high - low) / 2 <= 0.2 * (high + low) / 2


def test_a_precision_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "MAX_REPLICATIONS", 40)
    scenario = scenario_from({**BASE, "precision": {"metric": "mean_wait", "relative": 1e-6}})
    with pytest.raises(ConfigError, match=r"^precision.relative = 1e-06: 40 replications reach 0\.\d+$"):
        simulation.simulate_to_precision(scenario, simulation.window(scenario))


def test_a_metric_without_a_value_is_said() -> None:
    rare = {**BASE, "arrival_rate": 1e-3, "buffer": 50, "start": "all_idle_on", "horizon": 5}
    scenario = scenario_from({**rare, "precision": {"metric": "loss_full_probability", "relative": 0.1}})
    with pytest.raises(ConfigError, match=r"^precision.metric = loss_full_probability: has no value but 0 in 30"):
        simulation.simulate_to_precision(scenario, simulation.window(scenario))
