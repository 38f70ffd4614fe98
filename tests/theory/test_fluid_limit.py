"""The fluid limit against jump rates, tabulated numbers, an Euler reference and its own conservation laws."""

import math
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.theory import fluid_limit
from elastiqueue.theory.fluid_limit import (
    FluidState,
    all_idle_on,
    distance,
    fixed_point,
    spread,
    stability_starts,
    trajectory,
)

EXPONENTIAL = PhaseType.exponential()
# Both write the exponential law in two phases: equal rates; and a fast phase whose exit rate is 1 as well.
DISGUISES = (
    PhaseType((0.3, 0.7), (1.0, 1.0), ((0.0, 0.0), (0.0, 0.0))),
    PhaseType((0.6, 0.4), (3.0, 1.0), ((0.0, 2 / 3), (0.0, 0.0))),
)
FEEDBACK = PhaseType(
    (0.5, 0.5, 0.0), (1.0, 4.0, 9.0), ((0, 0.3, 0.2), (0.1, 0, 0.5), (0.2, 0.2, 0))
).scaled_to_mean_one()
LAWS = {
    "exponential": EXPONENTIAL,
    "erlang": PhaseType.erlang(4),
    "hyperexponential": PhaseType.hyperexponential(16),
    "feedback": FEEDBACK,
}
WAVE = ArrivalRate((0.0,), (0.3,), 0.2, 40 * math.pi)
STEPS = ArrivalRate((0.0, 7.3, 21.0), (0.4, 1.3, 0.6))


def table(path):
    """All of q_ij, d0, d1, u as columns."""
    return np.column_stack([path.phases.reshape(len(path.times), -1), path.d0, path.d1, path.u])


def conservation_error(path):
    return np.abs(path.q[:, 0] + path.d0 + path.d1 + path.u - 1).max()


def drift(state, lam, mu, nu, buffer, law):
    """Derivatives of q (B, K), d0, d1, u, and the mode."""
    system = fluid_limit._system(mu, nu, buffer, law)._replace(step=float(lam))
    x = fluid_limit._vector(state, system)
    mode, out = fluid_limit._mode(0.0, x, system), np.zeros(x.size)
    fluid_limit._drift(0.0, x, mode, system, out)
    levels = out[fluid_limit._HEAD :].reshape(-1, law.phases + 1)
    return levels[:, :-1], *out[:3], fluid_limit.MODES[mode]


@njit(cache=True)
def euler(q, rest, start, steps, h, wave, mu, nu, rates, routing, exits, initial):
    """Euler steps in place, rest = (d0, d1, u); servers that are or become idle-on in a step take its tasks first."""
    levels, phases = q.shape
    change = np.zeros(q.shape)
    for step in range(steps):
        lam = wave[0] + wave[1] * np.sin(wave[2] * (start + step * h))
        d0, d1, u = rest
        busy, freed = q[0].sum(), nu * d1
        for k in range(phases):
            freed += (q[0, k] - (q[1, k] if levels > 1 else 0.0)) * rates[k] * exits[k]
        direct = min(lam, u / h + freed - mu * u)
        setups = min(lam - direct, d0 / h + mu * u)
        for i in range(levels):
            completed = 0.0  # by servers with more than i + 1 tasks
            for k in range(phases):
                if i + 1 < levels:
                    completed += q[i + 1, k] * rates[k] * exits[k]
            for j in range(phases):
                flow = completed * initial[j] - rates[j] * q[i, j]
                for k in range(phases):
                    flow += q[i, k] * rates[k] * routing[k, j]
                if i == 0:
                    flow += direct * initial[j]
                elif lam > direct:
                    flow += (lam - direct) / busy * (q[i - 1, j] - q[i, j])
                change[i, j] = flow
        for i in range(levels):
            for j in range(phases):
                q[i, j] += h * change[i, j]
        rest[0] += h * (mu * u - setups)
        rest[1] += h * (setups - nu * d1)
        rest[2] += h * (freed - direct - mu * u)


