"""How long a run of the workflow takes on this machine: the reference record, scaled by one measured ratio.

`paper_figures/reference/machine.json` holds the CPU seconds that each experiment took for the reference results, and
what a fixed simulation, the yardstick, took on that machine. Here

    CPU = (CPU seconds of the record) * (yardstick here) / (yardstick there)

for every experiment whose scenarios are those of the record; nothing is said of others. The wall time is that of the
steps handed, longest first, to the given number of cores (Graham 1969).
"""

from __future__ import annotations

import heapq
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elastiqueue.errors import ConfigError
from elastiqueue.sampling.streams import scenarios_digest
from elastiqueue.workflow.experiments import RunConfig, chunks, specified_points

REFERENCE = Path("paper_figures/reference/machine.json")
STEP = 1.5  # CPU seconds of a step that summarises or draws: the start of an interpreter, mostly
REPETITIONS = 5
YARDSTICK = (
    {"model": "tabs", "servers": 1000, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "horizon": 1e5},
    {"model": "delayed_off", "servers": 100, "arrival_rate": 0.9, "standby_rate": 1, "setup_rate": 1, "horizon": 1e5},
    {
        "model": "cluster", "servers": 100, "configurations": [[2, 0], [1, 1], [0, 2]], "slots": 500_000,
        "arrivals": {"law": "poisson", "mean": [0.4, 0.4]}, "job_sizes": {"uniform": [[1, 200, 1.0]]},
    },
)  # fmt: skip


@dataclass(frozen=True)
class Prediction:
    """CPU seconds by experiment (None where the record has no such scenarios), and the wall seconds of all of them."""

    cpu: Mapping[str, float | None]
    wall: float
    ratio: float

    @property
    def total(self) -> float:
        """CPU seconds of all experiments that the record knows."""
        return sum(seconds or 0.0 for seconds in self.cpu.values())


def yardstick() -> float:
    """CPU seconds of a fixed simulation of three kinds of system, compiled: the median of five."""
    from elastiqueue.engines.simulation import simulate
    from elastiqueue.scenarios.reading import scenario_from

    scenarios = [scenario_from({**values, "seed": 1, "replications": 2}) for values in YARDSTICK]
    seconds = []
    for _ in range(REPETITIONS + 1):  # the first one loads the machine code
        begun = time.process_time()
        for scenario in scenarios:
            simulate(scenario, 0, 1)
        seconds.append(time.process_time() - begun)
    return statistics.median(seconds[1:])


def makespan(steps: Sequence[float], cores: int) -> float:
    """Time at which the last step ends if each core takes the longest one left."""
    ends = [0.0] * cores
    for step in sorted(steps, reverse=True):
        heapq.heapreplace(ends, ends[0] + step)
    return max(ends)


def predict(config: RunConfig, cores: int, reference: Path = REFERENCE) -> Prediction:
    """Predict the time of a run from scratch, compiled kernels given.

    Raises
    ------
    ConfigError : there is no record, or it lacks the yardstick.
    """
    try:
        record = json.loads(reference.read_text())
        ratio = yardstick() / record["yardstick_seconds"]
    except (OSError, ValueError, KeyError):
        raise ConfigError(f"{reference}: must hold the record of a reference run, with its yardstick") from None
    cpu: dict[str, float | None] = {}
    steps = [STEP * ratio] * (len(config.experiments) + len(config.figures))
    for name in config.experiments:
        points = [point for chunk in chunks(config, name) for point in specified_points(chunk.specification())]
        known = record["experiments"].get(name, {})
        if known.get("scenarios") == scenarios_digest(point.scenario.model_dump(mode="json") for point in points):
            seconds = cpu[name] = ratio * known["cpu_seconds"]
            steps += [seconds / known["jobs"]] * known["jobs"]
        else:
            cpu[name] = None
    return Prediction(cpu, makespan(steps, cores), ratio)
