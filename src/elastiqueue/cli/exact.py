"""Solve a small system exactly: the metrics of `simulate` in steady state, without error.

Examples:
  elastiqueue exact tabs.yaml --set servers=4
  elastiqueue exact tabs.yaml --set servers=4 --json -
"""

from __future__ import annotations

import argparse

from elastiqueue.cli.options import arguments, metrics_text, read, report

__all__ = ["arguments", "run"]


def run(options: argparse.Namespace) -> None:
    """Solve, and report."""
    scenario = read(options)
    from elastiqueue.api.solve import exact

    result = exact(scenario)
    report(options, result, metrics_text(result))
