"""Simulate one scenario: all its replications, and a table of its metrics with their standard errors.

Examples:
  elastiqueue simulate tabs.yaml
  elastiqueue simulate tabs.yaml --set servers=1000 --set service.erlang=4
  elastiqueue simulate tabs.yaml --set servers=4 --exact       beside the exact values
  elastiqueue simulate tabs.yaml --csv - | sort
"""

from __future__ import annotations

import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from elastiqueue.cli.options import arguments

    arguments(parser)
    parser.add_argument("--exact", action="store_true", help="show the stationary values of the exact solver beside")


def run(options: argparse.Namespace) -> None:
    """Simulate, and report."""
    from elastiqueue.cli.options import Progress, metrics_text, read, report

    scenario = read(options)
    from elastiqueue.api import solve

    beside = [solve.exact(scenario)] if options.exact else []
    with Progress("replications:") as progress:
        result = solve.simulate(scenario, progress)
    report(options, result, metrics_text(result, *beside))
