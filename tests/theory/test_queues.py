"""Closed forms against tabulated numbers, against each other, and against the generator's balance."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.theory import queues

RATES = st.floats(0.01, 10.0)


@pytest.mark.parametrize(("servers", "load", "expected"), [(2, 1, 1 / 3), (10, 9, 0.6687315), (100, 90, 0.2169405)])
def test_erlang_c(servers: int, load: float, expected: float) -> None:
    assert queues.erlang_c(servers, load) == pytest.approx(expected, abs=5.1e-8)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (3, 2.7), (7, 20.0), (12, 0.1)])
def test_erlang_b_is_the_last_term_of_a_truncated_poisson_law(servers: int, load: float) -> None:
    terms = [load**n / math.factorial(n) for n in range(servers + 1)]
    assert queues.erlang_b(servers, load) == pytest.approx(terms[-1] / math.fsum(terms), rel=1e-13)


@given(load=st.floats(0.01, 0.99))
def test_one_server_is_mm1(load: float) -> None:
    assert queues.erlang_c(1, load) == pytest.approx(load, rel=1e-12)
    assert queues.mmn_mean_wait(1, load) == pytest.approx(queues.mm1_mean_wait(load), rel=1e-12)


@settings(max_examples=50)
@given(servers=st.integers(1, 40), utilisation=st.floats(0.01, 0.98))
def test_more_servers_wait_less(servers: int, utilisation: float) -> None:
    assert queues.mmn_mean_wait(servers + 1, utilisation * (servers + 1)) < queues.mmn_mean_wait(
        servers, utilisation * servers
    )


def test_delayed_off_of_one_server() -> None:
    assert queues.delayed_off_single_mean_wait(0.3, 0.1, 0.1) == pytest.approx(6.142857, abs=5.1e-7)
    shares = queues.delayed_off_single_fractions(0.3, 0.1, 0.1)
    assert 200 * (shares.busy + shares.setup) + 140 * shares.idle_on == pytest.approx(162.0, rel=1e-12)


def test_setup_without_delay_adds_a_setup_to_the_wait() -> None:
    # M/M/1 with exponential setup: decomposition W = W_{M/M/1} + 1/nu (Welch 1964; the residual of nu and of an
    # exponential setup is again exponential).
    for load, nu in ((0.2, 0.1), (0.7, 1.0), (0.9, 5.0)):
        wait = queues.delayed_off_single_mean_wait(load, math.inf, nu)
        assert wait == pytest.approx(queues.mm1_mean_wait(load) + 1 / nu, rel=1e-12)
        assert queues.delayed_off_single_fractions(load, math.inf, nu).idle_on == 0.0


@given(load=st.floats(0.01, 0.99), mu=RATES, nu=RATES)
def test_delayed_off_fractions_obey_the_identities(load: float, mu: float, nu: float) -> None:
    shares = queues.delayed_off_single_fractions(load, mu, nu)
    assert shares.busy + shares.idle_on + shares.idle_off + shares.setup == pytest.approx(1.0, abs=1e-14)
    assert abs(nu * shares.setup - mu * shares.idle_on) < 1e-14
    assert abs(shares.busy - load) < 1e-15
