"""TABS with a threshold: servers are set up only while at least a fraction `level` of all servers is busy.

As TABS (elastiqueue.models.tabs.definition), but a task that finds no server idle-on has a server set up only if at
least `level` N servers are busy, or none is on. A level of 0 is TABS.
"""

import math
from collections import namedtuple
from typing import Annotated

from pydantic import Field

from elastiqueue.models.tabs import definition as BASE
from elastiqueue.models.tabs.definition import ARRIVAL, ARRIVALS, IDLE_ON, OFF, SETUP, join, start_setup
from elastiqueue.models.tabs.definition import happen as happen_in_tabs
from elastiqueue.scenarios.autoscaling import ServiceScenario

TAKES = ("standby_rate", "setup_rate", "abort_setups", "buffer")
Parameters = namedtuple("Parameters", (*BASE.Parameters._fields, "threshold"))


class Scenario(ServiceScenario):
    """Keys: those of tabs, and the level."""

    model: str
    level: Annotated[float, Field(ge=0, le=1, description="Fraction of busy servers from which on one is set up.")]


def parameters(scenario, level=None):
    """Those of TABS, and the least number of busy servers."""
    return Parameters(*BASE.parameters(scenario, level), math.ceil(scenario.level * scenario.servers))


def happen(kind, system, p):
    """As in TABS, but for an arrival that finds no server idle-on."""
    if kind == ARRIVAL and system.state[IDLE_ON] == 0:
        busy = p.servers - system.state[OFF] - system.state[SETUP]
        system.record(ARRIVALS)
        join(system, p)
        if busy >= p.threshold or busy == 0:
            start_setup(system, p)
    else:
        happen_in_tabs(kind, system, p)
