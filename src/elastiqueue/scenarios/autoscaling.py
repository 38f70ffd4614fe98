"""Scenarios of servers that turn off and on, in continuous time: TABS, JIQ and the centralised baselines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, Discriminator, Field, Tag, ValidationError, create_model, model_validator

from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.phase_type import NAMED, PhaseType, alternatives
from elastiqueue.sampling.streams import digest
from elastiqueue.sampling.traces import read_trace
from elastiqueue.scenarios.base import MAX_EVENTS, ConfigError, CpuHours, Positive, Rate, Strict, check_hours
from elastiqueue.scenarios.registry import MODELS, Model, is_file, row_of
from elastiqueue.scenarios.units import WithUnits
from elastiqueue.statistics.waiting import PERCENTILES, TIMES

OF_WAITS = r"(?:wait|response)_(?:p(\d+(?:_\d+)?)|tail\[(\d*\.?\d+(?:e[-+]?\d+)?)\])"  # names of metrics
TAIL = 20  # rows of the queue tail that are reported where the buffer is unlimited
SERVICE_MODELS = tuple(name for name, row in MODELS.items() if row.continuous)
MAX_PERIODS = 1_000_000  # of the sinusoid, in a run
MAX_RECORDS = 1_000_000
STEADY_RUNS = 12  # replications where the horizon is auto


class Sinusoid(Strict):
    """lambda(t) = mean + amplitude sin(2 pi t / period)."""

    mean: Rate = Field(description="Tasks per mean service time and server, averaged over a period.")
    amplitude: Rate = Field(description="Amplitude of the sinusoid; at most the mean.")
    period: Positive = Field(description="Period in mean service times.")

    def arrival(self, servers: int) -> ArrivalRate:
        return ArrivalRate((0.0,), (self.mean,), self.amplitude, self.period)


Unit = Literal["service", "second", "minute", "hour"]


class Trace(Strict):
    """Arrival rates read from a CSV file whose header names the columns time and rate."""

    trace: str = Field(
        description="Path of a CSV file with columns time and rate, from the folder of the file that names it; times "
        "increase from 0, or are time stamps by ISO 8601."
    )
    time_unit: Unit = Field("service", description="Unit of the times: the mean service time, or of a clock.")
    rate_unit: Unit = Field("service", description="Unit of time in which the rates count tasks.")
    service_time: Positive | None = Field(
        None, description="Mean service time in seconds; wanted where a unit is that of a clock."
    )
    interpolation: Literal["constant", "linear"] = Field(
        "constant", description="constant: a rate holds until the next one; linear: on lines between them."
    )
    rates_of: Literal["server", "system"] = Field(
        "server", description="Whether the rates are per server, or of the whole system of `servers` servers."
    )

    def arrival(self, servers: int) -> ArrivalRate:
        share = 1 / servers if self.rates_of == "system" else 1.0
        linear = self.interpolation == "linear"
        return read_trace(self.trace, self.time_unit, self.rate_unit, self.service_time, linear, share)


class Steps(Strict):
    """Arrival rates given in place as steps."""

    steps: list[tuple[Rate, Rate]] = Field(min_length=1, description="[[time, rate], ...]; times increase from 0.")

    def arrival(self, servers: int) -> ArrivalRate:
        return ArrivalRate(tuple(time for time, _ in self.steps), tuple(rate for _, rate in self.steps))


class PhaseTypeMatrices(Strict):
    """A phase-type distribution by its matrices."""

    initial: list[Rate] = Field(
        min_length=1, max_length=64, description="Probability of each phase at the start; sums to 1."
    )
    rates: list[Positive] = Field(
        min_length=1, max_length=64, description="Exit rate of each phase; the mean is scaled to 1."
    )
    routing: list[list[Rate]] = Field(
        min_length=1,
        max_length=64,
        description="routing[k][j]: probability to go on in phase j after phase k; the rest completes.",
    )


class PhaseTypeService(Strict):
    """Service times of a phase-type distribution."""

    phase_type: PhaseTypeMatrices


def _arrival_kind(value: Any) -> str | None:
    if isinstance(value, Mapping):
        return next((f"<{kind}>" for kind in ("trace", "steps") if kind in value), "<sinusoid>")
    if isinstance(value, BaseModel):
        return f"<{type(value).__name__.lower()}>"
    return "<number>"


ArrivalSpec = Annotated[
    Annotated[Rate, Tag("<number>")]
    | Annotated[Sinusoid, Tag("<sinusoid>")]
    | Annotated[Trace, Tag("<trace>")]
    | Annotated[Steps, Tag("<steps>")],
    Discriminator(_arrival_kind),
]


NAMED_SERVICES = {
    name: create_model(
        f"{name.capitalize()}Service",
        __base__=Strict,
        __doc__=row.title,
        **{name: (Annotated[row.number, Field(ge=row.least, le=row.most, description=row.parameter)], ...)},  # type: ignore[call-overload]
    )
    for name, row in NAMED.items()
}


def _service_kind(value: Any) -> str | None:
    kinds = ("phase_type", *NAMED)
    if isinstance(value, Mapping):
        return next((f"<{kind}>" for kind in kinds if kind in value), None)
    if isinstance(value, BaseModel):
        return next(f"<{kind}>" for kind in kinds if hasattr(value, kind))
    return "<exponential>" if value == "exponential" else None


ServiceSpec = Annotated[  # type: ignore[valid-type]
    Union[  # of as many as the table has
        (
            Annotated[Literal["exponential"], Tag("<exponential>")],
            Annotated[PhaseTypeService, Tag("<phase_type>")],
            *(Annotated[kind, Tag(f"<{name}>")] for name, kind in NAMED_SERVICES.items()),
        )
    ],
    Discriminator(_service_kind, custom_error_type="distribution", custom_error_message=f"must be {alternatives()}"),
]


class Power(Strict):
    """Power drawn by one server in each state, in watts."""

    full: Rate = Field(200.0, description="Busy, or in setup.")
    idle: Rate = Field(140.0, description="Idle and on.")
    off: Rate = Field(0.0, description="Off.")


class Precision(Strict):
    """Go on simulating until the 95 % half-width of one metric is small."""

    metric: str = Field(description="Name of a scalar metric of the model.")
    relative: Annotated[float, Field(gt=0, lt=1)] = Field(description="Half-width of the interval over the mean.")


Percentile = Annotated[float, Field(ge=0.001, le=99.99999, allow_inf_nan=False)]


class Waits(Strict):
    """Which values of the distributions of waits and response times are metrics."""

    percentiles: Annotated[list[Percentile], Field(max_length=50)] = Field(
        default=list(PERCENTILES), description="In per cent: 99.9 gives wait_p99_9 and response_p99_9."
    )
    times: Annotated[list[Positive], Field(max_length=50)] = Field(
        default=list(TIMES),
        description="Times t of the probabilities wait_tail[t] and response_tail[t] that it takes longer.",
    )


class ServiceScenario(WithUnits):
    """A continuous-time system of servers that turn off and on; the unit of time is the mean service time."""

    model: Literal[SERVICE_MODELS] = Field(  # type: ignore[valid-type]
        description="; ".join(f"{name}: {MODELS[name].title}" for name in SERVICE_MODELS) + "."
    )
    servers: Annotated[int, Field(ge=1, le=1_000_000_000)] = Field(description="Number of servers N.")
    arrival_rate: ArrivalSpec = Field(
        description="Tasks per mean service time and server: a number, {mean, amplitude, period}, "
        "{steps: [[time, rate], ...]} or {trace: FILE.csv, time_unit, rate_unit, service_time, interpolation}."
    )
    standby_rate: Rate | None = Field(
        None, description="mu: rate at which an idle-on server turns off. For tabs, delayed_off."
    )
    setup_rate: Positive | None = Field(
        None, description="nu: rate at which a setup completes. For tabs, delayed_off, setup."
    )
    abort_setups: bool | None = Field(
        None,
        description="Whether superfluous setups are aborted. Default: false for tabs, true for delayed_off and setup.",
    )
    staggered: bool = Field(
        False, description="At most one server in setup at a time. For delayed_off and setup; needs abort_setups."
    )
    buffer: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        50, description="Tasks per server, the one in service included; null: unlimited. A central queue is unlimited."
    )
    service: ServiceSpec = Field(  # type: ignore[valid-type]
        "exponential",
        description=f"Distribution of the service times, scaled to mean 1: {alternatives()}.",
    )
    start: Literal["fixed_point", "all_idle_on", "all_off"] = Field(
        "fixed_point", description="State at time 0; fixed_point is that of the fluid limit, rounded to servers."
    )
    horizon: Positive | Literal["auto"] = Field(
        250.0, description="End of the run; auto: a steady-state run whose length and warm-up a pilot run fixes."
    )
    warm_up: Rate | Literal["auto"] = Field(
        0.0, description="Time before which nothing is counted; must be below the horizon; auto exactly if horizon is."
    )
    measured: Positive = Field(
        8.0, description="Where horizon is auto: length of the measured stretch, in lengths of the warm-up."
    )
    control_variates: bool = Field(
        False,
        description="Where horizon is auto: subtract from each metric what is known to have mean 0 in a steady state; "
        "the same values with smaller errors, for up to a third more computing time.",
    )
    record_every: Positive | None = Field(None, description="Record the state at multiples of this time; null: never.")
    replications: Annotated[int, Field(ge=2, le=1_000_000)] = Field(
        100, description="Independent replications; 12 by default where horizon is auto, each of four batches."
    )
    precision: Precision | None = Field(
        None, description="{metric, relative}: add replications until the interval is that narrow; null: do not."
    )
    waits: Waits | None = Field(
        None,
        description="{percentiles, times} of waits and response times, in place of 50, 95, 99 and 1, 2, 5, 10, 20. A "
        "central queue has such metrics only where this is given, {} for those, and is then simulated event by event.",
    )
    max_cpu_hours: CpuHours = 24.0
    seed: Annotated[int, Field(ge=0)] = Field(1, description="Root of all random streams.")
    power: Power = Field(Power(full=200.0, idle=140.0, off=0.0), description="Power per server and state.")

    @model_validator(mode="before")
    @classmethod
    def _few_long_runs(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("horizon") == "auto":
            return {"replications": STEADY_RUNS, **values}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> ServiceScenario:
        arrival = self.arrival
        _ = self.phase_type  # is checked
        takes, needs = self.row.takes, self.row.needs
        if "standby_rate" in needs and self.standby_rate is None:
            raise ConfigError(f"standby_rate: is missing; {self.model} needs a number >= 0")
        if "setup_rate" in needs and self.setup_rate is None:
            raise ConfigError(f"setup_rate: is missing; {self.model} needs a number > 0")
        unlimited = not self.row.loses and ("buffer" not in takes or self.buffer is None)
        if unlimited and arrival.rates[-1] >= 1:
            raise ConfigError(
                f"arrival_rate = {arrival.rates[-1]:g}: must be < 1 where the buffer is unlimited (the queue grows "
                "without bound)"
            )
        if (self.horizon == "auto") != (self.warm_up == "auto"):
            raise ConfigError(f"warm_up = {self.warm_up}: must be auto exactly if horizon is (here {self.horizon})")
        if self.horizon == "auto" and not arrival.constant:
            raise ConfigError("horizon = auto: needs a constant arrival_rate")
        if self.horizon == "auto" and self.record_every is not None:
            raise ConfigError(f"record_every = {self.record_every}: must be null where horizon is auto")
        if self.control_variates and self.horizon != "auto":
            raise ConfigError(f"control_variates = True: needs horizon = auto (here {self.horizon:g})")
        if isinstance(self.horizon, float) and isinstance(self.warm_up, float) and self.warm_up >= self.horizon:
            raise ConfigError(f"warm_up = {self.warm_up:g}: must be below horizon = {self.horizon:g}")
        if isinstance(self.horizon, float) and self.horizon / arrival.period > MAX_PERIODS and arrival.amplitude:
            raise ConfigError(
                f"arrival_rate.period = {arrival.period:g}: must be at least horizon / {MAX_PERIODS:,}, "
                f"{self.horizon / MAX_PERIODS:g}"
            )
        if isinstance(self.horizon, float) and self.record_every and self.horizon / self.record_every > MAX_RECORDS:
            raise ConfigError(
                f"record_every = {self.record_every:g}: must be at least horizon / {MAX_RECORDS:,}, "
                f"{self.horizon / MAX_RECORDS:g}"
            )
        if self.start == "all_off" and not self.row.turns_on:
            raise ConfigError(f"start = all_off: {self.model} never turns a server on; use all_idle_on or fixed_point")
        if self.staggered and ("staggered" not in takes or not self.aborts):
            fitting = " and ".join(name for name, row in MODELS.items() if "staggered" in row.takes)
            raise ConfigError(f"staggered = true: is for {fitting} with abort_setups: true")
        return self

    @property
    def arrival(self) -> ArrivalRate:
        """The arrival rate per server as a function of time."""
        if isinstance(self.arrival_rate, float):
            return ArrivalRate.constant_rate(self.arrival_rate)
        return self.arrival_rate.arrival(self.servers)

    @property
    def row(self) -> Model:
        """The facts about its model."""
        return row_of(self)

    @property
    def asked_of_waits(self) -> Waits:
        """`waits`, filled in."""
        return self.waits or Waits(percentiles=list(PERCENTILES), times=list(TIMES))

    def with_metrics(self, names: Iterable[str]) -> ServiceScenario:
        """With those of the names in `waits` that are such as wait_p99_9 or response_tail[2.5]."""
        asked = {key: list(values) for key, values in self.asked_of_waits.model_dump().items()}
        found = [match for name in names if (match := re.fullmatch(OF_WAITS, name))]
        for match in found:
            key, text = ("percentiles", match[1].replace("_", ".")) if match[1] else ("times", match[2])
            asked[key] += [] if float(text) in asked[key] else [float(text)]
        try:
            values = {**self.model_dump(exclude_unset=True), "waits": asked}
            return type(self).model_validate(values) if found else self
        except ValidationError:  # wait_p100: there is no such metric
            return self

    @property
    def aborts(self) -> bool:
        """Whether superfluous setups are aborted, the model's default filled in."""
        if "abort_setups" not in self.row.takes:
            return False
        return self.row.aborts if self.abort_setups is None else self.abort_setups

    @property
    def phase_type(self) -> PhaseType:
        """The service times as a `PhaseType` of mean 1."""
        spec = self.service if isinstance(self.service, str) else self.service.model_dump()
        try:
            return PhaseType.from_config(spec)
        except (ValueError, ArithmeticError) as error:
            raise ConfigError(f"service.phase_type.{error}") from None

    @property
    def shortest_run(self) -> float:
        """The horizon, or where it is automatic the least that it will be."""
        if isinstance(self.horizon, str):
            return 5 * (1 + self.measured) * self.relaxation_time
        return self.horizon

    def seconds(self, time: float) -> float:
        """CPU time of a replication that is so long, to within a factor of some three.

        8 ns per arrival in blocks, less from 10^4 servers on; 60 ns per arrival and phase event by event, as in small
        systems, with phases, where waits in one queue are observed, or servers turn on and off within a service.
        """
        arrivals = self.arrival.maximum() * time
        watched = self.waits is not None and not self.row.distributed
        quick = any(key in self.row.takes and (getattr(self, key) or 0) > 10 for key in ("standby_rate", "setup_rate"))
        if watched or quick or self.servers < 100 or not self.phase_type.is_exponential:
            return 6e-8 * self.servers * arrivals * sum(self.phase_type.visits())
        return 8e-9 * min(self.servers, 1e4 * (self.servers / 1e4) ** 0.6) * arrivals

    def check_events(self, length: float | None = None) -> None:
        """Raise ConfigError where its replications take longer than anybody would wait for.

        length : of a replication, if it is known better than from the keys.
        """
        time = length or self.shortest_run
        name = "5 (1 + measured) (1 + 1/mu + 1/nu)" if isinstance(self.horizon, str) else "horizon"
        events = self.servers * self.arrival.maximum() * time * self.replications * sum(self.phase_type.visits())
        if events > MAX_EVENTS:
            raise ConfigError(
                f"servers = {self.servers}: servers * arrival_rate * {name} * replications * phases of a "
                f"service is {events:.3g} events: must be at most {MAX_EVENTS:g}"
            )
        longest = max(("servers", "replications"), key=lambda key: getattr(self, key))
        key, value = ("horizon", self.horizon) if time >= getattr(self, longest) else (longest, getattr(self, longest))
        check_hours(f"{key} = {value}", self.replications * self.seconds(time), self.max_cpu_hours)

    @property
    def relaxation_time(self) -> float:
        """t0 = 1 + 1/mu + 1/nu, the yardstick of warm-up and batch lengths, over the clocks that the model has."""
        time = 1.0
        takes = self.row.takes
        if "standby_rate" in takes and self.standby_rate:
            time += 1 / self.standby_rate
        if "setup_rate" in takes and self.setup_rate:
            time += 1 / self.setup_rate
        return time

    def stream_keys(self) -> dict[str, Any]:
        """What determines the distribution of the sample path, in canonical form (keys without effect are left out)."""
        arrival = self.arrival
        keys: dict[str, Any] = {
            "model": self.name,
            "servers": self.servers,
            "arrival": [arrival.times, arrival.rates],
            "start": self.start,
            "horizon": self.horizon,
            "warm_up": self.warm_up,
        }
        if self.horizon == "auto":
            keys["measured"] = self.measured
        if arrival.amplitude:
            keys["sinusoid"] = [arrival.amplitude, arrival.period]
        takes = self.row.takes
        if "standby_rate" in takes:
            keys["standby_rate"] = self.standby_rate
        if "setup_rate" in takes:
            keys["setup_rate"] = self.setup_rate
            keys["aborts"] = self.aborts
            keys["staggered"] = self.staggered
        if "buffer" in takes:
            keys["buffer"] = self.buffer
        keys |= self.own_keys()
        if not self.phase_type.is_exponential:
            service = self.phase_type
            keys["service"] = [list(service.initial), list(service.rates), [list(row) for row in service.routing]]
        return keys

    @property
    def name(self) -> str:
        """The model's name; of a file of the user's that of the file."""
        return Path(self.model).stem if is_file(self.model) else self.model

    def own_keys(self) -> dict[str, Any]:
        """Keys that only this model has, a policy of the user's."""
        return {key: getattr(self, key) for key in type(self).model_fields if key not in ServiceScenario.model_fields}

    def digest(self) -> str:
        """Digest of `stream_keys`, the spawn key of the scenario's random streams."""
        return digest(self.stream_keys())

    def describe(self) -> dict[str, Any]:
        """The scenario in scalar columns of a tidy table; empty where a key has no effect."""
        arrival, keys = self.arrival, self.stream_keys()
        return {
            "model": self.name,
            "servers": self.servers,
            "arrival_rate": arrival.mean(),
            "amplitude": arrival.amplitude,
            "standby_rate": keys.get("standby_rate"),
            "setup_rate": keys.get("setup_rate"),
            "abort_setups": keys.get("aborts"),
            "buffer": keys.get("buffer"),
            "service": self.service if isinstance(self.service, str) else str(self.service),
            "start": self.start,
            **{key: _scalar(value) for key, value in self.own_keys().items()},
        }


def _scalar(value: Any) -> Any:
    """A value for the cell of a table: a list or mapping as text."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def check_pair(pair: Sequence[Any]) -> None:
    """Raise ConfigError where two scenarios cannot be compared on common clocks."""
    for scenario in pair:
        if not isinstance(scenario, ServiceScenario):
            raise ConfigError(f"model = {scenario.model}: only systems in continuous time can be compared")
        if scenario.precision is not None:
            raise ConfigError("precision: is for `elastiqueue simulate`; must be null where two scenarios are compared")
        if scenario.control_variates:
            raise ConfigError("control_variates = True: must be false where two scenarios are compared")
    for key in ("horizon", "warm_up", "replications", "measured", "seed"):
        one, other = (getattr(scenario, key) for scenario in pair)
        if one != other:
            raise ConfigError(f"{key} = {other}: must be that of the other scenario, {one}, where two are compared")
    for scenario in pair:
        scenario.check_events()
