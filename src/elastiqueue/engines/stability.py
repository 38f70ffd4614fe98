"""Stability of any scenario in one vocabulary: a verdict, the drift that decides it and its margin; and tables of them.

TABS and JIQ with unlimited buffers: see `elastiqueue.theory.tabs_stability`. A finite buffer hides instability behind
losses and is taken for unlimited here. Central queues: with many tasks waiting all N servers turn on and stay busy, so
that the drift per server is lambda - 1.

Clusters: the largest a for which the arrival rates a lambda can be served by the routing
(`elastiqueue.theory.cluster_stability`).

    drift = 1/a - 1

is work that arrives in excess of what can be served, in the direction that binds, relative to what can be served there
(load minus 1 for one pooled server). Best-Fit is not covered by the converse: inside the limit it is undecided, unless
there is one job type, where it serves as many jobs as MaxWeight does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from elastiqueue.engines.registry import check_served
from elastiqueue.models.registry import model_of
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.scenarios.base import ConfigError
from elastiqueue.scenarios.cluster import ClusterScenario, SingleTypeScenario
from elastiqueue.statistics.estimates import Estimate
from elastiqueue.theory.cluster_stability import largest_routed_load
from elastiqueue.theory.tabs_stability import BATCHES, LOOK, Drift, StabilityVerdict, smallest_stable_servers, verdict

Word = Literal["stable", "unstable", "undecided"]
ENGINES = ("stability", "stability_map")
CODES: Mapping[str, float] = {"stable": 1.0, "undecided": 0.0, "unstable": -1.0}  # verdicts in tables
# Budgets, states of the exact chain and simulated events per drift; the error sought of a drift in a table.
MAX_STATES, MAX_EVENTS, ACCURACY = 2_000, 30_000_000, 5e-4
MAP_STATES, MAP_EVENTS = 500, 500_000_000  # of a cell of the map: states, simulated events of all its verdicts
MAX_SERVERS = 10_000  # a thousand take half a minute, and the time grows like their square
ON_THE_BOUNDARY = 1e-9  # relative; the linear programme's accuracy

__all__ = ["ENGINES", "Report", "compute_rows", "report"]


@dataclass(frozen=True)
class Report:
    """What is said about a scenario.

    Attributes
    ----------
    verdict, reason : the word, and one line that explains it.
    drift : TABS: tasks per mean service time of each growing queue; clusters: relative excess work 1/a - 1.
    margin : |drift| minus its uncertainty, positive if decided; nan where no drift decides.
    facts : more numbers and words, by name.
    tabs : the verdict behind it, for TABS and JIQ.
    """

    verdict: Word
    drift: float
    margin: float
    reason: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    tabs: StabilityVerdict | None = None


def report(
    scenario: Any, max_states: int = MAX_STATES, max_events: int = MAX_EVENTS, accuracy: float | None = None
) -> Report:
    """Say whether a scenario is stable.

    Parameters
    ----------
    scenario : a service or cluster scenario.
    max_states, max_events : budgets of the exact and the simulated drift (TABS).
    accuracy : error to which the deciding drift is then refined within the budgets (TABS).

    Raises
    ------
    ConfigError : the scenario has a feature that the theory does not cover.
    """
    check_served("stability", scenario)
    if isinstance(scenario, ClusterScenario):
        return cluster_report(model_of(scenario).parameters(scenario))
    if isinstance(scenario, SingleTypeScenario):
        return _single_type_report(model_of(scenario).parameters(scenario))
    arrival = scenario.arrival
    if not arrival.constant:
        raise ConfigError("arrival_rate: must be constant for a verdict on stability")
    rate = arrival.at(0.0)
    if not scenario.row.distributed:
        facts = {"method": "exact", "growth": 0.0}
        return Report("stable", rate - 1.0, 1.0 - rate, "one central queue, load below 1", facts)
    if not scenario.phase_type.is_exponential:
        raise ConfigError(f"service = {scenario.describe()['service']}: must be exponential for a verdict on stability")
    if scenario.aborts:
        raise ConfigError("abort_setups = true: must be false for a verdict on stability")
    if scenario.servers > MAX_SERVERS:
        raise ConfigError(f"servers = {scenario.servers}: must be at most {MAX_SERVERS:,} for a verdict on stability")
    mu, nu = _rates(scenario)
    found = verdict(scenario.servers, rate, mu, nu, max_states, max_events, scenario.seed, accuracy)
    hidden = "" if scenario.buffer is None else f"; with an unlimited buffer instead of {scenario.buffer}"
    facts = {
        "growth": found.growth,
        "saturated": found.m,
        "method": found.method,
        "standard_error": found.standard_error,
        "drifts": [_drift_facts(drift) for drift in found.drifts],
    }
    return Report(found.verdict, found.drift, found.margin, found.reason + hidden, facts, found)


def _rates(scenario: Any) -> tuple[float, float]:
    """Standby and setup rate; where no server ever turns off, setups do not matter."""
    return (float(scenario.standby_rate), float(scenario.setup_rate)) if scenario.row.turns_on else (0.0, 1.0)


def _drift_facts(drift: Drift) -> dict[str, Any]:
    names = ("saturated", "value", "uncertainty", "standard_error", "method", "effort", "level")
    return {name: getattr(drift, name) for name in names}


# ---- Clusters --------------------------------------------------------------------------------------------------------


def cluster_report(parameters: Any) -> Report:
    """Verdict on a cluster by the linear programme of its routing; the load is `parameters.load`."""
    p, load = parameters, parameters.load
    replacement = p.routing == "power_of_two_with_replacement"
    limit = largest_routed_load(p.counts, p.configurations, load, p.draws, replacement) if any(load) else math.inf
    capacity = largest_routed_load(p.counts, p.configurations, load) if any(load) else math.inf
    drift = 1.0 / limit - 1.0 if limit > 0.0 else math.inf
    rule = f"{p.routing} with {p.scheduling}"
    where = f"largest stable load {limit:.6g} times the given one"
    facts = {"largest_stable_load": limit, "capacity_load": capacity, "method": "linear programme"}
    homeless = [
        (j + 1, k + 1)
        for j, work in enumerate(load)
        for k, own in enumerate(p.configurations)
        if work > 0 and not any(s[j] for s in own)
    ]
    if abs(drift) <= ON_THE_BOUNDARY:
        return Report("undecided", 0.0, 0.0, f"{where}: the load is on the boundary", facts)
    if drift > 0.0:
        inside = "inside the capacity region, but not for this routing"
        return Report(
            "unstable", drift, drift, f"{where}: {'outside the capacity region' if capacity < 1.0 else inside}", facts
        )
    if homeless:
        j, k = homeless[0]
        reason = f"{where}, but {rule} may send type {j} to servers of class {k}, which never serve it"
        return Report("undecided", drift, math.nan, reason, facts)
    if p.scheduling != "maxweight" and p.types > 1:
        reason = f"{where} under MaxWeight; {rule} may fail below it, and no formula says where"
        return Report("undecided", drift, math.nan, reason, facts)
    return Report("stable", drift, -drift, f"{where}, by linear programming", facts)


def _single_type_report(parameters: Any) -> Report:
    """One type on identical servers: every routing offered gives each its share of the work."""
    capacity = parameters.servers * parameters.service.mean
    work = parameters.arrivals.mean
    limit = capacity / work if work > 0 else math.inf
    drift = work / capacity - 1.0
    facts = {"largest_stable_load": limit, "capacity_load": limit, "method": "exact"}
    reason = f"identical servers: work {work:.6g} per slot, capacity {capacity:.6g}"
    if abs(drift) <= ON_THE_BOUNDARY:
        return Report("undecided", 0.0, 0.0, f"{reason}; on the boundary", facts)
    return Report("stable" if drift < 0 else "unstable", drift, abs(drift), reason, facts)


# ---- Tables ----------------------------------------------------------------------------------------------------------


def compute_rows(engine: str, scenario: Any) -> list[dict[str, Any]]:
    """Tidy rows (columns of `tidy.VALUES`, and `note`) of the engines `stability` and `stability_map`.

    stability: the metrics verdict (1 stable, -1 unstable, 0 undecided) and drift; for TABS also saturated (the m behind
    the drift) and growth (predicted growth of the total number of tasks); for others margin, for clusters
    largest_stable_load and capacity_load. Exact values have n = 0 and as interval their error bound; simulated drifts
    have se and n = batches.

    stability_map (TABS): smallest_stable, the N0 from which all N up to the scenario's `servers` are stable (empty:
    that many are not known to be stable), with [N known to be unstable, plus 1; N0] as interval; certain (1 or 0);
    blocking_servers, the largest N not known to be stable, and blocking_drift, its drift; where that is undecided,
    events_needed, how many simulated events would decide it if it is as large as it seems.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine = {engine}: must be one of {', '.join(ENGINES)}")
    if engine == "stability_map":
        return _map_rows(scenario)
    found = report(scenario, accuracy=ACCURACY)
    rows = [_row("verdict", CODES[found.verdict], found.reason)]
    if found.tabs is None:
        rows += [_row("drift", found.drift), _row("margin", found.margin)]
        names = ("growth", "largest_stable_load", "capacity_load")
        return rows + [_row(name, found.facts[name]) for name in names if name in found.facts]
    deciding = _deciding(found.tabs)
    rows += [_drift_row("drift", deciding), _row("saturated", float(deciding.saturated))]
    if found.verdict == "unstable":
        return [*rows, _drift_row("growth", deciding, deciding.saturated)]
    return [*rows, _row("growth", found.tabs.growth)]


