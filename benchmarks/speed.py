"""Speed of the simulators and of the fluid engine: CPU time per event, and ratios that do not depend on the machine.

    python benchmarks/speed.py [--runs 7]

Every number is the median over the runs; the things compared take turns, so that a busy machine slows them alike. Times
are CPU times of this process after compilation, and "event" is a real event of the system (arrival, completed phase,
server turned off, completed setup), not a draw.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit

from elastiqueue.models.cluster.simulator import Cluster
from elastiqueue.models.registry import model_of
from elastiqueue.models.slotted import parameters
from elastiqueue.sampling.arrival_rate import ArrivalRate
from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.sampling.rng import uniform
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.theory import fluid_limit as fluid

SETTING = {"model": "tabs", "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "buffer": 20, "horizon": 250}
SERVERS = (100, 1_000, 10_000, 100_000, 10**6, 10**7, 10**8)
SINE = {"mean": 0.3, "amplitude": 0.2, "period": 125.66}
LAWS = {
    "hyperexponential, scv 4 (two phases)": {"hyperexponential": 4},
    "Coxian, scv 4 (two phases)": {"coxian": 4},
    "Erlang-4 (four phases)": {"erlang": 4},
}
_FOLDER = Path(__file__).resolve().parent.parent / "config" / "examples" / "policies"
POLICIES = {
    name: {"model": str(_FOLDER / f"{name}.py"), **keys}
    for name, keys in (("tabs_threshold", {"level": 0.6}), ("tabs_shortest_of_d", {"choices": 2}))
}
CLUSTER = {
    "model": "cluster", "servers": 100, "resources": [30, 30, 4000], "routing": "jsq", "scheduling": "maxweight",
    "job_types": [[15, 8, 1690], [17.1, 6.5, 420], [7, 20, 1690]], "slots": 1, "warm_up": 0,
    "arrivals": {"law": "binomial", "trials": 100, "load": 0.9, "direction": [1, 1 / 3, 2 / 3]},
    "job_sizes": {"uniform": [[1, 50, 0.7], [251, 300, 0.15], [451, 500, 0.15]]},
}  # fmt: skip
WARM, SLOTS = 50_000, 20_000


def cpu(work: Callable[[], float]) -> float:
    """CPU seconds per unit of what `work` says it has done."""
    start = time.process_time()
    done = work()
    return (time.process_time() - start) / done


def medians(works: dict[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """Median CPU seconds per unit of each, in turns, after one run of each that compiles it."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            times[name].append(cpu(work))
    return {name: statistics.median(values) for name, values in times.items()}


def replication(servers: int, **keys: object) -> Callable[[], float]:
    """One replication, longer than that of the setting where the system is small; gives the number of its events."""
    scenario = scenario_from({**SETTING, "servers": servers, **keys})
    model = model_of(scenario)
    horizon = 250.0 * max(1, 10_000 // servers)

    def work() -> float:
        totals = model.simulate(scenario, stream(1, scenario.digest(), 0), (0.0, horizon), np.empty(0)).totals[0]
        return model.events(dict(zip(model.columns(scenario), totals, strict=True)))

    return work


@njit(cache=False)
def _draws(words, count):
    total = 0.0
    for _ in range(count):
        total += uniform(words)
    return total


def draws() -> float:
    _draws(stream(1, "0", 0), 5_000_000)
    return 5e6


def line(name: str, value: float, unit: str, **ratios: float) -> None:
    told = "".join(f"{ratio:>9.2f} x {to.replace('_', ' ')}" for to, ratio in ratios.items())
    print(f"{name:<58}{value:>9.2f} {unit:<13}{told}")


def tabs(runs: int) -> None:
    works = {"one random number": draws}
    works |= {f"TABS, exponential, N = {n}": replication(n) for n in SERVERS}
    works |= {f"TABS, sinusoidal rate, N = {n}": replication(n, arrival_rate=SINE) for n in SERVERS[:5]}
    queue = {"model": "delayed_off", "buffer": None}
    works |= {f"delayed-off, N = {n}": replication(n, **queue) for n in SERVERS[:5]}
    for law, service in LAWS.items():
        works |= {f"TABS, {law}, N = {n}": replication(n, service=service) for n in (10_000, 100_000)}
    for name, keys in POLICIES.items():  # by the simulators that are derived from a definition
        works[f"policy {name}, N = 1000"] = replication(1000, **keys)
    found = medians(works, runs)
    for name, seconds in found.items():
        ratios = {"one_random_number": seconds / found["one random number"]}
        if not name.startswith(("one", "policy", "TABS, exponential")):
            ratios["exponential"] = seconds / found[f"TABS, exponential, N = {name.rpartition('= ')[2]}"]
        line(name, 1e9 * seconds, "ns per event", **ratios)
    times = [found[f"TABS, exponential, N = {n}"] * n for n in SERVERS[3:]]
    exponent = np.polyfit(np.log(SERVERS[3:]), np.log(times), 1)[0]
    print(f"Time of a path grows as N^{exponent:.2f} from N = {SERVERS[3]} to {SERVERS[-1]}")


def fluid_path(runs: int) -> None:
    law, times = PhaseType.exponential(), np.linspace(0.0, 250.0, 251)
    start = fluid.FluidState(np.array([[0.2], [0.1]]), 0.5, 0.1)
    wave = ArrivalRate((0.0,), (0.3,), 0.2, 40 * math.pi)

    def solve(arrival: float | ArrivalRate) -> Callable[[], float]:
        def work() -> float:
            for _ in range(10):
                fluid.trajectory(arrival, 0.1, 0.1, 10, law, start, times)
            return 10.0

        return work

    found = medians({"fluid path, constant rate": solve(0.3), "fluid path, sinusoidal rate": solve(wave)}, runs)
    for name, seconds in found.items():
        line(name, 1e3 * seconds, "ms")


def cluster(runs: int) -> None:
    """In steady state: systems that have run for WARM slots."""

    def slots(level: str) -> Callable[[], float]:
        scenario = scenario_from({**CLUSTER, "level": level})
        system = Cluster(parameters(scenario), stream(1, scenario.digest(), 0))
        system.advance(WARM)

        def work() -> float:
            system.advance(SLOTS)
            return SLOTS

        return work

    works = {"one random number": draws} | {level: slots(level) for level in ("workload", "job")}
    found = medians(works, 3 * runs)
    for level in ("workload", "job"):
        random, workload = found[level] / found["one random number"], found[level] / found["workload"]
        name = f"cluster, {level} level, 100 servers, load 0.9"
        line(name, 1e9 * found[level], "ns per slot", one_random_number=random, workload_level=workload)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=7, help="runs per number; the median is printed")
    runs = parser.parse_args().runs
    tabs(runs)
    fluid_path(runs)
    cluster(runs)


if __name__ == "__main__":
    main()
