"""The prediction of the workflow's time: what it is made of, and how it compares with the time that a run takes."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elastiqueue.cli.main import main
from elastiqueue.engines.simulation import Window, simulate
from elastiqueue.sampling.streams import scenarios_digest
from elastiqueue.scenarios.reading import merged, read_yaml, scenario_from
from elastiqueue.workflow.experiments import chunks, load, specified_points
from elastiqueue.workflow.jobs import run_block, run_pilots
from elastiqueue.workflow.running_time import (
    Part,
    Prediction,
    chosen,
    cost,
    estimate,
    interpolated,
    lines,
    longest_key,
    makespan,
    measured,
    pieces,
    smaller,
    tasks,
)

ROOT = Path(__file__).resolve().parents[2]
BASE = {"model": "tabs", "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1}


def test_longest_job_first() -> None:
    assert makespan([1, 2, 3, 4], 1) == 10
    assert makespan([1, 2, 3, 4], 2) == 5
    assert makespan([7, 1, 1], 2) == 7
    assert makespan([], 2) == 0


def test_a_prediction_adds_up() -> None:
    found = Prediction([Part("a", [1.0], [2.0, 3.0]), Part("b", others=[4.0])], 2, 0.0)
    assert found.cpu == 10
    assert sorted(found.jobs) == [1, 2, 3, 4]
    assert found.wall > 5


def test_cost_of_a_cluster_with_classes_of_servers() -> None:
    values = {
        "model": "cluster", "job_types": [[1], [2]],
        "classes": [{"count": 2, "resources": [4]}, {"count": 1, "resources": [2]}],
        "arrivals": {"law": "poisson", "mean": [0.1, 0.1]}, "slots": 100, "warm_up": 0,
    }  # fmt: skip
    assert 0 < cost(scenario_from(values), 100.0, 2, 0.002) < 1e-3


@pytest.mark.parametrize("set_up", [0.0, 0.004, 0.02])
def test_what_sets_a_system_up_is_counted_once_per_replication(set_up: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator that takes set_up and 5 microseconds per unit of time: a replication takes set_up and 0.5 s."""

    def simulate(scenario: Any, words: Any, warm_up: float, horizon: float, grid: Any) -> None:
        end = time.thread_time() + set_up + 5e-6 * horizon
        while time.thread_time() < end:
            pass

    monkeypatch.setattr("elastiqueue.models.registry.model_of", lambda scenario: SimpleNamespace(simulate=simulate))
    replication = 1e5 * cost(scenario_from({**BASE, "servers": 100}), 1e5, 100, 0.002)
    assert replication == pytest.approx(set_up + 0.5, rel=0.3)


def test_lines_are_what_differs_in_one_key_only() -> None:
    assert longest_key({"servers": [1, 2, 3], "load": [0.5, 0.7], "start": ["a", "b", "c", "d"]}) == "servers"
    assert longest_key({"standby_rate": [0, 1, 2], "load": [0.5, 0.7], "replications": [1, 2, 3]}) == "load"
    assert longest_key({"start": ["a", "b"]}) is None
    settings = [{"a": a, "b": b} for a in ("x", "y") for b in (3, 1, 2)]
    assert lines(settings, "b") == [[1, 2, 0], [4, 5, 3]]
    assert lines(settings, None) == [[i] for i in range(6)]


@pytest.mark.parametrize("length", range(1, 30))
def test_about_a_quarter_of_a_line_is_measured_and_both_ends(length: int) -> None:
    line = list(range(100, 100 + length))
    found = chosen(line)
    assert (found[0], found[-1]) == (line[0], line[-1])
    assert found == sorted(set(found))
    assert all(later - earlier <= 4 for earlier, later in pairwise(found))
    assert len(found) <= length / 4 + 2.5


def test_powers_are_interpolated_exactly_and_nothing_stays_next_to_nothing() -> None:
    at = [1.0, 2.0, 5.0, 10.0, 100.0]
    found = interpolated(at, [1.0, 10.0, 100.0], [3.0 * x**1.7 for x in (1.0, 10.0, 100.0)])
    assert found == pytest.approx([3.0 * x**1.7 for x in at])
    assert max(interpolated(at, [1.0, 100.0], [0.0, 0.0])) < 1e-8


