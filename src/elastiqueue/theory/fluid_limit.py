"""Fluid limit of TABS, for exponential and phase-type service, integrated from event to event.

State, as fractions of the servers: q_ij = busy with at least i tasks, the one in service in phase j (i = 1..B,
j = 1..K); d0 idle-off, d1 in setup, u idle-on; sum_j q_1j + d0 + d1 + u = 1. Exponential service is K = 1. With phase
rates gamma_j, routing r_kj, exit r_k0, initial distribution r_j (`elastiqueue.sampling.phase_type`), standby rate mu,
setup rate nu, arrival rate lambda(t) per server and q_1 = sum_j q_1j:

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
smooth and is integrated up to its event by steps of order 8; breakpoints of the arrival rate are integrated to, never
across. On leaving a mode the next one follows from the drift S - lambda of u, and an event fires only 1e-12 beyond its
threshold, so that rounding cannot make the modes alternate at one instant. Within a step u (or S - lambda) could pass
its threshold and return unseen; so its turning points are looked for as well, and one beyond the threshold brackets
the event.

At q_1 = u = 0 (no server can take a task) p_i = (1 - p_0) (q_i - q_{i+1}) / q_1 is 0/0: such a start is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import DOP853

from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.phase_type import PhaseType

Floats = NDArray[np.float64]

FREE, SLIDING, DRAINED = 0, 1, 2
MODES = ("free", "sliding", "drained")

# A state vector: d0, d1, u; integrals from time 0 of these and of flows; then, by level, q_i1 .. q_iK and the integral
# of q_i. It holds as many levels as have tasks, and some above.
_D0, _D1, _U, _INTEGRALS = range(4)
TOTALS = ("idle_off", "setup", "idle_on", "arrived", "lost", "delayed", "wait", "setups")
_HEAD = _INTEGRALS + len(TOTALS)

_SLACK = 1e-12  # events fire this far beyond their threshold; also what counts as rounding in a start
_EMPTY = 1e-14  # a level that holds less is empty
_CLIMB = 12  # levels that one step can fill: as many as it has stages
_MAX_STEPS = 200_000  # between two changes of mode: some seconds

# Why an integration stopped: at its end; the mode's margin is used up, or d0; more levels are needed; too many steps.
_ENDED, _LEFT, _DRY, _FULL, _STIFF = range(5)
_BY_SLOPE, _BY_MARGIN, _BY_D0 = range(3)

# The method: Dormand and Prince 8(5,3), with the coefficients that scipy carries.
_A, _B, _C, _E3, _E5 = (np.ascontiguousarray(part) for part in (DOP853.A, DOP853.B, DOP853.C, DOP853.E3, DOP853.E5))
_STAGES = _B.size


class _System(NamedTuple):
    """Parameters as the kernels take them; services move from phase source[m] to target[m] at rate pace[m]."""

    mu: float
    nu: float
    buffer: int
    rates: Floats
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    pace: Floats
    finish: Floats  # gamma_k r_k0
    initial: Floats
    residual: Floats
    step: float = 0.0  # lambda(t) = step + amplitude sin(omega t)
    amplitude: float = 0.0
    omega: float = 0.0


def _system(standby_rate: float, setup_rate: float, buffer: int | None, service: PhaseType) -> _System:
    moves = [(k, j, r) for k, row in enumerate(service.routing) for j, r in enumerate(row) if r > 0]
    rates = np.array(service.rates)
    return _System(
        float(standby_rate),
        float(setup_rate),
        2**62 if buffer is None else int(buffer),
        rates,
        np.array([k for k, _, _ in moves], dtype=np.int64),
        np.array([j for _, j, _ in moves], dtype=np.int64),
        np.array([service.rates[k] * r for k, _, r in moves], dtype=float),
        rates * np.array(service.exit),
        np.array(service.initial),
        np.array(service.residual()),
    )


# ---- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _rate(t, p):
    """lambda(t)."""
    return p.step + p.amplitude * math.sin(p.omega * t)


@njit(cache=True)
def _idle_rate(x, p):
    """S: the rate at which servers become idle-on."""
    phases = p.finish.size
    total = p.nu * x[_D1]
    for k in range(phases):
        more = x[_HEAD + phases + 1 + k] if x.size > _HEAD + phases + 1 else 0.0
        total += (x[_HEAD + k] - more) * p.finish[k]
    return total


@njit(cache=True, error_model="numpy")
def _drift(t, x, mode, p, out):
    """Drift of a state vector in a mode; not finite where tasks queue and no server is busy."""
    phases = p.finish.size
    stride = phases + 1
    levels = (x.size - _HEAD) // stride
    lam, setup = _rate(t, p), 0.0
    direct = lam
    if mode != FREE:
        direct = _idle_rate(x, p)
        if mode == SLIDING:
            setup = lam - direct
    overflow, busy = lam - direct, 0.0
    for j in range(phases):
        busy += x[_HEAD + j]
    each = overflow / busy if overflow != 0.0 else 0.0  # flow of tasks to each busy server
    done = lost = wait = 0.0  # done: c_{i+1}; from the top level down
    idle = p.nu * x[_D1]
    for i in range(levels - 1, -1, -1):
        at = _HEAD + i * stride
        here = level = 0.0
        for j in range(phases):
            q = x[at + j]
            level += q
            here += q * p.finish[j]
            into = direct * p.initial[j] if i == 0 else each * (x[at - stride + j] - q)
            out[at + j] = done * p.initial[j] - p.rates[j] * q + into
            if i < p.buffer - 1:
                above = x[at + stride + j] if i + 1 < levels else 0.0
                wait += each * (q - above) * (i + p.residual[j])
        for move in range(p.pace.size):
            out[at + p.target[move]] += x[at + p.source[move]] * p.pace[move]
        out[at + phases] = level
        if i == 0:
            idle += here - done
        if i == p.buffer - 1:
            lost = each * level
        done = here
    out[_D0] = p.mu * x[_U] - setup
    out[_D1] = setup - p.nu * x[_D1]
    out[_U] = idle - direct - p.mu * x[_U] if mode == FREE else 0.0
    for i, flow in enumerate((x[_D0], x[_D1], x[_U], lam, lost, overflow - lost, wait, setup)):
        out[_INTEGRALS + i] = flow


@njit(cache=True)
def _beyond(what, t, x, change, mode, p):
    """Whether the mode's margin is used up (u in FREE, lambda - S otherwise), or rises, or d0 is used up."""
    if what == _BY_D0:
        return x[_D0] < 0.0
    if what == _BY_MARGIN:
        return (x[_U] if mode == FREE else _rate(t, p) - _idle_rate(x, p)) < -_SLACK
    turn = p.amplitude * p.omega * math.cos(p.omega * t)
    return (change[_U] if mode == FREE else turn - _idle_rate(change, p)) > 0.0


