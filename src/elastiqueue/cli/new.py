"""Write a commented starting file of a run of your own into a folder; it runs as it is.

Example:
  elastiqueue new study && elastiqueue run study/run.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.scenarios.reading import ConfigError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", help="a folder; made where it is not there")


def run(options: argparse.Namespace) -> None:
    """Write DIR/run.yaml; a file that is there is left alone."""
    from elastiqueue.results.files import write_atomically

    target = Path(options.folder) / "run.yaml"
    if target.exists():
        raise ConfigError(f"{target}: is there already; name another folder")
    write_atomically(target, (Path(__file__).parent / "starting_run.yaml").read_text(encoding="utf-8"))
    print(f"{target}: written; elastiqueue run {target}")
