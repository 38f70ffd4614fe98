"""TABS and JIQ with exponential service: the aggregated Markov chain, and its compiled simulators.

Servers are exchangeable, so the state is how many there are of each kind (paper A, Section 2):

    Q_i  servers with at least i tasks, i = 1..B       D0  off       D1  in setup       U = N - Q_1 - D0 - D1  idle-on

    event       rate       effect
    arrival     lambda N   U > 0: an idle-on server takes the task. U = 0: a uniformly random busy server does, of i
                           tasks with probability (Q_i - Q_{i+1}) / Q_1; and if D0 > 0 one server starts its setup.
                           The task is lost where no server is on, or the chosen one holds B tasks.
    departure   Q_1        from a server of i tasks with probability (Q_i - Q_{i+1}) / Q_1; i = 1 leaves it idle-on
    standby     mu U       an idle-on server turns off
    setup       nu D1      a server becomes idle-on

With `abort_setups` a server that empties its queue ends one setup under way. JIQ is mu = 0 with every server on.

Messages: green, a completion leaves a server empty; red, an idle-on server turns off; a completed setup is reported too
and counted apart.

Two simulators. `_advance_direct` draws the time and the kind of every event (Gillespie's direct method, thinning for a
time-varying arrival rate): the plain one. `_advance_blocks` draws the times of many events at once, and the kinds of
many at once where it can:

    Uniformised blocks. While the total rate stays below a bound, events (some of which do nothing) come at that rate.
    The m-th comes after a Gamma(m) time G. A block ends there, or after the k-th event, k < m, which takes the rate
    beyond the bound: at G times a Beta(k, m - k) number. Where the run ends inside the block, Binomial(m - 1, rest/G)
    events come before the end, k of which take Beta(k, that number + 1 - k) of the rest. Given its length, the
    intervals of a block are exchangeable: each counts alike in a time integral, which is its conditional expectation.

    Leaps. Arrivals and departures from servers of one task both have at least some rate c while those servers are at
    least c. So a Geometric number of fair coin flips, each an arrival or such a departure, lies between the events that
    are left. While fewer flips than U are tossed no arrival finds U = 0, and only the number of heads matters: it is
    counted in the bits of one word. Both are exact in law. What is left is of the order of the bound's distance and of
    sqrt(N), so that events get cheaper with N.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from elastiqueue.models.base import Replication, replicate
from elastiqueue.sampling.rng import TICKS, TO_UNIT, beta, binomial, exponential, gamma, ones, step, ticks, uniform
from elastiqueue.sampling.thinning import rate_at
from elastiqueue.scenarios.autoscaling import TAIL, ServiceScenario
from elastiqueue.statistics.estimates import Ratio
from elastiqueue.theory.chains import Chain, State, Transition

# Positions in the vector of counts; the names are the columns.
# Shortened: departures that leave tasks behind. Found: tasks met at their server by those that wait.
ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED = range(10)
COUNTS = (
    "arrivals", "waited", "lost_off", "lost_full", "found", "green", "red", "setups_started", "setups", "shortened",
)  # fmt: skip
# Positions in the vector of integrals, after which Q_1, Q_2, ... follow.
IDLE_ON, IDLE_OFF, SETUP = range(3)
INTEGRALS = ("idle_on", "idle_off", "setup")
TOP = 3  # position in the state `others`, behind U, D0, D1: the longest queue of the block
MOST = 4096  # events of a block
WORTH_IT, FROM, LEAST = 0.8, 16, 3  # `_leap`: share of coin flips, and idle-on servers at its start and throughout
_1, _2, _11 = np.uint64(1), np.uint64(2), np.uint64(11)


def tail_length(scenario: ServiceScenario) -> int:
    """Number of columns q_1, q_2, ... that are reported."""
    return TAIL if scenario.buffer is None else scenario.buffer


def columns(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the totals: time, counts of events, time integrals (all for the whole system)."""
    tail = tuple(f"q_{i}" for i in range(1, tail_length(scenario) + 1))
    return ("time", "accepted", *COUNTS, "waiting", *INTEGRALS, *tail)


