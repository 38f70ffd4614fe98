"""The steps of the workflow, one per rule: `python -m elastiqueue.workflow.steps STEP ...`."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elastiqueue.errors import ConfigError, Parser, printable

if TYPE_CHECKING:  # slow to import
    import pandas as pd


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a step; returns the exit status."""
    parser = Parser(prog="elastiqueue.workflow.steps", description=__doc__)
    steps = parser.add_subparsers(required=True, metavar="STEP")

    def step(name: str, run: object, *options: str, **lists: str) -> None:
        one = steps.add_parser(name)
        for option in options:
            one.add_argument(f"--{option}", required=not option.endswith("?"), dest=option.rstrip("?"))
        for option, count in lists.items():
            one.add_argument(f"--{option}", nargs=count, default=[])
        one.set_defaults(run=run)

    step("pilot", _pilot, "spec", "output", "provenance")
    step("block", _block, "spec", "first", "last", "output", "provenance", pilots="*", before="*")
    step("summary", _summary, "spec", "blocks", "output")
    step("compute", _compute, "spec", "output", "provenance")
    step("draw", _draw, "spec", "data", "pdf", "png", summaries="+")
    step("tabulate", _tabulate, "spec", "caption", "csv", "md", "tex", summaries="+")
    step("diagram", _diagram, "spec", "pdf", "png")
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError, ArithmeticError, RuntimeError) as error:
        print(f"elastiqueue: {printable(error) or type(error).__name__}", file=sys.stderr)
        return 2
    return 0


def _without_blas() -> None:
    """Start numba without BLAS, which it looks for by importing scipy.linalg: a fifth of the time of a short job.

    No kernel that simulates multiplies matrices.
    """
    if "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # an import of it fails now
        try:
            import numba.np.arraymath  # noqa: F401
        finally:
            del sys.modules["scipy.linalg"]


def _pilot(options: argparse.Namespace) -> None:
    _without_blas()
    from elastiqueue.workflow.jobs import run_pilots

    run_pilots(_read(options.spec), options.output, options.provenance)


def _block(options: argparse.Namespace) -> None:
    _without_blas()
    from elastiqueue.workflow.jobs import run_block

    pilots = options.pilots[0] if options.pilots else None
    first, last = int(options.first), int(options.last)
    run_block(_read(options.spec), first, last, options.output, options.provenance, pilots, options.before)


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _summary(options: argparse.Namespace) -> None:
    from elastiqueue.results.tidy_tables import write_rows
    from elastiqueue.workflow.summaries import summarise_chunk

    experiment = json.loads(_read(options.spec))
    rows = []
    for chunk in experiment["chunks"]:
        files = [Path(options.blocks, chunk["name"], f"{first:07d}-{last:07d}.npz") for first, last in chunk["ranges"]]
        rows += summarise_chunk(chunk["specification"], files, experiment["metrics"] or None)
    _check_metrics(options, experiment["metrics"], {row["metric"] for row in rows})
    write_rows(rows, options.output, Path(options.spec).stem)


def _check_metrics(options: argparse.Namespace, metrics: Sequence[str], found: set[str]) -> None:
    for name in metrics:
        if name not in found:
            experiment = Path(options.output).stem
            known = f"one of {', '.join(sorted(found))}" if found else "a metric of one of its models"
            raise ConfigError(f"experiments.{experiment}.metrics = {name}: must be {known}")


def _compute(options: argparse.Namespace) -> None:
    from elastiqueue.results.provenance import Stopwatch
    from elastiqueue.results.tidy_tables import write_rows
    from elastiqueue.workflow.jobs import computed_rows, write_provenance

    watch = Stopwatch()
    experiment = json.loads(_read(options.spec))
    specifications = [chunk["specification"] for chunk in experiment["chunks"]]
    rows = [row for text in specifications for row in computed_rows(experiment["engine"], text)]
    metrics = experiment["metrics"]
    _check_metrics(options, metrics, {row["metric"] for row in rows})
    kept = [row for row in rows if not metrics or row["metric"] in metrics or row["statistic"] == "path"]
    write_rows(kept, options.output, Path(options.spec).stem)
    write_provenance(options.provenance, watch, *specifications)


def _joined(paths: Sequence[str]) -> pd.DataFrame:
    """The tidy tables of some experiments as one."""
    import pandas as pd

    from elastiqueue.results.tidy_tables import read_table

    tables = [read_table(path).assign(experiment=Path(path).stem) for path in paths]
    joined = pd.concat([table for table in tables if not table.empty], ignore_index=True)
    return joined[["experiment", *(name for name in joined if name != "experiment")]]


def _tabulate(options: argparse.Namespace) -> None:
    from elastiqueue.tables.own import own
    from elastiqueue.tables.schema import TableSpec

    spec = TableSpec.model_validate_json(options.spec)
    own(_joined(options.summaries), spec, options.caption).write(options.csv, options.md, options.tex)


def _draw(options: argparse.Namespace) -> None:
    from elastiqueue.figures import draw
    from elastiqueue.figures.schema import FigureSpec
    from elastiqueue.results.tidy_tables import write_table

    write_table(_joined(options.summaries), options.data)
    draw(FigureSpec.model_validate_json(options.spec), options.data, options.pdf, options.png)


def _diagram(options: argparse.Namespace) -> None:
    from elastiqueue.figures import draw
    from elastiqueue.figures.schema import FigureSpec

    draw(FigureSpec.model_validate_json(options.spec), None, options.pdf, options.png)


if __name__ == "__main__":
    gc.set_threshold(100_000)  # most of a short job are imports, which leave no garbage that is worth the search
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # all files are closed; to take the interpreter apart would cost a third of a second per job
