"""The engines: what each value of the key `engine` runs, and which models it serves.

An engine that uses no random numbers is a module with `compute_rows(engine, scenario)`; modules are named, not
imported, so that the sources of one engine do not include those of another.
"""

from __future__ import annotations

import importlib
from typing import Any

from elastiqueue.scenarios.autoscaling import SERVICE_MODELS

ENGINE_MODULES = {
    "simulate": ("elastiqueue.engines.simulation",),
    "exact": ("elastiqueue.engines.exact",),
    "fluid": ("elastiqueue.engines.fluid",),
    "fluid_stability": ("elastiqueue.engines.fluid",),
    "capacity": ("elastiqueue.engines.capacity",),
    "bounds": ("elastiqueue.engines.capacity",),
    "stability": ("elastiqueue.engines.stability",),
    "stability_map": ("elastiqueue.engines.stability",),
}


ENGINE_MODELS = {  # of the others: every model
    "exact": SERVICE_MODELS,
    "fluid": ("tabs", "jiq"),
    "fluid_stability": ("tabs", "jiq"),
    "stability_map": ("tabs",),
    "capacity": ("cluster",),
    "bounds": ("cluster", "single_type"),
}


def compute_rows(engine: str, scenario: Any) -> list[dict[str, Any]]:
    """Rows of a tidy table of a deterministic engine: values are exact, their se is 0 and their n is 0."""
    rows: list[dict[str, Any]] = importlib.import_module(ENGINE_MODULES[engine][0]).compute_rows(
        engine=engine, scenario=scenario
    )
    return rows
