"""Scenarios in discrete time: clusters under routing and MaxWeight scheduling, and routing of a single job type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from elastiqueue.sampling.streams import digest
from elastiqueue.scenarios.base import ConfigError, CpuHours, Positive, Rate, Strict
from elastiqueue.scenarios.units import SlotUnits, in_slots

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Vector = Annotated[list[Rate], Field(min_length=1)]
Amounts = Annotated[list[Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]], Field(min_length=1)]
Size = Annotated[int, Field(ge=0, le=1_000_000)]
Slots = Annotated[int, Field(ge=1)]
Routing = Literal["jsq", "power_of_two", "power_of_two_with_replacement", "power_of_d", "random"]


class Arrivals(Strict):
    """Jobs that arrive in a slot: their distribution, and one of mean, load or epsilon."""

    law: Literal["batch_bernoulli", "binomial", "poisson"] = Field(
        description="batch_bernoulli: `batch` jobs at once or none; binomial with `trials`; poisson."
    )
    mean: Vector | None = Field(None, description="Jobs per slot and type in the whole cluster.")
    load: Rate | None = Field(None, description="rho: the work per slot and type is rho * servers * direction.")
    direction: Vector | None = Field(None, description="Work per slot, type and server at load 1; goes with load.")
    epsilon: Positive | None = Field(
        None, description="Distance to the facet: the work per slot is point - epsilon c, in the whole cluster."
    )
    point: Vector | None = Field(
        None, description="Point of the facet that epsilon starts from; null: the centroid of the facet's vertices."
    )
    batch: Count | list[Count] = Field(1, description="Jobs in a batch, one number or one per type.")
    trials: Count | list[Count] = Field(
        100, description="Trials of the binomial distribution, one number or one per type."
    )

    @model_validator(mode="after")
    def _one_intensity(self) -> Arrivals:
        given = [name for name in ("mean", "load", "epsilon") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(f"arrivals: has {', '.join(given) or 'no intensity'}; must have mean, load or epsilon")
        if (self.load is None) != (self.direction is None):
            raise ConfigError("arrivals.direction: goes with load, and load with it")
        if self.point is not None and self.epsilon is None:
            raise ConfigError("arrivals.point: goes with epsilon")
        return self


class FiniteSizes(Strict):
    """A finite distribution by its values and probabilities."""

    values: list[Size] = Field(min_length=1, description="Integers; job sizes are >= 1.")
    probabilities: list[Rate] = Field(min_length=1, description="One per value; they sum to 1.")


class UniformSizes(Strict):
    """A mixture of uniform distributions."""

    uniform: list[tuple[Size, Size, Rate]] = Field(
        min_length=1, description="[[first, last, weight], ...]: uniform on first..last; the weights sum to 1."
    )


def _size_kind(value: Any) -> str | None:
    if isinstance(value, list):
        return "<list>"
    if isinstance(value, Mapping):
        return "<uniform>" if "uniform" in value else "<finite>"
    return {"FiniteSizes": "<finite>", "UniformSizes": "<uniform>"}.get(type(value).__name__)


_BY_KIND = Discriminator(
    _size_kind,
    custom_error_type="distribution",
    custom_error_message="must be {values, probabilities}, {uniform: [[first, last, weight], ...]} or a list with one "
    "of them per type",
)
Sizes = Annotated[Annotated[FiniteSizes, Tag("<finite>")] | Annotated[UniformSizes, Tag("<uniform>")], _BY_KIND]
SizesPerType = Annotated[
    Annotated[FiniteSizes, Tag("<finite>")]
    | Annotated[UniformSizes, Tag("<uniform>")]
    | Annotated[list[Sizes], Tag("<list>")],
    _BY_KIND,
]


class ClassOfServers(Strict):
    """`count` identical servers."""

    count: Count = Field(description="Number of servers of this class.")
    resources: Amounts | None = Field(None, description="Amount of each resource; goes with job_types.")
    configurations: list[list[Size]] | None = Field(
        None, description="Maximal configurations, jobs per type; instead of resources."
    )


class Slotted(Strict):
    """What scenarios in slots share."""

    units: SlotUnits | None = Field(
        None, description="{slot}: how long a slot is; times may then be texts such as 30 s."
    )
    routing: Routing = Field("jsq", description="How a slot's arrivals of a type choose their server.")
    d: Count = Field(2, description="Servers that power_of_d draws.")
    slots: Slots | Literal["auto"] = Field(
        100_000,
        description="Measured slots of each replication; auto: so many that all replications have `relaxations` "
        "relaxation times zeta / epsilon^2 together.",
    )
    warm_up: Annotated[int, Field(ge=0)] | Literal["auto"] = Field(
        1000, description="Slots before; auto: 20 relaxation times."
    )
    relaxations: Positive = Field(200.0, description="Relaxation times measured where slots is auto; at least 100.")
    replications: Annotated[int, Field(ge=2, le=1_000_000)] = Field(10, description="Independent replications.")
    max_cpu_hours: CpuHours = 24.0
    seed: Annotated[int, Field(ge=0)] = Field(1, description="Root of all random streams.")
    sample_every: Slots | None = Field(
        None, description="Slots between samples of the weighted backlog, for its distribution; null: none."
    )

    @model_validator(mode="before")
    @classmethod
    def _in_slots(cls, values: Any) -> Any:
        return in_slots(values) if isinstance(values, Mapping) else values

    @property
    def precision(self) -> None:
        """Scenarios in slots are run with a given number of replications."""
        return None

    @property
    def record_every(self) -> None:
        """They record samples, not paths."""
        return None

    def digest(self) -> str:
        """Digest of `stream_keys`, the spawn key of the scenario's random streams."""
        return digest(self.stream_keys())

    def stream_keys(self) -> dict[str, Any]:
        """What determines the distribution of the sample path: all but the number of replications, the seed and limits.

        Where lengths are automatic they depend on the number of replications, which then belongs to them.
        """
        values = self.model_dump(mode="json", exclude={"seed", "max_cpu_hours", "units"})
        if self.slots != "auto":
            del values["replications"]
        return values