@njit(cache=True)
def _step(t, x, h, mode, p, a, b, c, k, y):
    """One step of length h from x to y; k[0] holds the drift at x, k[s] becomes that of stage s, the last that at y."""
    for s in range(1, b.size + 1):
        y[:] = x
        for r in range(s):
            weight = h * (a[s, r] if s < b.size else b[r])
            if weight != 0.0:
                for i in range(x.size):
                    y[i] += weight * k[r, i]
        _drift(t + h * (c[s] if s < b.size else 1.0), y, mode, p, k[s])


@njit(cache=True, error_model="numpy")
def _growth(x, y, h, k, e3, e5, rtol, atol):
    """The eighth root of the permitted over the estimated error of a step, at most 100: by square roots, which round
    alike on every machine."""
    err3 = err5 = 0.0
    for i in range(x.size):
        part3 = part5 = 0.0
        for s in range(e3.size):
            part3 += e3[s] * k[s, i]
            part5 += e5[s] * k[s, i]
        scale = atol + rtol * max(abs(x[i]), abs(y[i]))
        err3 += (part3 / scale) ** 2
        err5 += (part5 / scale) ** 2
    error = h * err5 / math.sqrt((err5 + 0.01 * err3) * x.size) if err5 != 0.0 else 0.0
    if not error < 1e300:  # overflow or nan
        return 0.0
    return 1.0 / math.sqrt(math.sqrt(math.sqrt(max(error, 1e-16))))


@njit(cache=True)
def _find(what, t, x, h, mode, p, a, b, c, k, y):
    """Length of the step in (0, h] from which on `_beyond` holds, by bisection; y is left at its end."""
    low = 0.0
    while h - low > 1e-15 * max(1.0, t):
        middle = 0.5 * (low + h)
        if not low < middle < h:
            break
        _step(t, x, middle, mode, p, a, b, c, k, y)
        if _beyond(what, t + middle, y, k[b.size], mode, p):
            h = middle
        else:
            low = middle
    _step(t, x, h, mode, p, a, b, c, k, y)
    return h


