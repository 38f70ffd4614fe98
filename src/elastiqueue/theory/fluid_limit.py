"""Fluid limit of TABS, for exponential and phase-type service, integrated from event to event.

State, as fractions of the servers: q_ij = busy with at least i tasks, the one in service in phase j (i = 1..B,
j = 1..K); d0 idle-off, d1 in setup, u idle-on; sum_j q_1j + d0 + d1 + u = 1. Exponential service is K = 1. With phase
rates gamma_j, routing r_kj, exit r_k0, initial law r_j (`elastiqueue.sampling.phase_type`), standby rate mu, setup rate
nu, arrival rate lambda(t) per server and q_1 = sum_j q_1j:

    S    = nu d1 + sum_k (q_1k - q_2k) gamma_k r_k0                    rate at which servers become idle-on
    a    = lambda if u > 0, else min(lambda, S)                        flow of tasks to idle-on servers
    xi'  = (lambda - a) 1[d0 > 0]                                      flow of setups
    q_1j' = a r_j                                         - gamma_j q_1j + sum_k q_1k gamma_k r_kj + c_2 r_j
    q_ij' = (lambda - a) (q_{i-1,j} - q_ij) / q_1         - gamma_j q_ij + sum_k q_ik gamma_k r_kj + c_{i+1} r_j
    d0'  = mu u - xi'        d1' = xi' - nu d1        u' = S - a - mu u

where c_i = sum_k q_ik gamma_k r_k0 is the rate at which servers with at least i tasks complete one (c_{B+1} = 0): a
server that completes one of m tasks stays among those with at least i tasks for all i < m, and draws a new phase.
Sources: Mukherjee, Dhara, Borst, van Leeuwaarden (2017), Theorem 3.1 and section 4.

The drift jumps at u = 0, hence three smooth systems ("modes"):

    FREE     u > 0, or u = 0 and S > lambda:  a = lambda, xi' = 0.      Leaves when u falls to 0.
    SLIDING  u = 0, S <= lambda, d0 > 0:      a = S, xi' = lambda - S.  Leaves when S rises to lambda or d0 falls to 0.
    DRAINED  u = 0, S <= lambda, d0 = 0:      a = S, xi' = 0.           Leaves when S rises to lambda.

d0 = 0 needs no sliding of its own: setups take from d0 only while u = 0, and then nothing flows into it. Each mode is
smooth and is integrated up to its event, by compiled explicit steps of order 8 or, where the system is stiff, by
`scipy.integrate.solve_ivp` with a stiff-safe method; breakpoints of the arrival rate are integrated to, never across.
On leaving a mode the next one follows from the drift S - lambda of u, and an event fires only 1e-12 beyond its
threshold, so that rounding cannot make the modes alternate at one instant. Within a step u (or S - lambda) could pass
its threshold and return unseen; so its turning points are looked for as well, and one beyond the threshold brackets
the event.

At q_1 = u = 0 (nobody can take a task) p_i = (1 - p_0) (q_i - q_{i+1}) / q_1 is 0/0: such a start is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import DOP853, solve_ivp

from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.phase_type import PhaseType

Floats = NDArray[np.float64]

FREE, SLIDING, DRAINED = 0, 1, 2
MODES = ("free", "sliding", "drained")
METHODS = ("auto", "LSODA", "BDF", "Radau", "DOP853", "RK45", "RK23")

# Columns of a state vector: d0, d1, u; integrals from time 0; then, by level, q_i1 .. q_iK and the integral of q_i.
_D0, _D1, _U, _INT_D0, _INT_D1, _INT_U, _ARRIVED, _LOST, _DELAYED, _WAIT, _SETUPS, _HEAD = range(12)
_TOTALS = {
    "idle_off": _INT_D0,
    "setup": _INT_D1,
    "idle_on": _INT_U,
    "arrived": _ARRIVED,
    "lost": _LOST,
    "delayed": _DELAYED,
    "wait": _WAIT,
    "setups": _SETUPS,
}

_SLACK = 1e-12  # events fire this far beyond their threshold; also what counts as rounding in a start
_EMPTY = 1e-14  # the explicit method leaves out the levels above the last one that holds more
_CLIMB = 12  # .. and, while tasks queue, keeps this many above: one step lifts no more than 1e-14 higher
_MOST_EVENTS = 10_000
_MOST_STEPS = 5_000  # explicit steps within one mode; beyond, the system is stiff

_ENDED, _LEFT, _DRY, _REST, _STIFF = range(5)  # why an integration stopped
_BY_SLOPE, _BY_MARGIN, _BY_D0 = range(3)  # what a root is sought of

# The explicit method: Dormand and Prince 8(5,3), with the coefficients that scipy carries.
_TABLEAU = tuple(np.ascontiguousarray(part) for part in (DOP853.A, DOP853.B, DOP853.C, DOP853.E3, DOP853.E5))


# ---- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _rate_at(t, rate):
    """lambda(t); rate = (step, amplitude, angular frequency)."""
    return rate[0] + rate[1] * math.sin(rate[2] * t)


@njit(cache=True)
def _idle_rate(x, nu, finish, buffer):
    """S: the rate at which servers become idle-on; finish_k = gamma_k r_k0."""
    phases = finish.size
    total = nu * x[_D1]
    for k in range(phases):
        more = x[_HEAD + phases + 1 + k] if buffer > 1 else 0.0
        total += (x[_HEAD + k] - more) * finish[k]
    return total


@njit(cache=True)
def _flow(x, lam, direct, setup, mu, nu, rates, source, target, pace, finish, initial, residual, buffer, top, out):
    """Drift of x when `direct` of the arrival flow `lam` goes to idle-on servers and `setup` setups start.

    Levels above `top` are empty and left out. Services move from phase source[m] to target[m] at rate pace[m].
    """
    phases = rates.size
    stride = phases + 1
    overflow = lam - direct
    busy = 0.0
    for j in range(phases):
        busy += x[_HEAD + j]
    each = 0.0  # flow of tasks to each busy server; nan when there is none to take them, which rejects the step
    if overflow != 0.0:
        each = overflow / busy if busy > 0.0 else math.nan

    done = 0.0  # c_{i+1}; from the top level down
    idle = nu * x[_D1]
    wait = 0.0
    lost = 0.0
    for i in range(top - 1, -1, -1):
        at = _HEAD + i * stride
        here = 0.0
        level = 0.0
        for j in range(phases):
            q = x[at + j]
            level += q
            here += q * finish[j]
            change = done * initial[j] - rates[j] * q
            if i == 0:
                change += direct * initial[j]
            else:
                change += each * (x[at - stride + j] - q)
            out[at + j] = change
        for move in range(pace.size):
            out[at + target[move]] += x[at + source[move]] * pace[move]
        out[at + phases] = level
        if i == 0:
            idle += here - done
        done = here
        if each != 0.0:
            if i == buffer - 1:
                lost = each * level
            else:
                for j in range(phases):
                    next_q = x[at + stride + j] if i + 1 < top else 0.0
                    wait += each * (x[at + j] - next_q) * (i + residual[j])
    out[_D0] = mu * x[_U] - setup
    out[_D1] = setup - nu * x[_D1]
    out[_U] = idle - direct - mu * x[_U]
    out[_INT_D0] = x[_D0]
    out[_INT_D1] = x[_D1]
    out[_INT_U] = x[_U]
    out[_ARRIVED] = lam
    out[_LOST] = lost
    out[_DELAYED] = overflow - lost
    out[_WAIT] = wait
    out[_SETUPS] = setup


@njit(cache=True)
def _mode_flow(t, x, mode, rate, mu, nu, rates, source, target, pace, finish, initial, residual, buffer, top, out):
    """Drift in a mode."""
    lam = _rate_at(t, rate)
    direct = lam
    setup = 0.0
    if mode != FREE:
        direct = _idle_rate(x, nu, finish, buffer)
        if mode == SLIDING:
            setup = lam - direct
    _flow(x, lam, direct, setup, mu, nu, rates, source, target, pace, finish, initial, residual, buffer, top, out)
    if mode != FREE:
        out[_U] = 0.0  # exactly: S - a up to rounding


@njit(cache=True)
def _margin(t, x, mode, rate, nu, finish, buffer):
    """What keeps the mode: u in FREE, lambda - S otherwise (positive inside)."""
    if mode == FREE:
        return x[_U]
    return _rate_at(t, rate) - _idle_rate(x, nu, finish, buffer)


@njit(cache=True)
def _slope(t, change, mode, rate, nu, finish, buffer):
    """Time derivative of the margin, given the drift."""
    if mode == FREE:
        return change[_U]
    return rate[1] * rate[2] * math.cos(rate[2] * t) - _idle_rate(change, nu, finish, buffer)


@njit(cache=True)
def _plain_kernel(x, start, steps, h, rate, mu, nu, rates, source, target, pace, finish, initial, residual, buffer):
    """Euler steps in place; idle-on servers present or becoming so during the step take tasks first."""
    out = np.empty_like(x)
    for step in range(steps):
        lam = _rate_at(start + step * h, rate)
        direct = min(lam, x[_U] / h + _idle_rate(x, nu, finish, buffer) - mu * x[_U])
        setup = min(lam - direct, x[_D0] / h + mu * x[_U])
        _flow(
            x, lam, direct, setup, mu, nu, rates, source, target, pace, finish, initial, residual, buffer, buffer, out
        )
        for i in range(x.size):
            x[i] += h * out[i]


@njit(cache=True)
def _stages(t, x, h, mode, rate, mu, nu, law, buffer, top, tableau, k, y):
    """One step of the explicit Runge-Kutta method from x to y; k[0] holds the drift at x, k[s] becomes that at y."""
    rates, source, target, pace, finish, initial, residual = law
    a, b, c, _, _ = tableau
    used = _HEAD + top * (rates.size + 1)
    for s in range(1, b.size + 1):
        for i in range(used):
            y[i] = x[i]
        for r in range(s):
            weight = h * (a[s, r] if s < b.size else b[r])
            if weight != 0.0:
                for i in range(used):
                    y[i] += weight * k[r, i]
        when = t + h * (c[s] if s < b.size else 1.0)
        _mode_flow(
            when, y, mode, rate, mu, nu, rates, source, target, pace, finish, initial, residual, buffer, top, k[s]
        )


@njit(cache=True)
def _find(t, x, high, what, mode, rate, mu, nu, law, buffer, top, tableau, k, y):
    """Length in [0, high] of the step from (t, x) at which a quantity changes sign; y is left at the point found.

    Regula falsi (Illinois), each trial a step of the full order: no interpolation error.
    """
    finish = law[4]
    low = 0.0
    f_low = 0.0
    f_high = 0.0
    last = 0
    h = 0.0
    for trial in range(62):
        if trial == 1:
            h = high
        elif trial > 1:
            h = high - f_high * (high - low) / (f_high - f_low)
            if not low < h < high:
                h = 0.5 * (low + high)
        _stages(t, x, h, mode, rate, mu, nu, law, buffer, top, tableau, k, y)
        if what == _BY_MARGIN:
            f = _margin(t + h, y, mode, rate, nu, finish, buffer) + _SLACK
        elif what == _BY_SLOPE:
            f = _slope(t + h, k[tableau[1].size], mode, rate, nu, finish, buffer)
        else:
            f = y[_D0]
        if trial == 0:
            f_low = f
            continue
        if trial > 1 and (abs(f) < 1e-16 or high - low < 1e-15 * max(1.0, t)):
            break
        if trial == 1:
            f_high = f
        elif (f < 0.0) == (f_high < 0.0):
            high, f_high = h, f
            if last == 1:
                f_low *= 0.5
            last = 1
        else:
            low, f_low = h, f
            if last == -1:
                f_high *= 0.5
            last = -1
    return h


@njit(cache=True)
def _explicit_kernel(t, x, end, times, rows, mode, rate, mu, nu, law, buffer, tableau, rtol, atol, longest, resting):
    """Explicit Runge-Kutta (Dormand and Prince 8(5,3)) in one mode, from t to its event or `end`; x in place.

    Steps end at every reported time. Returns (why it stopped, time, rows filled).
    """
    rates, source, target, pace, finish, initial, residual = law
    _, b, _, e3, e5 = tableau
    order = b.size
    stride = rates.size + 1
    k = np.zeros((order + 1, x.size))
    trials = np.zeros((order + 1, x.size))
    y = np.zeros(x.size)
    z = np.zeros(x.size)
    filled = 0
    fastest = max(mu, nu)
    for j in range(rates.size):
        fastest = max(fastest, rates[j])
    h = 0.1 / max(1.0, fastest)
    for _ in range(_MOST_STEPS):
        top = 1
        for i in range(buffer, 0, -1):
            level = 0.0
            for j in range(rates.size):
                level += x[_HEAD + (i - 1) * stride + j]
            if level > _EMPTY:
                top = i
                break
        for i in range(top, buffer):
            for j in range(rates.size):
                x[_HEAD + i * stride + j] = 0.0
        top = min(buffer, max(2, top if mode == FREE else top + _CLIMB))
        used = _HEAD + top * stride
        _mode_flow(t, x, mode, rate, mu, nu, rates, source, target, pace, finish, initial, residual, buffer, top, k[0])
        if resting > 0.0:
            most = max(abs(k[0, _D0]), abs(k[0, _D1]), abs(k[0, _U]))
            for i in range(top):
                for j in range(rates.size):
                    most = max(most, abs(k[0, _HEAD + i * stride + j]))
            if most <= resting:
                return _REST, t, filled
        falling = _slope(t, k[0], mode, rate, nu, finish, buffer) < 0.0
        goal = times[filled] if filled < times.size and times[filled] < end else end
        h = min(h, longest)
        while True:
            step = h
            whole = t + 1.0000001 * step >= goal
            if whole:
                step = goal - t
            _stages(t, x, step, mode, rate, mu, nu, law, buffer, top, tableau, k, y)
            err3 = 0.0
            err5 = 0.0
            for i in range(used):
                part3 = 0.0
                part5 = 0.0
                for s in range(order + 1):
                    part3 += e3[s] * k[s, i]
                    part5 += e5[s] * k[s, i]
                scale = atol + rtol * max(abs(x[i]), abs(y[i]))
                err3 += (part3 / scale) ** 2
                err5 += (part5 / scale) ** 2
            error = 0.0
            if err5 != 0.0:
                error = step * err5 / math.sqrt((err5 + 0.01 * err3) * used)
            if not error < 1e300:  # overflow or nan
                error = 1e300
            factor = 10.0 if error < 1e-10 else min(10.0, max(0.2, 0.9 * error ** (-0.125)))
            if error <= 1.0:
                h = max(h, step * factor) if whole else step * factor
                break
            h = step * min(1.0, factor)
            if h < 1e-14 * max(1.0, t):
                return _STIFF, t, filled

        # events: beyond the margin at the end of the step, or at a turning point within it; or d0 used up before that
        stop = -1.0
        why = _ENDED
        if _margin(t + step, y, mode, rate, nu, finish, buffer) < -_SLACK:
            stop = step
        turns = stop < 0.0 and falling and _slope(t + step, k[order], mode, rate, nu, finish, buffer) > 0.0
        for what in range(3):  # _BY_SLOPE, _BY_MARGIN, _BY_D0; one call of _find compiles faster than three
            if what == _BY_SLOPE and not turns:
                continue
            if what == _BY_MARGIN and stop < 0.0:
                continue
            if what == _BY_D0 and (mode != SLIDING or (y[_D0] if why == _ENDED else z[_D0]) >= 0.0):
                continue
            high = step if stop < 0.0 else stop
            for i in range(used):
                trials[0, i] = k[0, i]
            found = _find(t, x, high, what, mode, rate, mu, nu, law, buffer, top, tableau, trials, z)
            if what == _BY_SLOPE:
                if _margin(t + found, z, mode, rate, nu, finish, buffer) < -_SLACK:
                    stop = found
            else:
                why = _LEFT if what == _BY_MARGIN else _DRY
                stop = found
        if why != _ENDED:
            for i in range(used):
                x[i] = z[i]
            return why, t + stop, filled
        for i in range(used):
            x[i] = y[i]
        t = goal if whole else t + step
        if whole:
            if filled < times.size and times[filled] == t:
                for i in range(x.size):
                    rows[filled, i] = x[i]
                filled += 1
            if t >= end:
                return _ENDED, end, filled
    return _STIFF, t, filled


# ---- states ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FluidState:
    """A point of the state space, fractions of the servers.

    Parameters
    ----------
    q : shape (levels, K), or (levels,) for K = 1: q[i - 1, j] servers with at least i tasks, in phase j; levels above
        the last row are empty
    d0, d1 : idle-off and setup; the rest is idle-on

    Raises
    ------
    ValueError
        outside the state space: negative entries, q increasing in the level, more than all servers.
    """

    q: Floats
    d0: float = 0.0
    d1: float = 0.0

    def __post_init__(self) -> None:
        q = np.array(self.q, dtype=float)
        if q.ndim == 1:
            q = q[:, None]
        if q.ndim != 2 or q.size == 0:
            raise ValueError(f"q has shape {q.shape}: must be (levels, phases)")
        below = np.vstack([q[1:], np.zeros((1, q.shape[1]))])
        if not np.all(np.isfinite(q)) or np.any(q < below - _SLACK) or np.any(q < 0):
            raise ValueError("q: must be >= 0 and must not increase with the queue length, in each phase")
        q.flags.writeable = False
        object.__setattr__(self, "q", q)
        for key, value in (("d0", self.d0), ("d1", self.d1)):
            if not (math.isfinite(value) and 0 <= value <= 1):
                raise ValueError(f"{key} = {value}: must be a fraction of the servers in [0, 1]")
        if self._rest() < -_SLACK:
            raise ValueError(f"q_1 + d0 + d1 = {1 - self._rest():.6g}: must be <= 1, all servers")

    def _rest(self) -> float:
        return 1.0 - math.fsum((*self.q[0], self.d0, self.d1))

    @property
    def u(self) -> float:
        """Idle-on fraction 1 - q_1 - d0 - d1; below 1e-12 it counts as 0."""
        rest = self._rest()
        return rest if rest > _SLACK else 0.0

    @property
    def busy(self) -> float:
        """q_1, the fraction of busy servers."""
        return math.fsum(self.q[0])


def all_idle_on(service: PhaseType | None = None) -> FluidState:
    """Every server on and idle."""
    return FluidState(np.zeros((1, 1 if service is None else service.phases)))


def spread(levels: ArrayLike, service: PhaseType) -> Floats:
    """q of shape (B, K) with given sums q_i over the phases, each level in the phase mix of long-run service.

    The mix is v_j / gamma_j / mean (`PhaseType.visits`), that of the fixed point.
    """
    weights = np.array([v / g for v, g in zip(service.visits(), service.rates, strict=True)])
    return np.outer(np.asarray(levels, dtype=float), weights / math.fsum(weights))


class Drift(NamedTuple):
    """Time derivatives at a state: q of shape (B, K), d0, d1, u; and the mode's name."""

    q: Floats
    d0: float
    d1: float
    u: float
    mode: str