class ClusterScenario(Slotted):
    """A cluster of servers with resources, jobs of several types, routing and preemptive scheduling; time in slots."""

    model: Literal["cluster"] = Field(description="cluster: paper B's model.")
    servers: Count | None = Field(None, description="Number of identical servers; or give classes.")
    resources: Amounts | None = Field(None, description="Amount of each resource of a server.")
    configurations: list[list[Size]] | None = Field(
        None, description="Maximal configurations of a server, jobs per type; instead of resources and job_types."
    )
    classes: list[ClassOfServers] | None = Field(
        None, min_length=1, description="Servers of several kinds, instead of servers."
    )
    job_types: list[Amounts] | None = Field(
        None, min_length=1, description="What one job of each type needs of each resource."
    )
    scheduling: Literal["maxweight", "best_fit"] = Field("maxweight", description="How a server chooses what to serve.")
    level: Literal["job", "workload"] = Field(
        "job", description="job: a job gets at most one unit per slot; workload: any unit of work can be served."
    )
    arrivals: Arrivals = Field(description="Distribution and intensity of the arrivals.")
    job_sizes: SizesPerType = Field(
        default_factory=lambda: FiniteSizes(values=[1], probabilities=[1.0]),
        description="Job sizes in slots: {values, probabilities}, {uniform: [[first, last, weight], ...]}, or a list "
        "with one per type.",
    )
    facet: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Facet, numbered as `elastiqueue capacity` lists them, whose normal c weights the backlog and "
        "which epsilon approaches; null: all types count alike.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> ClusterScenario:
        if (self.servers is None) == (self.classes is None):
            raise ConfigError("servers: must be given, or classes, and not both")
        kinds = self.classes if self.classes is not None else [self]
        for kind in kinds:
            if (kind.resources is None) == (kind.configurations is None):
                raise ConfigError("resources: must be given, or configurations, for each kind of server, and not both")
            if kind.resources is not None and self.job_types is None:
                raise ConfigError("job_types: is missing; resources need the needs of each type")
            if kind.configurations is not None and (not kind.configurations or not kind.configurations[0]):
                raise ConfigError("configurations = []: must have at least one, with one number per type")
        for size in self.job_sizes if isinstance(self.job_sizes, list) else [self.job_sizes]:
            smallest = min(size.values if isinstance(size, FiniteSizes) else [first for first, _, _ in size.uniform])
            if smallest < 1:
                raise ConfigError(f"job_sizes = {smallest}: must be >= 1 slot")
        if self.arrivals.epsilon is not None and self.facet is None:
            raise ConfigError("facet: is missing; arrivals.epsilon is a distance to a facet")
        if (self.slots == "auto" or self.warm_up == "auto") and self.facet is None:
            raise ConfigError("facet: is missing; slots = auto goes by the distance to a facet")
        return self

    @property
    def count(self) -> int:
        """Number of servers."""
        return self.servers if self.servers is not None else sum(kind.count for kind in self.classes or [])

    @property
    def types(self) -> int:
        """Number of job types."""
        if self.job_types is not None:
            return len(self.job_types)
        kinds = self.classes if self.classes is not None else [self]
        return max(len(kind.configurations[0]) for kind in kinds if kind.configurations)

    def describe(self) -> dict[str, Any]:
        """The scenario in scalar columns of a tidy table."""
        return {
            "model": self.model,
            "servers": self.count,
            "routing": self.routing,
            "scheduling": self.scheduling,
            "level": self.level,
            "law": self.arrivals.law,
            "load": self.arrivals.load,
            "facet": self.facet,
            "epsilon": self.arrivals.epsilon,
        }


