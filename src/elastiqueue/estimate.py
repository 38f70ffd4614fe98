"""How long the workflow would take on this machine, from a calibration of some twenty seconds.

    CPU = sum over replications  T c(scenario) + sum over pilots  T' c(scenario) + jobs * start-up

c(scenario), CPU seconds per unit of simulated time, is measured by simulating every scenario for a few milliseconds: it
depends on the number of events per unit of time and on the speed of the kernel, which both depend on everything in the
scenario. The window T of a steady-state scenario is what its pilot run gave, if the run has it already; otherwise that
of the same scenario with at most 300 servers, whose pilot is run here (the relaxation time hardly depends on N).
Start-up is that of real jobs: an interpreter with the compiled kernels, one that draws. What is computed
without chance is taken from the reference results, where they hold the same scenarios, times the quotient of the two
machines' times for what is simulated. The wall time is that of the jobs handed, longest first, to the given number of
cores (Graham 1969).
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastiqueue.experiments import RunConfig, blocks, chunks, load, scenarios_digest, specified_points

CALIBRATION = 10.0  # seconds of simulation
ALL_OFF = 0.4  # seconds
LARGEST_PILOT = 300  # servers; with 100 the windows at load 0.9 come out a third too long
COMPILED = 5.0  # CPU seconds above which the start of a job must have compiled kernels
REFERENCE = Path("paper_figures/reference/machine.json")
SCHEDULING = 0.1  # seconds that the workflow engine itself spends per job


@dataclass
class Part:
    """Predicted CPU seconds of each job of an experiment."""

    experiment: str
    pilots: list[float] = field(default_factory=list)
    blocks: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # summaries, computed tables, data, figures

    @property
    def cpu(self) -> float:
        return sum(self.pilots) + sum(self.blocks) + sum(self.others)


@dataclass
class Prediction:
    """CPU seconds of all jobs, wall seconds on a number of cores."""

    parts: list[Part]
    cores: int
    calibration: float  # seconds that the calibration took
    starting: float = 0.0  # CPU seconds of a simulation job's start

    @property
    def jobs(self) -> list[float]:
        return [job for part in self.parts for job in (*part.pilots, *part.blocks, *part.others)]

    @property
    def cpu(self) -> float:
        return sum(self.jobs)

    @property
    def wall(self) -> float:
        return makespan(self.jobs, self.cores) + SCHEDULING * len(self.jobs)


def makespan(jobs: Sequence[float], cores: int) -> float:
    """Time at which the last job ends if each core takes the longest job left."""
    ends = [0.0] * cores
    for job in sorted(jobs, reverse=True):
        heapq.heapreplace(ends, ends[0] + job)
    return max(ends)


def cost(scenario: Any, budget: float) -> float:
    """CPU seconds per unit of simulated time (slot): the scenario is simulated for about `budget` seconds.

    Whole replications where the budget allows, else a stretch. What follows a start with all servers off is far slower
    than the rest: there the budget is at least ALL_OFF, and where it does not suffice the rest is measured.
    """
    from elastiqueue.models.registry import model_of
    from elastiqueue.seeding import stream

    simulate = model_of(scenario).simulate
    if getattr(scenario, "start", None) == "all_off":
        budget = max(budget, ALL_OFF)

    def seconds(length: float, index: int) -> float:
        words, grid = stream(0, scenario.digest(), index), _grid(scenario, length)
        begun = time.process_time()
        simulate(scenario, words, 0.0, length, grid)
        return time.process_time() - begun

    whole = getattr(scenario, "horizon", None)
    whole = whole if isinstance(whole, float) else math.inf
    length = min(whole, max(1.0, 30.0 / (scenario.servers or 30)))  # something happens; a cluster may have classes
    seconds(length, 0)  # compiles, or loads
    while True:
        spent, runs = seconds(length, 1), 1
        if length == whole:
            while spent < budget / 2:
                runs += 1
                spent += seconds(length, runs)
        elif spent >= budget / 2 and getattr(scenario, "start", None) == "all_off":
            scenario = scenario.model_copy(update={"start": "fixed_point"})
            continue
        if spent >= budget / 2 or length >= 1e9:
            return spent / (runs * length)
        # The first stretch from the fixed point, without idle servers, is slower: a long run outweighs it.
        length = min(whole, length * (2 if spent > budget / 8 else 4))


def _grid(scenario: Any, length: float) -> Any:
    """Times below `length` at which the scenario records its state."""
    import numpy as np

    spacing = getattr(scenario, "record_every", None)
    return np.arange(0.0, length, spacing) if spacing else np.empty(0)


def start_up() -> tuple[float, float]:
    """CPU seconds of a simulation job in which there is next to nothing to do, and of one that draws a diagram."""
    tiny = {
        "model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 1, "setup_rate": 1, "horizon": 1.0
    }  # fmt: skip
    specification = json.dumps({"settings": [tiny], "sources": ""})

    def seconds(step: Sequence[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "elastiqueue.steps", *step], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        block = ["block", "--spec", specification, "--first", "0", "--last", "2"]
        block += ["--output", f"{folder}/a.npz", "--provenance", f"{folder}/a.json"]
        starting = seconds(block)
        if starting > COMPILED:
            starting = seconds(block)
        return starting, seconds(
            ["diagram", "--figure", "protocol", "--pdf", f"{folder}/a.pdf", "--png", f"{folder}/a.png"]
        )


def estimate(config: RunConfig, cores: int, budget: float = CALIBRATION) -> Prediction:
    """Predict the time of a run from scratch.

    Parameters
    ----------
    config : the run.
    cores : number of cores that the workflow engine is given.
    budget : seconds of calibration; compiling the kernels, once per machine, is not in it.
    """
    begun = time.perf_counter()
    starting, drawing = start_up()
    known = Path("results") / config.run / "pilots"
    simulated = [name for name, one in config.experiments.items() if one.engine == "simulate"]
    scenarios = {
        point.scenario.digest(): point.scenario
        for name in simulated
        for chunk in chunks(config, name)
        for point in specified_points(chunk.specification())
    }
    each = min(0.1, 0.4 * budget / max(1, len(scenarios)))
    costs = {digest: cost(scenario, each) for digest, scenario in scenarios.items()}
    windows: dict[str, Any] = {}
    parts = []
    for name, experiment in config.experiments.items():
        part = Part(name)
        parts.append(part)
        for chunk in chunks(config, name):
            if experiment.engine != "simulate":
                continue
            points = [point.scenario for point in specified_points(chunk.specification())]
            spans = _windows(points, known / name / f"{chunk.name}.json", windows)
            if chunk.steady:
                pilot = sum(costs[one.digest()] * span.pilot for one, span in zip(points, spans, strict=True))
                part.pilots.append(starting + pilot)
            one_replication = sum(costs[one.digest()] * span.horizon for one, span in zip(points, spans, strict=True))
            for first, last in blocks(chunk.replications, experiment.block):
                part.blocks.append(starting + (last - first) * one_replication)
        part.others.append(starting)
    _add_computed(config, parts, starting)
    drawn = Part("figures", others=[drawing] * len(config.figures))
    return Prediction([*parts, drawn], cores, time.perf_counter() - begun, starting)


def _add_computed(config: RunConfig, parts: Sequence[Part], starting: float) -> None:
    """Add to experiments without chance what they took for the reference results, scaled to this machine."""
    if not REFERENCE.exists():
        return
    known, same = json.loads(REFERENCE.read_text())["experiments"], {}
    for part in parts:
        specifications = [chunk.specification() for chunk in chunks(config, part.experiment)]
        points = [point for text in specifications for point in specified_points(text)]
        found = scenarios_digest(point.scenario.model_dump(mode="json") for point in points)
        record = known.get(part.experiment, {})
        if record.get("scenarios") == found:
            same[part.experiment] = (part, record["cpu_seconds"])
    here = there = 0.0
    for part, seconds in same.values():
        if part.blocks:
            here += part.cpu - part.others[0] - starting * (len(part.pilots) + len(part.blocks))
            there += seconds
    for part, seconds in same.values():
        if not part.blocks:
            part.others[0] += seconds * (here / there if there else 1.0)


def _windows(points: Sequence[Any], pilots: Path, windows: dict[str, Any]) -> list[Any]:
    """Window of each scenario of a chunk: from its pilot runs if they are there, else from those of smaller systems."""
    from elastiqueue.engines.simulation import window
    from elastiqueue.jobs import read_windows

    if pilots.exists():
        return read_windows(pilots)
    spans = []
    for scenario in points:
        if getattr(scenario, "horizon", None) == "auto" and scenario.servers > LARGEST_PILOT:
            scenario = scenario.model_copy(update={"servers": LARGEST_PILOT})
        digest = scenario.digest()
        if digest not in windows:
            windows[digest] = window(scenario)
        spans.append(windows[digest])
    return spans


# ---- The command -----------------------------------------------------------------------------------------------------


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `elastiqueue estimate`."""
    text = "predict how long the workflow takes on this machine"
    one = commands.add_parser("estimate", help=text, description=text)
    one.add_argument("--configfile", nargs="+", default=[], metavar="FILE", help="set on top of config/config.yaml")
    one.add_argument("--cores", type=int, default=os.cpu_count() or 1, metavar="N", help="default: all of them")
    one.add_argument("--json", metavar="FILE", help="write the prediction as JSON")
    one.set_defaults(command=command)


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """One configuration on top of another, mapping by mapping, as the workflow engine does it."""
    result = dict(values)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def command(options: argparse.Namespace) -> None:
    """Print the prediction per experiment and in all."""
    from elastiqueue.cli import check_json
    from elastiqueue.config import ConfigError, read_yaml
    from elastiqueue.provenance import cpu_model
    from elastiqueue.results import write_json

    if not 1 <= options.cores <= 1_000_000:
        raise ConfigError(f"--cores = {options.cores}: must be from 1 to 1,000,000")
    if options.json == "-":
        raise ConfigError("--json = -: must be a file")
    check_json(options.json)
    values = read_yaml("config/config.yaml")
    for path in options.configfile:
        values = merged(values, read_yaml(path))
    config = load(values)
    found = estimate(config, options.cores)
    print(f"{'experiment':<28}{'jobs':>6}{'CPU seconds':>14}")
    for part in found.parts:
        jobs = len(part.pilots) + len(part.blocks) + len(part.others)
        print(f"{part.experiment:<28}{jobs:>6}{part.cpu:>14.0f}")
    print(f"{'all':<28}{len(found.jobs):>6}{found.cpu:>14.0f}")
    print(f"wall time on {found.cores} cores ({cpu_model()}): {found.wall / 60:.1f} minutes", end="")
    print(f"; calibration took {found.calibration:.0f} s")
    if options.json is not None:
        write_json(
            options.json,
            {
                "run": config.run, "cpu": cpu_model(), "cores": found.cores, "cpu_seconds": found.cpu,
                "wall_seconds": found.wall, "experiments": {part.experiment: part.cpu for part in found.parts},
            },
        )  # fmt: skip
