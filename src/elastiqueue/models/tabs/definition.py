"""TABS and JIQ: every server has a queue of its own, and tells when it is idle (paper A, Sections 2 and 4).

Servers are exchangeable, so the state is how many there are of each kind. With service times of K phases (exponential:
one), which have rates gamma_k, start in phase j with probability r_j, go from phase k to phase j with probability r_kj
and end after it with probability r_k0:

    U  idle-on     D0  off     D1  in setup     P_k  busy in phase k     S_ik  with i >= 1 tasks and busy in phase k

    event      rate         effect
    arrival    lambda N     U > 0: an idle-on server takes the task. U = 0: a uniformly random busy server does, and if
                            D0 > 0 one server starts its setup. The task is lost where no server is busy, or the chosen
                            one holds B tasks.
    standby    mu U         an idle-on server turns off
    setup      nu D1        a server becomes idle-on
    phase      gamma_k P_k  a uniformly random server of these goes on to phase j (r_kj), or its task departs (r_k0):
                            it starts on the next one, or is idle-on

With `abort_setups` a server that empties its queue ends one setup under way. JIQ is mu = 0 with every server on.

Messages: green, a completion leaves a server empty; red, an idle-on server turns off; a completed setup is reported too
and counted apart. The wait that an arrival expects, if its server holds i tasks and is in phase k, is i - 1 mean
services and the mean residual m_k of the phase (`PhaseType.residual`); it is counted as `found`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from elastiqueue.models.quantities import Metric, choose, consumption, least_level_of, phases_in_use, shares
from elastiqueue.sampling.phase_type import phase_counts
from elastiqueue.scenarios.autoscaling import TAIL, ServiceScenario
from elastiqueue.statistics.waiting import column, levels_counted, wait_metrics

IDLE_ON, OFF, SETUP, BUSY = range(4)  # places in the state; those of P_2, ..., P_K, S_11, ..., S_1K, S_21, ... follow
ARRIVAL, STANDBY, SETUP_ENDS, PHASE_ENDS = range(4)  # kinds of event; PHASE_ENDS + k for phase k
KINDS = ("arrival", "standby", "setup", "phase")
COUNTS = (
    "accepted", "arrivals", "waited", "lost_off", "lost_full", "found", "green", "red", "setups_started", "setups",
    "shortened", "phase_changes",
)  # fmt: skip
ACCEPTED, ARRIVALS, WAITED, LOST_OFF, LOST_FULL, FOUND, GREEN, RED, STARTED, COMPLETED, SHORTENED, PHASES = range(12)
FIRST = len(COUNTS)  # behind these: the tasks that wait, by what they find (`more_counts`)
EVENTS = ("arrivals", "green", "red", "setups", "shortened", "phase_changes")


class Parameters(NamedTuple):
    """Numbers that the events depend on."""

    servers: int
    buffer: int
    aborts: bool
    standby_rate: float
    setup_rate: float
    gammas: Sequence[float]  # (K,)
    starts: Sequence[float]  # r_j, (K,)
    ways: Sequence[Sequence[float]]  # r_k0, r_k1, ..., r_kK, (K, K + 1)
    residuals: Sequence[float]  # m_k, (K,)
    tail: int
    levels: int  # of tasks found that are counted one by one


def parameters(scenario: ServiceScenario, level: int | None = None) -> Parameters:
    """Parameters of a scenario; an unlimited buffer is cut at `level` tasks."""
    service = scenario.phase_type
    return Parameters(
        scenario.servers,
        scenario.buffer or level or 2**62,
        scenario.aborts,
        0.0 if scenario.model == "jiq" else float(scenario.standby_rate or 0.0),
        0.0 if scenario.model == "jiq" else float(scenario.setup_rate or 0.0),
        service.rates,
        service.initial,
        [[end, *row] for end, row in zip(service.exit, service.routing, strict=True)],
        service.residual(),
        tail_length(scenario),
        levels_counted(scenario.buffer, service.phases),
    )


def more_counts(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of further counts: tasks that found so many tasks at their server, the one in service in that phase."""
    phases = scenario.phase_type.phases
    levels = levels_counted(scenario.buffer, phases)
    return tuple(column(i, k) for i in range(1, levels + 1) for k in range(1, phases + 1))