@dataclass(frozen=True, eq=False)
class FluidPath:
    """A solution at given times.

    times : (n,)                 in mean service times
    phases : (n, B, K)           q_ij
    d0, d1, u : (n,)
    tail : (n, B)                integral of q_i from 0 to each time
    totals : name -> (n,)        integrals from 0: idle_off, setup, idle_on (of d0, d1, u); arrived, lost, delayed
                                 (flows of tasks), setups (flow of setups), wait (flow of tasks times the wait expected
                                 on joining: tasks found, the one in service counted by its mean residual)
    switches : (time, mode)      modes entered, the first at time 0; empty for the plain step
    """

    times: Floats
    phases: Floats
    d0: Floats
    d1: Floats
    u: Floats
    tail: Floats
    totals: dict[str, Floats]
    switches: tuple[tuple[float, str], ...] = ()

    @property
    def q(self) -> Floats:
        """q_i = sum_j q_ij, shape (n, B)."""
        return self.phases.sum(axis=2)

    def metrics(
        self, full: float = 200.0, idle: float = 140.0, off: float = 0.0, since: int | None = None
    ) -> dict[str, Any]:
        """Time averages from time 0, or from times[since], to times[-1].

        ``full``, ``idle``, ``off``: power per server in W (setup draws ``full``). Keys: mean_wait (expected wait found
        on joining, per accepted task), mean_wait_integral (integral of waiting tasks sum_{i>=2} q_i over accepted
        tasks; the two agree in equilibrium), wait_probability, loss_probability, power, wasted_power, busy, idle_on,
        idle_off, setup, queue_tail (list). Ratios are nan when no task is accepted.
        """
        kept = 0.0 if since is None else 1.0  # what to take off: the integrals up to times[since]
        first = 0 if since is None else since
        span = float(self.times[-1] - kept * self.times[first])
        if span <= 0:
            raise ValueError(f"since = {since}: must leave a window of positive length before the last time")
        total = {name: float(values[-1] - kept * values[first]) for name, values in self.totals.items()}
        tail = [float(x) / span for x in self.tail[-1] - kept * self.tail[first]]
        accepted = total["arrived"] - total["lost"]
        on, starting, sleeping = (total[name] / span for name in ("idle_on", "setup", "idle_off"))
        power = full * (tail[0] + starting) + idle * on + off * sleeping

        def per(amount: float, tasks: float) -> float:
            return amount / tasks if tasks > 0 else math.nan

        return {
            "mean_wait": per(total["wait"], accepted),
            "mean_wait_integral": per(math.fsum(tail[1:]) * span, accepted),
            "wait_probability": per(total["delayed"], accepted),
            "loss_probability": per(total["lost"], total["arrived"]),
            "power": power,
            "wasted_power": power - full * tail[0],
            "busy": tail[0],
            "idle_on": on,
            "idle_off": sleeping,
            "setup": starting,
            "queue_tail": tail,
        }


