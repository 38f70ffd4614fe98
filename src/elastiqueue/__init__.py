"""Elasticity and load balancing in clouds: simulators, exact solvers, fluid limits and the papers' experiments.

The Python interface: `scenario` or `read` make a scenario, `simulate`, `exact`, `fluid`, `stability` and `capacity`
answer with a `Result`, `compare` sets two beside each other, `plan` looks for the cheapest, `sweep` runs a grid on all
cores. It is loaded at first use (PEP 562): importing the package costs neither numpy nor numba.

>>> import elastiqueue as eq
>>> small = eq.scenario(model="tabs", servers=2, arrival_rate=0.3, standby_rate=0.1, setup_rate=0.1, buffer=5)
>>> print(eq.exact(small).metric("mean_wait"))
0.664793
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elastiqueue.sampling.kernel_cache import use_kernel_cache

if TYPE_CHECKING:
    from elastiqueue.api.compare import compare as compare
    from elastiqueue.api.plan import plan as plan
    from elastiqueue.api.result import Result as Result
    from elastiqueue.api.solve import capacity as capacity
    from elastiqueue.api.solve import exact as exact
    from elastiqueue.api.solve import fluid as fluid
    from elastiqueue.api.solve import read as read
    from elastiqueue.api.solve import scenario as scenario
    from elastiqueue.api.solve import simulate as simulate
    from elastiqueue.api.solve import stability as stability
    from elastiqueue.api.sweep import sweep as sweep
    from elastiqueue.errors import ConfigError as ConfigError

__version__ = "0.2.0"

_INTERFACE = {
    "ConfigError": "errors", "Result": "api.result", "compare": "api.compare", "plan": "api.plan", "sweep": "api.sweep",
    **dict.fromkeys(("capacity", "exact", "fluid", "read", "scenario", "simulate", "stability"), "api.solve"),
}  # fmt: skip

use_kernel_cache()


def __getattr__(name: str) -> Any:
    if name not in _INTERFACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_INTERFACE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_INTERFACE})