def kinds(p: Parameters) -> int:
    """Number of kinds of event."""
    return PHASE_ENDS + len(p.gammas)


def level_size(p: Parameters) -> int:
    """Components of the state for each length of a queue: by so many it grows where the buffer is unlimited."""
    return len(p.gammas)


def counts_at_start(scenario: ServiceScenario) -> tuple[int, int, int, int]:
    """U, D0, D1 and busy servers at time 0; the fluid fixed point has lambda N busy, the others off (JIQ: idle-on)."""
    n = scenario.servers
    if scenario.start == "all_idle_on":
        return n, 0, 0, 0
    if scenario.start == "all_off":
        return 0, n, 0, 0
    busy = min(n, round(scenario.arrival.at(0.0) * n))
    return (n - busy, 0, 0, busy) if scenario.model == "jiq" else (0, n - busy, 0, busy)


def initial(scenario: ServiceScenario, p: Parameters) -> list[int]:
    """State at time 0; the phases of busy servers are those of long-run service."""
    *others, busy = counts_at_start(scenario)
    phases = phase_counts(busy, scenario.phase_type)
    levels = p.buffer if p.buffer < 2**62 else TAIL
    return [*others, *phases, *phases, *[0] * ((levels - 1) * len(phases))]


def rates(state, p, out):
    """Rates of the kinds of event but the arrival."""
    out[STANDBY] = p.standby_rate * state[IDLE_ON]
    out[SETUP_ENDS] = p.setup_rate * state[SETUP]
    for k in range(len(p.gammas)):
        out[PHASE_ENDS + k] = p.gammas[k] * state[BUSY + k]


def happen(kind, system, p):
    """What an event does."""
    if kind == ARRIVAL:
        arrive(system, p)
    elif kind == STANDBY:
        system.record(RED)
        system.move(IDLE_ON, -1)
        system.move(OFF, 1)
    elif kind == SETUP_ENDS:
        system.record(COMPLETED)
        system.move(SETUP, -1)
        system.move(IDLE_ON, 1)
    else:
        phase_ends(kind - PHASE_ENDS, system, p)


def arrive(system, p):
    """A task arrives."""
    system.record(ARRIVALS)
    if system.state[IDLE_ON] > 0:
        system.record(ACCEPTED)
        system.move(IDLE_ON, -1)
        start(1, system, p)
        return
    join(system, p)
    start_setup(system, p)


