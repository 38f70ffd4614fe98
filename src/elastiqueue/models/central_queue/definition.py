"""The centralised baselines: M/M/N/setup/delayedoff and its relatives, also with phase-type service.

One first-come first-served queue (Gandhi, Doroudi, Harchol-Balter, Scheller-Wolf, "Exact analysis of the M/M/k/setup
class", SIGMETRICS 2013). With service times of K phases as in `models.tabs.definition` the state is

    W  tasks that wait     U  servers idle-on     D0  off     D1  in setup     P_k  busy in phase k

    event      rate         effect
    arrival    lambda N     an idle-on server takes the task, else it waits; where one is off, a setup starts
    standby    mu U         an idle-on server turns off
    setup      nu D1        a server is on: it takes the first task that waits, or is idle-on
    phase      gamma_k P_k  a server goes on to phase j (r_kj), or its task departs (r_k0): it takes the first task that
                            waits, or is idle-on

    delayed_off   `abort_setups`: D1 = min(W, N - on) at all times, a setup without a waiting task is aborted; otherwise
                  each setup once started completes. `staggered`: D1 = min(1, W, N - on).
    setup         the limit mu -> infinity: a server without a task turns off at once, also at time 0
    always_on     M/M/N: all N are on

The mean wait is the time integral of waiting tasks over the accepted ones (Little's law; no closed form is known for
the wait expected at an arrival). Its distribution is that of the waits that end (`statistics.queue_waits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from elastiqueue.models.quantities import Weights, choose, consumption, least_level_of, phases_in_use, shares
from elastiqueue.sampling.phase_type import phase_counts
from elastiqueue.scenarios.autoscaling import ServiceScenario

WAITING, IDLE_ON, OFF, SETUP, BUSY = range(5)  # places in the state; those of P_2, ..., P_K follow
QUEUE = WAITING  # tasks start in the order in which they came
ARRIVAL, STANDBY, SETUP_ENDS, PHASE_ENDS = range(4)  # kinds of event; PHASE_ENDS + k for phase k
KINDS = ("arrival", "standby", "setup", "phase")
COUNTS = ("arrivals", "waited", "departures", "red", "setups", "phase_changes")
ARRIVALS, WAITED, DEPARTURES, RED, COMPLETED, PHASES = range(6)
EVENTS = ("arrivals", "departures", "red", "setups", "phase_changes")
# What happens to setups that are not needed.
KEEPS, ABORTS, STAGGERS = range(3)


class Parameters(NamedTuple):
    """Numbers that the events depend on."""

    servers: int
    limit: int  # tasks in the system; an arrival that finds so many does not happen
    rule: int
    instant: bool  # a server without a task turns off at once
    standby_rate: float
    setup_rate: float
    gammas: Sequence[float]  # (K,)
    starts: Sequence[float]  # r_j, (K,)
    ways: Sequence[Sequence[float]]  # r_k0, r_k1, ..., r_kK, (K, K + 1)


def discipline(scenario: ServiceScenario) -> int:
    """What happens to superfluous setups."""
    if scenario.staggered:
        return STAGGERS
    return ABORTS if scenario.aborts else KEEPS


def parameters(scenario: ServiceScenario, level: int | None = None) -> Parameters:
    """Parameters of a scenario; arrivals that find `level` tasks are dropped."""
    service = scenario.phase_type
    on = scenario.model == "always_on"
    return Parameters(
        scenario.servers,
        level or 2**62,
        discipline(scenario),
        scenario.model == "setup",
        float(scenario.standby_rate or 0.0) if scenario.model == "delayed_off" else 0.0,
        0.0 if on else float(scenario.setup_rate or 0.0),
        service.rates,
        service.initial,
        [[end, *row] for end, row in zip(service.exit, service.routing, strict=True)],
    )


def kinds(p: Parameters) -> int:
    """Number of kinds of event."""
    return PHASE_ENDS + len(p.gammas)


def counts_at_start(scenario: ServiceScenario) -> tuple[int, int]:
    """Servers on and tasks present at time 0; the fluid fixed point has lambda N of each."""
    n = scenario.servers
    if scenario.start == "all_off":
        return 0, 0
    if scenario.start == "all_idle_on":
        return (0 if scenario.model == "setup" else n), 0
    busy = min(n, round(scenario.arrival.at(0.0) * n))
    return (n, busy) if scenario.model == "always_on" else (busy, busy)


def initial(scenario: ServiceScenario, p: Parameters) -> list[int]:
    """State at time 0: no task waits; the phases of busy servers are those of long-run service."""
    on, tasks = counts_at_start(scenario)
    return [0, on - tasks, scenario.servers - on, 0, *phase_counts(tasks, scenario.phase_type)]


def rates(state, p, out):
    """Rates of the kinds of event but the arrival."""
    out[STANDBY] = p.standby_rate * state[IDLE_ON]
    out[SETUP_ENDS] = p.setup_rate * state[SETUP]
    for k in range(len(p.gammas)):
        out[PHASE_ENDS + k] = p.gammas[k] * state[BUSY + k]


def happen(kind, system, p):
    """What an event does."""
    state = system.state
    if kind == ARRIVAL:
        if p.limit < 2**62 and state[WAITING] + p.servers - state[IDLE_ON] - state[OFF] - state[SETUP] >= p.limit:
            return
        system.record(ARRIVALS)
        system.move(WAITING, 1)
        if state[IDLE_ON] > 0:
            start(system, p)
        else:
            system.record(WAITED)
            if p.rule == KEEPS and state[OFF] > 0:
                begin_setups(1, system)
    elif kind == STANDBY:
        system.record(RED)
        turn_off(1, system)
    elif kind == SETUP_ENDS:
        system.record(COMPLETED)
        system.move(SETUP, -1)
        free(system, p)
    else:
        k = kind - PHASE_ENDS
        system.move(BUSY + k, -1)
        way = system.pick(p.ways[k], 1.0) if len(p.gammas) > 1 else 0
        if way > 0:
            system.record(PHASES)
            system.move(BUSY + way - 1, 1)
            return
        system.record(DEPARTURES)
        free(system, p)
    if p.rule != KEEPS:
        most = 1 if p.rule == STAGGERS else p.servers
        begin_setups(min(state[WAITING], state[OFF] + state[SETUP], most) - state[SETUP], system)


def start(system, p):
    """An idle-on server takes the first task that waits."""
    k = system.pick(p.starts, 1.0) if len(p.gammas) > 1 else 0
    system.move(WAITING, -1)
    system.move(IDLE_ON, -1)
    system.move(BUSY + k, 1)


def free(system, p):
    """A server has become free."""
    system.move(IDLE_ON, 1)
    if system.state[WAITING] > 0:
        start(system, p)
    elif p.instant:
        turn_off(1, system)


def turn_off(number, system):
    """Servers that are idle-on turn off."""
    system.move(IDLE_ON, -number)
    system.move(OFF, number)


def begin_setups(number, system):
    """So many servers that are off start their setup; where negative, so many setups are aborted."""
    if number != 0:
        system.move(SETUP, number)
        system.move(OFF, -number)


def integrals(scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of what is integrated over time."""
    return ("busy", "idle_on", "idle_off", "setup", "waiting")


