"""Compare a finished run with the reference results, file by file and row by row.

Examples:
  elastiqueue verify
  elastiqueue verify --strict
"""

from __future__ import annotations

import argparse

from elastiqueue.results import reference as records


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    finished_run(parser)
    parser.add_argument("--reference", default="paper_figures/reference", metavar="FOLDER", help="the reference")
    parser.add_argument("--only", nargs="+", default=[], metavar="TABLE", help="compare these, fig3 for instance")
    parser.add_argument("--into", metavar="FOLDER", help="where the comparison is written; default: the output folder")
    parser.add_argument("--strict", action="store_true", help="exit status 1 unless every file is equal")


def finished_run(parser: argparse.ArgumentParser) -> None:
    """Declare how a finished run is named."""
    parser.add_argument("--run", default="paper", metavar="NAME", help="name of the run; its results are results/NAME")
    parser.add_argument(
        "--output", metavar="FOLDER", help="its figures and tables; default paper_figures for paper, else results/NAME"
    )


def run(options: argparse.Namespace) -> int:
    """Compare; one line per file."""
    output = records.finished(options.run, options.output)
    results = records.verify(output, options.reference, options.run, options.only, options.into)
    for file in results:
        print(f"{file.file:<32}{file.status:<20}{file.rows:>7} rows", end="")
        print(f", {len(file.differences)} differ" if file.differences else "")
    print(f"files: {records.summary(results)}")
    equal = all(file.status in (records.EQUAL, records.WITHIN) for file in results)
    return 1 if options.strict and not equal else 0
