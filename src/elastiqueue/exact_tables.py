"""What the exact solver says of a scenario: its stationary metrics, the same as a simulation's, without error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from elastiqueue.config import ConfigError, ServiceScenario
from elastiqueue.engines.exact import DEFAULT_MAX_STATES, converged_rates, stationary_rates
from elastiqueue.models.base import Ratio
from elastiqueue.models.registry import model_of
from elastiqueue.statistics import Estimate
from elastiqueue.tidy import value_row


def _value(metric: Ratio, rates: dict[str, float]) -> float:
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
    model = model_of(scenario)
    metrics: dict[str, Ratio] = model.metrics(scenario)
    try:
        if scenario.model in ("tabs", "jiq") and scenario.buffer is not None:
            rates = stationary_rates(model.chain(scenario), max_states)
            return ExactResult({name: _value(metric, rates) for name, metric in metrics.items()})
        found = converged_rates(lambda level: model.chain(scenario, level), scenario.servers + 8, max_states=max_states)
    except ValueError as error:
        raise ConfigError(f"servers = {scenario.servers}: {error}") from None
    values = {name: _value(metric, found.rates) for name, metric in metrics.items()}
    return ExactResult(values, found.level, found.change)


def compute_rows(engine: str, scenario: ServiceScenario) -> list[dict[str, Any]]:
    """Rows of a tidy table."""
    return [value_row(name, Estimate(value, 0.0, 0)) for name, value in exact(scenario).metrics.items()]