@njit(cache=True)
def _integrate(t, x, end, times, rows, mode, p, a, b, c, e3, e5, rtol, atol):
    """Go on in one mode from t to its event or `end`; x in place; each of `times` ends a step and fills a row.

    Returns (why it stopped, time, rows filled).
    """
    stride = p.finish.size + 1
    levels = (x.size - _HEAD) // stride
    k, tried = np.zeros((b.size + 1, x.size)), np.zeros((b.size + 1, x.size))
    y, z = np.zeros(x.size), np.zeros(x.size)
    longest = math.pi / (4 * p.omega) if p.amplitude != 0.0 else math.inf  # an eighth of a period
    h = min(longest, 0.1 / max(1.0, p.mu, p.nu, p.rates.max()))
    filled = 0
    for _ in range(_MAX_STEPS):
        for i in range(x.size):
            if abs(x[i]) < 1e-30:  # before it gets so small that processors slow down
                x[i] = 0.0
        if levels < p.buffer and x[_HEAD + (levels - _CLIMB) * stride :][: stride - 1].sum() > _EMPTY:
            return _FULL, t, filled
        _drift(t, x, mode, p, k[0])
        goal = times[filled] if filled < times.size and times[filled] < end else end
        largest = max(abs(k[0, _D0]), abs(k[0, _D1]), abs(k[0, _U]))
        for i in range(levels):
            for j in range(stride - 1):
                largest = max(largest, abs(k[0, _HEAD + i * stride + j]))
        step = goal - t
        if p.amplitude == 0.0 and largest <= atol:  # at rest: only integrals change
            whole = True
            for i in range(x.size):
                integral = i >= _INTEGRALS and (i < _HEAD or (i - _HEAD) % stride == stride - 1)
                y[i] = x[i] + step * k[0, i] if integral else x[i]
        else:
            h = min(h, longest)
            while True:
                whole = t + 1.0000001 * h >= goal
                step = goal - t if whole else h
                _step(t, x, step, mode, p, a, b, c, k, y)
                growth = _growth(x, y, step, k, e3, e5, rtol, atol)
                if growth >= 1.0:
                    h = max(h, step * min(10.0, 0.9 * growth)) if whole else step * min(10.0, 0.9 * growth)
                    break
                h = step * max(0.2, 0.9 * growth)
                if h < 1e-14 * max(1.0, t):
                    return _STIFF, t, filled
            # events: beyond the margin at the end of the step, or at a turning point within it; or d0 used up earlier
            why, stop = _ENDED, step
            left = _beyond(_BY_MARGIN, t + step, y, k[b.size], mode, p)
            falls = not _beyond(_BY_SLOPE, t, x, k[0], mode, p)
            turns = not left and falls and _beyond(_BY_SLOPE, t + step, y, k[b.size], mode, p)
            tried[0] = k[0]
            for what in range(3):  # _BY_SLOPE, _BY_MARGIN, _BY_D0
                if (
                    (what == _BY_SLOPE and turns)
                    or (what == _BY_MARGIN and left)
                    or (what == _BY_D0 and mode == SLIDING and (z if left else y)[_D0] < 0.0)
                ):
                    length = _find(what, t, x, stop, mode, p, a, b, c, tried, z)
                    if what != _BY_SLOPE:
                        why, stop = (_LEFT if what == _BY_MARGIN else _DRY), length
                    elif _beyond(_BY_MARGIN, t + length, z, tried[b.size], mode, p):
                        left, stop = True, length
            if why != _ENDED:
                x[:] = z
                return why, t + stop, filled
        x[:] = y
        t = goal if whole else t + step
        if whole and filled < times.size and times[filled] == t:
            rows[filled] = x
            filled += 1
        if t >= end:
            return _ENDED, end, filled
    return _STIFF, t, filled


# ---- states and paths ------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True, eq=False)
class FluidPath:
    """A solution at given times; levels L <= B, as many as ever hold tasks (those above are empty).

    times : (n,)                 in mean service times
    phases : (n, L, K)           q_ij
    d0, d1, u : (n,)
    tail : (n, L)                integral of q_i from 0 to each time
    totals : name -> (n,)        integrals from 0: idle_off, setup, idle_on (of d0, d1, u); arrived, lost, delayed
                                 (flows of tasks), setups (flow of setups), wait (flow of tasks times the wait expected
                                 on joining: tasks found, the one in service counted by its mean residual)
    switches : (time, mode)      modes entered, the first at time 0
    """

    times: Floats
    phases: Floats
    d0: Floats
    d1: Floats
    u: Floats
    tail: Floats
    totals: dict[str, Floats]
    switches: tuple[tuple[float, str], ...]

    @property
    def q(self) -> Floats:
        """q_i = sum_j q_ij, shape (n, L)."""
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