def test_what_is_not_measured_is_between_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten values of a key of which four are measured; a cost that is a power of it is predicted exactly."""
    servers = [2**k for k in range(10)]
    values = {
        "run": "a", "output": "a", "seed": 1, "replications": 4, "figures": {}, "experiments": {
            "one": {"grid": {"servers": servers}, "scenario": {**BASE, "horizon": 100}}
        },
    }  # fmt: skip
    called = []

    def cost(scenario: Any, horizon: float, replications: int, least: float) -> float:
        called.append(scenario.servers)
        assert (horizon, replications, least) == (100.0, 4, 0.05)
        return float(scenario.servers) ** 0.5

    monkeypatch.setattr("elastiqueue.workflow.running_time.start_up", lambda drawing: 0.0)
    monkeypatch.setattr("elastiqueue.workflow.running_time.cost", cost)
    (part, _) = estimate(load(values), 1).parts
    assert sorted(called) == [1, 8, 64, 512]
    assert part.cpu == pytest.approx(4 * 100 * sum(n**0.5 for n in servers))


def test_large_systems_share_the_pilot_run_of_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = [scenario_from({**BASE, "servers": n, "horizon": "auto", "warm_up": "auto"}) for n in (100, 1000, 10000)]
    assert [smaller(one).servers for one in steady] == [100, 300, 300]
    piloted = []

    def window(scenario: Any) -> Window:
        piloted.append(scenario.servers)
        return Window(10.0, 20.0, 1.0, 40.0)

    monkeypatch.setattr("elastiqueue.engines.simulation.window", window)
    monkeypatch.setattr(
        "elastiqueue.workflow.running_time.cost", lambda scenario, horizon, *_: scenario.servers * horizon
    )
    known = Window(1.0, 2.0, 1.0, 3.0)
    found = measured([(steady[1], 5, None), (steady[2], 5, None), (steady[0], 5, known)], 0.002)
    assert piloted == [300]
    assert found == [(40 * 20000, 20 * 20000), (40 * 200000, 20 * 200000), (3 * 200, 2 * 200)]


def test_windows_that_the_run_has_already_are_taken_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "run": "a", "output": "a", "seed": 1, "replications": 4, "figures": {}, "experiments": {
            "one": {"scenario": {**BASE, "servers": 500, "horizon": "auto", "warm_up": "auto"}}
        },
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    config = load(values)
    cut = {"one": pieces(config, "one")}
    ((task,),) = (list(one.values()) for one in tasks(config, cut))
    assert task[1:] == (4, None)
    window = Window(10.0, 20.0, 1.0, 40.0)
    monkeypatch.setattr("elastiqueue.workflow.jobs.window", lambda scenario: window)
    chunk = cut["one"][0].chunk
    run_pilots(chunk.specification(), tmp_path / f"results/a/pilots/one/{chunk.name}.json", tmp_path / "a.json")
    ((task,),) = (list(one.values()) for one in tasks(config, cut))
    assert task[1:] == (4, window)


def test_the_paper_scale_run_is_calibrated_on_half_of_its_scenarios() -> None:
    """What the ten seconds rest on."""
    config = load(read_yaml(ROOT / "config" / "config.yaml"))
    cut = {name: pieces(config, name) for name, one in config.experiments.items() if one.engine == "simulate"}
    scenarios = {scenario.digest() for found in cut.values() for piece in found for scenario in piece.scenarios}
    measured_ones = sum(len(task) for task in tasks(config, cut))
    assert 0.3 < measured_ones / len(scenarios) < 0.5


def test_configurations_are_merged_as_the_workflow_does_it() -> None:
    values = {"run": "a", "experiments": {"x": {"grid": {"n": [1, 2]}, "block": 5}}}
    changes = {"run": "b", "experiments": {"x": {"grid": {"n": [3]}}, "y": {}}}
    expected = {"run": "b", "experiments": {"x": {"grid": {"n": [3]}, "block": 5}, "y": {}}}
    assert merged(values, changes) == expected


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text(
        "{run: a, output: a, seed: 1, replications: 4, figures: {}, experiments: {one: {split_by: [servers], block: 2, "
        "grid: {servers: [2, 4]}, scenario: {model: tabs, arrival_rate: 0.3, standby_rate: 1, setup_rate: 1, "
        "horizon: auto, warm_up: auto}}}}"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "elastiqueue.workflow.running_time.start_up", lambda drawing: 1.0 + drawing
    )  # the slow test below starts real jobs
    assert main(["estimate", "--cores", "1", "--json", "a.json"]) == 0
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["cpu_seconds"] == pytest.approx(sum(found["experiments"].values()))
    assert 7 * 1.0 < found["cpu_seconds"] < 7 * 1.0 + 1.0  # pilots, blocks and a summary
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["one", str(2 + 4 + 1)]  # pilots, blocks, summary
    assert main(["estimate", "--cores", "0"]) == 2
    assert capsys.readouterr().err == "elastiqueue: --cores = 0: must be from 1 to 1,000,000\n"


@pytest.mark.slow
def test_prediction_is_within_thirty_per_cent_of_what_the_simulation_takes(tmp_path: Path) -> None:
    """The parts of the paper-scale run that take longest: CPU time of predicted and real simulation jobs."""
    values = read_yaml(ROOT / "config" / "config.yaml")
    kept = ("convergence", "standby_high_load")
    values["experiments"] = {name: values["experiments"][name] for name in kept}
    values |= {"figures": {}, "replications": 10, "run": "none"}
    values["experiments"]["standby_high_load"]["grid"] = {
        "servers": [1000, 10000], "setup_rate": [0.01, 1], "standby_rate": [1, 0.1, 0.01]
    }  # fmt: skip
    config = load(values)
    predicted = estimate(config, 1)
    spent = 0.0
    for name in kept:
        for chunk in chunks(config, name):
            specification, pilots = chunk.specification(), tmp_path / f"{chunk.name}.json"
            begun = time.process_time()
            if chunk.steady:
                run_pilots(specification, pilots, tmp_path / "p.json")
            output = tmp_path / "0000000-0000010.npz"
            run_block(specification, 0, 10, output, tmp_path / "a.json", pilots if chunk.steady else None)
            spent += time.process_time() - begun
            output.unlink()
    starts = sum(len(part.pilots) + len(part.blocks) for part in predicted.parts)
    simulated = sum(sum(part.pilots) + sum(part.blocks) for part in predicted.parts) - starts * predicted.starting
    assert simulated == pytest.approx(spent, rel=0.3)


def test_cost_is_that_of_a_replication() -> None:
    """Of one scenario, measured as a whole: within a factor of two, whatever else the machine is doing."""
    scenario = scenario_from({**BASE, "servers": 3000, "horizon": 250, "replications": 40})
    simulate(scenario, 0, 1)
    begun = time.process_time()
    simulate(scenario, 0, 40)
    spent = time.process_time() - begun
    assert 0.5 < 40 * 250 * cost(scenario, 250.0, 40, 0.05) / spent < 2


def test_what_is_computed_without_chance_is_taken_from_the_reference_and_scaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine half as fast as that of the reference: the fluid limit takes twice the time it took there."""
    values = {
        "run": "a", "output": "a", "seed": 1, "replications": 4, "figures": {}, "experiments": {
            "one": {"scenario": {**BASE, "servers": 10, "horizon": 100}},
            "limit": {"engine": "fluid", "scenario": {**BASE, "servers": 1, "horizon": 100}},
            "other": {"engine": "fluid", "scenario": {**BASE, "servers": 2, "horizon": 100}},
        },
    }  # fmt: skip
    config = load(values)
    monkeypatch.setattr("elastiqueue.workflow.running_time.start_up", lambda drawing: 1.0 + drawing)
    monkeypatch.setattr("elastiqueue.workflow.running_time.cost", lambda scenario, horizon, *_: 0.05)
    reference = tmp_path / "machine.json"
    monkeypatch.setattr("elastiqueue.workflow.running_time.REFERENCE", reference)
    digests = {
        name: scenarios_digest(
            point.scenario.model_dump(mode="json")
            for chunk in chunks(config, name)
            for point in specified_points(chunk.specification())
        )
        for name in values["experiments"]
    }
    assert len(set(digests.values())) == 3
    records = {
        "one": {"scenarios": digests["one"], "cpu_seconds": 10.0},  # here: 4 replications of 100 at 0.05 s each
        "limit": {"scenarios": digests["limit"], "cpu_seconds": 30.0},
        "other": {"scenarios": "another", "cpu_seconds": 1000.0},
    }
    reference.write_text(json.dumps({"experiments": records}))
    found = {part.experiment: part.cpu for part in estimate(config, 1).parts}
    assert found["one"] == pytest.approx(4 * 100 * 0.05 + 1.0 + 1.0)
    assert found["limit"] == pytest.approx(2 * 30.0 + 1.0)
    assert found["other"] == pytest.approx(1.0)