class SingleTypeArrivals(Strict):
    """Work that arrives in a slot: its distribution, and one of mean, load or epsilon."""

    law: Literal["batch_bernoulli", "binomial", "poisson"] = Field(description="As for a cluster.")
    mean: Rate | None = Field(None, description="Work per slot.")
    load: Rate | None = Field(None, description="Work per slot over the mean service of all servers.")
    epsilon: Positive | None = Field(None, description="Mean service of all servers less the work per slot.")
    batch: Count = Field(1, description="Size of a batch.")
    trials: Count | None = Field(None, description="Trials of the binomial distribution; null: two per server.")

    @model_validator(mode="after")
    def _one_intensity(self) -> SingleTypeArrivals:
        given = [name for name in ("mean", "load", "epsilon") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(f"arrivals: has {', '.join(given) or 'no intensity'}; must have mean, load or epsilon")
        return self


class SingleTypeScenario(Slotted):
    """Identical servers, one job type, routing only (paper B, Section IV); time in slots."""

    model: Literal["single_type"] = Field(description="single_type: routing without scheduling.")
    servers: Count = Field(description="Number of identical servers.")
    arrivals: SingleTypeArrivals = Field(description="Distribution and intensity of the arriving work.")
    service: FiniteSizes = Field(
        default_factory=lambda: FiniteSizes(values=[1], probabilities=[1.0]),
        description="Distribution of the work that one server can do in a slot.",
    )

    @model_validator(mode="after")
    def _serves(self) -> SingleTypeScenario:
        if not any(self.service.values):
            raise ConfigError(f"service.values = {self.service.values}: must hold one > 0")
        return self

    def describe(self) -> dict[str, Any]:
        """The scenario in scalar columns of a tidy table."""
        return {
            "model": self.model,
            "servers": self.servers,
            "routing": self.routing,
            "law": self.arrivals.law,
            "load": self.arrivals.load,
            "epsilon": self.arrivals.epsilon,
        }
