"""Tables without chance: each engine's rows for the scenarios of an experiment.

An engine is a module with `compute_rows(engine, scenario)`; it is imported by name, so that the sources of one engine
do not include those of another.
"""

from __future__ import annotations

import importlib
from typing import Any

from elastiqueue.experiments import ENGINE_MODULES, specified_points


def computed_rows(engine: str, specification: str) -> list[dict[str, Any]]:
    """Rows of a tidy table of a deterministic engine over a chunk: values are exact, their se is 0 and their n is 0."""
    module = importlib.import_module(ENGINE_MODULES[engine][0])
    rows: list[dict[str, Any]] = []
    for point in specified_points(specification):
        head = {"label": point.label, **point.scenario.describe()}
        rows += [{**head, **row} for row in module.compute_rows(engine=engine, scenario=point.scenario)]
    return rows
