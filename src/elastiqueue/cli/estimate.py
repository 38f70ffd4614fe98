"""Predict how long a run of the workflow takes on this machine: the reference record, scaled by one measured ratio.

Examples:
  elastiqueue estimate
  elastiqueue estimate --cores 8
"""

from __future__ import annotations

import argparse
from typing import Any

from elastiqueue.cli.options import aligned, check_file
from elastiqueue.results.provenance import cpu_model, usable_cores
from elastiqueue.scenarios.reading import ConfigError, merged, read_yaml
from elastiqueue.workflow.experiments import load
from elastiqueue.workflow.running_time import predict
from elastiqueue.workflow.runs import WORKFLOW, composed


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--configfile", nargs="+", default=[], metavar="FILE", help="set on top of config/config.yaml")
    parser.add_argument("--cores", type=int, default=usable_cores(), metavar="N", help="default: all of them")
    parser.add_argument("--json", metavar="FILE", help="write the prediction as JSON")


def run(options: argparse.Namespace) -> None:
    """Print the prediction per experiment and in all."""
    from elastiqueue.results.files import write_json

    if not 1 <= options.cores <= 1_000_000:
        raise ConfigError(f"--cores = {options.cores}: must be from 1 to 1,000,000")
    if options.json == "-":
        raise ConfigError("--json = -: must be a file")
    check_file("--json", options.json)
    values: dict[str, Any] = {}
    for path in options.configfile:
        values = merged(values, read_yaml(path))
    config = load(composed(values, WORKFLOW / "config/config.yaml", WORKFLOW / "config/claims.yaml"))
    prediction = predict(config, options.cores)
    rows = [[name, "unknown" if cpu is None else f"{cpu:.0f}"] for name, cpu in prediction.cpu.items()]
    print(aligned([["experiment", "CPU seconds"], *rows, ["all", f"{prediction.total:.0f}"]]))
    unknown = sum(cpu is None for cpu in prediction.cpu.values())
    cores = f"{options.cores} core{'s' * (options.cores > 1)}"
    print(
        f"wall time on {cores} ({cpu_model()}, {prediction.ratio:.2f} times that of the reference machine): "
        f"{prediction.wall / 60:.1f} minutes"
        + f", without {unknown} experiments that the record does not hold"
        * (unknown > 0)
    )
    if options.json is not None:
        write_json(
            options.json,
            {
                "run": config.run, "cpu": cpu_model(), "cores": options.cores, "ratio": prediction.ratio,
                "cpu_seconds": prediction.total, "wall_seconds": prediction.wall, "experiments": dict(prediction.cpu),
            },
        )  # fmt: skip
