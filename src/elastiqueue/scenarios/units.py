"""Units of a practitioner: seconds, requests per second, watts and prices, in scenarios and in results.

Inside, the unit of time is the mean service time and rates are per server. Where a scenario has `units`, its times may
be given as `30 s`, its rates of the whole system as `150 / s`, and every result is given in both.

    units: {service_time: 200 ms, price_per_kwh: 0.25, price_per_server_hour: 0.04, currency: EUR}
    arrival_rate: 150 / s            # of the whole system
    standby_time: 10 min             # = 1 / standby_rate
    setup_time: 30 s                 # = 1 / setup_rate
    horizon: 1 h

In a scenario in slots `units` says how long a slot is, and servers are always on, so that there are no prices.

    units: {slot: 1 s}
    slots: 1 d
    arrivals: {law: poisson, mean: [6 / min, 2 / min]}      # of the whole cluster
    job_sizes: {uniform: [[1 s, 50 s, .9], [5 min, 8 min, .1]]}
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from elastiqueue.scenarios.base import ConfigError, Positive, Rate, Strict, one_line

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"
_TIME = re.compile(rf"{_NUMBER}\s*({'|'.join(SECONDS)})")
_RATE = re.compile(rf"{_NUMBER}\s*(?:/|per)\s*({'|'.join(SECONDS)})")
TIMES = ("horizon", "warm_up", "record_every", "standby_time", "setup_time")
INSTEAD_OF = {"standby_time": "standby_rate", "setup_time": "setup_rate"}  # the mean time in place of its rate


def seconds(value: Any) -> Any:
    """Seconds of a text such as 200 ms; anything else as it is, for pydantic to judge."""
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None and isinstance(value, str):
        raise PydanticCustomError("unit", "must be a number of seconds, or a number with us, ms, s, min, h or d")
    return float(match[1]) * SECONDS[match[2]] if match else value


class Units(Strict):
    """What one mean service time is in seconds, and what power and servers cost."""

    service_time: Annotated[Positive, BeforeValidator(seconds)] = Field(
        description="Mean service time: seconds, or a text such as 200 ms (us, ms, s, min, h, d)."
    )
    price_per_kwh: Rate | None = Field(None, description="Price of energy per kWh; needs `power` in watts.")
    price_per_server_hour: Rate | None = Field(
        None, description="Price of an hour of a server that is not off, setup included."
    )
    currency: Annotated[str, Field(min_length=1, max_length=12, pattern=r"^\w+$")] = Field(
        "EUR", description="Of the prices; it is printed beside costs."
    )

    @property
    def priced(self) -> bool:
        """Whether results have costs."""
        return self.price_per_kwh is not None or self.price_per_server_hour is not None


class WithUnits(Strict):
    """A scenario that may give its times and rates in units of a practitioner."""

    units: Units | None = Field(
        None, description="{service_time, price_per_kwh, price_per_server_hour, currency}: results in both units."
    )
    standby_time: Positive | str | None = Field(
        None, exclude=True, description="Mean standby (keep-alive) period in place of standby_rate = 1 / it."
    )
    setup_time: Positive | str | None = Field(
        None, exclude=True, description="Mean setup period (cold start) in place of setup_rate = 1 / it."
    )

    @model_validator(mode="before")
    @classmethod
    def _in_mean_service_times(cls, values: Any) -> Any:
        return converted(values) if isinstance(values, Mapping) else values


def converted(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a scenario with times in mean service times and rates per server; raises ConfigError."""
    given = dict(values)
    units = given.get("units")
    unit = None
    if units is not None:
        try:
            unit = Units.model_validate(units).service_time
        except ValidationError as error:
            inside = isinstance(units, Mapping)
            raise ConfigError(f"units{'.' if inside else ' '}{one_line(error, units)}") from None

    def time(key: str, value: Any) -> Any:
        match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
        return value if match is None else _decimal(float(match[1]) * SECONDS[match[2]] / _needed(unit, key, value))

    def rate(key: str, value: Any) -> Any:
        match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
        servers = given.get("servers")
        if match is None or not isinstance(servers, int) or servers < 1:
            return value
        return _decimal(float(match[1]) / SECONDS[match[2]] * _needed(unit, key, value) / servers)

    for key in TIMES:
        if key in given:
            given[key] = time(key, given[key])
    waits = given.get("waits")
    if isinstance(waits, Mapping) and isinstance(waits.get("times"), list):
        given["waits"] = {**waits, "times": [time("waits.times", value) for value in waits["times"]]}
    for period, name in INSTEAD_OF.items():
        length = given.pop(period, None)
        if length is None:
            continue
        if given.get(name) is not None:
            raise ConfigError(f"{period} = {length}: must not be given beside {name}")
        if isinstance(length, bool) or not isinstance(length, int | float) or not 1e-9 <= length <= 1e9:
            raise ConfigError(f"{period} = {length!r}: must be a number > 0, or a text such as 30 s")
        given[name] = 1 / length
    arrival = given.get("arrival_rate")
    if isinstance(arrival, Mapping):
        inner = {key: rate(f"arrival_rate.{key}", value) for key, value in arrival.items() if key != "trace"}
        inner = {key: time(f"arrival_rate.{key}", value) for key, value in inner.items()}
        given["arrival_rate"] = {**arrival, **inner}
    elif arrival is not None:
        given["arrival_rate"] = rate("arrival_rate", arrival)
    return given


