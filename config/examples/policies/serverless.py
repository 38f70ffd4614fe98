"""A serverless platform without queues: a request takes an idle instance, or starts one and waits for it.

At most `servers` instances exist at a time; a request that finds so many, none of them idle, is rejected. An instance
starts at rate nu (`setup_rate`), serves the request that waits for it, and stays idle until the next one comes or until
it expires, after an exponential period of mean `keep_alive`. State and rates are those of a central queue.
"""

from typing import Annotated

from pydantic import Field

# isort: off
from elastiqueue.models.central_queue import definition as BASE
from elastiqueue.models.central_queue.definition import ARRIVAL, ARRIVALS, BUSY, COMPLETED, DEPARTURES, IDLE_ON, OFF
from elastiqueue.models.central_queue.definition import PHASE_ENDS, PHASES, RED, SETUP, SETUP_ENDS, STANDBY, WAITED
from elastiqueue.models.central_queue.definition import turn_off
from elastiqueue.models.quantities import consumption, shares
from elastiqueue.scenarios.autoscaling import ServiceScenario
# isort: on

TAKES, LOSES = ("setup_rate",), True
COUNTS = (*BASE.COUNTS, "rejected")
REJECTED = len(BASE.COUNTS)


class Scenario(ServiceScenario):
    """Keys: servers (the limit of concurrency), setup_rate, and the keep-alive period."""

    model: str
    keep_alive: Annotated[float, Field(ge=1e-9, le=1e9, description="Mean time that an idle instance is kept.")]


def parameters(scenario, level=None):
    """Those of the central queue; an instance expires at rate 1 / keep_alive."""
    return BASE.parameters(scenario)._replace(standby_rate=1 / scenario.keep_alive)


def happen(kind, system, p):
    """What an event does."""
    if kind == ARRIVAL:
        system.record(ARRIVALS)
        if system.state[IDLE_ON] > 0:
            system.move(IDLE_ON, -1)
            system.move(BUSY + system.pick(p.starts, 1.0), 1)
        elif system.state[OFF] > 0:
            system.record(WAITED)
            system.move(OFF, -1)
            system.move(SETUP, 1)
        else:
            system.record(REJECTED)
    elif kind == STANDBY:
        system.record(RED)
        turn_off(1, system)
    elif kind == SETUP_ENDS:
        system.record(COMPLETED)
        system.move(SETUP, -1)
        system.move(BUSY + system.pick(p.starts, 1.0), 1)
    else:
        k = kind - PHASE_ENDS
        way = system.pick(p.ways[k], 1.0)
        system.record(PHASES if way > 0 else DEPARTURES)
        system.move(BUSY + k, -1)
        system.move(BUSY + way - 1 if way > 0 else IDLE_ON, 1)


def observed(x, p):
    """As many requests wait as instances are starting."""
    return [sum(x[BUSY:]), x[IDLE_ON], x[OFF], x[SETUP], x[SETUP]]


def metrics(scenario):
    """mean_wait is that of accepted requests, by Little's law; a cold start is a request that waits."""
    accepted, arrivals = {"arrivals": 1.0, "rejected": -1.0}, {"arrivals": 1.0}
    waits = {"mean_wait": ({"waiting": 1.0}, accepted), "cold_starts": ({"waited": 1.0}, accepted)}
    return {**waits, "loss_probability": ({"rejected": 1.0}, arrivals), **consumption(scenario), **shares(scenario)}


def least_level(scenario):
    """Nothing is unlimited."""
