"""Write checksums and provenance of a finished run, or check its files against them.

Examples:
  elastiqueue manifest --run quick
  elastiqueue manifest --run quick --check
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.cli.verify import finished_run
from elastiqueue.errors import ConfigError
from elastiqueue.results.manifest import check_manifest, write_manifest
from elastiqueue.results.reference import finished


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    finished_run(parser)
    parser.add_argument("--check", action="store_true", help="check the files; status 1 if one is missing or changed")


def run(options: argparse.Namespace) -> int:
    """Write manifest.json, or say which of its files are not as written."""
    output, results = finished(options.run, options.output, with_tables=False), Path("results") / options.run
    if not options.check:
        if not any(results.glob("*/*.csv")):
            raise ConfigError(f"--run = {options.run}: must be a finished run; {results} holds no summaries")
        write_manifest(output, results, options.run)
        return 0
    wrong = check_manifest(output / "manifest.json")
    for name, what in wrong.items():
        print(f"{what}: {name}")
    print(f"{len(wrong)} files are missing or changed" if wrong else "all files are as written")
    return 1 if wrong else 0
