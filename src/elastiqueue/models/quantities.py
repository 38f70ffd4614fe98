"""Metrics that all systems of servers that turn on and off have, and bounds on the size of their chains.

A metric is a ratio of totals, (numerator, denominator).
"""

from __future__ import annotations

import math
from typing import Any

from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.statistics.queue_waits import queue_columns, queue_metrics

TOLERANCE = 1e-9  # relative change of any stationary rate at which a queue that was cut counts as unlimited
Metric = Any  # Weights, or a `WaitMetric` or `QueueMetric` of `statistics`
Weights = tuple[dict[str, float], dict[str, float]]  # column -> weight, twice: a metric is a ratio of linear forms
TIME = {"time": 1.0}


def shares(scenario: ServiceScenario, busy: str = "busy") -> dict[str, Weights]:
    """Fractions of the servers; `busy` is the column that integrates the busy ones."""
    columns = {"busy": busy, "idle_on": "idle_on", "idle_off": "idle_off", "setup": "setup"}
    return {name: ({column: 1 / scenario.servers}, TIME) for name, column in columns.items()}


def consumption(scenario: ServiceScenario, busy: str = "busy") -> dict[str, Weights]:
    """Power per server, and the part of it that serves no task."""
    n, power = scenario.servers, scenario.power
    wasted = {"setup": power.full / n, "idle_on": power.idle / n, "idle_off": power.off / n}
    return {"power": ({busy: power.full / n, **wasted}, TIME), "wasted_power": (wasted, TIME)}


def queue_columns_of(definition: Any, scenario: ServiceScenario) -> tuple[str, ...]:
    """Names of the counts by which the waits in its QUEUE are observed; none where they are not asked for."""
    asked = scenario.waits is not None and hasattr(definition, "QUEUE")
    return queue_columns(scenario.asked_of_waits.times) if asked else ()


def metrics_of(definition: Any, scenario: ServiceScenario) -> dict[str, Metric]:
    """All metrics of a definition: its own, and those of the waits in its QUEUE where they are asked for."""
    known: dict[str, Metric] = definition.metrics(scenario)
    if not queue_columns_of(definition, scenario):
        return known
    asked, (_, accepted) = scenario.asked_of_waits, known["mean_wait"]
    return {**known, **queue_metrics(asked.percentiles, asked.times, accepted, scenario.phase_type)}


def choose(n: int, k: int) -> int:
    """C(n, k), or some number above 10^18 where it is greater than that."""
    k, value = min(k, n - k), 1
    for i in range(k):
        value = value * (n - i) // (i + 1)
        if value > 10**18:
            break
    return value


def least_level_of(scenario: ServiceScenario, queues: int) -> int:
    """Tasks per queue, of so many, below which a cut cannot go unnoticed.

    The number of tasks has a tail of lambda^n at least, but for the variation of the service times, for which the
    exponent is halved here.
    """
    rate = scenario.arrival.at(0.0)
    needed = math.log(TOLERANCE) / math.log(rate) / (2 * queues) if rate > 0 else 0.0
    return max(2 * (scenario.servers + 8), math.ceil(needed))


def phases_in_use(scenario: ServiceScenario) -> int:
    """Number of phases that a service may be in."""
    return sum(visits > 0 for visits in scenario.phase_type.visits())


def blocks_pay(scenario: ServiceScenario, p: Any) -> bool:
    """Whether accelerated blocks have at most three events for each that is one.

    While lambda N servers are busy the total rate R is 2 lambda N; the bound of a block lies 2 delta and about
    5 R^(1/4) higher, delta being the largest change of the rate by an event.
    """
    total = 2 * scenario.servers * scenario.arrival.mean()
    return 2 * max(1.0, p.standby_rate, p.setup_rate) + 5 * math.sqrt(math.sqrt(total)) <= 2 * total
