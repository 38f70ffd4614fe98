"""Which module simulates which model."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

MODULES = {
    "tabs": "elastiqueue.models.tabs.exponential",
    "jiq": "elastiqueue.models.tabs.exponential",
    "delayed_off": "elastiqueue.models.central_queue.exponential",
    "setup": "elastiqueue.models.central_queue.exponential",
    "always_on": "elastiqueue.models.central_queue.exponential",
    "cluster": "elastiqueue.models.slotted",
    "single_type": "elastiqueue.models.slotted",
}


def module_name(scenario: Any) -> str:
    """Full name of the module that defines the scenario's model, with the law of its service times."""
    name = MODULES[scenario.model]
    law = getattr(scenario, "phase_type", None)  # scenarios in slots have none
    if law is None or law.is_exponential:
        return name
    return name.removesuffix(".exponential") + ".phase_type"


def model_of(scenario: Any) -> ModuleType:
    """The module that defines the scenario's model."""
    return importlib.import_module(module_name(scenario))
