"""How long the workflow would take on this machine, from a calibration of some ten seconds.

    CPU = sum over replications  T c(scenario) + sum over pilots  T' c(scenario) + jobs * start-up

c(scenario), CPU seconds per unit of simulated time, depends on the number of events per unit of time and on the speed
of the kernel, which both depend on everything in the scenario. It is measured by simulating the scenario: for whole
replications where they are short, else for a share of what all of them take. The window T of a steady-state scenario is
what its pilot run gave, if the run has it already; otherwise that of the same scenario with at most 300 servers, whose
pilot is run here (the relaxation time hardly depends on N). Along the longest key of an experiment's grid every fourth
value is measured, and T c between two of them is interpolated on logarithmic scales. As many processes measure as the
run has cores, since neighbours slow each other down.

Start-up is that of real jobs: an interpreter with the compiled kernels, one that draws. What is computed
without chance is taken from the reference results, where they hold the same scenarios, times the quotient of the two
machines' times for what is simulated. The wall time is that of the jobs handed, longest first, to the given number of
cores (Graham 1969).
"""

from __future__ import annotations

import heapq
import json
import math
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastiqueue.results.provenance import usable_cores
from elastiqueue.sampling.streams import canonical_json, scenarios_digest
from elastiqueue.workflow.experiments import Chunk, RunConfig, blocks, chunks, specified_points

if TYPE_CHECKING:
    from elastiqueue.engines.simulation import Window

SHARE, MOST = 1 / 600, 0.05  # a scenario is simulated for this share of its time, at most for these seconds
LEAST = 0.7  # seconds of simulation that all scenarios share evenly, whatever the time of each
ALL_OFF = 0.4  # seconds
EVERY = 4  # values of the longest key from one that is measured to the next
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


def cost(scenario: Any, horizon: float, replications: int, least: float) -> float:
    """CPU seconds per unit of simulated time (slot) of that many replications up to the horizon.

    What is simulated takes about SHARE of what they all take, from `least` to MOST seconds: a stretch, or some whole
    replications. What follows a start with all servers off is far slower than the rest: there the stretch may take
    ALL_OFF, and where a replication takes longer the rest is measured.
    """
    from elastiqueue.models.registry import model_of
    from elastiqueue.sampling.streams import stream

    simulate = model_of(scenario).simulate
    all_off = getattr(scenario, "start", None) == "all_off"

    def seconds(length: float, index: int) -> float:
        words, grid = stream(0, scenario.digest(), index), _grid(scenario, length)
        begun = time.thread_time()
        simulate(scenario, words, (0.0, length), grid)
        return time.thread_time() - begun

    shortest = min(horizon, max(1.0, 30.0 / (scenario.servers or 30)))  # something happens; a cluster may have classes
    seconds(shortest, 0)  # compiles, or loads
    length, runs, before = shortest, 1, (0.0, 0.0)
    spent = seconds(length, 1)
    while True:
        budget = min(MOST, max(least, SHARE * replications * horizon * spent / (runs * length)))
        enough = ALL_OFF if all_off and length < horizon else budget
        if spent >= enough and (length > shortest or length == horizon):
            break
        if length == horizon:
            runs += 1
            spent += seconds(length, runs)
        else:
            before = (length, spent)
            length = min(horizon, length * (2 if spent > enough / 4 else 4))
            spent = seconds(length, 1)
    if length == horizon:
        return spent / (runs * horizon)
    if all_off:
        return cost(scenario.model_copy(update={"start": "fixed_point"}), horizon, replications, least)
    # The set-up, and the first stretch from the fixed point, without idle servers, are slower than the rest.
    rest = max(0.0, spent - before[1]) / (length - before[0])
    return (spent + rest * (horizon - length)) / horizon


def _grid(scenario: Any, length: float) -> Any:
    """Times below `length` at which the scenario records its state."""
    import numpy as np

    spacing = getattr(scenario, "record_every", None)
    return np.arange(0.0, length, spacing) if spacing else np.empty(0)