def _vector(state: FluidState, system: _System) -> Floats:
    levels, phases = state.q.shape
    if levels > system.buffer and np.any(state.q[system.buffer :] > 0):
        raise ValueError(f"start: q_{system.buffer + 1} > 0, must be 0 above buffer = {system.buffer}")
    if state.busy <= 0 and state.u <= 0:
        raise ValueError("start: q_1 = u = 0 (no server on) is singular, must have busy or idle-on servers")
    kept = min(levels, system.buffer)
    x = np.zeros(_HEAD + min(system.buffer, kept + 2 * _CLIMB) * (phases + 1))
    x[_HEAD:].reshape(-1, phases + 1)[:kept, :phases] = state.q[:kept]
    x[:_INTEGRALS] = state.d0, state.d1, state.u
    return x


def _mode(t: float, x: Floats, p: _System) -> int:
    """The mode that the drift selects at x."""
    if x[_U] > 0 or _rate(t, p) < _idle_rate(x, p):
        return FREE
    return SLIDING if x[_D0] > 0 else DRAINED


def _settle(x: Floats, phases: int) -> None:
    """Put u on 0 after its event, moving the excess (1e-12) to where it fits, so that the sum stays 1."""
    excess = x[_U]
    x[_U] = 0.0
    for column in (_D0, _D1):
        if x[column] > max(0.0, -excess):
            x[column] += excess
            return
    q = x[_HEAD:].reshape(-1, phases + 1)[:, :-1]
    q *= 1 + excess / q[0].sum()


def _too_stiff(standby_rate: float, setup_rate: float, end: float) -> ValueError:
    return ValueError(
        f"standby_rate = {standby_rate:g}, setup_rate = {setup_rate:g}: the fluid limit until {end:g} must need "
        f"at most {_MAX_STEPS:,} steps"
    )


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
) -> FluidPath:
    """Integrate the fluid limit from ``start`` at time 0 and report it at ``times``.

    Parameters
    ----------
    arrival : rate per server, a number or an `ArrivalRate`
    standby_rate, setup_rate : mu and nu per mean service time, >= 0 (mu = 0 with everything on is JIQ)
    buffer : B >= 1, tasks incl. the one in service; None = unlimited
    service : distribution of mean 1, K phases
    start : a state with q_1 + u > 0
    times : increasing, >= 0
    rtol, atol : tolerances of the step control

    Raises
    ------
    ValueError
        for a start with longer queues than the buffer, or q_1 = u = 0; and where rates and times are so far apart that
        more than 200,000 steps would be needed.
    """
    out = np.asarray(times, dtype=float)
    system = _system(standby_rate, setup_rate, buffer, service)
    x = _vector(start, system)
    rows = np.empty((out.size, x.size))
    rows[0] = x  # kept where the first time is 0
    filled = int(out[0] == 0)
    switches: list[tuple[float, str]] = []
    arrivals = arrival if isinstance(arrival, ArrivalRate) else ArrivalRate.constant_rate(arrival)
    omega = 2 * math.pi / arrivals.period if arrivals.amplitude else 0.0
    moving = float(out[-1])  # until it is at rest
    if arrivals.constant:
        moving = min(moving, 50 * sum(1 / rate for rate in (1.0, standby_rate, setup_rate) if rate > 0))
    if max(standby_rate, setup_rate, *service.rates) * moving > 5 * _MAX_STEPS:  # a step is at most some 6 / rate long
        raise _too_stiff(standby_rate, setup_rate, out[-1])
    for t, following, rate in zip(arrivals.times, [*arrivals.times[1:], math.inf], arrivals.rates, strict=True):
        p = system._replace(step=float(rate), amplitude=float(arrivals.amplitude), omega=omega)
        end = min(following, float(out[-1]))
        while t < end:
            mode = _mode(t, x, p)
            if not switches or switches[-1][1] != MODES[mode]:
                switches.append((t, MODES[mode]))
            why, t, count = _integrate(
                t, x, end, out[filled:], rows[filled:], mode, p, _A, _B, _C, _E3, _E5, rtol, atol
            )
            filled += count
            if why == _STIFF:
                raise _too_stiff(standby_rate, setup_rate, out[-1])
            if why == _FULL:
                more = min(x.size - _HEAD, system.buffer * (service.phases + 1) - (x.size - _HEAD))
                x, rows = np.pad(x, (0, more)), np.pad(rows, ((0, 0), (0, more)))
            elif why == _DRY:
                x[_U] += x[_D0]  # rounding of the root search
                x[_D0] = 0.0
            if why in (_LEFT, _DRY) and x[_U] != 0.0:
                _settle(x, service.phases)
    levels = rows[:, _HEAD:].reshape(out.size, -1, service.phases + 1)
    states = np.maximum(rows[:, :_INTEGRALS], 0.0)  # the solution is >= 0: what lies below is integration error
    return FluidPath(
        times=out,
        phases=np.maximum(levels[..., :-1], 0.0),
        d0=states[:, _D0],
        d1=states[:, _D1],
        u=states[:, _U],
        tail=levels[..., -1],
        totals={name: rows[:, _INTEGRALS + i] for i, name in enumerate(TOTALS)},
        switches=tuple(switches),
    )


