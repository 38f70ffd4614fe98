"""Whether TABS with unlimited buffers is stable: the drift of saturated servers, exact where it can be, else simulated.

Let m of the N servers hold endless queues. They are always busy and complete tasks at rate 1 each. The other n = N - m
servers do not notice how long those queues are, so that they form a Markov chain of their own, the *remainder*:

    an arrival (rate lambda N)   U > 0:  joins an idle-on server of the remainder
                                 U = 0:  joins a uniformly random one of the Q_1 + m busy servers; if a server of the
                                         remainder is off, a setup starts
    all else                     as in TABS on n servers

If the remainder is stable, each saturated queue grows per mean service time by the drift

    D_m = E[ lambda N / (Q_1 + m); U = 0 ] - 1 = (lambda N - E[Q_1]) / m - 1,

the second form because the remainder completes what it accepts. Two facts order the computation.

(1) D_m < 0 for m >= lambda N: the saturated servers receive less than lambda N <= m, and D_N = lambda - 1.
(2) The remainder of m saturated servers is stable if D_k < 0 for all k > m. On the fluid scale (time and queues divided
    by a large number) any k >= 1 further long queues drain at rate |D_{m+k}|, all at the same one, by symmetry.

Hence go down from m = N - 1. If all D_m are negative, the same argument for m = 0 says that TABS is stable. If
D_m > 0 for some m and D_k < 0 for all k > m, then m long queues stay away from 0 for ever with positive probability
(they have positive drift, driven by a positive recurrent chain): TABS is unstable, and the total queue grows at rate
m D_m. Below that m the remainder itself is unstable. Only m < lambda N needs numbers.
Mukherjee and Stolyar (Stochastic Systems 9(4), 2019) prove stability for all large N; small N are always stable too,
namely those with lambda N <= 1.

N = 2, m = 1: the other server goes through off (mean 1/(2 lambda)), setup (1/nu), idle-on, and busy periods of mean
1/(1 - lambda). With s = mu (1/(2 lambda) + 1/nu) its time in off or setup per visit to idle-on (times its rate),

    1 + D_1 = (2 lambda s + 2 lambda^2 / (1 - lambda)) / (1 + s + 2 lambda / (1 - lambda)).

Exact drift. The remainder is cut where K tasks wait in total; an arrival that would be one too many is dropped. With
x_K the rate of drops and d_K the drift at the levels K, K' (the one before), what is left of a tail that decays at
least as fast as last observed is at most

    error = max( 2 |d_K - d_K'| q / (1 - q), x_K / m ),       q = x_K / x_K',

twice the geometric series, and never less than what the dropped tasks would have done on their own. This bound supposes
that the ratio of drops does not rise again at higher levels; it is not a proof. The level rises until the bound settles
the sign, or meets the demanded accuracy.

Simulated drift. The conditioned chain is simulated without truncation, as a jump chain with its mean holding times
(which leaves the stationary averages as they are and draws no times). Batches of equal numbers of events give a ratio
estimator with jackknife error s; where the lag-1 autocorrelation r of the batches is significant (> 1.645 / sqrt(40)),
s is multiplied by sqrt((1 + r) / (1 - r)), as for a first-order autoregression.

Such an s says nothing about a queue of the remainder that has not returned yet: an M/M/1 queue of load .985 may be long
during the whole of a run, every batch of which then looks alike. But the two forms of D_m differ by the growth of the
remainder, X its number of tasks: over a time T they differ by (X(T) - X(0)) / (m T). As long as X has only wandered its
range max X - min X is of the order of all that it has gained or lost, and a drift counts only where it would have
moved the saturated queues several times as far:

    uncertainty = 5 s + 5 (max X - min X) / (m T),     extremes over the ends of all batches and the start.

The range grows like sqrt(T) while a queue wanders, and like log(T) once it returns again and again: a sign is decided
after many returns only. Where D_m = 0 at most one run in a thousand decides a sign (the tests look at 5,000 seeds).
The run doubles until the uncertainty is below |D_m|, or the budget is spent. A remainder that relaxes more slowly than
its own drift shows was seen by the m before, hence no run is shorter than that of the m before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import stdtrit

from elastiqueue.sampling.rng import uniform
from elastiqueue.sampling.streams import digest, stream
from elastiqueue.statistics.estimates import ratio_estimate
from elastiqueue.theory.chains import Chain, State, Transition
from elastiqueue.theory.stationary_law import enumerate_states, stationary_law

BATCHES = 40
DECIDED = 5.0  # standard errors, and ranges of the remainder over the run, between a simulated drift and 0
MAX_STATES = 20_000
MAX_EVENTS = 50_000_000
LOOK = 10_000_000  # simulated events of a drift once a budget has been spent
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Drift:
    """Growth per mean service time of each of `saturated` endless queues.

    Attributes
    ----------
    saturated : m. value : D_m, in [-1, lambda N / m - 1].
    uncertainty : exact: bound on the truncation error; simulated: 5 standard errors and 5 ranges of the remainder.
    standard_error : of a simulated drift, correlation of the batches allowed for; None for an exact one.
    method : "exact" or "simulated".
    effort : states of the exact chain, or simulated events (the warm-up included).
    level : waiting tasks at which the exact chain is cut; None where simulated.
    """

    saturated: int
    value: float
    uncertainty: float
    standard_error: float | None
    method: Literal["exact", "simulated"]
    effort: int
    level: int | None = None

    @property
    def sign(self) -> int:
        """+1 or -1, or 0 where the uncertainty does not exclude the other one."""
        if abs(self.value) <= self.uncertainty:
            return 0
        return 1 if self.value > 0.0 else -1

    @property
    def events_needed(self) -> float:
        """Simulated events that would decide the sign if the drift is what it seems: the errors fall like n^(-1/2)."""
        return self.effort * (self.uncertainty / self.value) ** 2 if self.value else math.inf

    def interval(self) -> tuple[float, float]:
        """95 % interval of a simulated drift; value -/+ bound of an exact one."""
        if self.standard_error is None:
            half = self.uncertainty
        else:
            half = self.standard_error * float(stdtrit(BATCHES - 1, 0.975))
        return self.value - half, self.value + half


@dataclass(frozen=True)
class StabilityVerdict:
    """Stable, unstable or undecided, with the drift that decides.

    Attributes
    ----------
    verdict : "stable", "unstable" or "undecided".
    drift : unstable: D_m > 0 of the m queues that grow; stable: the largest D_m computed; undecided: the open one.
    margin : |drift| minus its uncertainty (see Drift); positive if decided.
    standard_error : of a simulated drift; None for an exact one.
    method : "exact" or "simulated": how `drift` was found.
    m : number of saturated servers of `drift`.
    reason : one line for a reader.
    drifts : everything that was computed, in the order of falling m.
    """

    verdict: Literal["stable", "unstable", "undecided"]
    drift: float
    margin: float
    standard_error: float | None
    method: Literal["exact", "simulated"]
    m: int
    reason: str
    drifts: tuple[Drift, ...] = ()

    @property
    def growth(self) -> float:
        """Predicted growth of the total queue per mean service time: m D_m if unstable, 0 if stable, else nan."""
        return {"unstable": self.m * self.drift, "stable": 0.0}.get(self.verdict, math.nan)


@dataclass(frozen=True)
class SmallestStable:
    """The smallest number of servers from which TABS is stable, as far as was looked.

    Attributes
    ----------
    servers : N0, such that all N looked at from N0 to `checked` are stable; None if `checked` itself is not.
    certain : False if what stopped the search (N0 - 1, or `checked`) is undecided rather than unstable.
    checked : largest number of servers looked at.
    verdicts : servers -> verdict, for every N looked at.
    """

    servers: int | None
    certain: bool
    checked: int
    verdicts: dict[int, StabilityVerdict]


def two_server_drift(arrival_rate: float, standby_rate: float, setup_rate: float) -> float:
    """Return D_1 of N = 2 in closed form, arrival_rate (per server) < 1."""
    lam = arrival_rate
    asleep = standby_rate * (0.5 / lam + 1.0 / setup_rate)
    busy = 2.0 * lam / (1.0 - lam)
    return (2.0 * lam * asleep + lam * busy) / (1.0 + asleep + busy) - 1.0


def conditioned_chain(
    servers: int, arrival_rate: float, standby_rate: float, setup_rate: float, saturated: int, level: int
) -> Chain:
    """The remainder of `saturated` endless queues, cut at `level` waiting tasks.

    State (D0, D1, x_1 >= x_2 >= ...): servers off, in setup, and the queue of each busy server of the remainder, the
    task in service included. Columns: "to_saturated" and "dropped" (counts of arrivals), "busy" (integral of Q_1).
    """
    others, arrival = servers - saturated, arrival_rate * servers

    def transitions(state: State) -> Iterator[Transition]:
        off, setup, queues = state[0], state[1], state[2:]
        busy = len(queues)
        idle = others - busy - off - setup
        if idle > 0:
            yield arrival, (*state, 1), {}
            yield standby_rate * idle, (off + 1, setup, *queues), {}
        else:
            begun = (off - 1, setup + 1) if off > 0 else (off, setup)
            each = arrival / (busy + saturated)
            yield each * saturated, (*begun, *queues), {"to_saturated": 1}
            full = sum(queues) - busy >= level
            for first, past in _runs(queues):
                if full:
                    yield each * (past - first), (*begun, *queues), {"dropped": 1}
                else:
                    longer = (*queues[:first], queues[first] + 1, *queues[first + 1 :])
                    yield each * (past - first), (*begun, *longer), {}
        for first, past in _runs(queues):
            left = (queues[first] - 1,) if queues[first] > 1 else ()
            yield float(past - first), (off, setup, *queues[: past - 1], *left, *queues[past:]), {}
        yield setup_rate * setup, (off, setup - 1, *queues), {}

    return Chain((others, 0), transitions, lambda states: {"busy": np.array([len(state) - 2 for state in states])})


def _runs(queues: State) -> Iterator[tuple[int, int]]:
    """Ranges of equal queues in a falling sequence."""
    first = 0
    while first < len(queues):
        past = first + 1
        while past < len(queues) and queues[past] == queues[first]:
            past += 1
        yield first, past
        first = past


def number_of_states(others: int, level: int) -> int:
    """Number of states of the remainder of `others` servers with at most `level` waiting tasks.

    b busy servers, the rest split over off, setup and idle-on; waiting tasks as partitions into at most b parts.
    """
    partitions = [1] + [0] * level  # of w into parts of size <= b, equally many as into at most b parts
    total = 0
    for busy in range(others + 1):
        if busy > 0:
            for w in range(busy, level + 1):
                partitions[w] += partitions[w - busy]
        total += sum(partitions) * math.comb(others - busy + 2, 2)
    return total


def exact_drift(
    servers: int,
    arrival_rate: float,
    standby_rate: float,
    setup_rate: float,
    saturated: int,
    tolerance: float | None = None,
    max_states: int = MAX_STATES,
) -> Drift:
    """D_m from the stationary law of the truncated remainder.

    The level rises by half until the error bound is at most `tolerance` (None: a quarter of |D_m|, so that the sign is
    certain), or the next level would have more than `max_states` states (None: or the level that would show the sign,
    judging by the decay so far); compare `uncertainty` with what you need.
    The remainder must be stable (see `verdict`), or the bound is never small.

    Raises ValueError if `max_states` does not even admit two levels.
    """
    others, arrival = servers - saturated, arrival_rate * servers
    if others == 0:
        return Drift(saturated, arrival_rate - 1.0, _ROUNDING, None, "exact", 1, 0)
    latest: Drift | None = None
    value, dropped = math.nan, math.nan
    coarse, level = -1, 4
    while (states := number_of_states(others, level)) <= max_states:
        space = enumerate_states(
            conditioned_chain(servers, arrival_rate, standby_rate, setup_rate, saturated, level), max_states
        )
        law = stationary_law(space.generator)
        last_value, last_dropped = value, dropped
        dropped = math.fsum(law * space.rewards["dropped"])
        value = math.fsum(law * space.rewards["to_saturated"]) / saturated - 1.0
        if coarse >= 0:
            ratio = dropped / last_dropped if last_dropped > 0.0 else 0.0
            tail = 2.0 * abs(value - last_value) * ratio / (1.0 - ratio) if ratio < 1.0 else math.inf
            error = max(tail, dropped / saturated, _ROUNDING * max(1.0, arrival))
            latest = Drift(saturated, value, error, None, "exact", len(space.states), level)
            if error <= (0.25 * abs(value) if tolerance is None else tolerance):
                return latest
            if tolerance is None and 0.0 < ratio < 1.0 and error > abs(value) > 0.0:
                # The level at which a geometric tail would let the bound say the sign.
                needed = level + math.log(error / abs(value)) / -math.log(ratio) * (level - coarse)
                if needed > max_states or number_of_states(others, math.ceil(needed)) > max_states:
                    return latest
        coarse, level = level, level + max(2, level // 2)
    if latest is None:
        raise ValueError(f"states = {states} of the conditioned chain: at most max_states = {max_states} are allowed")
    return latest


@njit(cache=True)
def _conditioned_kernel(saturated, arrival, standby, setup_rate, counts, queues, words, events):
    """Advance the remainder by `events` jumps.

    counts : busy, idle-on, off, setup; queues : the tasks at each busy server, in positions 0 .. busy - 1. Servers are
    kept one by one because few are simulated, and a long queue then costs no more than a short one.
    Returns the time integral of lambda N m 1[U = 0] / (Q_1 + m) and the time, both with mean holding times.
    """
    busy, idle, off, setup = counts[0], counts[1], counts[2], counts[3]
    inflow, time = 0.0, 0.0
    for _ in range(events):
        rate = arrival + busy + standby * idle + setup_rate * setup
        hold = 1.0 / rate
        time += hold
        if idle == 0:
            inflow += hold * arrival * saturated / (busy + saturated)
        x = uniform(words) * rate
        if x < arrival:
            if idle > 0:
                queues[busy] = 1
                busy += 1
                idle -= 1
            else:
                server = int(x / arrival * (busy + saturated))
                if server < busy:
                    queues[server] += 1
                if off > 0:
                    off -= 1
                    setup += 1
        elif x < arrival + busy:
            server = min(int(x - arrival), busy - 1)
            queues[server] -= 1
            if queues[server] == 0:
                busy -= 1
                queues[server] = queues[busy]
                idle += 1
        elif x < arrival + busy + standby * idle:
            idle -= 1
            off += 1
        elif setup > 0:
            setup -= 1
            idle += 1
    counts[0], counts[1], counts[2], counts[3] = busy, idle, off, setup
    return inflow, time


def simulated_drift(
    servers: int,
    arrival_rate: float,
    standby_rate: float,
    setup_rate: float,
    saturated: int,
    standard_error: float | None = None,
    max_events: int = MAX_EVENTS,
    seed: int = 1,
    min_events: int = 0,
) -> Drift:
    """D_m from a simulation of the conditioned chain, with batch means.

    The first run has 40 batches of ten relaxation times t0 = 1 + 1/mu + 1/nu each, after a warm-up of 100 t0 from all
    off, or `min_events` events. It is doubled until the standard error is at most `standard_error` (None: until the
    uncertainty is at most |D_m|), or until the next run would exceed `max_events` events. The remainder must be stable.
    """
    others, arrival = servers - saturated, arrival_rate * servers
    relaxation = 1.0 + (1.0 / standby_rate if standby_rate > 0.0 else 0.0) + 1.0 / setup_rate
    per_batch = max(math.ceil(20.0 * relaxation * arrival) + 100, min_events // (BATCHES + 10))
    per_batch = max(min(per_batch, max_events // (BATCHES + 10)), 1)
    keys = {
        "conditioned": [servers, saturated],
        "rates": [float(arrival_rate).hex(), float(standby_rate).hex(), float(setup_rate).hex()],
    }
    words = stream(seed, digest(keys), 0)
    counts = np.array([0, 0, others, 0], np.int64)
    queues = np.zeros(max(others, 1), np.int64)

    def run(batches: int) -> tuple[list[float], list[float]]:
        parts = []
        for _ in range(batches):
            parts.append(
                _conditioned_kernel(
                    saturated, arrival, float(standby_rate), float(setup_rate), counts, queues, words, per_batch
                )
            )
            backlogs.append(int(np.sum(queues[: counts[0]])))
        return [part[0] for part in parts], [part[1] for part in parts]

    backlogs = [0]  # tasks of the remainder, at the start and after each batch
    run(10)
    inflows, times = run(BATCHES)
    used = (BATCHES + 10) * per_batch
    while True:
        ratio = ratio_estimate(inflows, times)
        value, error = ratio.mean / saturated - 1.0, ratio.se / saturated
        correlation = _lag_one(np.array(inflows) - ratio.mean * np.array(times))
        if correlation > 1.645 / math.sqrt(BATCHES):
            error *= math.sqrt((1.0 + correlation) / (1.0 - correlation))
        wandered = (max(backlogs) - min(backlogs)) / (math.fsum(times) * saturated)
        uncertainty = DECIDED * (error + wandered)
        enough = uncertainty <= abs(value) if standard_error is None else error <= standard_error
        if enough or used + BATCHES * per_batch > max_events:
            return Drift(saturated, value, uncertainty, error, "simulated", used)
        inflows = [a + b for a, b in zip(inflows[::2], inflows[1::2], strict=True)]
        times = [a + b for a, b in zip(times[::2], times[1::2], strict=True)]
        per_batch *= 2
        more = run(BATCHES // 2)
        inflows, times = inflows + more[0], times + more[1]
        used += BATCHES // 2 * per_batch


def _lag_one(values: NDArray[np.float64]) -> float:
    """Lag-1 autocorrelation; 0 for constant values."""
    centred = values - values.mean()
    total = float(np.sum(centred * centred))
    return float(np.sum(centred[:-1] * centred[1:])) / total if total > 0.0 else 0.0


def verdict(
    servers: int,
    arrival_rate: float,
    standby_rate: float,
    setup_rate: float,
    max_states: int = MAX_STATES,
    max_events: int = MAX_EVENTS,
    seed: int = 1,
    accuracy: float | None = None,
) -> StabilityVerdict:
    """Say whether TABS with unlimited buffers is stable for N servers at `arrival_rate` tasks per server.

    Drifts are computed for m = ceil(lambda N) - 1 down to 1 (at least m = 1), exactly where the chain of at most
    `max_states` states decides the sign, else by simulation of at most `max_events` events each, and no better than the
    sign demands. With `accuracy`, the drift that decides is then computed again, to that truncation error or, where it
    must be simulated, to that standard error, as far as the budgets allow.

    Raises ValueError where nothing arrives, or for an accuracy of 0 or less.
    """
    for key, value in (("arrival_rate", arrival_rate), ("accuracy", accuracy)):
        if value is not None and not value > 0.0:
            raise ValueError(f"{key} = {value}: must be > 0")
    if arrival_rate >= 1.0 or servers == 1:
        drift = Drift(servers, arrival_rate - 1.0, 0.0, None, "exact", 1, 0)
        if arrival_rate < 1.0:
            return _decided("stable", drift, "one server, load below 1", (drift,))
        return _decided("unstable", drift, f"load {arrival_rate:g} is not below capacity 1", (drift,))
    drifts: list[Drift] = []
    simulated = 0
    for saturated in range(max(math.ceil(arrival_rate * servers) - 1, 1), 0, -1):
        point = (servers, arrival_rate, standby_rate, setup_rate, saturated)
        drift = _best_drift(point, None, max_states, max_events, seed, simulated)
        drifts.append(drift)
        simulated = max(simulated, drift.effort if drift.method == "simulated" else 0)
        if drift.sign >= 0:
            break
    last = drifts[-1]
    worst = last if last.sign >= 0 else max(drifts, key=lambda drift: drift.value)
    if accuracy is not None and not (worst.method == "exact" and worst.uncertainty <= accuracy):
        point = (servers, arrival_rate, standby_rate, setup_rate, worst.saturated)
        refined = _best_drift(point, accuracy, max_states, max_events, seed, simulated)
        if refined.method == "simulated":  # where the budget does not suffice, what was known may be better
            refined = min((refined, worst), key=lambda drift: drift.uncertainty)
        drifts[drifts.index(worst)] = refined
        worst = refined
    described = _described(worst, servers)
    if worst.sign == 0:
        return _decided("undecided", worst, f"{described} is not distinguished from 0", tuple(drifts))
    if worst.sign > 0:
        return _decided("unstable", worst, f"{described} is positive", tuple(drifts))
    if last.sign == 0:  # refined to a negative drift, but those of smaller m were not computed
        return _decided("undecided", worst, f"{described} is negative, smaller m are open", tuple(drifts))
    if len(drifts) == 1:
        return _decided("stable", worst, f"{described} is negative", tuple(drifts))
    return _decided("stable", worst, f"all drifts are negative; the largest, {described}", tuple(drifts))


def _best_drift(
    point: tuple[int, float, float, float, int],
    accuracy: float | None,
    max_states: int,
    max_events: int,
    seed: int,
    min_events: int,
) -> Drift:
    """The exact drift if it is that accurate (None: decides) within `max_states`, else the simulated one."""
    try:
        drift = exact_drift(*point, tolerance=accuracy, max_states=max_states)
        if drift.sign != 0 if accuracy is None else drift.uncertainty <= accuracy:
            return drift
    except ValueError:
        pass
    return simulated_drift(*point, accuracy, max_events, seed, min_events)


def _described(drift: Drift, servers: int) -> str:
    if drift.method == "exact":
        how = f"exact, truncation error <= {drift.uncertainty:.1g}"
    else:
        how = f"simulated, the exact chain is too large; standard error {drift.standard_error:.2g}"
    return f"drift {drift.value:+.5g} of {drift.saturated} saturated of {servers} servers ({how})"


def _decided(
    word: Literal["stable", "unstable", "undecided"], drift: Drift, reason: str, drifts: tuple[Drift, ...]
) -> StabilityVerdict:
    margin = abs(drift.value) - drift.uncertainty
    return StabilityVerdict(
        word, drift.value, margin, drift.standard_error, drift.method, drift.saturated, reason, drifts
    )


def smallest_stable_servers(
    arrival_rate: float,
    standby_rate: float,
    setup_rate: float,
    max_servers: int = 64,
    max_states: int = MAX_STATES,
    max_events: int = MAX_EVENTS,
    seed: int = 1,
    budget: float = math.inf,
) -> SmallestStable:
    """Find N0 such that TABS with unlimited buffers is stable for N0 .. max_servers, and not for N0 - 1.

    Goes down from `max_servers` by steps of a fifth, from 12 servers by ones, to the first N that is not stable; then
    looks at each N in the step above it. N0 = 1 if every N looked at is stable. Stability is not monotone in N (where
    lambda N <= 1 it is certain), so that what lies below N0 - 1 is left open.

    budget : simulated events of the whole search; a drift may have what is left of it, and LOOK events in any case.
    """
    verdicts: dict[int, StabilityVerdict] = {}
    spent = 0

    def stable(servers: int) -> bool:
        nonlocal spent
        most = int(min(max_events, max(budget - spent, LOOK)))
        verdicts[servers] = verdict(servers, arrival_rate, standby_rate, setup_rate, max_states, most, seed)
        spent += sum(drift.effort for drift in verdicts[servers].drifts if drift.method == "simulated")
        return verdicts[servers].verdict == "stable"

    above, servers = max_servers + 1, max_servers
    while servers >= 1 and stable(servers):
        above, servers = servers, servers - max(1, servers // 5 if servers > 12 else 1)
    open_below = servers
    if servers >= 1 and above <= max_servers:
        open_below = next((n for n in range(above - 1, servers, -1) if not stable(n)), servers)
    if open_below == max_servers:
        return SmallestStable(None, verdicts[max_servers].verdict == "unstable", max_servers, verdicts)
    certain = open_below < 1 or verdicts[open_below].verdict == "unstable"
    return SmallestStable(open_below + 1, certain, max_servers, verdicts)
