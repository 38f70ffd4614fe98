"""How often nominal 95 % intervals hold the exact value: an experiment on small systems that are solved exactly.

Each of `replications` seeds makes an experiment of its own. What is counted of it, for the mean wait and the power:

    runs        the default for a steady state: few long runs from two starts, batches (`engines.steady_state`)
    controlled  these runs with control variates (`models.controls`)
    many        as many independent replications as there are batches, each warmed up for itself, jackknifed
    precision   these runs, and more of them until the half-width of the wait is RELATIVE of it

and, as negative controls, what must fail:

    cold        short replications from servers that are all off (or all idle), counted from their start on
    five        five batches with the normal quantile 1.96
    ratios      the mean of the ratios of batches of one mean service time, in place of the ratio of the sums

The controls are looked at in every fifth experiment only.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import estimates, simulate, simulate_to_precision
from elastiqueue.engines.steady_state import Window, window
from elastiqueue.errors import ConfigError
from elastiqueue.models.registry import model_of
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.scenarios.autoscaling import STEADY_RUNS, Precision, ServiceScenario
from elastiqueue.statistics.control_variates import PER_BATCH
from elastiqueue.statistics.estimates import Estimate, Ratio, estimate, linear_form, mean_estimate

METRICS = {"mean_wait": "wait", "power": "power"}
PROCEDURES = ("runs", "controlled", "many", "precision", "cold", "five", "ratios")
RELATIVE = 0.04  # half-width of a run to a precision
COLD = 50  # parts of a warm-up, one of which is the length of a replication that has none
SHORT_BATCHES = 200  # of a run
Interval = tuple[float, float]


def intervals(scenario: ServiceScenario, controls: bool) -> tuple[dict[str, dict[str, Interval]], float]:
    """The 95 % intervals of every procedure, by metric, for the scenario's seed; and the warm-up."""
    span = window(scenario)
    first = simulate(scenario, 0, scenario.replications, span)
    totals = first[0]
    found = {"runs": {name: one.interval() for name, one in estimates(scenario, totals, METRICS).items()}}
    reduced = scenario.model_copy(update={"control_variates": True})
    parts = simulate(reduced, 0, scenario.replications, replace(span, parts=PER_BATCH))[0]
    found["controlled"] = {name: one.interval() for name, one in estimates(reduced, parts, METRICS).items()}
    model = model_of(scenario)
    metrics, columns = {name: model.metrics(scenario)[name] for name in METRICS}, model.columns(scenario)

    def jackknifed(rows: NDArray[np.float64]) -> dict[str, Interval]:
        return {name: estimate(metric, columns, rows).interval() for name, metric in metrics.items()}

    count = span.batches * scenario.replications
    seeds = scenario.model_copy(update={"seed": scenario.seed + 1_000_000})  # not those of the runs before
    found["many"] = jackknifed(
        simulate(seeds, 0, count, Window(span.warm_up, span.warm_up + (span.horizon - span.warm_up) / span.batches))[0]
    )
    precise = scenario.model_copy(update={"precision": Precision(metric="mean_wait", relative=RELATIVE)})
    more = simulate_to_precision(precise, span, lambda *runs: simulate(*runs) if runs[1] else first)[0]
    found["precision"] = {name: one.interval() for name, one in estimates(scenario, more, METRICS).items()}
    if controls:
        cold = scenario.model_copy(update={"start": "all_off" if scenario.row.turns_on else "all_idle_on"})
        found["cold"] = jackknifed(simulate(cold, 0, count, Window(0.0, span.warm_up / COLD))[0])
        found["five"] = {name: _normal(estimate(metric, columns, totals[:5])) for name, metric in metrics.items()}
        short = simulate(scenario, 0, 2, Window(span.warm_up, span.warm_up + SHORT_BATCHES, SHORT_BATCHES))[0]
        found["ratios"] = {name: _mean_of_ratios(metric, columns, short) for name, metric in metrics.items()}
    return found, span.warm_up


def _normal(one: Estimate) -> Interval:
    return one.mean - 1.96 * one.se, one.mean + 1.96 * one.se


def _mean_of_ratios(metric: Ratio, columns: tuple[str, ...], totals: NDArray[np.float64]) -> Interval:
    over, under = (linear_form(weights, columns, totals) for weights in (metric.numerator, metric.denominator))
    return mean_estimate([a / b for a, b in zip(over, under, strict=True) if b > 0]).interval()


def compute_rows(engine: str, scenario: Any) -> list[dict[str, Any]]:
    """Rows PROCEDURE_wait and PROCEDURE_power: the share of intervals that hold the exact value, n experiments.

    `warm_up` is the mean warm-up of the runs. The scenario's replications are the number of experiments; each has as
    many runs as a steady state has by default.
    """
    if scenario.horizon != "auto":
        raise ConfigError(f"horizon = {scenario.horizon}: must be auto for the engine {engine}")
    known = exact(scenario).metrics
    hits: dict[str, list[float]] = {f"{one}_{short}": [] for one in PROCEDURES for short in METRICS.values()}
    warm_ups = []
    for index in range(scenario.replications):
        keys = {"seed": scenario.seed + index, "replications": STEADY_RUNS}
        found, warm_up = intervals(scenario.model_copy(update=keys), controls=index % 5 == 0)
        warm_ups.append(warm_up)
        for one, by_metric in found.items():
            for name, (low, high) in by_metric.items():
                hits[f"{one}_{METRICS[name]}"].append(float(low <= known[name] <= high))
    rows = [value_row("warm_up", mean_estimate(warm_ups))]
    for name, covered in hits.items():
        share, n = math.fsum(covered) / len(covered), len(covered)
        rows.append(value_row(name, Estimate(share, math.sqrt(max(share * (1 - share), 1 / n) / n), n)))
    return rows
