"""Simulation jobs: the pilot runs of a chunk, and a block of its replications.

A block file holds the totals (and paths) of replications first..last-1 of each scenario of a chunk, and tells in its
header how to read them, so that estimates need no model. Its bytes depend on the specification only. A job that finds a
shorter file of the same block and sources takes its replications over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.engines.registry import compute_rows
from elastiqueue.engines.simulation import Window, described, simulate, window
from elastiqueue.results.files import read_arrays, text_digest, write_arrays, write_json
from elastiqueue.results.provenance import Stopwatch
from elastiqueue.scenarios.base import settings_digest
from elastiqueue.workflow.experiments import specified_points
from elastiqueue.workflow.summaries import have_reached


def run_pilots(specification: str, output: str | Path, provenance: str | Path) -> None:
    """Fix the window of every scenario of a chunk by pilot runs, and write them as JSON, with their digest."""
    watch = Stopwatch()
    windows = [vars(window(point.scenario)) for point in specified_points(specification)]
    write_json(output, {"digest": _digest(windows), "windows": windows})
    write_provenance(provenance, watch, specification)


def read_windows(path: str | Path) -> list[Window]:
    """Read what `run_pilots` wrote; raises ValueError with one line where the file is damaged."""
    try:
        record = json.loads(Path(path).read_text())
        if record["digest"] == _digest(record["windows"]):
            return [Window(**values) for values in record["windows"]]
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(f"{Path(path).resolve()}: is damaged; delete it and run again")


def _digest(windows: list[dict[str, Any]]) -> str:
    return text_digest(json.dumps(windows, sort_keys=True))


def run_block(
    specification: str,
    first: int,
    last: int,
    output: str | Path,
    provenance: str | Path,
    pilots: str | Path | None,
    before: Sequence[str | Path] = (),
) -> None:
    """Simulate replications first, ..., last - 1 of every scenario of a chunk.

    `before`: the blocks of the rounds before, of a run to a precision. Scenarios that have reached it are left out:
    their arrays have no rows.
    """
    watch = Stopwatch()
    points = specified_points(specification)
    spans = read_windows(pilots) if pilots else [window(point.scenario) for point in points]
    sources = json.loads(specification)["sources"]
    meta = {
        "first": first,
        "last": last,
        "sources": sources,
        "specification": text_digest(specification),
        "digests": [point.scenario.digest() for point in points],
        "windows": [{key: value for key, value in vars(span).items() if value == value} for span in spans],
        "points": [{"label": point.label, **described(point.scenario)} for point in points],
    }
    precision = json.loads(specification).get("precision")
    known, arrays = (first, {}) if precision else _earlier(Path(output), meta)
    reached = have_reached(precision, before) if before else [False] * len(points)
    for i, (point, span) in enumerate(zip(points, spans, strict=True)):
        begin = known if arrays else first
        if reached[i]:
            arrays[f"totals_{i}"] = np.empty((0, len(meta["points"][i]["columns"])))
            continue
        totals, paths = simulate(point.scenario, begin, last, span)
        parts = {"totals": totals, **({"paths": paths} if paths.size else {})}
        for part, values in parts.items():
            earlier = arrays.get(f"{part}_{i}")
            arrays[f"{part}_{i}"] = values if earlier is None else np.concatenate([earlier, values])
    write_arrays(output, meta, arrays)
    write_provenance(provenance, watch, specification, windows=meta["windows"])


def _earlier(output: Path, meta: Mapping[str, Any]) -> tuple[int, dict[str, NDArray[Any]]]:
    """Replications of this block that an earlier run with fewer of them left: where they end, and their arrays."""
    for path in sorted(output.parent.glob(f"{meta['first']:07d}-*.npz"), reverse=True):
        if path == output:
            continue
        try:
            found, arrays = read_arrays(path)
        except ValueError:
            continue
        same = all(found.get(key) == meta[key] for key in ("first", "sources", "digests", "windows"))
        if same and found["last"] < meta["last"]:
            return found["last"], arrays
    return meta["first"], {}


def computed_rows(engine: str, specification: str) -> list[dict[str, Any]]:
    """Rows of a tidy table of a deterministic engine over a chunk."""
    rows: list[dict[str, Any]] = []
    for point in specified_points(specification):
        head = {"label": point.label, **point.scenario.describe(), "settings": settings_digest(point.scenario)}
        rows += [{**head, **row} for row in compute_rows(engine, point.scenario, point.other)]
    return rows


def write_provenance(path: str | Path, watch: Stopwatch, *specifications: str, **facts: Any) -> None:
    """Write the provenance of a job that worked on these chunks."""
    scenarios = [point.scenario.model_dump(mode="json") for text in specifications for point in specified_points(text)]
    sources = sorted({json.loads(text)["sources"] for text in specifications})
    facts["specifications"] = sorted(text_digest(text)[:32] for text in specifications)
    write_json(path, watch.provenance(scenarios=scenarios, sources=", ".join(sources), **facts))
