"""The exact solver against closed forms, hand-solved chains, random birth-death chains and a dense solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.models.registry import model_of
from elastiqueue.scenarios.reading import ServiceScenario
from elastiqueue.theory import queues
from elastiqueue.theory import stationary_law as exact
from elastiqueue.theory.chains import Chain


def column(states) -> np.ndarray:
    return np.array(states)[:, 0]


def many_servers(servers: int, arrival: float, level: int) -> Chain:
    """M/M/N/K with total arrival rate `arrival`; the state is the number of tasks."""

    def transitions(state):
        (tasks,) = state
        if tasks < level:
            yield arrival, (tasks + 1,), {"accepted": 1}
        else:
            yield arrival, state, {"lost": 1}
        yield float(min(tasks, servers)), (tasks - 1,), {"departures": 1}

    return Chain(
        (0,), transitions, lambda states: {"tasks": column(states), "waiting": np.maximum(column(states) - servers, 0)}
    )


def from_matrix(rates) -> Chain:
    """Chain with rates[i][j] from i to j, and one time integral per state."""

    def transitions(state):
        return [(rate, (j,), {}) for j, rate in enumerate(rates[state[0]]) if rate > 0]

    return Chain((0,), transitions, lambda states: {f"in_{i}": 1.0 * (column(states) == i) for i in range(len(rates))})


@pytest.mark.parametrize(
    ("servers", "arrival", "level"), [(1, 0.5, 7), (1, 1.0, 5), (1, 3.0, 60), (3, 2.0, 3), (4, 3.9, 30)]
)
def test_mmnk(servers: int, arrival: float, level: int) -> None:
    weights = [1.0]
    for tasks in range(1, level + 1):
        weights.append(weights[-1] * arrival / min(tasks, servers))
    law = [weight / math.fsum(weights) for weight in weights]
    rates = exact.stationary_rates(many_servers(servers, arrival, level))
    assert rates["time"] == 1.0
    assert rates["tasks"] == pytest.approx(math.fsum(k * p for k, p in enumerate(law)), rel=1e-12)
    assert rates["lost"] == pytest.approx(arrival * law[-1], rel=1e-12)
    assert rates["departures"] == pytest.approx(rates["accepted"], rel=1e-12)
    if level == servers:
        assert rates["lost"] / arrival == pytest.approx(queues.erlang_b(servers, arrival), rel=1e-12)


def test_hand_solved_cycle_and_triangle() -> None:
    # Cycle 0 -> 1 -> 2 -> 0 with rates 1, 2, 4: time in a state is inversely proportional to its exit rate.
    rates = exact.stationary_rates(from_matrix([[0, 1, 0], [0, 0, 2], [4, 0, 0]]))
    assert [rates[f"in_{i}"] for i in range(3)] == pytest.approx([4 / 7, 2 / 7, 1 / 7], rel=1e-14)
    # All six rates of the triangle, by the matrix-tree theorem: weight of i = sum over trees directed to i.
    rates = exact.stationary_rates(from_matrix([[0, 1, 2], [3, 0, 4], [5, 6, 0]]))
    trees = [3 * 5 + 3 * 6 + 4 * 5, 1 * 5 + 1 * 6 + 2 * 6, 2 * 3 + 2 * 4 + 1 * 4]
    assert [rates[f"in_{i}"] for i in range(3)] == pytest.approx([t / sum(trees) for t in trees], rel=1e-14)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)), min_size=1, max_size=40))
def test_birth_death_chains(pairs) -> None:
    size = len(pairs) + 1
    flows = np.zeros((size, size))
    weights = [1.0]
    for k, (birth, death) in enumerate(pairs):
        flows[k, k + 1], flows[k + 1, k] = birth, death
        weights.append(weights[-1] * birth / death)
    law = exact.stationary_law(sparse.csr_matrix(flows - np.diag(flows.sum(axis=1))))
    expected = np.array(weights) / math.fsum(weights)
    # Without subtractions each probability is a product of at most `size` ratios, a few roundings each, on both sides
    # of the comparison; the rates themselves are recovered from the generator without error.
    assert np.max(np.abs(law / expected - 1.0)) < 10 * size * np.finfo(float).eps


def test_two_modes_behind_a_bottleneck_of_probability_1e_minus_30() -> None:
    # Ten steps down by 1000, ten steps up by 1000: equal modes, which an elimination with subtractions cannot weigh.
    size = 21
    flows = np.zeros((size, size))
    for k in range(20):
        flows[k, k + 1], flows[k + 1, k] = (0.01, 10.0) if k < 10 else (10.0, 0.01)
    law = exact.stationary_law(sparse.csr_matrix(flows - np.diag(flows.sum(axis=1))))
    assert law[0] == pytest.approx(law[20], rel=1e-13)
    assert law[10] / law[0] == pytest.approx(1e-30, rel=1e-13)


def test_stiff_rates_keep_small_probabilities() -> None:
    # Two states that alternate every 1e-6, and are left for a third once in 1e8.
    rates = exact.stationary_rates(from_matrix([[0, 1e6, 0], [1e6, 0, 1e-8], [1.0, 0, 0]]))
    assert rates["in_2"] == pytest.approx(0.5e-8, rel=1e-7)  # neglected terms: 1e-8 and 1e-6 of itself
    assert rates["in_0"] == pytest.approx(0.5, rel=1e-7)


def test_transient_states_have_no_mass() -> None:
    rates = exact.stationary_rates(from_matrix([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 2], [0, 0, 3, 0]]))
    assert [rates[f"in_{i}"] for i in range(4)] == pytest.approx([0, 0, 0.6, 0.4], abs=1e-15)
    absorbing = exact.stationary_rates(from_matrix([[0, 5.0], [0, 0]]))
    assert (absorbing["in_0"], absorbing["in_1"]) == (0.0, 1.0)


def test_two_closed_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^closed classes = 2: .* exactly 1"):
        exact.stationary_rates(from_matrix([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))


def test_increments_on_transitions_that_do_not_move() -> None:
    chain = Chain((0,), lambda state: [(2.0, state, {"ticks": 3.0})], lambda states: {"here": np.full(1, 0.5)})
    assert exact.stationary_rates(chain) == {"ticks": 6.0, "here": 0.5, "time": 1.0}


def test_limit_on_the_number_of_states() -> None:
    assert len(exact.enumerate_states(many_servers(1, 0.5, 9), max_states=10).states) == 10
    with pytest.raises(ValueError, match=r"^states = more than 9: at most max_states = 9 are allowed$"):
        exact.enumerate_states(many_servers(1, 0.5, 9), max_states=9)


@pytest.mark.parametrize("rate", [-1.0, math.inf, math.nan])
def test_impossible_rates_are_refused(rate: float) -> None:
    chain = Chain((0,), lambda state: [(rate, (1,), {})], lambda states: {})
    with pytest.raises(ValueError, match=r"^rate = .*must be finite and >= 0$"):
        exact.enumerate_states(chain)


def tabs_space(servers: int, buffer: int, lam: float, mu: float, nu: float) -> exact.StateSpace:
    scenario = ServiceScenario(
        model="tabs", servers=servers, buffer=buffer, arrival_rate=lam, standby_rate=mu, setup_rate=nu
    )
    return exact.enumerate_states(model_of(scenario).chain(scenario))


@pytest.mark.parametrize(("mu", "nu"), [(0.01, 10.0), (10.0, 0.01), (1.0, 1.0)])
def test_sparse_solution_against_dense_least_squares(mu: float, nu: float) -> None:
    generator = tabs_space(4, 3, 0.8, mu, nu).generator
    law = exact.stationary_law(generator)
    equations = np.vstack([generator.toarray().T, np.ones(generator.shape[0])])
    dense = np.linalg.lstsq(equations, np.append(np.zeros(generator.shape[0]), 1.0), rcond=None)[0]
    # Orthogonal factorisation: relative error about epsilon times the condition number, here below 1e4.
    assert np.linalg.cond(equations) < 1e4
    assert np.max(np.abs(law - dense)) < 1e-11


@pytest.mark.parametrize(("lam", "mu", "nu"), [(0.9, 10.0, 0.01), (0.3, 0.01, 10.0)])
def test_iteration_agrees_with_elimination(monkeypatch, lam: float, mu: float, nu: float) -> None:
    generator = tabs_space(9, 3, lam, mu, nu).generator
    eliminated = exact.stationary_law(generator)
    monkeypatch.setattr(exact, "_ELIMINATION_WORK", 0)
    iterated = exact.stationary_law(generator)
    # Rounding of the flows (2e-16) times the jumps to equilibrium: about 10 jumps per unit of time, 1/0.01 units.
    assert np.max(np.abs(iterated - eliminated)) < 2e-13
    assert not np.array_equal(iterated, eliminated)  # the other path was taken


@pytest.mark.parametrize(("lam", "mu", "nu"), [(0.9, 10.0, 0.01), (0.5, 0.01, 10.0)])
def test_larger_stiff_system_balances(lam: float, mu: float, nu: float) -> None:
    space = tabs_space(12, 4, lam, mu, nu)
    assert len(space.states) == math.comb(12 + 6, 6)  # 12 servers of 7 kinds: 1 to 4 tasks, idle-on, off, setup
    law = exact.stationary_law(space.generator)
    assert exact.relative_residual(law, space.generator) < 1e-14
    rate = {column: math.fsum(law * reward) for column, reward in space.rewards.items()}
    assert nu * rate["setup"] == pytest.approx(mu * rate["idle_on"], rel=1e-10)
    assert rate["q_1"] == pytest.approx(rate["accepted"], rel=1e-12)


def test_a_wrong_solution_is_not_returned(monkeypatch) -> None:
    monkeypatch.setattr(exact, "_eliminate", lambda flows, place, width: np.ones(len(place)))
    with pytest.raises(ArithmeticError, match=r"^residual = .*must be <= 1e-11$"):
        exact.stationary_rates(many_servers(1, 0.5, 9))


def test_kernels_equal_their_python_selves() -> None:
    generator = tabs_space(3, 3, 0.8, 0.1, 0.1).generator
    exits = -generator.diagonal()
    inflows = sparse.csc_matrix(generator + sparse.diags(exits))
    laws = [np.full(len(exits), 1.0 / len(exits)) for _ in range(2)]
    kernel = exact._gauss_seidel_kernel
    for advance, law in zip((kernel, kernel.py_func), laws, strict=True):
        advance(inflows.indptr, inflows.indices, inflows.data, exits, law, 5)
    assert np.array_equal(*laws)
    kernel = exact._elimination_kernel
    for eliminate, law in zip((kernel, kernel.py_func), laws, strict=True):
        eliminate(np.random.default_rng(1).uniform(0.1, 1.0, (20, 7)), 3, law[:20])
    assert np.array_equal(*laws)


def test_doubling_the_level_converges_to_the_infinite_queue() -> None:
    found = exact.converged_rates(lambda level: many_servers(2, 1.6, level), 4, tolerance=1e-10)
    assert found.rates["waiting"] / found.rates["accepted"] == pytest.approx(queues.mmn_mean_wait(2, 1.6), rel=1e-10)
    assert found.change == found.changes[-1] <= 1e-10
    assert found.level == 4 * 2 ** len(found.changes)
    assert found.states == found.level + 1
    # The documented bound: each reported change exceeds the true error at that level.
    errors = []
    for k in range(1, len(found.changes) + 1):
        rates = exact.stationary_rates(many_servers(2, 1.6, 4 * 2**k))
        errors.append(abs(rates["waiting"] / (1.6 * queues.mmn_mean_wait(2, 1.6)) - 1.0))
    assert all(error <= change + 1e-13 for error, change in zip(errors, found.changes, strict=True))


def test_overloaded_queue_never_converges() -> None:
    with pytest.raises(ValueError, match=r"^states = more than 1000: .*truncation 1024; relative change so far"):
        exact.converged_rates(lambda level: many_servers(2, 2.2, level), 4, max_states=1000)