# ---- fixed point, global stability -----------------------------------------------------------------------------------


def fixed_point(arrival_rate: float, standby_rate: float, service: PhaseType) -> FluidState:
    """The equilibrium of the fluid limit: q_1j = lambda eta_j / (gamma_j eta_0), no queues, setups or idle-on servers.

    The rest is off, d0 = 1 - lambda (eq. 1 of the paper). With ``standby_rate`` = 0 nothing ever turns off: the
    equilibrium in which every server is on is returned, u = 1 - lambda (JIQ).

    Raises
    ------
    ValueError
        unless 0 < lambda < 1.
    """
    if not 0 < arrival_rate < 1:
        raise ValueError(f"arrival_rate = {arrival_rate}: must be > 0 and < 1 for a fixed point")
    q = arrival_rate * np.array([[v / g for v, g in zip(service.visits(), service.rates, strict=True)]])
    return FluidState(q, 1.0 - math.fsum(q[0]) if standby_rate > 0 else 0.0)


def distance(path: FluidPath, point: FluidState) -> Floats:
    """Largest difference in any q_ij, d0, d1, u between the path and a point, at each time; shape (n,)."""
    q = np.zeros_like(path.phases[0])
    kept = min(point.q.shape[0], q.shape[0])
    q[:kept] = point.q[:kept]
    gap = np.abs(path.phases - q).reshape(len(path.times), -1).max(axis=1)
    for values, value in ((path.d0, point.d0), (path.d1, point.d1), (path.u, point.u)):
        gap = np.maximum(gap, np.abs(values - value))
    return gap


def _spacings(points: Sequence[float]) -> list[float]:
    """Gaps of sorted points of [0, 1]: uniform points give a uniform point of the simplex."""
    return [b - a for a, b in pairwise([0.0, *sorted(points), 1.0])]


def stability_starts(n: int, buffer: int, service: PhaseType) -> list[FluidState]:
    """n starts spread over the state space: its corners and edges first, then a Halton sequence; no singular one.

    Corners: all idle-on; all busy with 1 task, with B tasks; then halves of these with the other half off or in setup,
    and halves of two of them. Halton points: (busy, d0, d1, u) uniform on its simplex, the longest queue uniform on
    1..B, the queue lengths below it geometric from short to long, the phases uniform on theirs.
    """
    from scipy.stats.qmc import Halton

    empty = np.zeros((buffer, service.phases))
    single, full = empty.copy(), empty.copy()
    single[0] = spread([1.0], service)[0]
    full[:] = spread(np.ones(buffer), service)
    states = [FluidState(empty), FluidState(single), FluidState(full)]
    for q in (empty, single, full):
        for d0, d1 in ((0.5, 0.0), (0.0, 0.5)):
            states.append(FluidState(q / 2, d0, d1))
    states += [FluidState(single / 2), FluidState(full / 2), FluidState((single + full) / 2)]
    points = Halton(4 + service.phases, scramble=False).fast_forward(1).random(max(0, n - len(states)))
    for z in points.tolist():
        busy, d0, d1, _ = _spacings(z[:3])
        longest = 1 + int(z[3] * buffer)
        ratio = 2.0 ** (4 * z[4] - 2)
        mass = np.array([ratio ** (m * min(1.0, 8 / longest)) for m in range(longest)])
        levels = np.zeros(buffer)
        levels[:longest] = np.cumsum(mass[::-1])[::-1] / mass.sum()
        mix = _spacings(z[5 : 4 + service.phases])
        states.append(FluidState(busy * np.outer(levels, mix), d0, d1))
    return states[:n]
