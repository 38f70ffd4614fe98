"""Phase-type laws against closed forms, numerical linear algebra and their own definitions."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.scenarios.reading import ConfigError, scenario_from


@st.composite
def laws(draw, most=4):
    """A random law: any shape, every row with an exit probability of at least 5 %."""
    n = draw(st.integers(1, most))
    weight = st.floats(0, 1)
    initial = np.array(draw(st.lists(weight, min_size=n, max_size=n))) + 1e-3
    rates = np.array(draw(st.lists(st.floats(0.05, 20), min_size=n, max_size=n)))
    routing = np.array(draw(st.lists(st.lists(weight, min_size=n, max_size=n), min_size=n, max_size=n)))
    routing *= 0.95 / np.maximum(1, routing.sum(axis=1, keepdims=True))
    return PhaseType(tuple(initial / initial.sum()), tuple(rates), tuple(map(tuple, routing)))


def generator(law):
    return np.diag(law.rates) @ (np.eye(law.phases) - np.array(law.routing))


@settings(max_examples=60, deadline=None)
@given(laws())
def test_moments_match_linear_algebra(law):
    t = generator(law)
    r = np.array(law.initial)
    first = r @ np.linalg.solve(t, np.ones(law.phases))
    second = 2 * r @ np.linalg.solve(t, np.linalg.solve(t, np.ones(law.phases)))
    assert law.mean() == pytest.approx(first, rel=1e-10)
    assert law.scv() == pytest.approx(second / first**2 - 1, rel=1e-9, abs=1e-10)
    np.testing.assert_allclose(t @ np.array(law.residual()), 1, rtol=1e-9)


@settings(max_examples=60, deadline=None)
@given(laws())
def test_visits_are_stationary_and_give_the_mean(law):
    eta = np.array([1.0, *law.visits()])
    eta /= eta.sum()
    p = np.zeros((law.phases + 1, law.phases + 1))
    p[0, 1:] = law.initial
    p[1:, 1:] = law.routing
    p[1:, 0] = law.exit
    np.testing.assert_allclose(eta @ p, eta, atol=1e-13)
    assert sum(eta[1:] / np.array(law.rates)) / eta[0] == pytest.approx(law.mean(), rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(laws())
def test_scaling_changes_the_mean_only(law):
    scaled = law.scaled_to_mean_one()
    assert scaled.mean() == pytest.approx(1, rel=1e-12)
    assert scaled.scv() == pytest.approx(law.scv(), rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("k", [1, 2, 4, 16])
def test_erlang(k):
    law = PhaseType.erlang(k)
    assert law.phases == k
    assert law.mean() == pytest.approx(1, rel=1e-14)
    assert law.scv() == pytest.approx(1 / k, rel=1e-12)


@pytest.mark.parametrize("scv", [1, 1.5, 4, 16, 100])
def test_hyperexponential_has_balanced_means(scv):
    law = PhaseType.hyperexponential(scv)
    assert law.mean() == pytest.approx(1, rel=1e-13)
    assert law.scv() == pytest.approx(scv, rel=1e-11)
    assert [p / g for p, g in zip(law.initial, law.rates, strict=True)] == pytest.approx([0.5, 0.5], rel=1e-14)


@pytest.mark.parametrize("scv", [0.5, 0.8, 1, 4, 16])
def test_coxian(scv):
    law = PhaseType.coxian(scv)
    assert law.phases == 2
    assert law.mean() == pytest.approx(1, rel=1e-14)
    assert law.scv() == pytest.approx(scv, rel=1e-12)
    assert law.routing[1] == (0.0, 0.0)  # phase 2 is the last


def test_coxian_at_one_half_is_erlang():
    assert PhaseType.coxian(0.5) == PhaseType.erlang(2)


def test_only_a_single_phase_is_marked_exponential():
    assert PhaseType.exponential().is_exponential
    assert not PhaseType.hyperexponential(1).is_exponential  # the same law, in two phases
    assert PhaseType.hyperexponential(1).scv() == pytest.approx(1, rel=1e-14)


def test_self_loops_are_removed_without_changing_the_law():
    law = PhaseType((0.3, 0.7), (2.0, 5.0), ((0.5, 0.2), (0.25, 0.6)))
    assert all(law.routing[j][j] == 0 for j in range(2))
    with_loops = np.diag([2.0, 5.0]) @ (np.eye(2) - np.array([[0.5, 0.2], [0.25, 0.6]]))
    np.testing.assert_allclose(generator(law), with_loops, rtol=1e-14)


def test_exit_probabilities_written_in_decimals():
    law = PhaseType((1.0, 0.0, 0.0, 0.0), (1.0,) * 4, ((0, 0.1, 0.2, 0.7), (0,) * 4, (0,) * 4, (0,) * 4))
    assert law.exit == (0.0, 1.0, 1.0, 1.0)  # 0.1 + 0.2 + 0.7 is not quite 1 in binary


def test_from_config():
    assert PhaseType.from_config("exponential") == PhaseType.exponential()
    assert PhaseType.from_config({"erlang": 4}) == PhaseType.erlang(4)
    assert PhaseType.from_config({"hyperexponential": 4.0}) == PhaseType.hyperexponential(4.0)
    assert PhaseType.from_config({"coxian": 2}) == PhaseType.coxian(2)
    given_law = {"initial": [1, 0], "rates": [4, 4], "routing": [[0, 1], [0, 0]]}
    law = PhaseType.from_config({"phase_type": given_law})
    assert law.mean() == pytest.approx(1, rel=1e-14)  # the mean of 1/2 was scaled
    assert law.rates == pytest.approx((2, 2), rel=1e-14)
    assert PhaseType.from_config({"phase_type": {**given_law, "rates": [2, 2]}}) == PhaseType.erlang(2)


@pytest.mark.parametrize(
    ("initial", "rates", "routing", "key"),
    [
        ((0.5, 0.4), (1, 1), ((0, 0), (0, 0)), "initial"),
        ((1.5, -0.5), (1, 1), ((0, 0), (0, 0)), "initial"),
        ((1.0,), (1, 1), ((0, 0), (0, 0)), "initial"),
        ((1.0,), (0.0,), ((0,),), "rates"),
        ((1.0,), (1.0,), ((0, 0),), "routing"),
        ((1.0, 0.0), (1, 1), ((0, -0.1), (0, 0)), "routing[0]"),
        ((1.0, 0.0), (1, 1), ((0.6, 0.6), (0, 0)), "routing[0]"),
        ((1.0, 0.0), (1, 1), ((0, 1), (1, 0)), "routing"),  # never ends
        ((1.0, 0.0), (1, 1), ((0, 0), (0, 1)), "routing"),  # phase 2 never ends, though it is never entered
    ],
)
def test_bad_laws_are_refused_in_one_line(initial, rates, routing, key):
    with pytest.raises(ValueError, match=f"^{re.escape(key)} = .*must") as error:
        PhaseType(initial, rates, routing)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        "erlang", None, 3, {}, {"erlang": 0}, {"erlang": 2.5}, {"erlang": True}, {"erlang": 2, "coxian": 2},
        {"hyperexponential": 0.9}, {"hyperexponential": "big"}, {"coxian": 0.4}, {"coxian": math.nan},
        {"phase_type": [1]}, {"phase_type": {"initial": [1], "rates": [1]}},
        {"phase_type": {"initial": [1], "rates": [math.inf], "routing": [[0]]}},
        {"phase_type": {"initial": [1], "rates": ["a"], "routing": [[0]]}},
        {"phase_type": {"initial": [], "rates": [], "routing": []}},
        {"phase_type": {"initial": [1], "rates": 3, "routing": [[0]]}},
        {"phase_type": {"initial": [1], "rates": [1], "routing": 0.5}},
    ],
)  # fmt: skip
def test_bad_services_of_a_scenario_are_refused_in_one_line(value):
    with pytest.raises(ConfigError, match=r"^service") as error:
        scenario_from({"model": "always_on", "servers": 1, "arrival_rate": 0.5, "service": value})
    assert "\n" not in str(error.value)
