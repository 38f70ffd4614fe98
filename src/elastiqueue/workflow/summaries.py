"""Summaries: the estimates of an experiment from its block files, one row per scenario and metric.

The header of a block file describes each of its scenarios i, with arrays `totals_i` and, where recorded, `paths_i`:

    label       of its case
    head        values of the columns that name the scenario in tidy tables
    columns     what each column of the totals, shape (replications, columns), counts or integrates
    metrics     name -> [numerator, denominator], each column -> weight: a metric is a ratio of sums over replications
    components  what each column of the paths, shape (replications, times, components), holds
    times       those of the rows of a path
    tail        in place of these two: points (x, level), P(path > level) is estimated by the share of time

`windows` of the header tells of each scenario from when to when its replications are measured, and in how many batches
(more than one: a steady state): the totals then have a row per batch, those of a replication next to each other.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.results.files import read_arrays, text_digest
from elastiqueue.results.tidy_tables import VALUES, value_row
from elastiqueue.scenarios import SUP_DISTANCE
from elastiqueue.statistics.batches import steady_estimate, steady_estimates
from elastiqueue.statistics.estimates import estimate, mean_estimate
from elastiqueue.statistics.waiting import metric_from

PATH_PARTS = 7  # components of a recorded path that the summary keeps: u, d0, d1, tasks, then q_1, q_2, q_3


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
    precision = json.loads(specification).get("precision")
    rows: list[dict[str, Any]] = []
    for i, point in enumerate(loaded[0][0]["points"]):
        totals = np.concatenate([arrays[f"totals_{i}"] for _, arrays in loaded])
        known = {name: metric_from(parts) for name, parts in point["metrics"].items()}
        kept = known if metrics is None else [name for name in metrics if name in known]
        span = loaded[0][0]["windows"][i]
        if span["batches"] > 1:
            found = _steady_rows(point, span, {name: known[name] for name in kept}, totals)
        else:
            found = [value_row(name, estimate(known[name], point["columns"], totals)) for name in kept]
        if precision:
            found = [_with_doubt(row, point, precision) for row in found]
        if f"paths_{i}" in loaded[0][1]:
            paths = np.concatenate([arrays[f"paths_{i}"] for _, arrays in loaded if f"paths_{i}" in arrays])
            if SUP_DISTANCE in (metrics or ()) and "times" in point:
                from elastiqueue.engines.fluid import sup_distances
                from elastiqueue.workflow.experiments import specified_points  # slow to import, and wanted here only

                scenario: Any = specified_points(specification)[i].scenario
                found.append(value_row(SUP_DISTANCE, mean_estimate(sup_distances(scenario, paths))))
            else:
                found.extend(_tail_rows(point["tail"], paths) if "tail" in point else _path_rows(point, paths))
        rows.extend({"label": point["label"], **point["head"], **row} for row in found)
    return rows


def have_reached(precision: Mapping[str, Any], files: Sequence[str | Path]) -> list[bool]:
    """For each scenario of a chunk whether its blocks so far have the precision that is wanted."""
    loaded = sorted((read_arrays(path) for path in files), key=lambda pair: pair[0]["first"])
    head, found = loaded[0][0], []
    for i, point in enumerate(head["points"]):
        totals = np.concatenate([arrays[f"totals_{i}"] for _, arrays in loaded])
        metric, span = metric_from(point["metrics"][precision["metric"]]), head["windows"][i]
        if span["batches"] > 1:
            one = steady_estimate(metric, point["columns"], _by_run(span, totals)).estimate
        else:
            one = estimate(metric, point["columns"], totals)
        low, high = one.interval()
        found.append(high - low <= precision["relative"] * abs(high + low))
    return found


def _named(point: Mapping[str, Any]) -> str:
    """A scenario in a warning: its label, or what of its head has a value."""
    return point["label"] or ", ".join(f"{key} = {value}" for key, value in point["head"].items() if value is not None)


def _with_doubt(row: dict[str, Any], point: Mapping[str, Any], precision: Mapping[str, Any]) -> dict[str, Any]:
    """A row, with a note where it is the one whose precision was not reached."""
    if row["metric"] != precision["metric"]:
        return row
    if row["ci_high"] - row["ci_low"] <= precision["relative"] * abs(row["ci_high"] + row["ci_low"]):
        return row
    note = f"precision of {precision['relative']:g} not reached in {row['n']} replications or batches"
    print(f"elastiqueue: warning: {_named(point)}: {row['metric']}: {note}", file=sys.stderr)
    return {**row, "note": "; ".join(filter(None, (row.get("note"), note)))}


def _steady_rows(
    point: Mapping[str, Any], span: Mapping[str, Any], metrics: Mapping[str, Any], totals: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Estimates of a steady state, with warm-up, effective sample size, and a note where something is in doubt."""
    found = steady_estimates(metrics.values(), point["columns"], _by_run(span, totals))
    rows = []
    for name, one in zip(metrics, found, strict=True):
        note = "; ".join(filter(None, (span["doubt"], one.warning)))
        if note:
            print(f"elastiqueue: warning: {_named(point)}: {name}: {note}", file=sys.stderr)
        facts = {"warm_up": span["warm_up"], "batches": one.batches, "lag_1": one.correlation}
        if not math.isnan(one.reduction):
            facts["variance_reduction"] = one.reduction
        rows.append({**value_row(name, one.estimate), **facts, "effective": one.effective, "note": note})
    return rows


def _by_run(span: Mapping[str, Any], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Totals by run and stretch, of which a batch has some if it has control variates: shape (R, M, C)."""
    return totals.reshape(-1, span["batches"] * span.get("parts", 1), totals.shape[1])


def _path_rows(point: Mapping[str, Any], paths: NDArray[np.float64]) -> Iterable[dict[str, Any]]:
    """Along the times: mean and error over the replications, and the path of replication 0."""
    for row, time in enumerate(point["times"]):
        for column, name in enumerate(point["components"][:PATH_PARTS]):
            values = [float(value) for value in paths[:, row, column]]
            yield value_row(name, mean_estimate(values), time, "path mean")
            one = {"metric": name, "time": time, "statistic": "path", "mean": values[0], "n": 1}
            yield {**dict.fromkeys(VALUES), **one}


def _tail_rows(tail: Sequence[Sequence[float]], paths: NDArray[np.float64]) -> Iterable[dict[str, Any]]:
    for x, level in tail:
        yield value_row("tail", mean_estimate([float(np.mean(one > level)) for one in paths[:, :, 0]]), x, "tail")