# ---- set-up shared by the public functions ---------------------------------------------------------------------------


class _System:
    """Parameters as the kernels take them."""

    def __init__(self, standby_rate: float, setup_rate: float, buffer: int, service: PhaseType) -> None:
        for key, value in (("standby_rate", standby_rate), ("setup_rate", setup_rate)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{key} = {value}: must be >= 0")
        if isinstance(buffer, bool) or int(buffer) != buffer or buffer < 1:
            raise ValueError(f"buffer = {buffer}: must be a whole number >= 1 (tasks, incl. the one in service)")
        self.mu, self.nu, self.buffer, self.service = float(standby_rate), float(setup_rate), int(buffer), service
        self.phases = service.phases
        rates = np.array(service.rates)
        finish = rates * np.array(service.exit)
        self.finish = finish
        moves = [(k, j, r) for k, row in enumerate(service.routing) for j, r in enumerate(row) if r > 0]
        self.law = (
            rates,
            np.array([k for k, _, _ in moves], dtype=np.int64),
            np.array([j for _, j, _ in moves], dtype=np.int64),
            np.array([service.rates[k] * r for k, _, r in moves], dtype=float),
            finish,
            np.array(service.initial),
            np.array(service.residual()),
        )
        self.size = _HEAD + self.buffer * (self.phases + 1)
        self.fastest = max(self.mu, self.nu, *service.rates)

    def levels(self, x: Floats) -> Floats:
        """View of one or more state vectors as (.., B, K + 1): q_ij, then the integral of q_i."""
        return x[..., _HEAD:].reshape(*x.shape[:-1], self.buffer, self.phases + 1)

    def vector(self, state: FluidState) -> Floats:
        levels, phases = state.q.shape
        if phases != self.phases:
            raise ValueError(f"start: q has {phases} phases, must have the {self.phases} of the service law")
        if levels > self.buffer and np.any(state.q[self.buffer :] > 0):
            raise ValueError(f"start: q_{self.buffer + 1} > 0, must be 0 above buffer = {self.buffer}")
        if state.busy <= 0 and state.u <= 0:
            raise ValueError("start: q_1 = u = 0 (no server on) is singular, must have busy or idle-on servers")
        x = np.zeros(self.size)
        kept = min(levels, self.buffer)
        self.levels(x)[:kept, :phases] = state.q[:kept]
        x[:_INT_D0] = state.d0, state.d1, state.u
        return x

    def margin(self, t: float, x: Floats, mode: int, rate: Floats) -> float:
        return float(_margin(t, x, mode, rate, self.nu, self.finish, self.buffer))

    def flow(self, t: float, x: Floats, mode: int, rate: Floats) -> Floats:
        out = np.empty_like(x)
        _mode_flow(t, x, mode, rate, self.mu, self.nu, *self.law, self.buffer, self.buffer, out)
        return out

    def speed(self, flow: Floats) -> float:
        """Largest |derivative| of q_ij, d0, d1, u."""
        return float(max(np.abs(flow[:_INT_D0]).max(), np.abs(self.levels(flow)[:, :-1]).max()))

    def mode(self, t: float, x: Floats, rate: Floats) -> int:
        """The mode that the drift selects at x."""
        if x[_U] > 0 or self.margin(t, x, SLIDING, rate) < 0:
            return FREE
        return SLIDING if x[_D0] > 0 else DRAINED

    def settle(self, x: Floats) -> None:
        """Put u on 0 after its event, moving the excess (1e-12) to where it fits, so that the sum stays 1."""
        excess = x[_U]
        x[_U] = 0.0
        for column in (_D0, _D1):
            if x[column] > max(0.0, -excess):
                x[column] += excess
                return
        q = self.levels(x)[:, :-1]
        q *= 1 + excess / q[0].sum()

    def path(self, times: Floats, xs: Floats, switches: Iterable[tuple[float, str]] = ()) -> FluidPath:
        # the solution is >= 0: what lies below is integration error
        states = np.maximum(xs[:, :_INT_D0], 0.0)
        levels = self.levels(xs)
        return FluidPath(
            times=times,
            phases=np.maximum(levels[..., :-1], 0.0),
            d0=states[:, _D0],
            d1=states[:, _D1],
            u=states[:, _U],
            tail=levels[..., -1],
            totals={name: xs[:, column] for name, column in _TOTALS.items()},
            switches=tuple(switches),
        )


def _arrivals(arrival: ArrivalRate | float) -> ArrivalRate:
    if isinstance(arrival, ArrivalRate):
        return arrival
    return ArrivalRate.constant_rate(arrival)


def _pieces(arrival: ArrivalRate, horizon: float) -> list[tuple[float, float, Floats]]:
    """(start, end, (step, amplitude, angular frequency)) of the smooth pieces of lambda(t) that cover [0, horizon]."""
    starts = [t for t in arrival.times if t < horizon] or [0.0]
    ends = [*starts[1:], horizon]
    omega = 2 * math.pi / arrival.period if arrival.amplitude else 0.0
    return [
        (a, b, np.array([step, arrival.amplitude, omega]))
        for a, b, step in zip(starts, ends, arrival.rates[: len(starts)], strict=True)
    ]


def _times(times: ArrayLike) -> Floats:
    out = np.atleast_1d(np.asarray(times, dtype=float))
    if out.ndim != 1 or out.size == 0 or not np.all(np.isfinite(out)) or out[0] < 0 or np.any(np.diff(out) <= 0):
        raise ValueError("times: must be >= 0 and strictly increasing")
    return out


# ---- the engine ------------------------------------------------------------------------------------------------------


def trajectory(
    arrival: ArrivalRate | float,
    standby_rate: float,
    setup_rate: float,
    buffer: int | None,
    service: PhaseType,
    start: FluidState,
    times: ArrayLike,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-12,
    method: str = "auto",
) -> FluidPath:
    """Integrate the fluid limit from ``start`` at time 0 and report it at ``times``.

    Parameters
    ----------
    arrival : rate per server, a number or an `ArrivalRate`
    standby_rate, setup_rate : mu and nu per mean service time, >= 0 (mu = 0 with everything on is JIQ)
    buffer : B >= 1, tasks incl. the one in service; None = unlimited: 50 levels, doubled until q_B stays below 1e-12
    service : law of mean 1, K phases
    start : a state with q_1 + u > 0
    times : increasing, >= 0
    rtol, atol : tolerances of the step control
    method : a method of `scipy.integrate.solve_ivp` for every mode ("LSODA", "BDF", "Radau" are stiff-safe), or "auto":
        compiled explicit steps (Dormand and Prince 8(5,3)), and LSODA wherever these need more than 5000 in one mode

    Raises
    ------
    ValueError
        for parameters out of range, a start with other phases, longer queues than the buffer, or q_1 = u = 0.
    """
    out = _times(times)
    if method not in METHODS:
        raise ValueError(f"method = {method}: must be one of {', '.join(METHODS)}")
    for key, value in (("rtol", rtol), ("atol", atol)):
        if not value > 0:
            raise ValueError(f"{key} = {value}: must be > 0")
    if buffer is None:
        levels = max(50, 2 * len(start.q))
        while True:
            path = trajectory(
                arrival, standby_rate, setup_rate, levels, service, start, out, rtol=rtol, atol=atol, method=method
            )
            if path.q[:, -1].max() < _SLACK and path.tail[-1, -1] < _SLACK * max(1.0, float(out[-1])):
                return path
            levels *= 2
    system = _System(standby_rate, setup_rate, buffer, service)
    x = system.vector(start)
    rows = np.empty((out.size, x.size))
    filled = 0
    if out[0] == 0:
        rows[0] = x
        filled = 1
    switches: list[tuple[float, str]] = []
    for begin, end, rate in _pieces(_arrivals(arrival), float(out[-1])):
        t = begin
        events = 0
        resting = atol if rate[1] == 0.0 else 0.0  # a drift below this is rest; never while the rate varies
        while t < end:
            events += 1
            if events > _MOST_EVENTS:
                raise RuntimeError(f"fluid path: more than {_MOST_EVENTS} changes of mode between {begin:g} and {t:g}")
            mode = system.mode(t, x, rate)
            if not switches or switches[-1][1] != MODES[mode]:
                switches.append((t, MODES[mode]))
            why = _REST if system.speed(system.flow(t, x, mode, rate)) <= resting else _STIFF
            if why == _STIFF and method == "auto" and system.fastest * (end - t) <= 5 * _MOST_STEPS:
                # not stiff: explicit steps are stable up to about 6 / rate
                longest = math.pi / (4 * rate[2]) if rate[1] else math.inf  # an eighth of a period
                why, t, count = _explicit_kernel(
                    t, x, end, out[filled:], rows[filled:], mode, rate, system.mu, system.nu, system.law, system.buffer,
                    _TABLEAU, rtol, atol, longest, resting,
                )  # fmt: skip
                filled += count
            if why == _STIFF:
                why, t, count = _run_scipy(
                    system, t, x, end, out[filled:], rows[filled:], mode, rate, rtol, atol, method
                )
                filled += count
            if why == _REST:  # only the integrals change until the piece ends
                flow = system.flow(t, x, mode, rate)
                flow[:_INT_D0] = 0.0
                system.levels(flow)[:, :-1] = 0.0
                last = int(np.searchsorted(out, end, side="right"))
                rows[filled:last] = x + np.outer(out[filled:last] - t, flow)
                filled = last
                x = x + (end - t) * flow
                t = end
            elif why == _DRY:
                x[_U] += x[_D0]  # rounding of the root search
                x[_D0] = 0.0
                system.settle(x)
            elif why == _LEFT and mode == FREE:
                system.settle(x)
    rows[filled:] = x
    return system.path(out, rows, switches)


def _run_scipy(
    system: _System,
    t: float,
    x: Floats,
    end: float,
    times: Floats,
    rows: Floats,
    mode: int,
    rate: Floats,
    rtol: float,
    atol: float,
    method: str,
) -> tuple[int, float, int]:
    """`_explicit_kernel` by `solve_ivp`: x in place; why it stopped, time, rows filled."""
    nu, buffer, finish = system.nu, system.buffer, system.finish

    def flow(s: float, y: Floats) -> Floats:
        return system.flow(s, y, mode, rate)

    def leave(s: float, y: Floats) -> float:
        return float(_margin(s, y, mode, rate, nu, finish, buffer)) + _SLACK

    def turn(s: float, y: Floats) -> float:
        return float(_slope(s, flow(s, y), mode, rate, nu, finish, buffer))

    def dry(s: float, y: Floats) -> float:
        return float(y[_D0])

    leave.terminal, leave.direction = True, -1  # type: ignore[attr-defined]
    turn.direction = 1  # type: ignore[attr-defined]
    dry.terminal, dry.direction = True, -1  # type: ignore[attr-defined]
    events = [leave, turn, dry] if mode == SLIDING else [leave, turn]
    longest = math.pi / (4 * rate[2]) if rate[1] else math.inf
    name = "LSODA" if method == "auto" else method
    limit = end
    while True:
        wanted = times[: np.searchsorted(times, limit, side="right")]
        ask = wanted if wanted.size and wanted[-1] == limit else np.append(wanted, limit)
        result: Any = solve_ivp(  # type: ignore[call-overload]
            flow, (t, limit), x, method=name, t_eval=ask, events=events, rtol=rtol, atol=atol, max_step=longest
        )
        if result.status < 0:
            raise RuntimeError(f"fluid path: {name} failed after time {t:g}: {result.message}")
        stopped = [(float(result.t_events[i][0]), i) for i in range(len(events)) if i != 1 and result.t_events[i].size]
        stop, which = min(stopped) if stopped else (limit, -1)
        hidden = [
            float(s)
            for s, y in zip(result.t_events[1], result.y_events[1], strict=True)
            if s < stop and leave(s, y) < -_SLACK
        ]
        if not hidden:
            break
        limit = hidden[0]  # the margin was passed and regained within one step: look again, up to its lowest point
    count = min(len(result.t), wanted.size)  # result.y is an empty list when no reported time comes before the event
    if count:
        rows[:count] = result.y.T[:count]
    x[:] = result.y_events[which][0] if which >= 0 else result.y[:, -1]
    return (_DRY if which == 2 else _LEFT if which == 0 else _ENDED), stop, count


def plain_step(
    arrival: ArrivalRate | float,
    standby_rate: float,
    setup_rate: float,
    buffer: int,
    service: PhaseType,
    start: FluidState,
    times: ArrayLike,
    step: float,
) -> FluidPath:
    """The same path by Euler steps of at most ``step``, the check of `trajectory`.

    The error is proportional to ``step``; steps must stay below q_1 / lambda while tasks queue. Tasks go to idle-on
    servers at rate min(lambda, u / h + S - mu u): those that are present or become idle-on within the step, less those
    that turn off. That drains u exactly and needs no events. Steps end at every reported time and at every breakpoint
    of the arrival rate. Arguments otherwise as in `trajectory`.

    Raises
    ------
    RuntimeError
        if the step is too long to be stable.
    """
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"step = {step}: must be > 0")
    out = _times(times)
    system = _System(standby_rate, setup_rate, buffer, service)
    x = system.vector(start)
    rows = np.empty((out.size, x.size))
    filled = 0
    if out[0] == 0:
        rows[0] = x
        filled = 1
    for begin, end, rate in _pieces(_arrivals(arrival), float(out[-1])):
        t = begin
        while t < end:
            stop = min(end, float(out[filled]))
            steps = max(1, math.ceil((stop - t) / step - 1e-9))
            _plain_kernel(x, t, steps, (stop - t) / steps, rate, system.mu, system.nu, *system.law, buffer)
            t = stop
            if stop == out[filled]:
                rows[filled] = x
                filled += 1
    if not np.all(np.isfinite(rows)):
        raise RuntimeError(f"plain step: step = {step} is too long to be stable from this start")
    return system.path(out, rows)


