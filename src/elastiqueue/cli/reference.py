"""Keep a finished run as the reference results, with which `verify` compares later runs.

Example:
  elastiqueue reference --run paper
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.cli.verify import finished_run
from elastiqueue.results.reference import finished, store_reference
from elastiqueue.workflow.running_time import yardstick


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    finished_run(parser)
    parser.add_argument("--reference", default="paper_figures/reference", metavar="FOLDER", help="where to keep it")


def run(options: argparse.Namespace) -> None:
    """Copy tables, previews and provenance."""
    output = finished(options.run, options.output)
    store_reference(output, options.reference, Path("results") / options.run, yardstick())
