"""The command `elastiqueue stability`: is a scenario stable, by which drift, and how far from the boundary."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `elastiqueue stability`."""
    text = "whether a scenario with unlimited buffers is stable: verdict, drift and margin"
    one = commands.add_parser("stability", help=text, description=text)
    one.add_argument("scenario", metavar="SCENARIO.yaml")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key (dotted inside)")
    one.add_argument("--accuracy", type=float, metavar="X", help="refine the drift to this error (tabs, jiq)")
    one.add_argument("--json", metavar="FILE", help="write JSON to FILE; - writes it to standard output")
    one.set_defaults(command=command)


def command(options: argparse.Namespace) -> None:
    """Print the verdict, its drift and margin, and the line that explains it."""
    from elastiqueue.cli.options import finite, read

    scenario = read(options)
    from elastiqueue.engines.stability import report
    from elastiqueue.results.files import write_atomically
    from elastiqueue.results.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    servers = getattr(scenario, "count", None) or scenario.servers
    watch = Stopwatch()
    found = report(scenario, accuracy=options.accuracy)
    if options.json is not None:
        sources = source_digest("elastiqueue.engines.stability")
        document: dict[str, Any] = {
            "scenario": scenario.model_dump(mode="json"),
            "verdict": found.verdict,
            "drift": found.drift,
            "margin": found.margin,
            **found.facts,
            "reason": found.reason,
            "provenance": watch.provenance(seed=scenario.seed, sources=sources),
        }
        text = json.dumps(finite(document), indent=1) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
            return
        write_atomically(options.json, text)
    print(f"{scenario.model}, {servers} server{'s' if servers != 1 else ''}: {found.verdict}")
    print(f"drift {found.drift:+.6g}, margin {found.margin:.3g}")
    print(found.reason)