def plain_step(arrival, mu, nu, buffer, law, start, times, step):
    """Columns as of `table`, by Euler steps of at most `step` that end at each time and breakpoint.

    Needs no events: whatever tasks find idle-on servers drains u exactly. The error is proportional to the step.
    """
    if not isinstance(arrival, ArrivalRate):
        arrival = ArrivalRate.constant_rate(arrival)
    q = np.zeros((buffer, law.phases))
    kept = min(buffer, len(start.q))
    q[:kept] = start.q[:kept]
    rest, rows, t = np.array([start.d0, start.d1, start.u]), [], 0.0
    omega = 2 * math.pi / arrival.period
    for stop in sorted({*map(float, times), *(x for x in arrival.times if x < times[-1])}):
        steps = max(1, math.ceil((stop - t) / step - 1e-9))
        rate = arrival.rates[[i for i, x in enumerate(arrival.times) if x <= t][-1]]
        if stop > t:
            euler(
                q, rest, t, steps, (stop - t) / steps, np.array([rate, arrival.amplitude, omega]), mu, nu,
                np.array(law.rates), np.array(law.routing, float).reshape(law.phases, -1), np.array(law.exit),
                np.array(law.initial),
            )  # fmt: skip
        t = stop
        if stop in times:
            rows.append([*q.ravel(), *rest])
    return np.array(rows)


# ---- the drift against the jump rates of the finite system ----------------------------------------------------------


@st.composite
def laws(draw):
    n = draw(st.integers(1, 3))
    weight = st.floats(0, 1)
    initial = np.array(draw(st.lists(weight, min_size=n, max_size=n))) + 1e-3
    rates = draw(st.lists(st.floats(0.1, 10), min_size=n, max_size=n))
    routing = np.array(draw(st.lists(st.lists(weight, min_size=n, max_size=n), min_size=n, max_size=n)))
    np.fill_diagonal(routing, 0)
    routing *= 0.9 / np.maximum(1, routing.sum(axis=1, keepdims=True))
    return PhaseType(tuple(initial / initial.sum()), tuple(rates), tuple(map(tuple, routing))).scaled_to_mean_one()


@st.composite
def systems(draw):
    """A law, a state given by the number of servers with exactly m tasks in phase j, and the parameters."""
    law = draw(laws())
    buffer = draw(st.integers(1, 4))
    counts = np.array(draw(st.lists(st.integers(0, 20), min_size=buffer * law.phases, max_size=buffer * law.phases)))
    counts = counts.reshape(buffer, law.phases)
    counts[0, 0] += 1
    off, setup, idle = (draw(st.sampled_from([0, 0, 3, 20])) for _ in range(3))
    lam = draw(st.floats(0.05, 2))
    mu, nu = draw(st.floats(0.01, 3)), draw(st.floats(0.01, 3))
    return law, counts, off, setup, idle, lam, mu, nu


def jumps(law, counts, off, setup, idle, lam, mu, nu, finds_idle):
    """Transitions of the finite system, (rate, {(m, phase) or name: change}); do arrivals find an idle-on server?"""
    servers = counts.sum() + off + setup + idle
    busy = counts.sum()
    buffer = len(counts)
    if finds_idle:
        for j, r in enumerate(law.initial):
            yield lam * servers * r, {"idle": -1, (1, j): 1}
    else:
        started = {"off": -1, "setup": 1} if off > 0 else {}
        for m in range(1, buffer + 1):
            for j in range(law.phases):
                joined = {(m, j): -1, (m + 1, j): 1} if m < buffer else {}
                yield lam * servers * counts[m - 1, j] / busy, started | joined
    for m in range(1, buffer + 1):
        for k in range(law.phases):
            rate = counts[m - 1, k] * law.rates[k]
            for j in range(law.phases):
                yield rate * law.routing[k][j], {(m, k): -1, (m, j): 1}
            out = 1 - sum(law.routing[k])
            if m == 1:
                yield rate * out, {(1, k): -1, "idle": 1}
            else:
                for j, r in enumerate(law.initial):
                    change = {(m, k): -1}
                    change[m - 1, j] = change.get((m - 1, j), 0) + 1
                    yield rate * out * r, change
    yield setup * nu, {"setup": -1, "idle": 1}
    yield idle * mu, {"idle": -1, "off": 1}


