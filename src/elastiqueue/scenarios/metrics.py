"""Names of the metrics that each model has, for a check of input: the models, which define them, are slow to import."""

from __future__ import annotations

import re

from elastiqueue.scenarios import SUP_DISTANCE
from elastiqueue.scenarios.autoscaling import TAIL, ServiceScenario
from elastiqueue.scenarios.cluster import ClusterScenario, SingleTypeScenario

_CENTRAL = (
    "mean_wait", "mean_wait_integral", "wait_probability", "loss_probability", "power", "wasted_power", "busy",
    "idle_on", "idle_off", "setup", "setups_per_task",
)  # fmt: skip
_TABS = (
    *_CENTRAL, "loss_off_probability", "loss_full_probability", "messages_per_task", "green_per_task", "red_per_task",
    "growth", "queue_tail[i]",
)  # fmt: skip
_SLOTTED = ("total_backlog", "weighted_backlog", "parallel_sq", "perpendicular_sq", "growth", "warm_up_test")
METRICS = {
    "tabs": _TABS,
    "jiq": _TABS,
    "delayed_off": _CENTRAL,
    "setup": _CENTRAL,
    "always_on": _CENTRAL,
    "cluster": (*_SLOTTED, "mean_response", "backlog_by_type[i]"),
    "single_type": (*_SLOTTED, "pooled_backlog", "excess_backlog", "unused_service"),
}


def has_metric(scenario: ServiceScenario | ClusterScenario | SingleTypeScenario, name: str) -> bool:
    """Whether a simulation of the scenario has a metric of that name."""
    if name == SUP_DISTANCE:
        return scenario.model in ("tabs", "jiq") and scenario.record_every is not None
    if name in ("cost_per_hour", "cost_per_million"):
        return isinstance(scenario, ServiceScenario) and scenario.units is not None and scenario.units.priced
    if name == "mean_response":
        return isinstance(scenario, ClusterScenario) and scenario.level == "job"
    indexed = re.fullmatch(r"(\w+)\[([1-9][0-9]*)\]", name)
    if indexed is None:
        return name in METRICS[scenario.model] and not name.endswith("]")
    return f"{indexed[1]}[i]" in METRICS[scenario.model] and int(indexed[2]) <= _indices(scenario)


def _indices(scenario: ServiceScenario | ClusterScenario | SingleTypeScenario) -> int:
    """The largest index: tasks of a server, or job types."""
    if isinstance(scenario, ServiceScenario):
        return TAIL if scenario.buffer is None else scenario.buffer
    return scenario.types if isinstance(scenario, ClusterScenario) else 0