def start_up(drawing: bool) -> float:
    """CPU seconds of a job that draws a diagram, or of a simulation job in which there is next to nothing to do."""
    tiny = {
        "model": "tabs", "servers": 2, "arrival_rate": 0.3, "standby_rate": 1, "setup_rate": 1, "horizon": 1.0
    }  # fmt: skip
    specification = json.dumps({"settings": [tiny], "sources": ""})

    def seconds(*step: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "elastiqueue.workflow.steps", *step], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        if drawing:
            return seconds("diagram", "--figure", "protocol", "--pdf", f"{folder}/a.pdf", "--png", f"{folder}/a.png")
        block = ["block", "--spec", specification, "--first", "0", "--last", "2"]
        block += ["--output", f"{folder}/a.npz", "--provenance", f"{folder}/a.json"]
        starting = seconds(*block)
        return seconds(*block) if starting > COMPILED else starting


def smaller(scenario: Any) -> Any:
    """The scenario whose pilot run stands for this one's."""
    if getattr(scenario, "horizon", None) == "auto" and scenario.servers > LARGEST_PILOT:
        return scenario.model_copy(update={"servers": LARGEST_PILOT})
    return scenario


def measured(scenarios: Sequence[tuple[Any, int, Window | None]], least: float) -> list[tuple[float, float]]:
    """CPU seconds of each scenario's pilot run and of one replication.

    A scenario comes with its number of replications, and its window; those without one share that of a smaller system.
    """
    from elastiqueue.engines.simulation import window

    found, shared = [], None
    for scenario, replications, span in scenarios:
        if span is None:
            span = shared = shared or window(smaller(scenario))
        each = cost(scenario, span.horizon, replications, least)
        found.append((each * span.pilot, each * span.horizon))
    return found


# ---- Interpolation ---------------------------------------------------------------------------------------------------


def longest_key(grid: Mapping[str, Sequence[Any]]) -> str | None:
    """The key with the most values, all of them positive numbers."""
    numbers = {
        key: len(values)
        for key, values in grid.items()
        if key != "replications" and all(isinstance(value, int | float) and value > 0 for value in values)
    }
    return max(numbers, key=lambda key: numbers[key], default=None)


def lines(settings: Sequence[Mapping[str, Any]], key: str | None) -> list[list[int]]:
    """Positions of those that differ in the key alone, in the order of its values."""
    found: dict[str, list[int]] = {}
    for i, one in enumerate(settings):
        rest = canonical_json({name: value for name, value in one.items() if name != key})
        found.setdefault(rest, []).append(i)
    return [sorted(line, key=lambda i: settings[i][key]) if key else line for line in found.values()]


def chosen(line: Sequence[int]) -> list[int]:
    """About every fourth of them, evenly spread, at least three where there are three, and both ends."""
    last = len(line) - 1
    steps = min(last, max(2, math.ceil(last / EVERY)))
    return [line[round(k * last / max(1, steps))] for k in range(steps + 1)]


def interpolated(at: Sequence[float], known_at: Sequence[float], known: Sequence[float]) -> list[float]:
    """Piecewise linear on logarithmic scales; what is 0 stays next to nothing."""
    import numpy as np

    found = np.interp(np.log(at), np.log(known_at), np.log(np.maximum(known, 1e-9)))
    return [float(value) for value in np.exp(found)]


# ---- The whole -------------------------------------------------------------------------------------------------------


