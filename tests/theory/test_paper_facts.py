"""The exact solver on the models' own chains against numbers that two independent solvers agreed on.

Service rate 1, power 200 / 140 / 0 W. Tolerance: half a unit of the last printed digit.
"""

from __future__ import annotations

import pytest

from elastiqueue.engines.exact import exact
from elastiqueue.scenarios.reading import ServiceScenario
from elastiqueue.theory import queues


def scenario(**changes) -> ServiceScenario:
    return ServiceScenario(**{"model": "tabs", "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, **changes})


@pytest.mark.parametrize(
    ("servers", "buffer", "q1", "d0", "d1", "loss", "wait", "power"),
    [
        (1, 2, 0.14321, 0.12240, 0.36720, 0.522644, 0.230769, 153.4884),
        (2, 5, 0.24704, 0.11830, 0.31733, 0.176538, 0.664793, 157.3001),
        (10, 3, 0.29545, 0.20047, 0.25204, 0.015178, 0.176416, 144.7830),
    ],
)
def test_tabs(servers, buffer, q1, d0, d1, loss, wait, power) -> None:
    found = exact(scenario(servers=servers, buffer=buffer)).metrics
    assert found["busy"] == pytest.approx(q1, abs=5.1e-6)
    assert found["idle_off"] == pytest.approx(d0, abs=5.1e-6)
    assert found["setup"] == pytest.approx(d1, abs=5.1e-6)
    assert found["idle_on"] == pytest.approx(d1, abs=5.1e-6)
    assert found["loss_probability"] == pytest.approx(loss, abs=5.1e-7)
    assert found["mean_wait"] == pytest.approx(wait, abs=5.1e-7)
    assert found["power"] == pytest.approx(power, abs=5.1e-5)


@pytest.mark.parametrize(
    ("servers", "buffer", "lam", "mu", "nu"),
    [(1, 4, 0.9, 10.0, 0.01), (3, 4, 0.6, 0.01, 10.0), (5, 3, 0.95, 1.0, 0.1), (8, 3, 0.2, 0.1, 1.0)],
)
def test_identities_hold_to_rounding_on_tabs(servers, buffer, lam, mu, nu) -> None:
    """By equating flows: nu d1 = mu u, q_1 = lambda (1 - P_loss), P = P_full q_1 + d1 (P_full + (nu/mu) P_idle)."""
    settings = {"servers": servers, "buffer": buffer, "arrival_rate": lam, "standby_rate": mu, "setup_rate": nu}
    found = exact(scenario(**settings)).metrics
    assert abs(nu * found["setup"] - mu * found["idle_on"]) < 1e-13
    served = lam * (1 - found["loss_probability"])
    assert abs(found["busy"] - served) < 1e-13
    # The power identity divides by mu: nu/mu <= 1000 times 140 W times the first residual.
    assert abs(found["power"] - 200 * served - found["setup"] * (200 + nu / mu * 140)) < 1e-9
    total = found["busy"] + found["idle_on"] + found["idle_off"] + found["setup"]
    assert total == pytest.approx(1.0, abs=1e-13)
    # Little's law ties the wait expected at arrival to the time integral of waiting tasks (exponential service).
    assert found["mean_wait"] == pytest.approx(found["mean_wait_integral"], rel=1e-11)


@pytest.mark.parametrize(
    ("servers", "wait", "wait_digit", "power", "power_digit"),
    [(1, 6.142857, 5.1e-7, 162.0, 5.1e-2), (10, 0.419944, 5.1e-7, 97.8896, 5.1e-5)],
)
def test_delayed_off(servers, wait, wait_digit, power, power_digit) -> None:
    found = exact(scenario(model="delayed_off", servers=servers)).metrics
    assert found["mean_wait"] == pytest.approx(wait, abs=wait_digit)
    assert found["power"] == pytest.approx(power, abs=power_digit)
    assert abs(found["setup"] - found["idle_on"]) < 1e-11  # nu d1 = mu u


@pytest.mark.slow
def test_delayed_off_of_a_hundred_servers() -> None:
    found = exact(scenario(model="delayed_off", servers=100)).metrics
    assert found["mean_wait"] == pytest.approx(0.106861, abs=5.1e-7)
    assert found["power"] == pytest.approx(70.8998, abs=5.1e-5)


@pytest.mark.parametrize(("load", "mu", "nu"), [(0.9, 0.01, 10.0), (0.5, 10.0, 0.1), (0.2, 1.0, 0.01)])
def test_delayed_off_of_one_server(load, mu, nu) -> None:
    found = exact(scenario(model="delayed_off", servers=1, arrival_rate=load, standby_rate=mu, setup_rate=nu)).metrics
    # The rates have converged to 1e-9 each; the wait is a ratio of two.
    assert found["mean_wait"] == pytest.approx(queues.delayed_off_single_mean_wait(load, mu, nu), rel=4e-9)
    shares = queues.delayed_off_single_fractions(load, mu, nu)
    assert found["setup"] == pytest.approx(shares.setup, rel=4e-9)
    assert found["idle_on"] == pytest.approx(shares.idle_on, rel=4e-9)


@pytest.mark.parametrize(("servers", "rate", "response"), [(2, 1.0, 7.117807), (5, 1.5, 3.654313)])
def test_mmn_setup(servers, rate, response) -> None:
    found = exact(
        scenario(model="setup", servers=servers, arrival_rate=rate / servers, standby_rate=None, setup_rate=0.1)
    ).metrics
    assert found["mean_wait"] + 1.0 == pytest.approx(response, abs=5.1e-7)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.8), (2, 0.5), (10, 0.9)])
def test_always_on_is_mmn(servers, load) -> None:
    found = exact(
        scenario(model="always_on", servers=servers, arrival_rate=load, standby_rate=None, setup_rate=None)
    ).metrics
    assert found["mean_wait"] == pytest.approx(queues.mmn_mean_wait(servers, load * servers), rel=4e-9)
    assert found["wait_probability"] == pytest.approx(queues.erlang_c(servers, load * servers), rel=4e-9)
