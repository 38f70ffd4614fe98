"""Write checksums and provenance of a finished run.

Example:
  elastiqueue manifest --run quick
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.cli.verify import finished_run as arguments
from elastiqueue.results.reference import finished, write_manifest

__all__ = ["arguments", "run"]


def run(options: argparse.Namespace) -> None:
    """Write it."""
    write_manifest(finished(options.run, options.output), Path("results") / options.run, options.run)