def metrics(scenario: ServiceScenario) -> dict[str, Ratio]:
    """The metrics as ratios of totals; fractions are per server, the queue tail is queue_tail[i].

    growth is that of the total number of tasks per mean service time: 0 in a stable system over a long time.
    """
    n, power = scenario.servers, scenario.power
    accepted = {"accepted": 1.0}
    consumption = {
        "q_1": power.full / n,
        "setup": power.full / n,
        "idle_on": power.idle / n,
        "idle_off": power.off / n,
    }
    result = {
        "mean_wait": Ratio({"found": 1.0}, accepted),
        "mean_wait_integral": Ratio({"waiting": 1.0}, accepted),
        "wait_probability": Ratio({"waited": 1.0}, accepted),
        "loss_probability": Ratio({"lost_off": 1.0, "lost_full": 1.0}, {"arrivals": 1.0}),
        "loss_off_probability": Ratio({"lost_off": 1.0}, {"arrivals": 1.0}),
        "loss_full_probability": Ratio({"lost_full": 1.0}, {"arrivals": 1.0}),
        "power": Ratio(consumption),
        "wasted_power": Ratio({**consumption, "arrivals": -power.full / n}),
        "busy": Ratio({"q_1": 1 / n}),
        "idle_on": Ratio({"idle_on": 1 / n}),
        "idle_off": Ratio({"idle_off": 1 / n}),
        "setup": Ratio({"setup": 1 / n}),
        "messages_per_task": Ratio({"green": 1.0, "red": 1.0}, accepted),
        "green_per_task": Ratio({"green": 1.0}, accepted),
        "red_per_task": Ratio({"red": 1.0}, accepted),
        "setups_per_task": Ratio({"setups": 1.0}, accepted),
        "growth": Ratio({"accepted": 1.0, "green": -1.0, "shortened": -1.0}),
    }
    for i in range(1, tail_length(scenario) + 1):
        result[f"queue_tail[{i}]"] = Ratio({f"q_{i}": 1 / n})
    return result


def initial_counts(scenario: ServiceScenario) -> tuple[int, int, int, int]:
    """Q_1, D0, D1, U at time 0; the fluid fixed point is q_1 = lambda with every other server off (JIQ: idle-on)."""
    n = scenario.servers
    if scenario.start == "all_idle_on":
        return 0, 0, 0, n
    if scenario.start == "all_off":
        return 0, n, 0, 0
    busy = min(n, round(scenario.arrival.at(0.0) * n))
    return (busy, 0, 0, n - busy) if scenario.model == "jiq" else (busy, n - busy, 0, 0)


def rates(scenario: ServiceScenario) -> tuple[float, float]:
    """Standby rate mu and setup rate nu (JIQ: mu = 0, and no server is ever in setup)."""
    if scenario.model == "jiq":
        return 0.0, 0.0
    return float(scenario.standby_rate or 0.0), float(scenario.setup_rate or 0.0)


