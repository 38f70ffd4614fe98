"""Tables of paper B from the results of a run: facets, and bounds against measurements; CSV, Markdown and LaTeX.

`python -m elastiqueue.tables.cluster_tables TABLE --inputs FILE... --csv FILE --md FILE --tex FILE`. An input is the
tidy table of the
experiment that it is named after. `facets` reads experiments of the engine `capacity`; `bounds` reads simulated
experiments NAME and, of the engine `bounds`, NAME_bounds beside them. LaTeX needs the package booktabs.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from scipy.special import stdtrit

from elastiqueue.results.files import write_atomically
from elastiqueue.results.tidy_tables import read_table, write_table

BOUNDS = "_bounds"
STANDARD_ERRORS = 3.0  # of the warm-up test


@dataclass(frozen=True)
class Table:
    """A table: `data` goes to the CSV file; header and rows, written in Markdown with $math$, are for readers."""

    caption: str
    data: pd.DataFrame
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def _number(value: float, digits: int = 4) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def _interval(row: pd.Series) -> str:
    """mean and half-width of the 95 % interval, to the half-width's second digit."""
    mean, half = float(row["mean"]), float(row["ci_high"] - row["mean"])
    if not (math.isfinite(half) and half > 0.0):
        return _number(mean, 6)
    places = max(0, 1 - math.floor(math.log10(half)))
    return f"{mean:.{places}f} ± {half:.{places}f}"


# ---- Facets ----------------------------------------------------------------------------------------------------------


