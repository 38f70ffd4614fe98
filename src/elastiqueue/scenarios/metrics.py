"""Names of the metrics that each model has, for a check of input: the models, which define them, are slow to import."""

from __future__ import annotations

import re

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
SUP_DISTANCE = "sup_distance"  # asked for as a metric: distance of recorded paths from the fluid path, in their place


def pattern(name: str) -> str:
    """The name as it stands in METRICS: with i for its index, if it has one."""
    return re.sub(r"\[[1-9]\d*\]$", "[i]", name)