def mean_drift(law, counts, off, setup, idle, lam, mu, nu, finds_idle):
    servers = counts.sum() + off + setup + idle
    exact = np.zeros(counts.shape)
    rest = {"off": 0.0, "setup": 0.0, "idle": 0.0}
    for rate, change in jumps(law, counts, off, setup, idle, lam, mu, nu, finds_idle):
        for what, by in change.items():
            if isinstance(what, str):
                rest[what] += rate * by
            else:
                exact[what[0] - 1, what[1]] += rate * by
    at_least = np.cumsum(exact[::-1], axis=0)[::-1]
    return np.concatenate([at_least.ravel(), [rest["off"], rest["setup"], rest["idle"]]]) / servers


@settings(max_examples=150, deadline=None)
@given(systems())
def test_drift_is_the_mean_drift_of_the_jump_rates(system):
    law, counts, off, setup, idle, lam, mu, nu = system
    servers = counts.sum() + off + setup + idle
    q = np.cumsum(counts[::-1], axis=0)[::-1] / servers
    dq, *rest, mode = drift(FluidState(q, off / servers, setup / servers), lam, mu, nu, len(counts), law)
    got = np.concatenate([dq.ravel(), rest])
    if idle > 0:
        assert mode == "free"
        expected = mean_drift(*system, finds_idle=True)
    else:
        # U is then a fast birth and death chain, up S N and down lambda N: P(U = 0) = (1 - S / lambda)^+
        freed = nu * setup / servers
        freed += sum(counts[0, k] * law.rates[k] * (1 - sum(law.routing[k])) for k in range(law.phases)) / servers
        share = min(1.0, freed / lam)
        expected = share * mean_drift(*system, finds_idle=True) + (1 - share) * mean_drift(*system, finds_idle=False)
        assert mode == ("free" if freed > lam else "sliding" if off > 0 else "drained")
    np.testing.assert_allclose(got, expected, atol=1e-12 * max(law.rates))


@settings(max_examples=100, deadline=None)
@given(systems())
def test_drift_conserves_servers_and_tasks(system):
    law, counts, off, setup, idle, lam, mu, nu = system
    servers = counts.sum() + off + setup + idle
    q = np.cumsum(counts[::-1], axis=0)[::-1] / servers
    dq, *rest, mode = drift(FluidState(q, off / servers, setup / servers), lam, mu, nu, len(counts), law)
    scale = max(law.rates)
    assert dq[0].sum() + sum(rest) == pytest.approx(0, abs=1e-13 * scale)
    # tasks: in at lambda less what full buffers lose, out at the rate of completions
    completions = sum(q[0, k] * law.rates[k] * law.exit[k] for k in range(law.phases))
    out_of_service = sum(counts[0, k] * law.rates[k] * law.exit[k] for k in range(law.phases)) / servers
    overflow = 0.0 if mode == "free" else lam - nu * setup / servers - out_of_service
    lost = overflow * q[-1].sum() / q[0].sum()
    assert dq.sum() == pytest.approx(lam - lost - completions, abs=1e-12 * scale)


# ---- fixed point ----------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(laws(), st.floats(0.01, 0.99), st.floats(0.01, 10), st.floats(0.01, 10))
def test_fixed_point_is_a_root_of_the_drift(law, lam, mu, nu):
    point = fixed_point(lam, mu, law)
    assert point.busy == pytest.approx(lam, rel=1e-12)
    assert point.d0 == pytest.approx(1 - lam, rel=1e-10)
    dq, *rest, _ = drift(point, lam, mu, nu, 5, law)
    worst = max(np.abs(dq).max(), *map(abs, rest))
    assert worst < 1e-13 * max(1, *law.rates)
    np.testing.assert_allclose(point.q[0], [lam * v / g for v, g in zip(law.visits(), law.rates, strict=True)])


def test_fixed_point_of_jiq_keeps_every_server_on():
    point = fixed_point(0.7, 0.0, EXPONENTIAL)
    assert (point.d0, point.d1) == (0, 0)
    assert point.u == pytest.approx(0.3, rel=1e-14)
    path = trajectory(0.7, 0, 0.1, 10, EXPONENTIAL, all_idle_on(), [60.0])
    assert distance(path, point)[0] < 1e-9