def join(system, p):
    """The task joins a uniformly random busy server, if there is one with room."""
    phases = len(p.gammas)
    busy = p.servers - system.state[OFF] - system.state[SETUP]  # none is idle-on
    if busy == 0:
        system.record(LOST_OFF)
        return
    place = system.pick(system.state[BUSY + phases :], busy)
    add_to(place // phases + 1, place % phases, system, p)


def add_to(level, k, system, p):
    """The task joins a server of `level` tasks in phase k."""
    if level == p.buffer:
        system.record(LOST_FULL)
        return
    phases = len(p.gammas)
    system.record(ACCEPTED)
    system.record(WAITED)
    system.record(FOUND, level - 1 + p.residuals[k])
    if p.levels > 0:
        system.record(FIRST + phases * (min(level, p.levels) - 1) + k)
    system.move(BUSY + phases * level + k, -1)
    system.move(BUSY + phases * (level + 1) + k, 1)


def start_setup(system, p):
    """A server that is off starts its setup, if there is one."""
    if system.state[OFF] > 0:
        system.record(STARTED)
        system.move(OFF, -1)
        system.move(SETUP, 1)


def start(level, system, p):
    """A server with `level` tasks starts on one of them."""
    k = system.pick(p.starts, 1.0) if len(p.gammas) > 1 else 0
    system.move(BUSY + k, 1)
    system.move(BUSY + len(p.gammas) * level + k, 1)


def phase_ends(k, system, p):
    """A server ends phase k of a service."""
    phases = len(p.gammas)
    first = BUSY + phases + k
    level = system.pick(system.state[first::phases], system.state[BUSY + k]) + 1
    system.move(BUSY + k, -1)
    system.move(first + phases * (level - 1), -1)
    way = system.pick(p.ways[k], 1.0) if phases > 1 else 0
    if way > 0:
        system.record(PHASES)
        system.move(BUSY + way - 1, 1)
        system.move(BUSY + phases * level + way - 1, 1)
    elif level > 1:
        system.record(SHORTENED)
        start(level - 1, system, p)
    else:
        system.record(GREEN)
        system.move(IDLE_ON, 1)
        if p.aborts and system.state[SETUP] > 0:
            system.move(SETUP, -1)
            system.move(OFF, 1)


def tail_length(scenario: ServiceScenario) -> int:
    """Number of columns q_1, q_2, ... that are reported."""
    return TAIL if scenario.buffer is None else scenario.buffer


def integrals(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of what is integrated over time."""
    return ("waiting", "idle_on", "idle_off", "setup", *(f"q_{i}" for i in range(1, tail_length(scenario) + 1)))


def observed(x: Sequence[Any], p: Parameters) -> list[Any]:
    """These, from a state or from integrals of its components: a linear map."""
    phases = len(p.gammas)
    queue, above = [], 0.0
    for first in range(len(x) - phases, BUSY + phases - 1, -phases):  # the longest queues first
        above = above + sum(x[first : first + phases])
        queue.append(above)
    queue.reverse()
    cut = [*queue[: p.tail], *[0.0 * x[0]] * (p.tail - len(queue))]
    return [sum(queue[1:]), x[IDLE_ON], x[OFF], x[SETUP], *cut]


def path(scenario: ServiceScenario) -> dict[str, tuple[str, ...]]:
    """Names of what is recorded along a path, each the sum of some integrands per server."""
    tail = {f"queue_tail[{i}]": (f"q_{i}",) for i in range(1, tail_length(scenario) + 1)}
    servers = {name: (name,) for name in ("idle_on", "idle_off", "setup")}
    return {**servers, "tasks": ("waiting", "q_1"), **tail}


def metrics(scenario: ServiceScenario) -> dict[str, Metric]:
    """The metrics as ratios of totals; fractions are per server, the queue tail is queue_tail[i].

    growth is that of the total number of tasks per mean service time: 0 in a stable system over a long time.
    """
    n, accepted, arrivals, asked = scenario.servers, {"accepted": 1.0}, {"arrivals": 1.0}, scenario.asked_of_waits
    return {
        "mean_wait": ({"found": 1.0}, accepted),
        "mean_wait_integral": ({"waiting": 1.0}, accepted),
        "wait_probability": ({"waited": 1.0}, accepted),
        "loss_probability": ({"lost_off": 1.0, "lost_full": 1.0}, arrivals),
        "loss_off_probability": ({"lost_off": 1.0}, arrivals),
        "loss_full_probability": ({"lost_full": 1.0}, arrivals),
        **consumption(scenario, "q_1"),
        **shares(scenario, "q_1"),
        "messages_per_task": ({"green": 1.0, "red": 1.0}, accepted),
        "green_per_task": ({"green": 1.0}, accepted),
        "red_per_task": ({"red": 1.0}, accepted),
        "setups_per_task": ({"setups": 1.0}, accepted),
        "growth": ({"accepted": 1.0, "green": -1.0, "shortened": -1.0}, {"time": 1.0}),
        **wait_metrics(scenario.buffer, scenario.phase_type, asked.percentiles, asked.times),
        **{f"queue_tail[{i}]": ({f"q_{i}": 1 / n}, {"time": 1.0}) for i in range(1, tail_length(scenario) + 1)},
    }


def least_states(scenario: ServiceScenario, level: int | None) -> tuple[int, int]:
    """How many states the chain has at least, and of how many numbers each is; an unlimited buffer is cut at `level`.

    N servers are spread over the kinds that a server can be of: with 1..B tasks in one of K phases, idle-on and, where
    servers turn off, off or in setup.
    """
    n, size = scenario.servers, int(scenario.buffer or level or 1) * phases_in_use(scenario)
    turning = 2 if scenario.row.turns_on and scenario.standby_rate else 0
    return (choose(n + size + turning, n) if scenario.arrival.at(0.0) > 0 else 1), size + 2


def least_level(scenario: ServiceScenario) -> int | None:
    """A level below which a cut cannot go unnoticed; None where there is no cut."""
    return least_level_of(scenario, scenario.servers) if scenario.buffer is None else None
