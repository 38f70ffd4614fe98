"""Two scenarios beside each other: their metrics, and the differences, on common random clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elastiqueue.api.result import finite
from elastiqueue.api.solve import Progress
from elastiqueue.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from elastiqueue.engines.comparison import Difference
    from elastiqueue.scenarios.reading import Scenario
    from elastiqueue.statistics.estimates import Estimate


@dataclass(frozen=True)
class Comparison:
    """The answer of `compare`.

    Attributes
    ----------
    scenarios : both. metrics : name -> `Difference`: both estimates, the first less the second, and the gain.
    facts : warnings of a steady state. provenance : as of a `Result`.
    """

    scenarios: tuple[Scenario, Scenario]
    metrics: Mapping[str, Difference]
    facts: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, name: str) -> Estimate:
        """The difference of one metric, first less second; raises ConfigError where not both have it."""
        if name not in self.metrics:
            raise ConfigError(f"metric = {name}: must be one of {', '.join(self.metrics)}")
        return self.metrics[name].difference

    def rows(self) -> list[dict[str, Any]]:
        """One row per metric: both with their errors, the difference with its 95 % interval, n and gain."""
        rows = []
        for name, one in self.metrics.items():
            row: dict[str, Any] = {"metric": name}
            for head, value in zip(("first", "second"), one.both, strict=True):
                row |= {head: value.mean, f"{head}_se": value.se}
            low, high = one.difference.interval()
            row |= {"difference": one.difference.mean, "se": one.difference.se, "ci_low": low, "ci_high": high}
            rows.append(row | {"n": one.difference.n, "gain": one.gain})
        return rows

    def table(self) -> pd.DataFrame:
        """`rows` as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def document(self) -> dict[str, Any]:
        """The same as JSON-able values; null for what is not finite."""
        document: dict[str, Any] = finite(
            {
                "scenarios": [one.model_dump(mode="json") for one in self.scenarios],
                "metrics": {row.pop("metric"): row for row in self.rows()},
                **self.facts,
                "provenance": self.provenance,
            }
        )
        return document


def compare(first: Scenario, second: Scenario, progress: Progress | None = None) -> Comparison:
    """Simulate two scenarios on common clocks: each as if alone, what they have in common cancels in the difference.

    Parameters
    ----------
    first, second : in continuous time; any two models, with the same horizon, warm-up, replications and seed.
    progress : called with (done, all) replications.

    Raises
    ------
    ConfigError : scenarios that cannot be compared.

    >>> import elastiqueue as eq
    >>> tabs = eq.scenario(model="tabs", servers=100, arrival_rate=0.3, standby_rate=0.1, setup_rate=0.1)
    >>> found = eq.compare(tabs, tabs.model_copy(update={"standby_rate": 0.125}))
    >>> found.metric("power").mean < 0, found.metrics["power"].gain > 2
    (True, True)
    """
    from elastiqueue.engines.comparison import common_window, differences, joined, simulate_pair
    from elastiqueue.models.registry import sources_of
    from elastiqueue.results.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    watch, pair = Stopwatch(), (first, second)
    span, parts = common_window(pair), []
    for index in range(first.replications):
        parts.append(simulate_pair(pair, index, index + 1, span))
        if progress is not None:
            progress(index + 1, first.replications)
    found = differences(pair, joined(parts), span)
    doubts = [f"all metrics: {span.doubt}"] if span.doubt else []
    warnings = [*doubts, *(f"{name}: {one.warning}" for name, one in found.items() if one.warning)]
    sources = source_digest("elastiqueue.engines.comparison", *(name for one in pair for name in sources_of(one)))
    facts = {"steady_state": {"warnings": warnings}} if span.batches > 1 else {}
    return Comparison(pair, found, facts, watch.provenance(seed=first.seed, sources=sources))