def test_path_rests_at_the_fixed_point():
    for law in LAWS.values():
        point = fixed_point(0.3, 0.1, law)
        path = trajectory(0.3, 0.1, 0.1, 10, law, point, np.linspace(0, 250, 6))
        assert distance(path, point).max() < 1e-11
        metrics = path.metrics()
        assert metrics["power"] == pytest.approx(60, abs=1e-8)
        assert metrics["wasted_power"] == pytest.approx(0, abs=1e-8)
        assert metrics["mean_wait"] == pytest.approx(0, abs=1e-9)
        assert metrics["mean_wait_integral"] == pytest.approx(0, abs=1e-9)


# ---- tabulated numbers ----------------------------------------------------------------------------------------------

START = FluidState(np.array([0.2, 0.1]), 0.5, 0.1)


def five(rows):
    return rows[:, [0, 1, -3, -2, -1]]


@pytest.mark.parametrize(
    ("arrival", "times", "known"),
    [
        (
            0.3,
            [1.0, 10.0, 50.0],
            [
                [0.3001, 0.0368, 0.5134, 0.0905, 0.0960],
                [0.3000, 0.0000, 0.5892, 0.0368, 0.0740],
                [0.3000, 0.0000, 0.6953, 0.0007, 0.0041],
            ],
        ),
        (WAVE, [20.0, 250.0], [[0.4731, 0.0094, 0.4004, 0.1239, 0.0026], [0.2673, 0.0263, 0.6343, 0.0984, 0.0000]]),
    ],
    ids=["constant", "varying"],
)
def test_tabulated_path(arrival, times, known):
    """The four-digit values known for these paths are those of plain steps of 0.002; the limit is up to 3e-4 off."""
    rounding = 5.5e-5  # to five digits and then to four: 0.0040497 is given as 0.0041
    coarse, fine = (five(plain_step(arrival, 0.1, 0.1, 10, EXPONENTIAL, START, times, h)) for h in (2e-3, 1e-3))
    exact = five(table(trajectory(arrival, 0.1, 0.1, 10, EXPONENTIAL, START, times)))
    np.testing.assert_allclose(coarse, known, atol=rounding)
    np.testing.assert_allclose(2 * fine - coarse, exact, atol=3e-6)  # what is left is of order 0.002^2
    error_of_the_step = np.abs(coarse - exact).max()
    assert error_of_the_step < 3e-4
    np.testing.assert_allclose(exact, known, atol=error_of_the_step + rounding)


def test_closed_form_while_idle_servers_last():
    """u > 0: q_2 = 0.1 exp(-t), q_1 = 0.3 + 0.1 (t - 1) exp(-t), d1 = 0.1 exp(-t / 10)."""
    t = np.linspace(0, 12, 25)
    path = trajectory(0.3, 0.1, 0.1, 10, EXPONENTIAL, START, t)
    np.testing.assert_allclose(path.q[:, 0], 0.3 + 0.1 * (t - 1) * np.exp(-t), atol=1e-10)
    np.testing.assert_allclose(path.q[:, 1], 0.1 * np.exp(-t), atol=1e-10)
    np.testing.assert_allclose(path.d1, 0.1 * np.exp(-0.1 * t), atol=1e-10)


# ---- independent reference -------------------------------------------------------------------------------------------


