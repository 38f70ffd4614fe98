"""Control variates, and CPU time to a precision: into results/precision.csv and .md.

    python benchmarks/precision.py [--seeds 10]

The time to a half-width of 1 % is that of a run, times the square of its half-width over 1 %. Procedures: few long runs
(`horizon: auto`); many short runs, as many as there are batches, each with a warm-up of its own; few long runs with
control variates. SimPy would take as much longer than our short runs as it takes per event (results/peers.csv); Ciw has
no servers that turn on and off.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from elastiqueue.engines.simulation import estimates, simulate, window
from elastiqueue.engines.steady_state import Window
from elastiqueue.models.registry import model_of
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.statistics.estimates import estimate

CASES = [(servers, rate) for servers in (100, 10_000) for rate in (0.3, 0.9)]
METRICS = {"mean_wait": "wait", "power": "power"}
REPEATS = 3  # of a simulation, the fastest of which counts


def cpu(work):
    """Least CPU seconds, and the result."""
    best, result = np.inf, None
    for _ in range(REPEATS):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def compared(servers: int, rate: float, seed: int) -> list[dict[str, object]]:
    """CPU seconds, mean and error of every procedure."""
    keys = {"model": "tabs", "servers": servers, "arrival_rate": rate, "standby_rate": 0.1, "setup_rate": 0.1}
    long = scenario_from({**keys, "horizon": "auto", "warm_up": "auto", "seed": seed})
    reduced = long.model_copy(update={"control_variates": True})
    span, runs = window(long), long.replications
    count = span.batches * runs
    short = Window(span.warm_up, span.warm_up + (span.horizon - span.warm_up) / span.batches)
    model = model_of(long)
    metrics = {name: model.metrics(long)[name] for name in METRICS}
    ours = window(reduced)
    works = {
        "few long runs": (lambda: simulate(long, 0, runs, span)[0], lambda x: estimates(long, x, METRICS)),
        "many short runs": (
            lambda: simulate(long, 0, count, short)[0],
            lambda x: {name: estimate(metric, model.columns(long), x) for name, metric in metrics.items()},
        ),
        "control variates": (
            lambda: simulate(reduced, 0, runs, ours)[0], lambda x: estimates(reduced, x, METRICS)
        ),
    }  # fmt: skip
    rows = []
    for name, (work, estimated) in works.items():
        work()
        seconds, totals = cpu(work)
        for metric, one in estimated(totals).items():
            low, high = one.interval()
            to_one_percent = seconds * ((high - low) / 2 / one.mean / 0.01) ** 2
            rows.append(
                {"servers": servers, "arrival_rate": rate, "seed": seed, "procedure": name, "metric": METRICS[metric],
                 "seconds": seconds, "mean": one.mean, "se": one.se, "seconds_to_1_percent": to_one_percent}
            )  # fmt: skip
    return rows


def ratio(top: pd.Series, bottom: pd.Series) -> str:
    """Ratio of means over seeds, with its standard error by the jackknife."""
    n = len(top)
    without = np.array([np.delete(top, k).mean() / np.delete(bottom, k).mean() for k in range(n)])
    error = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
    return f"{top.mean() / bottom.mean():.2f} ({error:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    out = Path(__file__).parent / "results"
    seeds = parser.parse_args().seeds
    data = pd.DataFrame([row for case in CASES for seed in range(1, seeds + 1) for row in compared(*case, seed)])
    data.to_csv(out / "precision.csv", index=False, float_format="%.6g")
    peers = pd.read_csv(out / "peers.csv").set_index(["method", "servers"])["ns_per_event"]
    head = ["N, arrival rate", "metric", "variance divided by", "CPU time times", *data["procedure"].unique(), "SimPy"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for (servers, rate, metric), rows in data.groupby(["servers", "arrival_rate", "metric"]):
        part = {name: one.set_index("seed") for name, one in rows.groupby("procedure", sort=False)}
        plain, less = part["few long runs"], part["control variates"]
        cells = [f"{servers}, {rate}", metric, ratio(plain["se"] ** 2, less["se"] ** 2)]
        cells += [ratio(less["seconds"], plain["seconds"])]
        cells += [f"{one['seconds_to_1_percent'].mean():.2g}" for one in part.values()]
        key = ("SimPy", min(servers, 1000))
        slower = peers[key] / peers["elastiqueue", servers]
        cells += [f"{part['many short runs']['seconds_to_1_percent'].mean() * slower:.2g}"]
        lines.append("| " + " | ".join(cells) + " |")
    text = [
        "# Control variates, and CPU seconds to a half-width of 1 %", "",
        f"TABS, mu = nu = 0.1, the default of 12 runs: means over {seeds} seeds (jackknifed errors in brackets).",
        "SimPy: our short runs at its time per event (`peers.md`). Written by `make bench`.", "", *lines,
    ]  # fmt: skip
    (out / "precision.md").write_text("\n".join(text) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
