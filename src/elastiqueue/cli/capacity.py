"""The capacity region of a cluster: facets, distances of the arrival rates, dominant facets, largest stable load.

Examples:
  elastiqueue capacity cluster.yaml
  elastiqueue capacity cluster.yaml --set arrivals.load=1.1 --json -
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from elastiqueue.cli.options import aligned, arguments, read, report, title

__all__ = ["arguments", "run"]


def run(options: argparse.Namespace) -> None:
    """Print the region and the position of the arrival rates in it."""
    scenario = read(options)
    from elastiqueue.api.solve import capacity

    result = capacity(scenario)
    report(options, result, f"{title(scenario)}\n{_text(result.facts)}")


_WHERE = {"inside": "inside", "boundary": "on the boundary of", "outside": "outside"}


def _text(found: Any) -> str:
    lines = [
        f"{part['count']:>6} with maximal configurations {', '.join(str(tuple(s)) for s in part['configurations'])}"
        for part in found["classes"]
    ]
    lines.append(f"arrival rates {_vector(found['rates'])}, {_WHERE[found['position']]} the region")
    rows = [["facet", "c", "b", "epsilon", "dominant"]]
    for k, facet in enumerate(found["facets"]):
        kind = "K" if k in (found["dominant"] or ()) else ""
        kind += ", K^o" if k in (found["dominant_interior"] or ()) else ""
        rows.append([str(k), _vector(facet["c"]), f"{facet['b']:.6g}", f"{found['epsilon'][k]:.6g}", kind])
    lines.append(aligned(rows))
    if found["largest_stable_load"] is not None:
        rho = "" if found["largest_rho"] is None else f", rho = {found['largest_rho']:.10g}"
        lines.append(f"largest stable load: {found['largest_stable_load']:.10g} times these rates{rho}")
    return "\n".join(lines)


def _vector(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{x:.6g}" for x in values) + ")"