def boundary_starts(buffer, law):
    """States on the boundary: u = 0, d0 = 0, q_2 > 0, q_B > 0 and their combinations."""
    deep = np.linspace(0.5, 0.1, buffer)
    return [
        FluidState(spread([0.5, 0.2], law), 0.5, 0.0),  # u = 0, sliding
        FluidState(spread([0.5, 0.2], law), 0.2, 0.3),  # u = 0, some in setup
        FluidState(spread([0.6, 0.4], law), 0.0, 0.4),  # u = 0, d0 = 0
        FluidState(spread([1.0, 0.9], law), 0.0, 0.0),  # all busy
        FluidState(spread(np.ones(buffer), law), 0.0, 0.0),  # all full
        FluidState(spread(deep, law), 0.0, 0.0),  # d0 = 0, q_B > 0, u > 0
        FluidState(spread(deep, law), 0.5, 0.0),  # u = 0, q_B > 0
        FluidState(spread(0.1 * deep, law), 0.9, 0.0),  # few on
        FluidState(spread([1.0], law), 0.0, 0.0),  # u = 0, leaving at once
        all_idle_on(law),
    ]


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(
    ("arrival", "mu", "nu"),
    [(0.3, 0.1, 0.1), (0.9, 0.5, 0.05), (STEPS, 1.0, 0.5), (ArrivalRate((0.0,), (0.6,), 0.5, 25.0), 0.2, 0.3)],
)
def test_path_agrees_with_extrapolated_plain_steps(name, arrival, mu, nu):
    """At least 14 starts, 10 of them on the boundary, in each of 16 settings: relative error at most 1e-6.

    The plain step has an error c h + O(h^2), so 2 x(h/2) - x(h) is a reference with an error of O(h^2); h is halved
    until two references agree, and the last difference is three times the error of the last reference.
    """
    law, buffer = LAWS[name], 6
    times = np.linspace(0, 40, 21)
    starts = boundary_starts(buffer, law) + stability_starts(16, buffer, law)[12:]
    for start in starts:
        path = trajectory(arrival, mu, nu, buffer, law, start, times)
        assert conservation_error(path) < 1e-10
        h = 2e-3
        coarse, fine = (plain_step(arrival, mu, nu, buffer, law, start, times, s) for s in (2 * h, h))
        reference = 2 * fine - coarse
        for _ in range(7):
            h /= 2
            coarse, fine = fine, plain_step(arrival, mu, nu, buffer, law, start, times, h)
            last, reference = reference, 2 * fine - coarse
            converged = np.abs(reference - last).max()
            if converged < 6e-7:
                break
        assert converged < 6e-7
        size = np.abs(reference).max()
        assert np.abs(table(path) - reference).max() / size <= 1e-6


def test_stiff_systems():
    """Turning off a thousand times as fast as service: u follows S - lambda, u = (S - lambda) / mu up to 1/mu^2."""
    start = FluidState(np.array([0.2, 0.1]), 0.5)
    path = trajectory(0.5, 1000, 0.1, 6, EXPONENTIAL, start, np.linspace(0, 200, 11))
    slower = trajectory(0.5, 500, 0.1, 6, EXPONENTIAL, start, np.linspace(0, 200, 11))
    assert conservation_error(path) < 1e-10
    assert np.abs(table(path) - table(slower)).max() < 2e-3
    point = fixed_point(0.5, 1000, EXPONENTIAL)
    assert distance(path, point)[-1] < 1e-6
    with pytest.raises(ValueError, match="must need at most 200,000 steps"):
        trajectory(WAVE, 1e6, 0.1, 1, EXPONENTIAL, all_idle_on(), [200.0])


@pytest.mark.parametrize("small", [1e-4, 1e-6])
def test_start_near_the_singular_point(small):
    """q_1 and u close to 0: rates up to lambda / q_1, all of them transient."""
    start = FluidState(np.array([small]), 1 - small)
    times = np.linspace(0, 0.5, 5)
    path = trajectory(0.5, 0.1, 0.1, 6, EXPONENTIAL, start, times)
    steps = (small / 2, small / 4)  # times lambda / q_1: 1/4 and 1/8 at first, rapidly less
    coarse, fine = (plain_step(0.5, 0.1, 0.1, 6, EXPONENTIAL, start, times, h) for h in steps)
    assert np.abs(2 * fine - coarse - table(path)).max() < 1e-6


def test_long_silence_and_return_of_the_load():
    silence = ArrivalRate((0.0, 20.0, 140.0), (0.5, 0.0, 0.5))
    path = trajectory(silence, 0.1, 0.1, 6, EXPONENTIAL, START, np.linspace(0, 600, 61))
    assert conservation_error(path) < 1e-10
    assert path.u[14] + path.q[14, 0] < 2e-5  # almost everything has gone to sleep, as exp(-0.1 t)
    assert distance(path, fixed_point(0.5, 0.1, EXPONENTIAL))[-1] < 1e-8