# ---- drift, fixed point, global stability ----------------------------------------------------------------------------


def drift(
    state: FluidState,
    arrival_rate: float,
    standby_rate: float,
    setup_rate: float,
    buffer: int,
    service: PhaseType,
) -> Drift:
    """Right-hand derivative of the fluid limit at a state, at constant arrival rate; arguments as in `trajectory`."""
    system = _System(standby_rate, setup_rate, buffer, service)
    x = system.vector(state)
    rate = np.array([_rate(arrival_rate), 0.0, 0.0])
    mode = system.mode(0.0, x, rate)
    out = system.flow(0.0, x, mode, rate)
    return Drift(system.levels(out)[:, :-1], float(out[_D0]), float(out[_D1]), float(out[_U]), MODES[mode])


def _rate(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"arrival_rate = {value}: must be >= 0")
    return float(value)


def fixed_point(arrival_rate: float, standby_rate: float, setup_rate: float, service: PhaseType) -> FluidState:
    """The equilibrium of the fluid limit: q_1j = lambda eta_j / (gamma_j eta_0), no queues, setups or idle-on servers.

    The rest is off, d0 = 1 - lambda (eq. 1 of the paper). With ``standby_rate`` = 0 nothing ever turns off: the
    equilibrium in which every server is on is returned, u = 1 - lambda (JIQ). The result is checked to be a root of
    the drift.

    Raises
    ------
    ValueError
        unless 0 < lambda < 1 and the service law has mean 1.
    """
    if not 0 < _rate(arrival_rate) < 1:
        raise ValueError(f"arrival_rate = {arrival_rate}: must be > 0 and < 1 for a fixed point")
    if abs(service.mean() - 1) > 1e-9:
        raise ValueError(f"service: mean is {service.mean():.9g}, must be 1")
    q = arrival_rate * np.array([[v / g for v, g in zip(service.visits(), service.rates, strict=True)]])
    off = 1.0 - math.fsum(q[0]) if standby_rate > 0 else 0.0
    state = FluidState(q, off, 0.0)
    rates = drift(state, arrival_rate, standby_rate, setup_rate, 2, service)
    worst = max(float(np.max(np.abs(rates.q))), abs(rates.d0), abs(rates.d1), abs(rates.u))
    if worst > 1e-12 * max(1.0, max(service.rates)):
        raise RuntimeError(f"fixed point: the drift there is {worst:g}, not 0")
    return state


