"""TABS that joins the shortest of d queues: a task that finds no server idle-on looks at d busy servers.

As TABS (elastiqueue.models.tabs.definition), but of d busy servers, drawn uniformly with replacement, the task joins
the one with the fewest tasks, the first of several; it is lost if that one is full. `choices` d = 1 is TABS.
"""

from collections import namedtuple
from typing import Annotated

from pydantic import Field

from elastiqueue.models.tabs import definition as BASE
from elastiqueue.models.tabs.definition import (
    ARRIVAL,
    ARRIVALS,
    BUSY,
    IDLE_ON,
    LOST_OFF,
    OFF,
    SETUP,
    add_to,
    start_setup,
)
from elastiqueue.models.tabs.definition import happen as happen_in_tabs
from elastiqueue.scenarios.autoscaling import ServiceScenario

TAKES = ("standby_rate", "setup_rate", "abort_setups", "buffer")
Parameters = namedtuple("Parameters", (*BASE.Parameters._fields, "choices"))


class Scenario(ServiceScenario):
    """Keys: those of tabs, and the number of choices."""

    model: str
    choices: Annotated[int, Field(ge=1, le=100, description="d, busy servers that a task looks at.")]


def parameters(scenario, level=None):
    """Those of TABS, and d."""
    return Parameters(*BASE.parameters(scenario, level), scenario.choices)


def happen(kind, system, p):
    """As in TABS, but for an arrival that finds no server idle-on."""
    if kind == ARRIVAL and system.state[IDLE_ON] == 0:
        system.record(ARRIVALS)
        join_shortest(system, p)
        start_setup(system, p)
    else:
        happen_in_tabs(kind, system, p)


def join_shortest(system, p):
    """The task joins the shortest of d busy servers. Their places in the state are ordered by tasks, then by phase."""
    phases = len(p.gammas)
    busy = p.servers - system.state[OFF] - system.state[SETUP]
    if busy == 0:
        system.record(LOST_OFF)
        return
    best = system.pick(system.state[BUSY + phases :], busy)
    for _ in range(p.choices - 1):
        other = system.pick(system.state[BUSY + phases :], busy)
        if other // phases < best // phases:
            best = other
    add_to(best // phases + 1, best % phases, system, p)