def chain(scenario: ServiceScenario, level: int | None = None) -> Chain:
    """The chain in readable form, state (Q_1, ..., Q_B, D0, D1); an unlimited buffer is cut at `level` tasks."""
    n, lam = scenario.servers, scenario.arrival.at(0.0)
    mu, nu = rates(scenario)
    size = scenario.buffer if scenario.buffer is not None else level
    if size is None:
        raise ValueError("level: is missing; an unlimited buffer must be cut for the exact solver")
    q1, off, setup, _ = initial_counts(scenario)

    def transitions(state: State) -> Iterator[Transition]:
        queue, d0, d1 = state[:size], state[size], state[size + 1]
        idle = n - queue[0] - d0 - d1

        def change(i: int, by: int) -> State:
            return (*queue[: i - 1], queue[i - 1] + by, *queue[i:])

        arrival = lam * n
        starts = 1 if d0 > 0 else 0
        if idle > 0:
            yield arrival, (*change(1, +1), d0, d1), {"arrivals": 1, "accepted": 1}
        else:
            begun = (d0 - starts, d1 + starts)
            if queue[0] == 0:
                counts = {"arrivals": 1, "lost_off": 1, "setups_started": starts}
                yield arrival, (*queue, *begun), counts
            for i in range(1, size + 1):
                exactly = queue[i - 1] - (queue[i] if i < size else 0)
                if exactly == 0:
                    continue
                rate = arrival * exactly / queue[0]
                if i == size:
                    counts = {"arrivals": 1, "lost_full": 1, "setups_started": starts}
                    yield rate, (*queue, *begun), counts
                else:
                    counts = {"arrivals": 1, "accepted": 1, "waited": 1, "found": i, "setups_started": starts}
                    yield rate, (*change(i + 1, +1), *begun), counts
        for i in range(1, size + 1):
            exactly = queue[i - 1] - (queue[i] if i < size else 0)
            if exactly > 0 and i > 1:
                yield float(exactly), (*change(i, -1), d0, d1), {"shortened": 1}
            elif exactly > 0:
                ended = 1 if scenario.aborts and d1 > 0 else 0
                yield float(exactly), (*change(1, -1), d0 + ended, d1 - ended), {"green": 1}
        if idle > 0 and mu > 0:
            yield mu * idle, (*queue, d0 + 1, d1), {"red": 1}
        if d1 > 0:
            yield nu * d1, (*queue, d0, d1 - 1), {"setups": 1}

    def occupancy(state: State) -> dict[str, float]:
        queue, d0, d1 = state[:size], state[size], state[size + 1]
        found = {f"q_{i}": float(q) for i, q in enumerate(queue[: tail_length(scenario)], start=1)}
        idle = n - queue[0] - d0 - d1
        return {"waiting": float(sum(queue[1:])), "idle_on": idle, "idle_off": d0, "setup": d1, **found}

    return Chain((q1, *[0] * (size - 1), off, setup), transitions, occupancy)


@njit(cache=True)
def with_room(values, size):
    """The same values with room for `size` entries along the first axis."""
    return np.concatenate((values, np.zeros((size - len(values), *values.shape[1:]), values.dtype)))


@njit(cache=True)
def _advance_direct(
    n, times, steps, amplitude, omega, mu, nu, buffer, aborts, start, end, queue, others, words, counts, integrals
):
    """Simulate from `start` to `end`, event by event. Returns the arrays that may have grown: queue, integrals.

    queue[i], i >= 1: servers with at least i tasks, then at least one 0; others: U, D0, D1. Adds to counts, integrals.
    """
    idle, off, setup = others[0], others[1], others[2]
    bound = steps.max() + abs(amplitude)
    t, k = start, 0
    while True:
        arrival = bound * n
        busy = queue[1]
        total = arrival + busy + mu * idle + nu * setup
        wait = exponential(words) / total if total > 0.0 else np.inf
        until = min(t + wait, end)
        span = until - t
        integrals[IDLE_ON] += span * idle
        integrals[IDLE_OFF] += span * off
        integrals[SETUP] += span * setup
        i = 1
        while queue[i] > 0:
            integrals[2 + i] += span * queue[i]
            i += 1
        t = until
        if t >= end:
            break
        x = uniform(words) * total
        if x < arrival:
            rate, k = rate_at(t, k, times, steps, amplitude, omega)
            if x >= rate * n:
                continue  # thinned
            counts[ARRIVALS] += 1
            if idle > 0:
                idle -= 1
                queue[1] += 1
            else:
                if busy == 0:
                    counts[LOST_OFF] += 1
                else:
                    rank = x / (rate * n) * busy
                    i = 1
                    while rank < queue[i + 1]:
                        i += 1
                    if i == buffer:
                        counts[LOST_FULL] += 1
                    else:
                        if i + 2 == queue.size:
                            queue = with_room(queue, 2 * queue.size)
                            integrals = with_room(integrals, queue.size + 2)
                        queue[i + 1] += 1
                        counts[WAITED] += 1
                        counts[FOUND] += i
                if off > 0:
                    off -= 1
                    setup += 1
                    counts[STARTED] += 1
        elif x < arrival + busy:
            rank = x - arrival
            i = 1
            while rank < queue[i + 1]:
                i += 1
            queue[i] -= 1
            if i == 1:
                idle += 1
                counts[GREEN] += 1
                if aborts and setup > 0:
                    setup -= 1
                    off += 1
            else:
                counts[SHORTENED] += 1
        elif x < arrival + busy + mu * idle:
            idle -= 1
            off += 1
            counts[RED] += 1
        elif setup > 0:
            setup -= 1
            idle += 1
            counts[COMPLETED] += 1
    others[0], others[1], others[2] = idle, off, setup
    return queue, integrals


