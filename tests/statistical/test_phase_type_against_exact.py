"""Phase-type service: simulated steady states against exact solutions, at 5 standard errors, both simulators."""

from __future__ import annotations

import pytest

from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import Window, estimates, simulate
from elastiqueue.models import definitions
from elastiqueue.models.tabs import phase_blocks
from elastiqueue.scenarios.reading import scenario_from

# Three phases, none of them like another, with a way back and a phase that is never the first.
ODD = {
    "phase_type": {"initial": [0.6, 0.4, 0], "rates": [3, 1, 0.7], "routing": [[0, 0.5, 0.1], [0.2, 0, 0.3], [0, 0, 0]]}
}
# model, servers, load, mu, nu, service, further keys
POINTS = [
    ("tabs", 1, 0.5, 0.2, 0.3, {"hyperexponential": 16}, {"buffer": 5}),
    ("tabs", 2, 0.6, 0.3, 0.3, {"hyperexponential": 4}, {"buffer": 4}),
    ("tabs", 3, 0.5, 0.1, 0.1, {"erlang": 3}, {"buffer": 3}),
    ("tabs", 5, 0.3, 1, 0.1, {"coxian": 2}, {"buffer": 3}),
    ("tabs", 4, 0.9, 0.1, 2, {"coxian": 0.6}, {"buffer": 3}),
    ("tabs", 2, 0.7, 5, 0.5, ODD, {"buffer": 3}),
    ("jiq", 1, 0.8, 0, 0, {"erlang": 4}, {"buffer": 6}),
    ("jiq", 4, 0.9, 0, 0, {"hyperexponential": 9}, {"buffer": 4}),
    ("jiq", 3, 0.7, 0, 0, ODD, {"buffer": 2}),
    ("delayed_off", 1, 0.4, 0.5, 0.2, {"erlang": 4}, {}),
    ("delayed_off", 4, 0.6, 0.2, 0.1, {"hyperexponential": 4}, {}),
    ("delayed_off", 3, 0.5, 0.4, 0.3, ODD, {}),
    ("delayed_off", 4, 0.6, 0.2, 0.1, {"erlang": 3}, {"abort_setups": False}),
    ("delayed_off", 4, 0.5, 0.2, 0.3, {"coxian": 0.7}, {"staggered": True}),
    ("setup", 3, 0.4, 0, 0.3, {"hyperexponential": 3}, {}),
    ("setup", 3, 0.4, 0, 0.3, {"erlang": 2}, {"abort_setups": False}),
    ("always_on", 3, 0.7, 0, 0, {"hyperexponential": 3}, {}),
]
SPAN = Window(300.0, 2300.0)  # long beside every clock here, so that 64 batches are near normal


@pytest.mark.parametrize("direct", [False, True], ids=["fast", "plain"])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point[:3])))
def test_simulated_metrics_are_exact_metrics_within_five_standard_errors(point, direct, monkeypatch):
    monkeypatch.setattr(definitions, "BLOCKS_FROM", 0.0)  # blocks, though they do not pay in so small a system
    monkeypatch.setattr(phase_blocks, "MIN_RATIO", 0.0)
    model, servers, load, mu, nu, service, extra = point
    scenario = scenario_from(
        {
            "model": model,
            "servers": servers,
            "arrival_rate": load,
            "standby_rate": mu,
            "setup_rate": nu or None,
            "service": service,
            "horizon": "auto",
            "warm_up": "auto",
            "seed": 11,
            **extra,
        }
    )
    assert (definitions.accelerated(scenario) is not None) == scenario.row.distributed
    found = estimates(scenario, simulate(scenario, 0, 64, SPAN, direct)[0])
    for name, value in exact(scenario).metrics.items():
        one = found[name]
        if one.se == 0:  # nothing to estimate, or an event that the run never saw: its probability may be that small
            assert one.mean == pytest.approx(value, abs=1e-12) or value * 64 * 2000 < 40, name
            continue
        assert abs(one.mean - value) <= 5 * one.se, f"{name}: {one.mean} +- {one.se}, exact {value}"
