"""Control variates from the generator: the generator against the exact solver's, and means that are 0."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import report_of, simulate, steady_estimates, window
from elastiqueue.models import controls
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import ConfigError, scenario_from
from elastiqueue.sources import PACKAGE

POLICIES = PACKAGE.parent.parent / "config" / "examples" / "policies"
RATES = {"standby_rate": 0.3, "setup_rate": 0.4, "arrival_rate": 0.6}
ERLANG = {"service": {"erlang": 2}}
THRESHOLD, SHORTEST, SERVERLESS = (
    str(POLICIES / f"{name}.py") for name in ("tabs_threshold", "tabs_shortest_of_d", "serverless")
)
SMALL = {
    "TABS": {"model": "tabs", "servers": 3, "buffer": 3, **RATES},
    "TABS, aborts": {"model": "tabs", "servers": 3, "buffer": 3, "abort_setups": True, **RATES},
    "TABS, Erlang": {"model": "tabs", "servers": 2, "buffer": 3, **RATES, **ERLANG},
    "TABS, Coxian": {"model": "tabs", "servers": 2, "buffer": 2, **RATES, "service": {"coxian": 3}},
    "JIQ": {"model": "jiq", "servers": 3, "buffer": 4, "arrival_rate": 0.7},
    "threshold": {"model": THRESHOLD, "servers": 3, "buffer": 3, "level": 0.5, **RATES},
    "shortest of 2": {"model": SHORTEST, "servers": 3, "buffer": 3, "choices": 2, **RATES},
    "serverless": {"model": SERVERLESS, "servers": 3, "keep_alive": 2, "setup_rate": 0.4, "arrival_rate": 0.7},
}
UNLIMITED = {
    "TABS, unlimited": {"model": "tabs", "servers": 2, "buffer": None, **RATES},
    "delayed-off": {"model": "delayed_off", "servers": 3, **RATES},
    "delayed-off, staggered": {"model": "delayed_off", "servers": 3, "staggered": True, **RATES},
    "delayed-off, keeps": {"model": "delayed_off", "servers": 3, "abort_setups": False, **RATES, **ERLANG},
    "setup": {"model": "setup", "servers": 3, "setup_rate": 0.4, "arrival_rate": 0.5},
    "always on": {"model": "always_on", "servers": 2, "arrival_rate": 0.5},
}
STEADY = {"horizon": "auto", "warm_up": "auto"}
FIRST = 300  # states


def enumerated(scenario, level=None, most=10**6):
    """States in the order in which they are reached, and the transitions of each."""
    chain = model_of(scenario).chain(scenario, level)
    states, transitions = {chain.initial: 0}, []
    for state in _growing(states):
        transitions.append(list(chain.transitions(state)))
        for _, after, _ in transitions[-1]:
            if len(states) < most:
                states.setdefault(after, len(states))
    return list(states), transitions, chain


def _growing(states):
    done = 0
    while done < len(states):
        for state in list(states)[done:]:
            done += 1
            yield state


def functions(scenario, chain, states):
    """Values of the functions f at the states, shape (states, functions), from the integrands of the exact solver."""
    names = controls.features(model_of(scenario), scenario)
    values = chain.occupancy(states)
    y = np.array([np.broadcast_to(values[name], len(states)) for name in names], float)
    products = [y[i] * y[j] for i in range(len(y)) for j in range(i, len(y))]
    return np.array([*y, *products, *(1 / (1 + y[1] / s) for s in controls.scales(scenario))]).T


@pytest.mark.parametrize("keys", [*SMALL.values(), *UNLIMITED.values()], ids=[*SMALL, *UNLIMITED])
def test_the_generator_is_that_of_the_exact_solver(keys) -> None:
    """L f = Q f, and the drift of every count, at each of the first states that are reached."""
    scenario = scenario_from({**keys, **STEADY, "control_variates": True})
    model = model_of(scenario)
    states, transitions, chain = enumerated(scenario, 2 * FIRST if keys in UNLIMITED.values() else None, FIRST)
    states = states[: len(transitions)]
    rows = np.array(states)
    found = controls.Drifts(model, scenario).sums(rows, np.ones(len(rows)), np.arange(1, len(rows) + 1))
    column = {name: found[:, k] for k, name in enumerate(controls.columns(model, scenario))}
    before, wanted = functions(scenario, chain, states), []
    for here, moves in zip(before, transitions, strict=True):
        there = functions(scenario, chain, [after for _, after, _ in moves])
        wanted.append(np.array([rate for rate, _, _ in moves]) @ (there - here))
    names = [name for name in column if name.startswith(controls.GENERATOR)]
    np.testing.assert_allclose(np.array([column[name] for name in names]).T, wanted, rtol=1e-10, atol=1e-9)
    for name in model.definition.COUNTS:
        drift = [sum(rate * counts.get(name, 0) for rate, _, counts in moves) for moves in transitions]
        np.testing.assert_allclose(column[f"sampled {name}"], drift, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        np.array([column[f"sampled {name}"] for name in controls.features(model, scenario)]).T, before[:, :4]
    )


@pytest.mark.parametrize("keys", SMALL.values(), ids=SMALL)
def test_every_generator_has_mean_zero(keys) -> None:
    """sum over x of pi(x) (L f)(x) = 0, pi by linear equations."""
    scenario = scenario_from({**keys, **STEADY, "control_variates": True})
    states, transitions, _ = enumerated(scenario)
    place = {state: k for k, state in enumerate(states)}
    q = np.zeros((len(states), len(states)))
    for k, moves in enumerate(transitions):
        for rate, after, _ in moves:
            q[k, place[after]] += rate
            q[k, k] -= rate
    pi = np.linalg.lstsq(np.vstack([q.T, np.ones(len(q))]), np.append(np.zeros(len(q)), 1.0), rcond=None)[0]
    found = controls.Drifts(model_of(scenario), scenario).sums(np.array(states), pi, np.array([len(states)]))[0]
    for name, value in zip(controls.columns(model_of(scenario), scenario), found, strict=True):
        if name.startswith(controls.GENERATOR):
            assert abs(value) < 1e-9, name
        if name == "sampled time":
            assert value == pytest.approx(1.0)


@pytest.mark.parametrize(
    "keys",
    [
        {"model": "tabs", "servers": 100, "arrival_rate": 0.5, "start": "all_off"},  # blocks
        {"model": "tabs", "servers": 100, "arrival_rate": 0.9, "buffer": None},
        {"model": "tabs", "servers": 20_000, "arrival_rate": 0.5},  # runs of coin flips
    ],
    ids=["blocks", "unlimited", "flips"],
)
def test_states_that_are_sampled_stand_for_all_times(keys) -> None:
    """Weighted sums less time integrals, and less counts, have mean 0: at 5 sigma, also far from a steady state."""
    scenario = scenario_from({"standby_rate": 0.3, "setup_rate": 0.2, **keys, **STEADY, "control_variates": True})
    model = model_of(scenario)
    words = [stream(1, scenario.digest(), index) for index in range(200)]
    totals = controls.simulate(model, [scenario] * len(words), words, (0.0, 5.0, 10.0))
    place = {name: k for k, name in enumerate((*model.columns(scenario), *controls.columns(model, scenario)))}
    compared = [name for name in place if name.startswith(controls.SAMPLED)]
    for half in (totals[::2], totals[1::2]):
        for name in compared:
            difference = half[:, place[name]] - half[:, place[name.removeprefix(controls.SAMPLED)]]
            error = difference.std(ddof=1) / math.sqrt(len(difference))
            assert abs(difference.mean()) <= 5 * error + 1e-9, name
    assert {name.removeprefix(controls.SAMPLED) for name in compared} >= {"time", "waited", "waiting", "idle_on"}


def test_an_event_with_too_many_choices_has_no_controls() -> None:
    scenario = scenario_from({**SMALL["shortest of 2"], "choices": 20, **STEADY, "control_variates": True})
    found = controls.Drifts(model_of(scenario), scenario).sums(
        np.array([[0, 0, 0, 3, 1, 1, 1]]), np.ones(1), np.array([1])
    )[0]
    assert np.isnan(found).any()


@pytest.mark.parametrize(
    "keys",
    [
        {**SMALL["TABS"], "servers": 6, "buffer": 8},  # few tasks are lost
        {**SMALL["TABS, Erlang"], "servers": 4, "buffer": 8},
        UNLIMITED["delayed-off"],
    ],
)
def test_controlled_estimates_are_right(keys) -> None:
    """Against the exact solver at 5 sigma, with smaller errors than plain ones on the same runs."""
    scenario = scenario_from({**keys, **STEADY, "control_variates": True})
    known, span = exact(scenario).metrics, window(scenario)
    found = steady_estimates(scenario, simulate(scenario, 0, scenario.replications, span)[0], ["mean_wait", "power"])
    for name, one in found.items():
        assert abs(one.estimate.mean - known[name]) < 5 * one.estimate.se
        assert one.reduction > 2
    report = report_of(scenario, span, simulate(scenario, 0, scenario.replications, span)[0])["steady_state"]
    assert report["batches"] == 4
    assert report["runs"] == 12
    assert report["metrics"]["power"]["variance_reduction"] == found["power"].reduction


@pytest.mark.parametrize("change", [{"horizon": 100, "warm_up": 0}, {"horizon": 100.0, "warm_up": 10}])
def test_a_finite_horizon_has_no_controls(change) -> None:
    with pytest.raises(ConfigError, match=r"^control_variates = True: needs horizon = auto \(here 100\)$"):
        scenario_from({**SMALL["TABS"], **change, "control_variates": True})


@pytest.mark.parametrize("seed", [1, 5])
def test_percentiles_are_estimated_without_controls(seed) -> None:
    """Read off the totals, they do not move with the controls: with an error that did, z was 6 and -11 here."""
    keys = {"model": "jiq", "servers": 3, "buffer": 5, "arrival_rate": 0.6, "seed": seed}
    scenario = scenario_from({**keys, **STEADY, "control_variates": True})
    totals = simulate(scenario, 0, scenario.replications, window(scenario))[0]
    estimate = steady_estimates(scenario, totals, ["wait_p95"])["wait_p95"]
    assert estimate.reduction == 1.0
    assert abs(estimate.estimate.mean - exact(scenario).metrics["wait_p95"]) < 5 * estimate.estimate.se