@njit(cache=True, inline="always")
def _arrive_at_a_busy_server(share, passed, buffer, queue, others, counts, moved):
    """An arrival that finds no server idle-on; the busy server that it goes to is chosen by `share` in [0, 1].

    others: U, D0, D1, longest queue. moved: changes of U, D0, D1, Q_1, Q_2, ... times `passed`.
    """
    counts[ARRIVALS] += 1
    if queue[1] == 0:
        counts[LOST_OFF] += 1
    else:
        rank = share * queue[1]
        i = 1
        while rank < queue[i + 1]:
            i += 1
        if i == buffer:
            counts[LOST_FULL] += 1
        else:
            queue[i + 1] += 1
            others[TOP] = max(others[TOP], i + 1)
            moved[3 + i] += passed
            counts[WAITED] += 1
            counts[FOUND] += i
    if others[IDLE_OFF] > 0:
        others[IDLE_OFF] -= 1
        others[SETUP] += 1
        moved[IDLE_OFF] -= passed
        moved[SETUP] += passed
        counts[STARTED] += 1


@njit(cache=True, inline="always")
def _depart_or_switch(x, passed, mu, queue, others, counts, moved):
    """A departure that leaves tasks behind, a standby, or the end of a setup: by x >= 0 on the scale of the rates."""
    several = queue[2]
    if x < several:
        i = 2
        while x < queue[i + 1]:
            i += 1
        queue[i] -= 1
        moved[2 + i] -= passed
        counts[SHORTENED] += 1
    elif x - several < mu * others[IDLE_ON]:
        others[IDLE_ON] -= 1
        others[IDLE_OFF] += 1
        moved[IDLE_ON] -= passed
        moved[IDLE_OFF] += passed
        counts[RED] += 1
    elif others[SETUP] > 0:
        others[SETUP] -= 1
        others[IDLE_ON] += 1
        moved[SETUP] -= passed
        moved[IDLE_ON] += passed
        counts[COMPLETED] += 1


@njit(cache=True, inline="always")
def _room(n, spare, nu, others):
    """What `spare` leaves when every server that is on is busy, and those in setup have their clocks."""
    return spare - (n - others[IDLE_OFF] - others[SETUP]) - nu * others[SETUP]


