"""What the exact solver says of a scenario: its stationary metrics, the same as a simulation's, without error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from elastiqueue.models.registry import model_of
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.scenarios.reading import ConfigError, ServiceScenario
from elastiqueue.scenarios.units import with_costs
from elastiqueue.statistics.estimates import Estimate, Ratio
from elastiqueue.theory.chains import Chain
from elastiqueue.theory.stationary_law import DEFAULT_MAX_STATES, converged_rates, stationary_rates

MOST_NUMBERS = 100_000_000  # in the states of a chain: a gigabyte
TOLERANCE = 1e-9  # relative change of any rate at which an unlimited buffer counts as such


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


def _choose(n: int, k: int) -> int:
    """C(n, k), or some number above 10^18 where it is greater than that."""
    k, found = min(k, n - k), 1
    for i in range(k):
        found = found * (n - i) // (i + 1)
        if found > 10**18:
            break
    return found


def least_states(scenario: ServiceScenario, level: int | None = None) -> tuple[int, int]:
    """How many states the chain has at least, and of how many numbers each is; an unlimited buffer is cut at `level`.

    N servers are spread over the kinds that a server can be of: with 1..B tasks in one of K phases, idle-on and, where
    servers turn off, off or in setup. A central queue of at most L tasks: the servers that are on (all N, or 0..N where
    they turn off) are all busy, each in one of K phases, and the queue has any of at least L - N + 1 lengths.
    """
    n, phases = scenario.servers, sum(visits > 0 for visits in scenario.phase_type.visits())
    turning = scenario.model == "setup" or (scenario.model in ("tabs", "delayed_off") and bool(scenario.standby_rate))
    if scenario.model in ("tabs", "jiq"):
        size = int(scenario.buffer or level or 1)
        states, numbers = _choose(n + size * phases + (2 if turning else 0), n), size * phases + 2
    else:
        size = int(level or n)
        states, numbers = _choose(n + phases - (0 if turning else 1), n) * max(size - n + 1, 1), phases + 3
    return (states if scenario.arrival.at(0.0) > 0 else 1), numbers


def least_level(scenario: ServiceScenario) -> int | None:
    """A level below which a cut cannot go unnoticed; None where there is no cut.

    The number of tasks has a tail of lambda^n at least, but for the variation of the service times, for which the
    exponent is halved here.
    """
    rate = scenario.arrival.at(0.0)
    if scenario.model in ("tabs", "jiq") and scenario.buffer is not None:
        return None
    servers = scenario.servers if scenario.model in ("tabs", "jiq") else 1
    needed = math.log(TOLERANCE) / math.log(rate) / (2 * servers) if rate > 0 else 0.0
    return max(2 * (scenario.servers + 8), math.ceil(needed))


def exact(scenario: ServiceScenario, max_states: int = DEFAULT_MAX_STATES) -> ExactResult:
    """Stationary metrics of a scenario by the exact solver.

    Raises
    ------
    ConfigError : the arrival rate varies, or the state space is too large.
    """
    if not scenario.arrival.constant:
        raise ConfigError("arrival_rate: must be constant for the exact solver")
    model = model_of(scenario)
    metrics: dict[str, Ratio] = with_costs(scenario, model.metrics(scenario))

    def chain(level: int | None = None) -> Chain:
        states, numbers = least_states(scenario, level)
        if states > max_states:
            raise ValueError(f"states = {states:.4g} or more: at most max_states = {max_states} are allowed")
        if states * numbers > MOST_NUMBERS:
            raise ValueError(
                f"states = {states} or more of {numbers} numbers each: at most {MOST_NUMBERS:,} numbers are allowed"
            )
        return model.chain(scenario, level)

    level = least_level(scenario)
    try:
        if level is None:
            rates = stationary_rates(chain(), max_states)
            return ExactResult({name: _value(metric, rates) for name, metric in metrics.items()})
        chain(level)
        found = converged_rates(chain, scenario.servers + 8, TOLERANCE, max_states)
    except ValueError as error:
        other = f"arrival_rate = {scenario.arrival.at(0.0):g}" if level is not None else f"buffer = {scenario.buffer}"
        raise ConfigError(f"servers = {scenario.servers}, {other}: {error}") from None
    values = {name: _value(metric, found.rates) for name, metric in metrics.items()}
    return ExactResult(values, found.level, found.change)


def compute_rows(engine: str, scenario: ServiceScenario) -> list[dict[str, Any]]:
    """Rows of a tidy table."""
    return [value_row(name, Estimate(value, 0.0, 0)) for name, value in exact(scenario).metrics.items()]
