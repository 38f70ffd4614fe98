"""Which module simulates which model."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

MODULES = {
    "tabs": "elastiqueue.models.tabs",
    "jiq": "elastiqueue.models.tabs",
    "delayed_off": "elastiqueue.models.central_queue",
    "setup": "elastiqueue.models.central_queue",
    "always_on": "elastiqueue.models.central_queue",
    "cluster": "elastiqueue.models.slotted",
    "single_type": "elastiqueue.models.slotted",
}
PHASE_TYPE = "_phase_type"  # what the name of a module for phase-type service ends in


def module_name(scenario: Any) -> str:
    """Full name of the module that defines the scenario's model, with the law of its service times."""
    name = MODULES[scenario.model]
    law = getattr(scenario, "phase_type", None)  # scenarios in slots have none
    if law is None or law.is_exponential:
        return name
    return name + PHASE_TYPE


def model_of(scenario: Any) -> ModuleType:
    """The module that defines the scenario's model."""
    return importlib.import_module(module_name(scenario))
