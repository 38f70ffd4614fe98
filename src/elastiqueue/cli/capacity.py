"""The command `elastiqueue capacity`: facets of a cluster's capacity region, and where the arrival rates are in it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `elastiqueue capacity`."""
    text = "capacity region of a cluster: facets, distances, dominant facets, largest stable load"
    one = commands.add_parser("capacity", help=text, description=text)
    one.add_argument("scenario", metavar="SCENARIO.yaml")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key (dotted inside)")
    one.add_argument("--json", metavar="FILE", help="write JSON to FILE; - writes it to standard output")
    one.set_defaults(command=command)


def document(scenario: Any) -> dict[str, Any]:
    """What the command reports of a cluster, JSON-able; work per slot is the unit, facets are numbered from 0.

    facets : (c, b) of the whole cluster, |c| = 1.
    rates, epsilon, projections : lambda, eps^k, lambda^k. position : inside, boundary or outside.
    dominant, dominant_interior : K and K^o; null where the rates are not inside.
    largest_stable_load, largest_stable_load_lp : the largest a with a lambda in C, by the facets and by linear
        programming; null where nothing arrives.
    largest_rho : the same as a value of the scenario's key arrivals.load; null where it has none.
    """
    from elastiqueue.engines.capacity import position_of
    from elastiqueue.models.slotted import server_classes

    found = position_of(scenario)
    load, largest = scenario.arrivals.load, found.largest_stable_load
    return {
        "servers": scenario.count,
        "classes": [
            {"count": own.count, "configurations": [list(s) for s in own.configurations]}
            for own in server_classes(scenario)
        ],
        "facets": [{"c": list(facet.c), "b": facet.b} for facet in found.region.facets],
        "rates": list(found.rates),
        "inside": found.where == "inside",
        "position": found.where,
        "epsilon": list(found.epsilon),
        "projections": [list(point) for point in found.projections],
        "dominant": None if found.dominant is None else list(found.dominant),
        "dominant_interior": None if found.dominant_interior is None else list(found.dominant_interior),
        "largest_stable_load": largest,
        "largest_stable_load_lp": found.largest_stable_load_lp,
        "largest_rho": None if load is None or largest is None else load * largest,
    }


def command(options: argparse.Namespace) -> None:
    """Print the region and the position of the arrival rates in it."""
    from elastiqueue.cli.options import finite, read
    from elastiqueue.scenarios.reading import ClusterScenario, ConfigError

    scenario = read(options)
    if not isinstance(scenario, ClusterScenario):
        raise ConfigError(f"model = {scenario.model}: capacity is for cluster")
    from elastiqueue.results.files import write_atomically
    from elastiqueue.results.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    watch = Stopwatch()
    found = document(scenario)
    if options.json is not None:
        sources = source_digest("elastiqueue.engines.capacity")
        full = {
            "scenario": scenario.model_dump(mode="json"),
            **found,
            "provenance": watch.provenance(sources=sources),
        }
        text = json.dumps(finite(full), indent=1) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
            return
        write_atomically(options.json, text)
    print(f"cluster, {found['servers']} server{'s' if found['servers'] != 1 else ''}")
    for own in found["classes"]:
        print(
            f"{own['count']:>6} with maximal configurations {', '.join(str(tuple(s)) for s in own['configurations'])}"
        )
    print(f"arrival rates {_vector(found['rates'])}, {_WHERE[found['position']]} the region")
    print(f"{'facet':<6}{'c':<40}{'b':>12}{'epsilon':>12}  dominant")
    for k, facet in enumerate(found["facets"]):
        kind = "K" if found["dominant"] and k in found["dominant"] else ""
        kind += ", K^o" if found["dominant_interior"] and k in found["dominant_interior"] else ""
        print(f"{k:<6}{_vector(facet['c']):<40}{facet['b']:>12.6g}{found['epsilon'][k]:>12.6g}  {kind}")
    if found["largest_stable_load"] is not None:
        print(f"largest stable load: {found['largest_stable_load']:.10g} times these rates", end="")
        print("" if found["largest_rho"] is None else f", rho = {found['largest_rho']:.10g}")


_WHERE = {"inside": "inside", "boundary": "on the boundary of", "outside": "outside"}


def _vector(values: list[float]) -> str:
    return "(" + ", ".join(f"{x:.6g}" for x in values) + ")"
