"""What the exact solver says of a scenario: its stationary metrics, the same as a simulation's, without error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from elastiqueue.engines.registry import check_served
from elastiqueue.models.quantities import TOLERANCE
from elastiqueue.models.registry import model_of
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.scenarios.reading import ConfigError, ServiceScenario
from elastiqueue.scenarios.units import with_costs
from elastiqueue.statistics.estimates import Estimate
from elastiqueue.statistics.queue_waits import QueueMetric
from elastiqueue.statistics.waiting import WaitMetric
from elastiqueue.theory.chains import Chain
from elastiqueue.theory.stationary_law import DEFAULT_MAX_STATES, converged_rates, enumerate_states, stationary_rates
from elastiqueue.theory.tagged_task import TaggedTask

MAX_NUMBERS = 100_000_000  # in the states of a chain: a gigabyte


def _value(metric: Any, rates: dict[str, float], tagged: Callable[[], TaggedTask]) -> float:
    if isinstance(metric, QueueMetric):
        value: float = getattr(tagged(), metric.kind)(metric.value, metric.response)
        return value
    if isinstance(metric, WaitMetric):
        ratio, back = metric.resolve(rates)
        return back(Estimate(_value(ratio, rates, tagged), 0.0, 0)).mean
    bottom = math.fsum(weight * rates.get(name, 0.0) for name, weight in metric.denominator.items())
    top = math.fsum(weight * rates.get(name, 0.0) for name, weight in metric.numerator.items())
    return top / bottom if bottom else math.nan


@dataclass(frozen=True)
class ExactResult:
    """Stationary metrics; where the state space was cut, the level and the last relative change of any rate."""

    metrics: dict[str, float]
    level: int | None = None
    change: float = 0.0


def exact(scenario: ServiceScenario, max_states: int = DEFAULT_MAX_STATES) -> ExactResult:
    """Stationary metrics of a scenario by the exact solver.

    Raises
    ------
    ConfigError : the arrival rate varies, or the state space is too large.
    """
    if not scenario.arrival.constant:
        raise ConfigError("arrival_rate: must be constant for the exact solver")
    check_served("exact", scenario)
    model = model_of(scenario)
    definition = model.definition

    def metrics(rates: dict[str, float], level: int | None = None) -> dict[str, float]:
        known: dict[str, Any] = with_costs(scenario, model.metrics(scenario))

        @cache
        def tagged() -> TaggedTask:
            accepted = math.fsum(w * rates.get(name, 0.0) for name, w in known["mean_wait"].denominator.items())
            space = enumerate_states(chain(level), max_states)
            return TaggedTask(space, definition.QUEUE, accepted, scenario.phase_type)

        return {name: _value(metric, rates, tagged) for name, metric in known.items()}

    def chain(level: int | None = None) -> Chain:
        states, numbers = getattr(definition, "least_states", lambda *_: (1, 1))(scenario, level)
        if states > max_states:
            raise ValueError(f"states = {states:.4g} or more: at most max_states = {max_states} are allowed")
        if states * numbers > MAX_NUMBERS:
            raise ValueError(
                f"states = {states} or more of {numbers} numbers each: at most {MAX_NUMBERS:,} numbers are allowed"
            )
        return model.chain(scenario, level)

    level = getattr(definition, "least_level", lambda _: None)(scenario)
    try:
        if level is None:
            return ExactResult(metrics(stationary_rates(chain(), max_states)))
        chain(level)
        converged = converged_rates(chain, scenario.servers + 8, TOLERANCE, max_states)
        return ExactResult(metrics(converged.rates, converged.level), converged.level, converged.change)
    except ValueError as error:
        other = f"arrival_rate = {scenario.arrival.at(0.0):g}" if level is not None else f"buffer = {scenario.buffer}"
        raise ConfigError(f"servers = {scenario.servers}, {other}: {error}") from None


def compute_rows(engine: str, scenario: ServiceScenario) -> list[dict[str, Any]]:
    """Rows of a tidy table."""
    return [value_row(name, Estimate(value, 0.0, 0)) for name, value in exact(scenario).metrics.items()]