def _scenarios(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Label and rows of each scenario; they are told apart by the start of their rows, `rate[1]`."""
    starts = [*table.index[table["metric"] == "rate[1]"], len(table)]
    return [(str(table.loc[first, "label"]), table.loc[first : last - 1]) for first, last in itertools.pairwise(starts)]


def facets(tables: dict[str, pd.DataFrame]) -> Table:
    """One row per facet; the position of the arrival rates where an experiment has one scenario of the label."""
    records: list[dict[str, object]] = []
    for name, table in tables.items():
        scenarios = _scenarios(table.reset_index(drop=True))
        labels = [label for label, _ in scenarios]
        for i, (label, rows) in enumerate(scenarios):
            if label in labels[:i]:
                continue
            values = rows.set_index("metric")["mean"]
            one = labels.count(label) == 1
            count, types = sum(str(key).startswith("b[") for key in values.index), 1
            while f"rate[{types + 1}]" in values.index:
                types += 1
            for k in range(count):
                inside = "K interior" if values[f"in_K_interior[{k}]"] else "K" if values[f"in_K[{k}]"] else "outside"
                records.append(
                    {
                        "experiment": name,
                        "label": "" if label == "nan" else label,
                        "servers": int(rows["servers"].iloc[0]),
                        "facet": k,
                        "c": " ".join(f"{values[f'c[{k},{j}]']:.10g}" for j in range(1, types + 1)),
                        "b": float(values[f"b[{k}]"]),
                        "epsilon": float(values[f"epsilon[{k}]"]) if one else math.nan,
                        "projection": " ".join(f"{values[f'projection[{k},{j}]']:.10g}" for j in range(1, types + 1))
                        if one
                        else "",
                        "position": inside if one else "",
                        "largest_stable_load": float(values.get("largest_stable_load", math.nan)) if one else math.nan,
                    }
                )

    def vector(text: object) -> str:
        return "(" + ", ".join(_number(float(x)) for x in str(text).split()) + ")" if text else ""

    sign = {"K interior": "$K$, $K^o$", "K": "$K$", "outside": "", "": ""}
    cells: list[tuple[str, ...]] = [
        (
            str(one["label"] or one["experiment"]),
            str(one["servers"]),
            str(one["facet"]),
            vector(one["c"]),
            _number(float(one["b"])),  # type: ignore[arg-type]
            _number(float(one["epsilon"])),  # type: ignore[arg-type]
            vector(one["projection"]),
            sign[str(one["position"])],
            _number(float(one["largest_stable_load"]), 6),  # type: ignore[arg-type]
        )
        for one in records
    ]
    return Table(
        "Facets of the capacity regions (whole clusters, work per slot), and where the arrival rates $\\lambda$ are: "
        "$k$ in $K$ if $\\lambda^k$ is in the region, in $K^o$ if in the relative interior of its facet; $a$ is the "
        "largest number with $a \\lambda$ in the region. Exact.",
        pd.DataFrame(records),
        ("system", "$M$", "$k$", "$c^k$", "$b^k$", "$\\epsilon^k$", "$\\lambda^k$", "sets", "$a$"),
        cells,
    )


# ---- Bounds against measurements -------------------------------------------------------------------------------------


def _not_below(row: pd.Series, bound: float, comparisons: int) -> bool:
    """Whether an estimate is compatible with being at least `bound`: one-sided t test at 5 % over all comparisons."""
    return bool(row["mean"] + stdtrit(row["n"] - 1, 1 - 0.05 / comparisons) * row["se"] >= bound)


def bounds(tables: dict[str, pd.DataFrame]) -> Table:
    """One row per simulated scenario with an epsilon: the weighted backlog (single type: total) beside its bounds."""
    columns = ["experiment", "label", "servers", "routing", "epsilon", "lower_bound", "leading", "limit", "quantity"]
    records: list[dict[str, object]] = []
    rows: list[tuple[str, ...]] = []
    for name, exact in tables.items():
        if not name.endswith(BOUNDS):
            continue
        simulated = tables.get(name.removesuffix(BOUNDS))
        if simulated is None:
            raise ValueError(f"inputs = {name}: must have {name.removesuffix(BOUNDS)} beside it")
        name = name.removesuffix(BOUNDS)
        keys = ["servers", "epsilon"]
        theory = exact.pivot_table(index=keys, columns="metric", values="mean")
        metric = "total_backlog" if (simulated["model"] == "single_type").all() else "weighted_backlog"
        tests = simulated[simulated["metric"] == "warm_up_test"]
        measured = simulated[simulated["metric"] == metric]
        for _, row in measured.iterrows():
            known = theory.loc[(row["servers"], row["epsilon"])]
            factor = row["epsilon"] / known["facet_limit"]
            same = (tests["servers"] == row["servers"]) & (tests["epsilon"] == row["epsilon"])
            test = tests[same & (tests["routing"] == row["routing"]) & (tests["label"].eq(row["label"]))].iloc[0]
            head = {
                "experiment": name, "label": row["label"], "servers": int(row["servers"]), "routing": row["routing"],
                "epsilon": row["epsilon"], "lower_bound": known["lower_bound"], "leading": known["leading"],
                "limit": known["facet_limit"],
            }  # fmt: skip
            measures = ["mean", "se", "ci_low", "ci_high"]
            records.append({**head, "quantity": metric, **row[[*measures, "n"]]})
            ratio = pd.Series({part: row[part] * factor for part in measures} | {"n": row["n"]})
            records.append({**head, "quantity": "ratio_to_limit", **ratio})
            records.append({**head, "quantity": "warm_up_test", **test[[*measures, "n"]]})
            settled = abs(test["mean"]) <= STANDARD_ERRORS * test["se"]
            rows.append(
                (
                    name.replace("_", " "), str(int(row["servers"])), str(row["routing"]).replace("_", " "),
                    _number(row["epsilon"]), _number(known["lower_bound"]), _interval(row), _number(known["leading"]),
                    _interval(ratio), "yes" if _not_below(row, known["lower_bound"], len(measured)) else "NO",
                    "yes" if settled else "NO",
                )
            )  # fmt: skip
    data = pd.DataFrame(records, columns=[*columns, "mean", "se", "ci_low", "ci_high", "n"])
    return Table(
        "Bounds against measurements: $E\\langle c,q\\rangle$ (one job type: $E[\\sum_m q_m]$) with 95 % intervals "
        "over independent replications, the lower bound $\\zeta/(2\\epsilon) - B_1$, the leading term "
        "$\\zeta/(2\\epsilon)$, and $\\epsilon$ times the measurement over the limit for $\\epsilon \\to 0$. Not "
        "below: one-sided t test, 5 % for all scenarios of an experiment together. Settled: the two halves of the "
        "measured stretch agree within 3 standard errors.",
        data,
        (
            "experiment", "$M$", "routing", "$\\epsilon$", "lower bound", "measured", "$\\zeta/(2\\epsilon)$",
            "ratio to limit", "not below the bound", "settled",
        ),
        rows,
    )  # fmt: skip


# ---- Writing ---------------------------------------------------------------------------------------------------------


def markdown(table: Table) -> str:
    """The table with its caption in Markdown."""
    lines = [table.caption, "", _line(table.header), _line(["---"] * len(table.header))]
    return "\n".join([*lines, *(_line(row) for row in table.rows)]) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def latex(table: Table) -> str:
    """The table with its caption in LaTeX (booktabs)."""
    columns = "l" + "r" * (len(table.header) - 1)
    head = " & ".join(_escaped(cell) for cell in table.header)
    body = [" & ".join(_escaped(cell) for cell in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}", r"\centering", rf"\caption{{{_escaped(table.caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head + r" \\", r"\midrule", *body,
            r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]
    )  # fmt: skip


def _escaped(text: str) -> str:
    """LaTeX for a cell: special characters escaped outside $math$."""
    parts = text.split("$")
    for i in range(0, len(parts), 2):
        for mark in "%&#_":
            parts[i] = parts[i].replace(mark, f"\\{mark}")
        parts[i] = parts[i].replace("±", r"$\pm$")
    return "$".join(parts)


WRITERS: dict[str, Callable[[dict[str, pd.DataFrame]], Table]] = {"facets": facets, "bounds": bounds}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a table; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="elastiqueue.tables.cluster_tables", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("table", choices=sorted(WRITERS))
    parser.add_argument("--inputs", nargs="+", required=True)
    for kind in ("csv", "md", "tex"):
        parser.add_argument(f"--{kind}", required=True)
    options = parser.parse_args(arguments)
    try:
        table = WRITERS[options.table]({Path(path).stem: read_table(path) for path in options.inputs})
        write_table(table.data, options.csv)
        write_atomically(options.md, markdown(table))
        write_atomically(options.tex, latex(table))
    except (ValueError, OSError) as error:
        print(f"elastiqueue: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