# ---- structure of the paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", DISGUISES)
@pytest.mark.parametrize("arrival", [0.3, 0.9, WAVE, STEPS])
def test_exponential_law_in_two_phases_gives_the_exponential_path(law, arrival):
    times = np.linspace(0, 250, 26)
    levels = [0.5, 0.3, 0.1]
    plain = trajectory(arrival, 0.1, 0.1, 12, EXPONENTIAL, FluidState(np.array(levels), 0.3, 0.1), times)
    for q in (spread(levels, law), np.outer(levels, [1, 0]), np.outer(levels, [0.1, 0.9])):
        path = trajectory(arrival, 0.1, 0.1, 12, law, FluidState(q, 0.3, 0.1), times)
        assert np.abs(path.q - plain.q).max() < 1e-8
        for a, b in ((path.d0, plain.d0), (path.d1, plain.d1), (path.u, plain.u)):
            assert np.abs(a - b).max() < 1e-8
        assert path.metrics()["mean_wait"] == pytest.approx(plain.metrics()["mean_wait"], abs=1e-8)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("arrival", [WAVE, STEPS, 1.4])
def test_path_stays_in_the_state_space(law, arrival):
    for start in boundary_starts(8, law):
        path = trajectory(arrival, 0.1, 0.05, 8, law, start, np.linspace(0, 150, 151))
        assert conservation_error(path) < 1e-10
        assert np.diff(path.phases, axis=1).max() < 1e-10  # q_ij falls with i
        assert min(path.phases.min(), path.d0.min(), path.d1.min(), path.u.min()) >= 0
        assert path.q.max() <= 1 + 1e-12


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_flows_balance(law):
    """Integrals: tasks, setups and standby periods that end are what the state gained."""
    mu, nu = 0.4, 0.2
    for start in boundary_starts(5, law):
        path = trajectory(STEPS, mu, nu, 5, law, start, [0.0, 10.0, 60.0])
        total = {key: values[-1] for key, values in path.totals.items()}
        assert total["arrived"] == pytest.approx(0.4 * 7.3 + 1.3 * 13.7 + 0.6 * 39, rel=1e-9)
        span = total["idle_off"] + total["setup"] + total["idle_on"] + path.tail[-1, 0]
        assert span == pytest.approx(60, rel=1e-9)
        assert path.d1[-1] - path.d1[0] == pytest.approx(total["setups"] - nu * total["setup"], abs=1e-7)
        assert path.d0[-1] - path.d0[0] == pytest.approx(mu * total["idle_on"] - total["setups"], abs=1e-7)
        # expected work: each accepted task brings a mean of 1, a busy server does one unit per unit of time
        residual = np.array(law.residual())
        work = path.phases[:, 0] @ residual + path.q[:, 1:].sum(axis=1)
        accepted = total["arrived"] - total["lost"]
        assert work[-1] - work[0] == pytest.approx(accepted - path.tail[-1, 0], abs=1e-7)


def test_metrics_against_quadrature():
    times = np.linspace(0, 60, 60_001)
    law = PhaseType.hyperexponential(4)
    path = trajectory(STEPS, 0.4, 0.2, 5, law, FluidState(spread([0.5, 0.2], law), 0.5), times)

    def integral(values):
        return math.fsum((values[1:] + values[:-1]) / 2 * np.diff(times))

    metrics = path.metrics(full=200, idle=140, off=10)
    accepted = path.totals["arrived"][-1] - path.totals["lost"][-1]
    power = 200 * (path.q[:, 0] + path.d1) + 140 * path.u + 10 * path.d0
    assert metrics["power"] == pytest.approx(integral(power) / 60, rel=1e-7)
    assert metrics["mean_wait_integral"] == pytest.approx(integral(path.q[:, 1:].sum(axis=1)) / accepted, rel=1e-6)
    residual = np.array(law.residual())
    lam = np.array([STEPS.at(t) for t in times])
    exits = np.array(law.rates) * np.array(law.exit)
    idle_rate = 0.2 * path.d1 + (path.phases[:, 0] - path.phases[:, 1]) @ exits
    overflow = np.where(path.u > 0, 0, np.maximum(lam - idle_rate, 0)) / path.q[:, 0]
    exact = path.phases[:, :-1] - path.phases[:, 1:]  # exactly i + 1 tasks, below the buffer
    found = sum((exact[:, i] @ (i + residual)) for i in range(4))
    # the integrand jumps at changes of mode and of the rate: half a cell of error for each
    assert metrics["mean_wait"] == pytest.approx(integral(overflow * found) / accepted, rel=2e-3)
    assert metrics["wait_probability"] == pytest.approx(
        integral(overflow * exact.sum(axis=(1, 2))) / accepted, rel=2e-3
    )
    assert metrics["loss_probability"] == pytest.approx(
        integral(overflow * path.q[:, -1]) / path.totals["arrived"][-1], rel=2e-3
    )
    late = path.metrics(since=30_000)
    assert late["busy"] == pytest.approx(integral(np.where(times >= 30, path.q[:, 0], 0)) / 30, rel=1e-4)
    assert late["queue_tail"][0] == late["busy"]


