"""Simulate one scenario: all its replications, and a table of its metrics with their standard errors.

Examples:
  elastiqueue simulate tabs.yaml
  elastiqueue simulate tabs.yaml --set servers=1000 --set service.erlang=4
  elastiqueue simulate tabs.yaml --set servers=4 --exact       beside the exact values
  elastiqueue simulate tabs.yaml --csv - | sort
"""

from __future__ import annotations

import argparse
import sys


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
    text = metrics_text(result, *beside)
    if steady := result.facts.get("steady_state"):
        for warning in steady["warnings"]:
            print(f"elastiqueue: warning: {warning}", file=sys.stderr)
        line = "steady state: warm-up {warm_up:g}, then {measured:g} in {batches} batches, {runs} runs"
        text = "\n".join([text, line.format(**steady)])
        less = {name: one.get("variance_reduction") for name, one in steady["metrics"].items()}
        told = [f"{name} / {less[name]:.3g}" for name in ("mean_wait", "power") if less.get(name)]
        text += "".join(["\ncontrol variates: variance of ", ", ".join(told)] if told else [])
    report(options, result, text)
