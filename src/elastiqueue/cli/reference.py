"""Keep a finished run as the reference results, with which `verify` compares later runs.

Example:
  elastiqueue reference --run paper
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.cli.verify import finished_run
from elastiqueue.results.reference import finished, store_reference


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    finished_run(parser)
    parser.add_argument("--reference", default="paper_figures/reference", metavar="FOLDER", help="where to keep it")


def run(options: argparse.Namespace) -> None:
    """Copy tables, previews and provenance."""
    store_reference(finished(options.run, options.output), options.reference, Path("results") / options.run)
