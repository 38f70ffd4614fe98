"""Predict how long a run of the workflow takes on this machine, from measurements of some ten seconds.

Examples:
  elastiqueue estimate
  elastiqueue estimate --configfile config/quick.yaml --cores 2
"""

from __future__ import annotations

import argparse
from typing import Any

from elastiqueue.cli.options import check_file
from elastiqueue.results.provenance import usable_cores
from elastiqueue.scenarios.reading import merged
from elastiqueue.workflow.experiments import load
from elastiqueue.workflow.running_time import estimate
from elastiqueue.workflow.runs import composed


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--configfile", nargs="+", default=[], metavar="FILE", help="set on top of config/config.yaml")
    parser.add_argument("--cores", type=int, default=usable_cores(), metavar="N", help="default: all of them")
    parser.add_argument("--json", metavar="FILE", help="write the prediction as JSON")


def run(options: argparse.Namespace) -> None:
    """Print the prediction per experiment and in all."""
    from elastiqueue.results.files import write_json
    from elastiqueue.results.provenance import cpu_model
    from elastiqueue.scenarios.reading import ConfigError, read_yaml

    if not 1 <= options.cores <= 1_000_000:
        raise ConfigError(f"--cores = {options.cores}: must be from 1 to 1,000,000")
    if options.json == "-":
        raise ConfigError("--json = -: must be a file")
    check_file("--json", options.json)
    values: dict[str, Any] = {}
    for path in options.configfile:
        values = merged(values, read_yaml(path))
    config = load(composed(values, "config/config.yaml", "config/claims.yaml"))
    found = estimate(config, options.cores)
    print(f"{'experiment':<28}{'jobs':>6}{'CPU seconds':>14}")
    for part in found.parts:
        jobs = len(part.pilots) + len(part.blocks) + len(part.others)
        print(f"{part.experiment:<28}{jobs:>6}{part.cpu:>14.0f}")
    print(f"{'all':<28}{len(found.jobs):>6}{found.cpu:>14.0f}")
    print(
        f"wall time on {found.cores} core{'s' * (found.cores > 1)} ({cpu_model()}): {found.wall / 60:.1f} minutes",
        end="",
    )
    print(f"; calibration took {found.calibration:.0f} s")
    if options.json is not None:
        write_json(
            options.json,
            {
                "run": config.run, "cpu": cpu_model(), "cores": found.cores, "cpu_seconds": found.cpu,
                "wall_seconds": found.wall, "experiments": {part.experiment: part.cpu for part in found.parts},
            },
        )  # fmt: skip