def test_paths_compose():
    """Starting again from a reported state continues the path (the system is autonomous at constant rate)."""
    law = FEEDBACK
    times = np.linspace(0, 60, 61)
    path = trajectory(0.8, 0.2, 0.1, 6, law, FluidState(spread([0.5, 0.2], law), 0.5), times)
    for cut in (5, 20, 41):
        state = FluidState(path.phases[cut], float(path.d0[cut]), float(path.d1[cut]))
        rest = trajectory(0.8, 0.2, 0.1, 6, law, state, times[cut:] - times[cut])
        assert np.abs(table(rest) - table(path)[cut:]).max() < 1e-8


def test_breakpoints_are_integrated_to():
    pieces = trajectory(STEPS, 0.3, 0.2, 6, EXPONENTIAL, START, [7.3, 21.0, 30.0])
    state, states = START, []
    for rate, span in ((0.4, 7.3), (1.3, 13.7), (0.6, 9.0)):
        part = trajectory(rate, 0.3, 0.2, 6, EXPONENTIAL, state, [span])
        state = FluidState(part.phases[0], float(part.d0[0]), float(part.d1[0]))
        states.append(table(part)[0])
    assert np.abs(np.array(states) - table(pieces)).max() < 1e-9


def test_reported_times_do_not_change_the_path():
    few = trajectory(WAVE, 0.1, 0.1, 10, EXPONENTIAL, START, [250.0])
    many = trajectory(WAVE, 0.1, 0.1, 10, EXPONENTIAL, START, np.linspace(0, 250, 2001))
    assert np.abs(table(few)[0] - table(many)[-1]).max() < 1e-9


def test_a_short_touch_of_the_boundary_is_not_stepped_over():
    """Just above the load at which u first touches 0 the queueing spell is short; few reported times must do."""

    def path(mean, times):
        arrival = ArrivalRate((0.0,), (mean,), 0.2, 40.0)
        return trajectory(arrival, 0.0, 0.1, 6, EXPONENTIAL, all_idle_on(), times)

    low, high = 0.6, 0.9
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if len(path(middle, [30.0]).switches) > 1 else (middle, high)
    grid = np.linspace(0, 30, 30_001)
    # without any queueing q_1 solves q_1' = lambda(t) - q_1, and u = 1 - q_1: the touch is where its least value is 0
    w = 2 * math.pi / 40
    swing = (np.sin(w * grid) - w * np.cos(w * grid) + w * np.exp(-grid)) / (1 + w * w)
    touch = np.min((1 - 0.2 * swing) / (1 - np.exp(-np.maximum(grid, 1e-9))))
    assert low - 1e-6 < touch < high + 1e-6
    spell = path(high, [30.0]).switches
    assert [mode for _, mode in spell] == ["free", "drained", "free"]
    assert spell[2][0] - spell[1][0] < 0.5


def test_unlimited_buffer_grows_until_it_is_never_full():
    overload = trajectory(1.2, 0.1, 0.1, None, EXPONENTIAL, all_idle_on(), np.linspace(0, 400, 5))
    assert overload.q.shape[1] > 50
    assert overload.q[:, -1].max() < 1e-12
    assert overload.totals["lost"][-1] < 1e-9
    # all tasks are kept: 1.2 in, at most 1 out
    inside = overload.q.sum(axis=1)[-1]
    assert inside == pytest.approx(1.2 * 400 - overload.tail[-1, 0], rel=1e-8)


def test_plain_step_is_of_first_order():
    times = [20.0, 50.0, 250.0]
    exact = table(trajectory(WAVE, 0.1, 0.1, 6, EXPONENTIAL, START, times))
    errors = [np.abs((plain_step(WAVE, 0.1, 0.1, 6, EXPONENTIAL, START, times, h)) - exact).max() for h in (4e-3, 2e-3)]
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.05)


