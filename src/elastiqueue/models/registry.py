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
}


def module_name(scenario: Any) -> str:
    """Full name of the module that defines the scenario's model."""
    return MODULES[scenario.model]


def model_of(scenario: Any) -> ModuleType:
    """The module that defines the scenario's model."""
    return importlib.import_module(module_name(scenario))
