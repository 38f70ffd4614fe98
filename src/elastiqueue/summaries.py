"""Summaries: the estimates of an experiment from its block files, one row per scenario and metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.config import ServiceScenario
from elastiqueue.engines.simulation import grid_of
from elastiqueue.experiments import Point, specified_points
from elastiqueue.models.registry import model_of
from elastiqueue.results import read_arrays, text_digest
from elastiqueue.statistics import estimate, mean_estimate
from elastiqueue.tidy import VALUES, value_row

PATH_PARTS = 7  # components of a recorded path that the summary keeps: u, d0, d1, tasks, then q_1, q_2, q_3
SUP_DISTANCE = "sup_distance"  # asked for as a metric: distance of recorded paths from the fluid path, in their place


def _path_rows(point: Point, paths: NDArray[np.float64]) -> Iterable[dict[str, Any]]:
    """Along the grid: mean and error over the replications, and the path of replication 0; or a model's own rows."""
    tails = getattr(model_of(point.scenario), "tail_rows", None)
    if tails is not None:
        for name, x, values in tails(point.scenario, paths):
            yield value_row(name, mean_estimate(values), x, "tail")
        return
    names = model_of(point.scenario).components(point.scenario)[:PATH_PARTS]
    for row, time in enumerate(grid_of(point.scenario)):
        for column, name in enumerate(names):
            values = [float(value) for value in paths[:, row, column]]
            yield value_row(name, mean_estimate(values), float(time), "path mean")
            one = {"metric": name, "time": float(time), "statistic": "path", "mean": values[0], "n": 1}
            yield {**dict.fromkeys(VALUES), **one}


def summarise_chunk(
    specification: str, files: Sequence[str | Path], metrics: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Estimates of a chunk from all its block files: one row of a tidy table per scenario and metric."""
    loaded = sorted((read_arrays(path) for path in files), key=lambda pair: pair[0]["first"])
    begin, wanted = 0, text_digest(specification)
    for meta, _ in loaded:
        if meta.get("specification") != wanted or meta["first"] != begin:
            raise ValueError(
                f"{Path(files[0]).parent}: holds another scenario, or replications {meta['first']} to {meta['last']}"
                f" where those from {begin} on must be; delete the folder and run again"
            )
        begin = meta["last"]
    rows: list[dict[str, Any]] = []
    for i, point in enumerate(specified_points(specification)):
        head = {"label": point.label, **point.scenario.describe()}
        totals = np.concatenate([arrays[f"totals_{i}"] for _, arrays in loaded])
        model = model_of(point.scenario)
        columns, known = model.columns(point.scenario), model.metrics(point.scenario)
        kept = known if metrics is None else [name for name in metrics if name in known]
        rows.extend({**head, **value_row(name, estimate(known[name], columns, totals))} for name in kept)
        if f"paths_{i}" in loaded[0][1]:
            paths = np.concatenate([arrays[f"paths_{i}"] for _, arrays in loaded])
            if SUP_DISTANCE in (metrics or ()) and isinstance(point.scenario, ServiceScenario):
                from elastiqueue.fluid_tables import sup_distances  # the fluid engine is wanted here only

                rows.append({**head, **value_row(SUP_DISTANCE, mean_estimate(sup_distances(point.scenario, paths)))})
            else:
                rows.extend({**head, **row} for row in _path_rows(point, paths))
    return rows
