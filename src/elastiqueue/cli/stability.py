"""Whether a scenario with unlimited buffers is stable: the verdict, the drift that decides it, and its margin.

Examples:
  elastiqueue stability tabs.yaml --set servers=4 --set buffer=null
  elastiqueue stability cluster.yaml --set routing=power_of_two
"""

from __future__ import annotations

import argparse

from elastiqueue.cli import options as shared


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    shared.arguments(parser)
    parser.add_argument("--accuracy", type=float, metavar="X", help="refine the drift to this error (tabs, jiq)")


def run(options: argparse.Namespace) -> None:
    """Print the verdict, its drift and margin, and the line that explains it."""
    scenario = shared.read(options)
    from elastiqueue.api.solve import stability

    result = stability(scenario, options.accuracy)
    said = result.facts
    lines = (
        f"{shared.title(scenario)}: {said['verdict']}",
        f"drift {said['drift']:+.6g}, margin {said['margin']:.3g}",
        said["reason"],
    )
    shared.report(options, result, "\n".join(lines))