def distance(path: FluidPath, point: FluidState) -> Floats:
    """Largest difference in any q_ij, d0, d1, u between the path and a point, at each time; shape (n,)."""
    q = np.zeros_like(path.phases[0])
    kept = min(point.q.shape[0], q.shape[0])
    q[:kept] = point.q[:kept]
    gap = np.abs(path.phases - q).reshape(len(path.times), -1).max(axis=1)
    for values, value in ((path.d0, point.d0), (path.d1, point.d1), (path.u, point.u)):
        gap = np.maximum(gap, np.abs(values - value))
    return gap


def time_to_ball(
    arrival_rate: float,
    standby_rate: float,
    setup_rate: float,
    buffer: int,
    service: PhaseType,
    start: FluidState,
    *,
    radius: float = 1e-3,
    horizon: float = 1000.0,
    resolution: int = 4000,
) -> float:
    """Time after which the path stays within ``radius`` of the fixed point (largest coordinate) up to ``horizon``.

    Rounded up to a multiple of horizon / resolution; inf if the path is outside at the horizon. Needs mu > 0, nu > 0.
    """
    if standby_rate <= 0 or setup_rate <= 0:
        raise ValueError(f"standby_rate = {standby_rate}, setup_rate = {setup_rate}: must be > 0 for convergence")
    point = fixed_point(arrival_rate, standby_rate, setup_rate, service)
    times = np.linspace(0.0, horizon, resolution + 1)
    path = trajectory(arrival_rate, standby_rate, setup_rate, buffer, service, start, times)
    outside = np.flatnonzero(distance(path, point) > radius)
    if outside.size == 0:
        return 0.0
    last = int(outside[-1])
    return math.inf if last == resolution else float(times[last + 1])


