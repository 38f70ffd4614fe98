"""Compare two scenarios on common random clocks: their metrics, and the first less the second with its interval.

Examples:
  elastiqueue compare tabs.yaml delayed_off.yaml
  elastiqueue compare tabs.yaml --with standby_time=12.5
  elastiqueue compare tabs.yaml --set servers=1000 --with model=delayed_off --with buffer=null

`--with` changes keys of the second scenario only, which without a file of its own is the first. Each system behaves as
if it were simulated alone. `gain` says as how many times as many replications of independent systems those here are
worth for the difference.
"""

from __future__ import annotations

import argparse
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from elastiqueue.cli.options import arguments

    arguments(parser)
    parser.add_argument("other", nargs="?", metavar="OTHER.yaml", help="the second scenario; default: the first")
    parser.add_argument("--with", action="append", default=[], metavar="KEY=VALUE", dest="changes",
                        help="change a key of the second scenario")  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Simulate both, and report."""
    from elastiqueue.cli.options import Progress, aligned, keep_inputs, read, report, settings, title
    from elastiqueue.errors import ConfigError
    from elastiqueue.scenarios.reading import read_scenario
    from elastiqueue.scenarios.units import unit_of

    first = read(options)
    if options.other is None and not options.changes:
        raise ConfigError("OTHER.yaml or --with: must say what the scenario is compared with")
    changes = {**settings("--set", options.set), **settings("--with", options.changes)}
    second = read_scenario(options.other or options.scenario, changes)
    keep_inputs(options, options.other or options.scenario, second)
    from elastiqueue.api.compare import compare

    with Progress("replications:") as progress:
        found = compare(first, second, progress)
    for warning in found.facts.get("steady_state", {"warnings": ()})["warnings"]:
        print(f"elastiqueue: warning: {warning}", file=sys.stderr)
    table = [["metric", "first", "second", "difference", "95 % interval", "gain", "unit"]]
    for name, one in found.metrics.items():
        low, high = one.difference.interval()
        if name.startswith("queue_tail[") and not any(value.mean > 0 for value in one.both):
            continue
        cells = [*map(str, one.both), str(one.difference), f"[{low:.4g}, {high:.4g}]"]
        table.append([name, *cells, "" if one.gain != one.gain else f"{one.gain:.3g}", unit_of(first, name)])
    report(options, found, "\n".join([f"first: {title(first)}", f"second: {title(second)}", aligned(table)]))
