"""The models: one row of facts for each, from which everything else that depends on a model's name is derived.

Modules are named, not imported: reading a configuration must not take the time that numpy and numba need, and the
sources of one model must not include those of another. A model may also be a Python file of the user's
(CONTRIBUTING.md, "A policy of your own").
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from elastiqueue.errors import ConfigError, printable

SERVICE = "elastiqueue.scenarios.autoscaling:ServiceScenario"
SLOTTED = "elastiqueue.models.slotted"
FLUID = ("fluid", "fluid_stability")
EXACT = ("simulate", "compare", "exact", "coverage")


@dataclass(frozen=True)
class Model:
    """What is to be known of a model.

    Attributes
    ----------
    title : in words.
    scenario : its class of scenarios, "module:class".
    engines : values of the key `engine` that serve it.
    module : its definition (`models.definitions`); of a slotted system the module with the same functions.
    kernels : modules with accelerated simulators, each with `applies(scenario)`, which says where, and `Kernel`.
    takes, needs : the keys standby_rate, setup_rate, abort_setups, staggered, buffer that have an effect; those without
        a default.
    aborts : the default of abort_setups.
    loses : whether tasks are lost where they are too many, so that any load is allowed.
    metrics : those of a slotted system, name[i] for one with an index; a definition says which itself.
    """

    title: str
    scenario: str
    engines: tuple[str, ...]
    module: str
    kernels: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    aborts: bool = False
    loses: bool = False
    metrics: tuple[str, ...] = ()

    @property
    def continuous(self) -> bool:
        """Whether it is a definition in continuous time, not a slotted system."""
        return self.module != SLOTTED

    @property
    def distributed(self) -> bool:
        """Whether it is TABS or JIQ, for which there is a fluid limit and a theory of stability."""
        return self.module == f"{_TABS}.definition"

    @property
    def turns_on(self) -> bool:
        """Whether a server that is off may be turned on."""
        return "setup_rate" in self.takes


_TABS = "elastiqueue.models.tabs"
_CENTRAL = "elastiqueue.models.central_queue"
_TABS_KERNELS = (f"{_TABS}.exponential", f"{_TABS}.phase_type")
_CENTRAL_KERNELS = (f"{_CENTRAL}.exponential",)
_SLOTTED_METRICS = (
    "total_backlog", "weighted_backlog", "parallel_sq", "perpendicular_sq", "growth", "warm_up_test",
)  # fmt: skip
MODELS = {
    "tabs": Model(
        "token-based auto-scaling", SERVICE, (*EXACT, *FLUID, "stability", "stability_map"),
        f"{_TABS}.definition", _TABS_KERNELS, ("standby_rate", "setup_rate", "abort_setups", "buffer"),
        ("standby_rate", "setup_rate"),
    ),
    "jiq": Model(
        "join the idle queue, all servers on", SERVICE, (*EXACT, *FLUID, "stability"),
        f"{_TABS}.definition", _TABS_KERNELS, ("buffer",),
    ),
    "delayed_off": Model(
        "one central queue, M/M/N/setup/delayedoff", SERVICE, (*EXACT, "stability"),
        f"{_CENTRAL}.definition", _CENTRAL_KERNELS, ("standby_rate", "setup_rate", "abort_setups", "staggered"),
        ("standby_rate", "setup_rate"), aborts=True,
    ),
    "setup": Model(
        "one central queue, M/M/N/setup", SERVICE, (*EXACT, "stability"),
        f"{_CENTRAL}.definition", _CENTRAL_KERNELS, ("setup_rate", "abort_setups", "staggered"), ("setup_rate",),
        aborts=True,
    ),
    "always_on": Model(
        "one central queue, M/M/N", SERVICE, (*EXACT, "stability"),
        f"{_CENTRAL}.definition", _CENTRAL_KERNELS,
    ),
    "cluster": Model(
        "job types that share servers of several resources, in slots", "elastiqueue.scenarios.cluster:ClusterScenario",
        ("simulate", "stability", "capacity", "bounds"), SLOTTED,
        metrics=(*_SLOTTED_METRICS, "mean_response", "backlog_by_type[i]"),
    ),
    "single_type": Model(
        "jobs of one type, in slots", "elastiqueue.scenarios.cluster:SingleTypeScenario",
        ("simulate", "stability", "bounds"), SLOTTED,
        metrics=(*_SLOTTED_METRICS, "pooled_backlog", "excess_backlog", "unused_service"),
    ),
}  # fmt: skip


def is_file(model: str) -> bool:
    """Whether the model is a Python file of the user's."""
    return model.endswith(".py")


def row(model: object) -> Model:
    """The row of a model by its name or its file; raises ConfigError where there is none."""
    if isinstance(model, str) and model in MODELS:
        return MODELS[model]
    if isinstance(model, str) and is_file(model):
        policy = load(model)
        takes = tuple(getattr(policy, "TAKES", ()))
        return Model(
            (policy.__doc__ or model).splitlines()[0], f"{model}:Scenario", ("simulate", "compare", "exact"), model, (),
            takes,
            tuple(key for key in takes if key in ("standby_rate", "setup_rate")),
            loses=bool(getattr(policy, "LOSES", False)),
        )  # fmt: skip
    raise ConfigError(f"model = {model!r}: must be one of {', '.join(MODELS)}, or the path of a Python file (.py)")


def row_of(scenario: Any) -> Model:
    """The row of a scenario's model."""
    return row(scenario.model)


def scenario_class(model: object) -> Any:
    """The class of the scenarios of a model."""
    module, name = row(model).scenario.rsplit(":", 1)
    return getattr(load(module), name)


def load(name: str) -> ModuleType:
    """A module by its name, or by the path of its file; raises ConfigError with one line for a file with a mistake."""
    if not is_file(name):
        return importlib.import_module(name)
    path = Path(name).absolute()
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConfigError(f"model = {name}: {getattr(error, 'strerror', None) or error}") from None
    return _load_file(path, hashlib.sha256(content).hexdigest()[:16])


NEEDED = (
    "Scenario", "COUNTS", "EVENTS", "parameters", "kinds", "initial", "rates", "happen", "integrals", "observed",
    "path", "metrics",
)  # fmt: skip
OPTIONAL = ("KINDS", "level_size", "least_states", "least_level")


@cache
def _load_file(path: Path, content: str) -> ModuleType:
    title = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{content}"
    spec = importlib.util.spec_from_file_location(title, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[title] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[title]
        raise ConfigError(f"model = {path}: {type(error).__name__}: {printable(error)}") from None
    base = getattr(module, "BASE", None)  # another definition, which has what this one leaves out
    for name in NEEDED + OPTIONAL:
        if not hasattr(module, name) and hasattr(base, name):
            setattr(module, name, getattr(base, name))
    if base is not None and hasattr(base, "more_counts") and module.COUNTS is base.COUNTS:  # they follow those
        setattr(module, "more_counts", base.more_counts)  # noqa: B010
    missing = [name for name in NEEDED if not hasattr(module, name)]
    if missing:
        raise ConfigError(f"model = {path}: must define {', '.join(missing)} (CONTRIBUTING.md)")
    return module