# ---- global stability -----------------------------------------------------------------------------------------------


def test_starts_are_spread_and_regular():
    for law in LAWS.values():
        starts = stability_starts(60, 7, law)
        assert len(starts) == 60
        assert all(start.busy + start.u > 0 for start in starts)
        rows = np.array([[start.busy, start.d0, start.d1, start.u] for start in starts])
        assert (rows.max(axis=0) > 0.6).all()
        assert (rows.min(axis=0) < 0.05).all()
        assert any(start.q[-1].sum() == 1 for start in starts)  # all full
        assert len({start.q.tobytes() + np.array([start.d0, start.d1]).tobytes() for start in starts}) == 60


def time_to_ball(lam, mu, nu, buffer, law, start, horizon, radius=1e-3):
    times = np.linspace(0.0, horizon, 4001)
    gap = distance(trajectory(lam, mu, nu, buffer, law, start, times), fixed_point(lam, mu, law))
    outside = np.flatnonzero(gap > radius)
    return 0.0 if outside.size == 0 else math.inf if outside[-1] == 4000 else float(times[outside[-1] + 1])


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_every_start_comes_to_the_fixed_point(law):
    settled = [time_to_ball(0.6, 0.5, 0.2, 10, law, start, 400) for start in stability_starts(24, 10, law)]
    assert max(settled) < 300
    assert min(settled) > 1
    assert time_to_ball(0.6, 0.5, 0.2, 10, law, fixed_point(0.6, 0.5, law), 10) == 0
    assert time_to_ball(0.6, 0.5, 0.2, 10, law, all_idle_on(law), 1) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize(("lam", "mu", "nu"), [(0.3, 0.1, 0.1), (0.9, 0.1, 0.01), (0.9, 1.0, 0.1), (0.5, 0.01, 1.0)])
def test_two_hundred_starts_come_to_the_fixed_point(lam, mu, nu):
    for start in stability_starts(200, 50, EXPONENTIAL):
        assert time_to_ball(lam, mu, nu, 50, EXPONENTIAL, start, 4000) < 3000


# ---- refusals and speed ---------------------------------------------------------------------------------------------


def call(arrival=0.3, mu=0.1, nu=0.1, buffer=10, law=EXPONENTIAL, start=START, times=(1.0,), **options):
    return trajectory(arrival, mu, nu, buffer, law, start, times, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": FluidState(np.zeros(1), 1.0)}, "q_1 = u = 0"),
        ({"start": FluidState(np.zeros(1), 0.4, 0.6)}, "q_1 = u = 0"),
        ({"start": FluidState(np.array([0.2, 0.2, 0.1])), "buffer": 2}, "q_3 > 0, must be 0 above buffer = 2"),
        ({"arrival": -0.1}, "must stay >= 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(change, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        call(**change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("q", "d0", "d1"),
    [
        ([0.5], 0.6, 0.0),
        ([0.1, 0.2], 0.0, 0.0),
        ([-0.1], 0.0, 0.0),
        ([0.5], -0.1, 0.0),
        ([0.5], 0.0, math.nan),
        ([math.nan], 0.0, 0.0),
        ([[0.2, 0.2], [0.1, 0.3]], 0.0, 0.0),
        ([[[0.2]]], 0.0, 0.0),
    ],
)
def test_states_outside_the_state_space_are_refused(q, d0, d1):
    with pytest.raises(ValueError, match="must"):
        FluidState(np.array(q), d0, d1)


@pytest.mark.parametrize("lam", [0.0, 1.0, 1.5, -0.2, math.nan])
def test_fixed_point_needs_a_load_below_one(lam):
    with pytest.raises(ValueError, match="arrival_rate"):
        fixed_point(lam, 0.1, EXPONENTIAL)


@pytest.mark.parametrize("arrival", [0.3, WAVE])
def test_a_path_takes_at_most_50_ms(arrival):
    times = np.linspace(0, 250, 251)
    best = math.inf
    for _ in range(10):
        begin = time.perf_counter()
        trajectory(arrival, 0.1, 0.1, 50, EXPONENTIAL, START, times)
        best = min(best, time.perf_counter() - begin)
    assert best < 0.05
