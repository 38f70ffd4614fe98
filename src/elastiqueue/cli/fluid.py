"""The fluid limit of TABS or JIQ: averages over the window; as JSON also the fixed point and the trajectory.

Examples:
  elastiqueue fluid tabs.yaml
  elastiqueue fluid tabs.yaml --set record_every=1 --json -
"""

from __future__ import annotations

import argparse

from elastiqueue.cli.options import arguments, metrics_text, read, report

__all__ = ["arguments", "run"]


def run(options: argparse.Namespace) -> None:
    """Take the limit, and report."""
    scenario = read(options)
    from elastiqueue.api.solve import fluid

    result = fluid(scenario)
    report(options, result, metrics_text(result))