def _decimal(value: float) -> float:
    """Without the last bits, in which 3 / s of 0.2 s on two servers is not 0.3."""
    return float(f"{value:.15g}")


def _needed(unit: float | None, key: str, value: Any) -> float:
    if unit is None:
        raise ConfigError(f"{key} = {value}: needs units.service_time")
    return unit


class SlotUnits(Strict):
    """How long a slot is; servers are always on, so that power and prices would say nothing."""

    slot: Annotated[Positive, BeforeValidator(seconds)] = Field(
        description="Length of a slot: seconds, or a text such as 1 s (us, ms, s, min, h, d)."
    )


def in_slots(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a scenario in slots with times in slots and rates per slot; raises ConfigError."""
    given, slot = dict(values), None
    if given.get("units") is not None:
        try:
            slot = SlotUnits.model_validate(given["units"]).slot
        except ValidationError as error:
            inside = isinstance(given["units"], Mapping)
            raise ConfigError(f"units{'.' if inside else ' '}{one_line(error, given['units'])}") from None

    def number(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [number(key, one) for one in value]
        if isinstance(value, Mapping):
            return {inner: number(f"{key}.{inner}", one) for inner, one in value.items()}
        text = value.strip() if isinstance(value, str) else ""
        match = (_RATE if key == "arrivals.mean" else _TIME).fullmatch(text)
        if match is None:
            return value
        if slot is None:
            raise ConfigError(f"{key} = {value}: needs units.slot")
        if key == "arrivals.mean":
            return _decimal(float(match[1]) / SECONDS[match[2]] * slot)
        count = _decimal(float(match[1]) * SECONDS[match[2]] / slot)
        if count != round(count):
            raise ConfigError(f"{key} = {value}: must be a whole number of slots, of {slot:g} s each")
        return round(count)

    for key in ("slots", "warm_up", "sample_every", "job_sizes"):
        if key in given:
            given[key] = number(key, given[key])
    arrivals = given.get("arrivals")
    if isinstance(arrivals, Mapping) and "mean" in arrivals:
        given["arrivals"] = {**arrivals, "mean": number("arrivals.mean", arrivals["mean"])}
    return given


# ---- Results ---------------------------------------------------------------------------------------------------------

_UNITS = (  # names of metrics, their unit in results, and of a scenario with `units` the practitioner's
    (r"(mean_wait|mean_response)\w*|(wait|response)_p[\d_]+", "service times", "s"),
    (r"(wasted_)?power", "W per server", "W"),
    (r"busy|idle_on|idle_off|setup", "of servers", "servers"),
    (r"queue_tail\[\d+\]", "of servers", "servers"),
    (r"\w+_per_task", "per task", ""),
    (r"growth", "tasks per service time", "requests / s"),
)
COSTS = ("cost_per_hour", "cost_per_million")  # metrics of a scenario with prices


def unit_of(scenario: Any, metric: str) -> str:
    """Unit of a metric, empty for probabilities; scenarios in slots count jobs and slots."""
    if hasattr(scenario, "slots"):
        return "slots" if metric == "mean_response" else ""
    if metric.startswith("cost_per_"):
        return str(scenario.units.currency)
    return next((unit for pattern, unit, _ in _UNITS if re.fullmatch(pattern, metric)), "")


def in_practice(scenario: Any, metric: str) -> tuple[float, str] | None:
    """Factor and unit that turn a metric into the practitioner's; None where there is none, or no `units`."""
    if hasattr(scenario, "slots"):
        return (scenario.units.slot, "s") if scenario.units and metric == "mean_response" else None
    units: Units | None = scenario.units
    wanted = next((unit for pattern, _, unit in _UNITS if re.fullmatch(pattern, metric)), "")
    if units is not None and (tail := re.fullmatch(r"(?:wait|response)_tail\[(.+)\]", metric)):
        return 1.0, f"beyond {float(tail[1]) * units.service_time:.4g} s"
    if units is None or not wanted:
        return None
    factors = {"s": units.service_time, "W": scenario.servers, "servers": scenario.servers}
    return float(factors.get(wanted, 1 / units.service_time)), wanted


def said_of(scenario: Any) -> str:
    """What a scenario with `units` is, in these."""
    units = scenario.units
    if hasattr(scenario, "slots"):
        return f"slots of {units.slot:.4g} s"
    rate = scenario.arrival.mean() * scenario.servers / units.service_time
    return f"{rate:.4g} requests / s of {units.service_time:.4g} s each on average"


def _cost(scenario: Any) -> tuple[dict[str, float], float] | None:
    """Cost of the system per hour as a linear form: weights of metrics, and a constant."""
    units: Units | None = None if hasattr(scenario, "slots") else scenario.units
    if units is None or not units.priced:
        return None
    hour = scenario.servers * (units.price_per_server_hour or 0.0)
    return {"power": scenario.servers * (units.price_per_kwh or 0.0) / 1000, "idle_off": -hour}, hour


def with_costs(scenario: Any, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics, each a ratio of totals, with those of the cost where the scenario has prices.

    cost_per_hour is that of the whole system; cost_per_million that of as much service as a million requests take.
    """
    cost = _cost(scenario)
    if cost is None:
        return dict(metrics)
    weights, constant = cost
    total = {"time": constant}
    for name, weight in weights.items():
        for column, value in metrics[name].numerator.items():
            total[column] = total.get(column, 0.0) + weight * value
    busy, hours = metrics["busy"].numerator, scenario.units.service_time / 3600
    work = {column: value * scenario.servers / (1e6 * hours) for column, value in busy.items()}
    per_hour = replace(metrics["power"], numerator=total)
    return {**metrics, "cost_per_hour": per_hour, "cost_per_million": replace(per_hour, denominator=work)}


def values_with_costs(scenario: Any, values: Mapping[str, float]) -> dict[str, float]:
    """The same for values of metrics in place of ratios."""
    cost = _cost(scenario)
    if cost is None:
        return dict(values)
    per_hour = cost[1] + math.fsum(weight * values[name] for name, weight in cost[0].items())
    served = values["busy"] * scenario.servers * 3600 / scenario.units.service_time / 1e6
    return {**values, "cost_per_hour": per_hour, "cost_per_million": per_hour / served if served else math.nan}
