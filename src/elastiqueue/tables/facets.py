"""Table of the facets of capacity regions, and where the arrival rates are (paper B)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from elastiqueue.tables.formats import Table, number, vector

CAPTION = (
    "Facets of the capacity regions (whole clusters, work per slot), and where the arrival rates $\\lambda$ are: "
    "$k$ in $K$ if $\\lambda^k$ is in the region, in $K^o$ if in the relative interior of its facet; $a$ is the "
    "largest number with $a \\lambda$ in the region. Exact."
)
HEADER = ("system", "$M$", "$k$", "$c^k$", "$b^k$", "$\\epsilon^k$", "$\\lambda^k$", "sets", "$a$")
SETS = {"K interior": "$K$, $K^o$", "K": "$K$", "outside": "", "": ""}


def facets(tables: Mapping[str, pd.DataFrame]) -> Table:
    """One row per facet; the position of the arrival rates where an experiment has one scenario of the label.

    tables : experiment of the engine `capacity` -> its tidy table.
    """
    records: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for name, table in tables.items():
        scenarios = _scenarios(table.reset_index(drop=True))
        for label, (scenario, count) in scenarios.items():
            values = scenario.set_index("metric")["mean"]
            types, alone = sum(str(key).startswith("rate[") for key in values.index), count == 1
            for k in range(sum(str(key).startswith("b[") for key in values.index)):
                c = [float(values[f"c[{k},{j}]"]) for j in range(1, types + 1)]
                projection = [float(values[f"projection[{k},{j}]"]) for j in range(1, types + 1)] if alone else []
                position = "K interior" if values[f"in_K_interior[{k}]"] else "K" if values[f"in_K[{k}]"] else "outside"
                record: dict[str, Any] = {
                    "experiment": name, "label": label, "servers": int(scenario["servers"].iloc[0]), "facet": k,
                    "c": " ".join(f"{x:.10g}" for x in c), "b": float(values[f"b[{k}]"]),
                    "epsilon": float(values[f"epsilon[{k}]"]) if alone else math.nan,
                    "projection": " ".join(f"{x:.10g}" for x in projection), "position": position if alone else "",
                    "largest_stable_load": float(values.get("largest_stable_load", math.nan)) if alone else math.nan,
                }  # fmt: skip
                records.append(record)
                rows.append(
                    (
                        label or name, str(record["servers"]), str(k), vector(c), number(record["b"]),
                        number(record["epsilon"]), vector(projection), SETS[record["position"]],
                        number(record["largest_stable_load"], 6),
                    )
                )  # fmt: skip
    return Table(CAPTION, pd.DataFrame(records), HEADER, rows)


def _scenarios(table: pd.DataFrame) -> dict[str, tuple[pd.DataFrame, int]]:
    """Label -> rows of its first scenario, and how many it has; the rows of a scenario start with `rate[1]`."""
    scenarios: dict[str, tuple[pd.DataFrame, int]] = {}
    for first, last in itertools.pairwise([*table.index[table["metric"] == "rate[1]"], len(table)]):
        label = "" if pd.isna(table.loc[first, "label"]) else str(table.loc[first, "label"])
        scenario, count = scenarios.get(label, (table.loc[first : last - 1], 0))
        scenarios[label] = scenario, count + 1
    return scenarios
