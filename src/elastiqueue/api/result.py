"""What an engine says of a scenario: numbers with their errors, as objects, rows, a DataFrame or JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elastiqueue.scenarios.base import ConfigError
from elastiqueue.scenarios.units import in_practice
from elastiqueue.statistics.estimates import Estimate

if TYPE_CHECKING:  # slow to import
    import pandas as pd

    from elastiqueue.scenarios.reading import Scenario

COLUMNS = ("metric", "mean", "se", "ci_low", "ci_high", "n")


@dataclass(frozen=True)
class Result:
    """An answer of `simulate`, `exact`, `fluid`, `stability` or `capacity`.

    Attributes
    ----------
    scenario : what was asked about.
    metrics : name -> `Estimate` (mean, se, n; of exact values se = 0 and n = 0). Times are in mean service times,
        power is in watts per server, backlogs are in jobs or slots of work (`config/schema.json`).
    facts : what is said besides, JSON-able: fixed point and trajectory, verdict and reason, facets.
    provenance : versions, machine, seed, digest of the sources, time spent.
    series : rows (time, metric, mean, se, ci_low, ci_high, n) of the state along the time; empty: not recorded.
    """

    scenario: Scenario
    metrics: Mapping[str, Estimate]
    facts: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    series: Sequence[Mapping[str, Any]] = ()

    def metric(self, name: str) -> Estimate:
        """The estimate of one metric; raises ConfigError with the known names where there is none of that name."""
        if name not in self.metrics:
            raise ConfigError(f"metric = {name}: must be one of {', '.join(self.metrics)}")
        return self.metrics[name]

    def rows(self) -> list[dict[str, Any]]:
        """One row per metric: metric, mean, se, ci_low, ci_high (95 %), n.

        Of a scenario with `units` also what it is in seconds, watts or servers: real_mean, real_se, real_unit.
        """
        return [
            {**dict(zip(COLUMNS, (name, one.mean, one.se, *one.interval(), one.n), strict=True)), **self._real(name)}
            for name, one in self.metrics.items()
        ]

    def _real(self, name: str) -> dict[str, Any]:
        if getattr(self.scenario, "units", None) is None:
            return {}
        one, unit = self.real(name) or (Estimate(math.nan, math.nan, 0), "")
        return {"real_mean": one.mean, "real_se": one.se, "real_unit": unit}

    def real(self, name: str) -> tuple[Estimate, str] | None:
        """A metric in seconds, watts or servers, and the unit; None where it has none, or the scenario no `units`."""
        known = in_practice(self.scenario, name)
        one = self.metric(name)
        return known and (Estimate(known[0] * one.mean, known[0] * one.se, one.n), known[1])

    def table(self) -> pd.DataFrame:
        """`rows` as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    @property
    def path(self) -> pd.DataFrame:
        """The state along the time where `record_every` is set: time, metric, mean over replications, se, ..., n.

        Components are fractions of the servers (idle_on, idle_off, setup, queue_tail[i]); times are mean service times.
        """
        import pandas as pd

        return pd.DataFrame(list(self.series), columns=["time", *COLUMNS])

    def document(self) -> dict[str, Any]:
        """The same as JSON-able values: null for what is not finite; name[i], name[j], ... are one entry of lists.

        Its `at` says i, j, ... where they are not 1, 2, ...
        """
        listed: dict[str, dict[str, Any]] = {}
        for name, one in self.metrics.items():
            entry: dict[str, Any] = {"mean": one.mean}
            if one.n:
                entry |= {"se": one.se, "ci95": list(one.interval()), "n": one.n}
            if real := self.real(name):
                entry |= {"real_mean": real[0].mean, **({"real_se": real[0].se} if one.n else {}), "real_unit": real[1]}
            base, bracket, index = name.partition("[")
            if not bracket:
                listed[name] = entry
                continue
            gathered = listed.setdefault(base, {key: [] for key in ("at", *entry)})
            for key, value in (("at", index.rstrip("]")), *entry.items()):
                gathered[key] = value if key in ("n", "real_unit") else [*gathered[key], value]
        for entry in listed.values():
            if "at" in entry and entry["at"] == [str(i) for i in range(1, len(entry["at"]) + 1)]:
                del entry["at"]
        whole: dict[str, Any] = finite(
            {
                "scenario": self.scenario.model_dump(mode="json"),
                "metrics": listed,
                **self.facts,
                "provenance": self.provenance,
            }
        )
        return whole


def finite(value: Any) -> Any:
    """The same with null for what is not a finite number, which JSON cannot say."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