_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def _radical_inverse(index: int, base: int) -> float:
    """Van der Corput: the digits of index mirrored at the point."""
    value, scale = 0.0, 1.0 / base
    while index:
        index, digit = divmod(index, base)
        value += digit * scale
        scale /= base
    return value


def _spacings(points: Sequence[float]) -> list[float]:
    """Gaps of sorted points of [0, 1]: uniform points give a uniform point of the simplex."""
    cuts = [0.0, *sorted(points), 1.0]
    return [b - a for a, b in pairwise(cuts)]


def stability_starts(n: int, buffer: int, service: PhaseType, seed: int = 0) -> list[FluidState]:
    """n starts spread over the state space: its corners and edges first, then a Halton sequence; no singular one.

    Corners: all idle-on; all busy with 1 task, with B tasks; then halves of these with the other half off or in setup,
    and halves of two of them. Halton points: (busy, d0, d1, u) uniform on its simplex, the longest queue uniform on
    1..B, the queue lengths below it geometric from short to long, the phases uniform on theirs. Another ``seed`` takes
    the next block of the sequence. At most 21 phases.
    """
    if service.phases > len(_PRIMES) - 4:
        raise ValueError(f"service: {service.phases} phases, must be <= {len(_PRIMES) - 4} for these starts")
    empty = np.zeros((buffer, service.phases))
    single, full = empty.copy(), empty.copy()
    single[0] = spread([1.0], service)[0]
    full[:] = spread(np.ones(buffer), service)
    states = [FluidState(empty), FluidState(single), FluidState(full)]
    for q in (empty, single, full):
        for d0, d1 in ((0.5, 0.0), (0.0, 0.5)):
            states.append(FluidState(q / 2, d0, d1))
    states += [FluidState(single / 2), FluidState(full / 2), FluidState((single + full) / 2)]
    index = seed * n
    while len(states) < n:
        index += 1
        z = [_radical_inverse(index, base) for base in _PRIMES[: 4 + service.phases]]
        busy, d0, d1, _ = _spacings(z[:3])
        longest = 1 + int(z[3] * buffer)
        ratio = 2.0 ** (4 * z[4] - 2)
        mass = np.array([ratio ** (m * min(1.0, 8 / longest)) for m in range(longest)])
        levels = np.zeros(buffer)
        levels[:longest] = np.cumsum(mass[::-1])[::-1] / mass.sum()
        mix = _spacings(z[5 : 4 + service.phases])
        states.append(FluidState(busy * np.outer(levels, mix), d0, d1))
    return states[:n]