def _deciding(found: StabilityVerdict) -> Drift:
    return next(d for d in found.drifts if (d.saturated, d.value) == (found.m, found.drift))


def _row(metric: str, value: float, note: str = "") -> dict[str, Any]:
    return {**value_row(metric, Estimate(value, 0.0, 0)), "note": note}


def _drift_row(metric: str, drift: Drift, factor: float = 1.0) -> dict[str, Any]:
    note = drift.method if drift.level is None else f"exact, truncation error <= {factor * drift.uncertainty:.1g}"
    if drift.standard_error is not None:
        estimate = Estimate(factor * drift.value, factor * drift.standard_error, BATCHES)
        return {**value_row(metric, estimate), "note": note}
    low, high = drift.interval()
    return {**_row(metric, factor * drift.value, note), "ci_low": factor * low, "ci_high": factor * high}


def _map_rows(scenario: Any) -> list[dict[str, Any]]:
    check_served("stability_map", scenario)
    rate, (mu, nu), most = scenario.arrival.at(0.0), _rates(scenario), scenario.servers
    found = smallest_stable_servers(rate, mu, nu, most, MAP_STATES, MAP_EVENTS, scenario.seed, MAP_EVENTS)
    blocking = most if found.servers is None else found.servers - 1
    unstable, word = blocking, "unstable" if found.certain else "undecided"
    while unstable > 1 and word != "unstable":  # the boundary lies above the first that is
        unstable -= max(1, unstable // 10)
        word = verdict(unstable, rate, mu, nu, MAP_STATES, LOOK, scenario.seed).verdict
    smallest = math.nan if blocking == most else blocking + 1.0
    lowest = unstable + 1.0 if word == "unstable" else math.nan
    first = {**_row("smallest_stable", smallest), "ci_low": lowest, "ci_high": smallest}
    rows = [first, _row("certain", float(found.certain)), _row("blocking_servers", float(blocking) or math.nan)]
    if blocking:
        deciding = _deciding(found.verdicts[blocking])
        rows.append(_drift_row("blocking_drift", deciding))
        rows[0]["note"] = found.verdicts[blocking].reason
        if not found.certain:
            rows.append(_row("events_needed", deciding.events_needed))
    return rows