@njit(cache=True, error_model="numpy", _nrt=False)
def _block(n, arrival, bound, mu, nu, buffer, events, queue, others, words, counts, moved):
    """Events of a block one by one, until the total rate exceeds the bound or `events` are done; their number.

        y:  ... 0 ... departures from one task ... none ... top - mu U ... the others ... top
        arrivals

    `passed`, here and in `_leap`, is twice the number of intervals up to the event. The hot loop touches the generator,
    U and the number of servers with one task, no memory, and these in whole numbers of ticks: each event waits for the
    comparison and the sum of the one before, which take three times as long in floating point. Its two tests nearly
    always succeed; what an arrival, a departure or no event do there is added up without a jump.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    come, unit, standby = ticks(arrival, bound), ticks(1.0, bound), ticks(mu, bound)
    top = TICKS - come - ticks(queue[2] + nu * others[SETUP], bound)
    room = _room(n, bound - arrival, nu, others)
    idle, one = others[IDLE_ON], queue[1] - queue[2]
    usual, arrived, moved_idle = 0, 0, 0
    passed, last = 0, 2 * events
    while passed < last and (mu - 1.0) * idle <= room:
        passed += 2
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - come
        low, high = -TICKS if idle > 0 else 0, top - standby * idle
        if low <= y < high:
            came = 1 * (y < 0)
            real = 1 * (y < unit * one)
            gain = real - 2 * came
            usual += real
            arrived += came
            idle += gain
            one -= gain
            moved_idle += gain * passed
            continue
        others[IDLE_ON] = idle
        queue[1] = queue[2] + one
        if y < 0:
            _arrive_at_a_busy_server((y + come) / come, passed, buffer, queue, others, counts, moved)
        else:
            x = (TICKS - come - y) * (bound / TICKS)
            _depart_or_switch(x, passed, mu, queue, others, counts, moved)
        top = TICKS - come - ticks(queue[2] + nu * others[SETUP], bound)
        room = _room(n, bound - arrival, nu, others)
        idle, one = others[IDLE_ON], queue[1] - queue[2]
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    others[IDLE_ON] = idle
    queue[1] = queue[2] + one
    moved[IDLE_ON] += moved_idle
    moved[3] -= moved_idle
    counts[ARRIVALS] += arrived
    counts[GREEN] += usual - arrived
    return passed // 2


@njit(cache=True, error_model="numpy", _nrt=False)
def _leap(n, arrival, bound, coin, most, delta, mu, nu, events, queue, others, words, counts, moved):
    """`_block` with runs of coin flips, at most `most` in one go, between the events that are drawn one by one.

    Whether to stop is asked after such an event and after a run of the greatest length, never where a run ended by
    itself: that would look ahead, at the event that ended it. The number of flips to the next event has no memory, so a
    run of the greatest length is followed by a new one.
    """
    s0, s1, s2, s3 = words[0], words[1], words[2], words[3]
    rest = bound - 2 * coin
    per_flip = 1.0 / math.log(2 * coin / bound)
    come, unit, standby = ticks(arrival - coin, rest), ticks(1.0, rest), ticks(mu, rest)
    top = TICKS - come - ticks(queue[2] + nu * others[SETUP], rest)
    room = _room(n, bound - arrival - most * delta, nu, others)
    idle, spare = others[IDLE_ON], queue[1] - queue[2] - coin
    usual, arrived, moved_idle = 0, 0, 0
    passed, last = 0, 2 * events
    while passed < last and spare >= most and idle > LEAST and (mu - 1.0) * idle <= room:
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        run = math.log(1.0 - np.float64(draw >> _11) * TO_UNIT) * per_flip
        limit = min(idle - 1, most, (last - passed) >> 1)
        flips = min(int(run), limit)
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        heads = ones((draw >> _1) >> np.uint64(63 - flips))
        gain = flips - 2 * heads
        idle += gain
        spare -= gain
        moved_idle += gain * (passed + flips + 1)  # the flips are exchangeable: each at the middle of the run
        usual += flips
        arrived += heads
        passed += 2 * flips
        if flips == limit:
            continue
        passed += 2
        draw, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        y = np.int64(draw >> _2) - come
        if y < top - standby * idle:
            came = 1 * (y < 0)
            real = 1 * (y < unit * spare)
            gain = real - 2 * came
            usual += real
            arrived += came
            idle += gain
            spare -= gain
            moved_idle += gain * passed
            continue
        others[IDLE_ON] = idle
        queue[1] = queue[2] + coin + spare
        _depart_or_switch((TICKS - come - y) * (rest / TICKS), passed, mu, queue, others, counts, moved)
        top = TICKS - come - ticks(queue[2] + nu * others[SETUP], rest)
        room = _room(n, bound - arrival - most * delta, nu, others)
        idle, spare = others[IDLE_ON], queue[1] - queue[2] - coin
    words[0], words[1], words[2], words[3] = s0, s1, s2, s3
    others[IDLE_ON] = idle
    queue[1] = queue[2] + coin + spare
    moved[IDLE_ON] += moved_idle
    moved[3] -= moved_idle
    counts[ARRIVALS] += arrived
    counts[GREEN] += usual - arrived
    return passed // 2


@njit(cache=True)
def _advance_blocks(n, rate, mu, nu, buffer, start, end, queue, others, words, counts, integrals):
    """Simulate from `start` to `end` in uniformised blocks, constant arrival rate; arguments as `_advance_direct`.

    Time integrals are those of the state at the end of the block, less every change times the intervals before it.
    """
    arrival = rate * n
    delta = max(1.0 - mu, nu, mu - 1.0, mu - nu, 0.001)  # not 0, so that no rounding ends a block before it begins
    moved = np.zeros(integrals.size, np.int64)
    t = start
    while t < end:
        total = arrival + queue[1] + mu * others[IDLE_ON] + nu * others[SETUP]
        if total <= 0.0:  # nothing can happen any more
            for which in range(3):
                integrals[which] += (end - t) * others[which]
            break
        wander = int(5.0 * math.sqrt(math.sqrt(total)))  # most dummies and flips given up against most blocks
        bound = total + wander * min(delta, 1.0) + 2.0 * delta
        most = min(max(wander, 1), 63)
        coin = min(int(arrival), queue[1] - queue[2] - wander - most)
        leaps = others[IDLE_ON] >= FROM and 2 * coin > WORTH_IT * (bound + most * delta)
        if leaps:
            bound += most * delta
        m = min(
            max(4 * wander * wander, 16), MOST, 32 + int(min(bound * (end - t), float(MOST)))
        )  # no more than may be needed
        length = gamma(float(m), words) / bound
        until = t + length
        events, intervals = m, m
        if until >= end:
            events = binomial(m - 1, (end - t) / length, words)
            intervals = events + 1
            length, until = end - t, end
        others[TOP] = 1
        while queue[others[TOP] + 1] > 0:
            others[TOP] += 1
        size = min(others[TOP] + events, buffer) + 2  # an event lengthens no queue by more than one
        if size > queue.size:
            queue = with_room(queue, size)
            integrals, moved = with_room(integrals, size + 2), with_room(moved, size + 2)
        if leaps:
            done = _leap(n, arrival, bound, coin, most, delta, mu, nu, events, queue, others, words, counts, moved)
        else:
            done = _block(n, arrival, bound, mu, nu, buffer, events, queue, others, words, counts, moved)
        if done < events:
            length *= beta(float(done), float(intervals - done), words)
            until = t + length
            intervals = done
        weight = length / (2 * intervals)
        for which in range(3):
            integrals[which] += weight * (2 * intervals * others[which] - moved[which])
            moved[which] = 0
        for i in range(1, others[TOP] + 1):
            integrals[2 + i] += weight * (2 * intervals * queue[i] - moved[2 + i])
            moved[2 + i] = 0
        t = until
    return queue, integrals


@njit(cache=True)
def _record(state, queue, others):
    """Write down U, D0, D1, the number of tasks, Q_1, Q_2, ..."""
    state[:3] = others[:3]
    state[3] = queue[1:].sum()
    state[4:] = queue[1 : state.size - 3]


@njit(cache=True)
def _follow_blocks(n, rate, mu, nu, buffer, start, ends, queue, others, words, counts, integrals, states):
    """`_advance_blocks` from pause to pause, each with its row of `states`."""
    for k in range(ends.size):
        queue, integrals = _advance_blocks(
            n, rate, mu, nu, buffer, start, ends[k], queue, others, words, counts, integrals
        )
        start = ends[k]
        _record(states[k], queue, others)
    return queue, integrals


@njit(cache=True)
def _follow_direct(
    n, times, steps, amplitude, omega, mu, nu, buffer, aborts, start, ends, queue, others, words, counts, integrals,
    states,
):  # fmt: skip
    """`_advance_direct` from pause to pause, each with its row of `states`."""
    for k in range(ends.size):
        queue, integrals = _advance_direct(
            n, times, steps, amplitude, omega, mu, nu, buffer, aborts, start, ends[k], queue, others, words, counts,
            integrals,
        )  # fmt: skip
        start = ends[k]
        _record(states[k], queue, others)
    return queue, integrals


class _System:
    """A replication under way (`models.base.System`)."""

    def __init__(self, scenario: ServiceScenario, words: NDArray[np.uint64], direct: bool) -> None:
        self.scenario, self.words = scenario, words
        self.blocks = scenario.arrival.constant and not scenario.aborts and not direct
        q1, d0, d1, idle = initial_counts(scenario)
        self.tail = tail_length(scenario)
        self.queue = np.zeros(self.tail + 2, np.int64)
        self.queue[1] = q1
        self.others = np.array([idle, d0, d1, 1], np.int64)
        self.counts = np.zeros(len(COUNTS), np.int64)
        self.integrals = np.zeros(self.tail + 4)

    def follow(self, start: float, ends: NDArray[np.float64]) -> NDArray[np.float64]:
        n, arrival = self.scenario.servers, self.scenario.arrival
        buffer = np.iinfo(np.int64).max if self.scenario.buffer is None else self.scenario.buffer
        states = np.empty((ends.size, 4 + self.tail), np.int64)
        state = (self.queue, self.others, self.words, self.counts, self.integrals, states)
        mu, nu = rates(self.scenario)
        if self.blocks:
            self.queue, self.integrals = _follow_blocks(n, arrival.rates[0], mu, nu, buffer, start, ends, *state)
        else:
            times, steps, omega = np.array(arrival.times), np.array(arrival.rates), 2 * math.pi / arrival.period
            self.queue, self.integrals = _follow_direct(
                n, times, steps, arrival.amplitude, omega, mu, nu, buffer, self.scenario.aborts, start, ends, *state
            )
        return states / n

    def totals(self) -> list[float]:
        counts, integrals = self.counts, self.integrals
        accepted = counts[ARRIVALS] - counts[LOST_OFF] - counts[LOST_FULL]
        return [accepted, *counts, math.fsum(integrals[4:]), *integrals[: 3 + self.tail]]

    def reset(self) -> None:
        self.counts[:] = 0
        self.integrals[:] = 0.0


def simulate(
    scenario: ServiceScenario,
    words: NDArray[np.uint64],
    edges: Sequence[float],
    grid: NDArray[np.float64],
    direct: bool = False,
) -> Replication:
    """One replication.

    Parameters
    ----------
    scenario : of model tabs or jiq, exponential service.
    words : state of the generator, shape (4,); is advanced.
    edges, grid : as `models.base.replicate` takes them, in mean service times.
    direct : use the plain simulator even where the fast one applies.

    Returns
    -------
    Replication : totals by `columns`, and a path of shape (T, 4 + tail), all per server: u, d0, d1, the number of tasks
        (at all levels, also those beyond the tail), q_1, q_2, ...
    """
    return replicate(_System(scenario, words, direct), edges, grid)


def events(totals: dict[str, float]) -> float:
    """Number of real events behind the totals: what the speed of a simulator is counted in."""
    names = ("arrivals", "green", "red", "setups", "shortened")
    return sum(totals[name] for name in names)


def signals(scenario: ServiceScenario, path: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Waiting tasks and power per server along a path, each of shape (T,): what a pilot run looks at."""
    power, tail = scenario.power, path[:, -tail_length(scenario) :]
    watts = power.full * (tail[:, 0] + path[:, 2]) + power.idle * path[:, 0] + power.off * path[:, 1]
    return tail[:, 1:].sum(axis=1), watts


def components(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the columns of a path."""
    tail = (f"queue_tail[{i}]" for i in range(1, tail_length(scenario) + 1))
    return ("idle_on", "idle_off", "setup", "tasks", *tail)