def ignore_interrupts() -> None:
    """In a process that measures: Ctrl-C is for the one that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(frozen=True)
class Piece:
    """A chunk, its scenarios, and along which lines they lie."""

    chunk: Chunk
    scenarios: list[Any]
    at: list[float]  # value of the key along which is interpolated
    lines: list[list[int]]


def pieces(config: RunConfig, name: str) -> list[Piece]:
    """The chunks of an experiment."""
    found, key = [], longest_key(config.experiments[name].grid)
    for chunk in chunks(config, name):
        specification = chunk.specification()
        settings = json.loads(specification)["settings"]
        scenarios = [point.scenario for point in specified_points(specification)]
        at = [float(one[key]) if key else 1.0 for one in settings]
        found.append(Piece(chunk, scenarios, at, lines(settings, key)))
    return found


def estimate(config: RunConfig, cores: int) -> Prediction:
    """Predict the time of a run from scratch, on the given number of cores.

    Compiling the kernels, once per machine, is not in it.
    """
    begun = time.perf_counter()
    processes = min(cores, usable_cores())
    # A process that was forked might hold locks of threads that it does not have.
    with (
        ProcessPoolExecutor(processes, get_context("spawn"), ignore_interrupts)
        if processes > 1
        else ThreadPoolExecutor(1) as pool
    ):
        started = [pool.submit(start_up, drawing) for drawing in (False, True)]
        cut = {name: pieces(config, name) for name in config.experiments}
        work = tasks(config, cut)
        least = min(MOST, LEAST / max(1, sum(map(len, work))))
        results = list(pool.map(partial(measured, least=least), [list(task.values()) for task in work]))
        starting, drawing = (one.result() for one in started)
    seconds = {
        digest: pair
        for task, pairs in zip(work, results, strict=True)
        for digest, pair in zip(task, pairs, strict=True)
    }
    parts = []
    for name, experiment in config.experiments.items():
        part = Part(name, others=[starting])
        parts.append(part)
        for piece in cut[name] if experiment.engine == "simulate" else []:
            pilots, replication = _times(piece, seconds)
            if piece.chunk.steady:
                part.pilots.append(starting + pilots)
            for first, last in blocks(piece.chunk.replications, experiment.block):
                part.blocks.append(starting + (last - first) * replication)
    _add_computed(parts, cut, starting)
    drawn = Part("figures", others=[drawing] * len(config.figures))
    return Prediction([*parts, drawn], cores, time.perf_counter() - begun, starting)


def tasks(config: RunConfig, cut: Mapping[str, Sequence[Piece]]) -> list[dict[str, tuple[Any, int, Window | None]]]:
    """What `measured` is called with, by the digests of the scenarios: those that share a pilot run go together.

    In an order as good as random, so that a machine whose speed varies meanwhile is as slow for every experiment.
    """
    found: dict[str, dict[str, tuple[Any, int, Window | None]]] = {}
    for name, experiment in config.experiments.items():
        for piece in cut[name] if experiment.engine == "simulate" else []:
            pilots = Path("results") / config.run / "pilots" / name / f"{piece.chunk.name}.json"
            windows: Sequence[Window | None] = [None] * len(piece.scenarios)
            if pilots.exists():
                from elastiqueue.workflow.jobs import read_windows

                windows = read_windows(pilots)
            for i in (i for line in piece.lines for i in chosen(line)):
                scenario = piece.scenarios[i]
                task = found.setdefault(smaller(scenario).digest(), {})
                task[scenario.digest()] = (scenario, piece.chunk.replications, windows[i])
    return [task for _, task in sorted(found.items())]


def _times(piece: Piece, seconds: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """CPU seconds of the pilot runs of a chunk, and of one replication of each of its scenarios."""
    pilots = replication = 0.0
    for line in piece.lines:
        points = chosen(line)
        pairs = [seconds[piece.scenarios[i].digest()] for i in points]
        at, known_at = [piece.at[i] for i in line], [piece.at[i] for i in points]
        pilots += sum(interpolated(at, known_at, [pilot for pilot, _ in pairs]))
        replication += sum(interpolated(at, known_at, [one for _, one in pairs]))
    return pilots, replication


def _add_computed(parts: Sequence[Part], cut: Mapping[str, Sequence[Piece]], starting: float) -> None:
    """Add to experiments without chance what they took for the reference results, scaled to this machine."""
    if not REFERENCE.exists():
        return
    known, same = json.loads(REFERENCE.read_text())["experiments"], {}
    for part in parts:
        scenarios = [scenario for piece in cut[part.experiment] for scenario in piece.scenarios]
        found = scenarios_digest(scenario.model_dump(mode="json") for scenario in scenarios)
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


# ---- The command -----------------------------------------------------------------------------------------------------