def observed(x: Sequence[Any], p: Parameters) -> list[Any]:
    """These, from a state or from integrals of its components: a linear map."""
    return [sum(x[BUSY:]), x[IDLE_ON], x[OFF], x[SETUP], x[WAITING]]


def path(scenario: ServiceScenario) -> dict[str, tuple[str, ...]]:
    """Names of what is recorded along a path, each the sum of some integrands per server."""
    return {name: (name,) for name in ("idle_on", "idle_off", "setup", "busy", "waiting")}


def metrics(scenario: ServiceScenario) -> dict[str, Weights]:
    """The metrics as ratios of totals; fractions are per server. Nothing is lost, no messages are counted."""
    arrivals = {"arrivals": 1.0}
    return {
        "mean_wait": ({"waiting": 1.0}, arrivals),
        "mean_wait_integral": ({"waiting": 1.0}, arrivals),
        "wait_probability": ({"waited": 1.0}, arrivals),
        "loss_probability": ({}, arrivals),
        **consumption(scenario),
        **shares(scenario),
        "setups_per_task": ({"setups": 1.0}, arrivals),
    }


def least_states(scenario: ServiceScenario, level: int | None) -> tuple[int, int]:
    """How many states the chain has at least, and of how many numbers each is.

    Of at most L tasks: the servers that are on (all N, or 0..N where they turn off) are all busy, each in one of K
    phases, and the queue has any of at least L - N + 1 lengths.
    """
    n, phases = scenario.servers, phases_in_use(scenario)
    turning = scenario.row.turns_on and (scenario.model == "setup" or bool(scenario.standby_rate))
    states = choose(n + phases - (0 if turning else 1), n) * max(int(level or n) - n + 1, 1)
    return (states if scenario.arrival.at(0.0) > 0 else 1), phases + 3


def least_level(scenario: ServiceScenario) -> int | None:
    """A level below which a cut cannot go unnoticed."""
    return least_level_of(scenario, 1)
