"""The engines: what each value of the key `engine` runs; which models it serves stands in `scenarios.registry`.

An engine without jobs of its own is a module with `compute_rows(engine, scenario)`; modules are named, not
imported, so that the sources of one engine do not include those of another.
"""

from __future__ import annotations

import importlib
from typing import Any

from elastiqueue.errors import ConfigError
from elastiqueue.scenarios.registry import MODELS, row_of

ENGINE_MODULES = {
    "simulate": ("elastiqueue.engines.simulation",),
    "compare": ("elastiqueue.engines.comparison", "elastiqueue.models.coupled"),
    "exact": ("elastiqueue.engines.exact",),
    "coverage": ("elastiqueue.engines.coverage",),
    "fluid": ("elastiqueue.engines.fluid",),
    "fluid_stability": ("elastiqueue.engines.fluid",),
    "stability": ("elastiqueue.engines.stability",),
    "stability_map": ("elastiqueue.engines.stability",),
    "capacity": ("elastiqueue.engines.capacity",),
    "bounds": ("elastiqueue.engines.capacity",),
}


def check_served(engine: str, scenario: Any) -> None:
    """Raise ConfigError with one line unless the engine serves the scenario's model, and setups as they end in it."""
    if engine not in row_of(scenario).engines:
        fitting = ", ".join(name for name, row in MODELS.items() if engine in row.engines)
        raise ConfigError(f"model = {scenario.model}: {engine} is for {fitting}")
    if engine.startswith("fluid") and scenario.aborts:
        raise ConfigError("abort_setups = true: must be false; the fluid limit is that of TABS without aborted setups")


def compute_rows(engine: str, scenario: Any, other: Any = None) -> list[dict[str, Any]]:
    """Rows of a tidy table of an engine without jobs of its own; exact values have se = 0 and n = 0.

    other : the scenario that the engine `compare` compares with.
    """
    check_served(engine, scenario)
    more = {} if other is None else {"other": other}
    rows: list[dict[str, Any]] = importlib.import_module(ENGINE_MODULES[engine][0]).compute_rows(
        engine=engine, scenario=scenario, **more
    )
    return rows
