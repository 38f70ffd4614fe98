"""Compile the package once, so that the jobs that follow find code: `python -m elastiqueue.workflow.precompile`.

Kernels are compiled when they are first called and kept on disk (`elastiqueue.sources`). Jobs that start together on an
empty cache would each compile the same; the set-up of the environment runs this instead. It writes the byte code of the
package too, which each of a hundred short jobs would else make anew where PYTHONDONTWRITEBYTECODE is set.
"""

from __future__ import annotations

import compileall
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from elastiqueue.engines.exact import exact
from elastiqueue.engines.fluid import fluid_path
from elastiqueue.engines.simulation import simulate, window
from elastiqueue.results.provenance import usable_cores
from elastiqueue.scenarios.reading import ServiceScenario, scenario_from
from elastiqueue.sources import PACKAGE
from elastiqueue.theory.tabs_stability import simulated_drift

SERVICE: dict[str, Any] = {"servers": 3, "arrival_rate": 0.4, "standby_rate": 1.0, "setup_rate": 1.0, "buffer": 4}
VARYING = {"mean": 0.3, "amplitude": 0.1, "period": 5.0}
MACHINES = [[15, 8, 1690], [17.1, 6.5, 420], [7, 20, 1690]]
SLOTTED: dict[str, Any] = {"slots": 10, "warm_up": 5, "replications": 2}
# What one process compiles; the longest first. Those of a group share kernels.
GROUPS: list[list[dict[str, Any]]] = [
    *(
        [{**SLOTTED, "model": "cluster", **servers, "job_types": MACHINES,
          "arrivals": {"law": "poisson", "mean": [0.1, 0.1, 0.1]}}]
        for servers in (
            {"servers": 2, "resources": [30, 30, 4000]},
            {"classes": [{"count": 1, "resources": [60, 60, 8000]}, {"count": 1, "resources": [20, 20, 2000]}]},
        )
    ),
    *(
        [
            {**SERVICE, "model": model, "horizon": 2.0, "replications": 2, "arrival_rate": rate, "service": service}
            for rate in (0.4, VARYING)
        ]
        for model in ("tabs", "delayed_off")
        for service in ("exponential", {"erlang": 4})
    ),
    *(  # the generic simulators: event by event, and in blocks
        [{**SERVICE, **keys, "horizon": 0.1, "replications": 2, "servers": servers} for servers in (1, 2000)]
        for keys in (
            {"model": "tabs", "abort_setups": True},
            {"model": "delayed_off", "service": {"erlang": 4}, "arrival_rate": VARYING},
        )
    ),
    [{**SLOTTED, "model": "single_type", "servers": 2, "arrivals": {"law": "poisson", "mean": 0.5}}],
]  # fmt: skip


def simulators(group: Sequence[dict[str, Any]]) -> None:
    """Simulate each scenario for a moment."""
    for values in group:
        simulate(scenario_from(values), 0, 1)


def others() -> None:
    """Run the other engines for a moment."""
    steady = {**SERVICE, "model": "tabs", "horizon": "auto", "warm_up": "auto"}
    window(ServiceScenario.model_validate(steady))
    exact(ServiceScenario.model_validate(steady))
    for service in ("exponential", {"erlang": 2}):
        for rate in (0.4, VARYING):
            values = {**SERVICE, "model": "tabs", "arrival_rate": rate, "service": service, "horizon": 5.0}
            for start in ("fixed_point", "all_idle_on"):
                fluid_path(ServiceScenario.model_validate({**values, "start": start}))
    simulated_drift(3, 0.5, 1.0, 1.0, 1, max_events=1000, min_events=100)


def main() -> None:
    """Compile in as many processes as there are cores, at most one per task."""
    compileall.compile_dir(PACKAGE, quiet=1)
    with ProcessPoolExecutor(min(usable_cores(), len(GROUPS) + 1), get_context("spawn")) as pool:
        for done in [pool.submit(others), *(pool.submit(simulators, group) for group in GROUPS)]:
            done.result()
    for group in GROUPS:  # loads them, and compiles again what is lost where two processes wrote at the same moment
        simulators(group)


if __name__ == "__main__":
    main()
