"""Table of bounds in heavy traffic against measurements (paper B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from elastiqueue.tables.formats import Table, interval, number

SUFFIX = "_bounds"  # the bounds of an experiment NAME are in NAME_bounds beside it
STANDARD_ERRORS = 3.0  # of the warm-up test
MEASURES = ["mean", "se", "ci_low", "ci_high"]
CAPTION = (
    "Bounds against measurements: $E\\langle c,q\\rangle$ (one job type: $E[\\sum_m q_m]$) with 95 % intervals "
    "over independent replications, the lower bound $\\zeta/(2\\epsilon) - B_1$, the leading term "
    "$\\zeta/(2\\epsilon)$, and $\\epsilon$ times the measurement over the limit for $\\epsilon \\to 0$. Not "
    "below: one-sided t test, 5 % for all scenarios of an experiment together. Settled: the two halves of the "
    "measured stretch agree within 3 standard errors."
)
HEADER = (
    "experiment", "$M$", "routing", "$\\epsilon$", "lower bound", "measured", "$\\zeta/(2\\epsilon)$", "ratio to limit",
    "not below the bound", "settled",
)  # fmt: skip


def bounds(tables: Mapping[str, pd.DataFrame]) -> Table:
    """One row per simulated scenario with an epsilon: the weighted backlog (single type: total) beside its bounds.

    tables : simulated experiment NAME, and NAME_bounds of the engine `bounds`, -> its tidy table.
    """
    records: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for exact in (name for name in tables if name.endswith(SUFFIX)):
        name = exact.removesuffix(SUFFIX)
        if name not in tables:
            raise ValueError(f"inputs = {exact}: must have {name} beside it")
        theory = tables[exact].pivot_table(index=["servers", "epsilon"], columns="metric", values="mean")
        simulated = tables[name]
        metric = "total_backlog" if (simulated["model"] == "single_type").all() else "weighted_backlog"
        keys = ["label", "servers", "routing", "epsilon"]
        tests = simulated[simulated["metric"] == "warm_up_test"].set_index(keys)
        measured = simulated[simulated["metric"] == metric]
        for _, row in measured.iterrows():
            known, test = theory.loc[(row["servers"], row["epsilon"])], tests.loc[tuple(row[keys])]
            ratio = row[MEASURES] * (row["epsilon"] / known["facet_limit"])
            head = {
                "experiment": name, **row[keys], "servers": int(row["servers"]), "lower_bound": known["lower_bound"],
                "leading": known["leading"], "limit": known["facet_limit"],
            }  # fmt: skip
            for quantity, values in ((metric, row), ("ratio_to_limit", ratio), ("warm_up_test", test)):
                records.append({**head, "quantity": quantity, **values[MEASURES], "n": values.get("n", row["n"])})
            # one-sided t test at 5 % over all comparisons
            highest = row["mean"] + stdtrit(row["n"] - 1, 1 - 0.05 / len(measured)) * row["se"]
            rows.append(
                (
                    name.replace("_", " "), str(head["servers"]), str(row["routing"]).replace("_", " "),
                    number(row["epsilon"]), number(known["lower_bound"]), interval(row), number(known["leading"]),
                    interval(ratio), "yes" if highest >= known["lower_bound"] else "NO",
                    "yes" if abs(test["mean"]) <= STANDARD_ERRORS * test["se"] else "NO",
                )
            )  # fmt: skip
    return Table(CAPTION, pd.DataFrame(records), HEADER, rows)
