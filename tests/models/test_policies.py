"""Policies in files of their own, those of config/examples and one of the tests, through the engines."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from elastiqueue.cli.main import main
from elastiqueue.engines.exact import exact
from elastiqueue.engines.registry import ENGINE_MODULES, check_served, compute_rows
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.errors import ConfigError
from elastiqueue.models import definitions
from elastiqueue.models.registry import has_metric, sources_of
from elastiqueue.scenarios.reading import read_scenario, scenario_from
from elastiqueue.scenarios.registry import MODELS, Model
from elastiqueue.sources import source_digest
from elastiqueue.theory.queues import erlang_b
from elastiqueue.workflow.experiments import chunks, load

KEYS = {"servers": 3, "arrival_rate": 0.6, "standby_rate": 0.3, "setup_rate": 0.2, "buffer": 3}


@pytest.fixture
def policies(root: Path) -> Path:
    return root / "config/examples/policies"


def _scenario(policies: Path, name: str, **keys):
    return scenario_from({**KEYS, "model": str(policies / f"{name}.py"), **keys})


def test_the_examples_are_short(policies: Path) -> None:
    files = list(policies.glob("*.py"))
    assert len(files) == 3
    assert all(len(path.read_text().splitlines()) < 80 for path in files)


@pytest.mark.parametrize("service", ["exponential", {"coxian": 3}], ids=str)
@pytest.mark.parametrize(("name", "keys"), [("tabs_threshold", {"level": 0}), ("tabs_shortest_of_d", {"choices": 1})])
def test_at_one_end_they_are_tabs(policies: Path, name: str, keys: dict, service: object) -> None:
    tabs = exact(scenario_from({**KEYS, "model": "tabs", "service": service})).metrics
    own = exact(_scenario(policies, name, service=service, **keys)).metrics
    assert own == pytest.approx(tabs, rel=1e-12)


OFF, SETUP = -2, -1  # a server; else its number of tasks


def _server_by_server(joins: Callable, sets_up: Callable) -> dict[str, float]:
    """Metrics of TABS with other rules, from the chain of servers that have names, by dense linear algebra.

    joins: state -> probability of each server for a task that finds none idle-on; sets_up: whether one is set up then.
    """
    n, lam, mu, nu, buffer = (KEYS[key] for key in ("servers", "arrival_rate", "standby_rate", "setup_rate", "buffer"))
    states = list(itertools.product(range(OFF, buffer + 1), repeat=n))
    number = {state: i for i, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    lost = np.zeros(len(states))

    def changed(state, server, value):
        return (*state[:server], value, *state[server + 1 :])

    for state, i in number.items():
        moves = []
        idle, off = ([s for s in range(n) if state[s] == kind] for kind in (0, OFF))
        for s in idle:
            moves += [(lam * n / len(idle), changed(state, s, 1)), (mu, changed(state, s, OFF))]
        if not idle:
            busy = any(tasks > 0 for tasks in state)
            chances = joins(state) if busy else [0.0] * n
            for s, chance in enumerate([*chances, 1.0 - sum(chances)]):
                taken = s < n and state[s] < buffer
                after = changed(state, s, state[s] + 1) if taken else state
                lost[i] += 0 if taken else lam * n * chance
                for o in off if sets_up(state) and off else [None]:
                    moves.append((lam * n * chance / max(len(off) if o is not None else 1, 1),
                                  after if o is None else changed(after, o, SETUP)))  # fmt: skip
        for s in range(n):
            if state[s] > 0:
                moves.append((1.0, changed(state, s, state[s] - 1)))
            if state[s] == SETUP:
                moves.append((nu, changed(state, s, 0)))
        for rate, after in moves:
            generator[i, number[after]] += rate
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(len(states))])
    chance = np.linalg.lstsq(equations, np.append(np.zeros(len(states)), 1.0), rcond=None)[0]
    waiting, setup = (
        sum(chance[i] * sum(map(count, state)) for state, i in number.items())
        for count in (lambda tasks: max(tasks - 1, 0), lambda tasks: tasks == SETUP)
    )
    loss = float(chance @ lost) / (lam * n)
    return {"loss_probability": loss, "setup": setup / n, "mean_wait_integral": waiting / (lam * n * (1 - loss))}


def _uniformly(state):
    busy = sum(tasks > 0 for tasks in state)
    return [(tasks > 0) / busy for tasks in state]


def _shortest_of_two(state):
    """Two draws with replacement, the first of equals."""
    chances = [0.0] * len(state)
    busy = [s for s, tasks in enumerate(state) if tasks > 0]
    for first, second in itertools.product(busy, repeat=2):
        chances[second if state[second] < state[first] else first] += 1 / len(busy) ** 2
    return chances


@pytest.mark.parametrize(
    ("name", "keys", "joins", "sets_up"),
    [
        ("tabs_threshold", {"level": 0.6}, _uniformly, lambda state: sum(tasks > 0 for tasks in state) in (0, 2, 3)),
        ("tabs_shortest_of_d", {"choices": 2}, _shortest_of_two, lambda state: True),
    ],
)
def test_they_are_the_chains_of_servers_with_names(policies: Path, name, keys, joins, sets_up) -> None:
    own = exact(_scenario(policies, name, **keys)).metrics
    for metric, value in _server_by_server(joins, sets_up).items():
        assert own[metric] == pytest.approx(value, rel=1e-9), metric


@pytest.mark.parametrize("service", ["exponential", {"erlang": 2}], ids=str)
@pytest.mark.parametrize("load", [0.5, 1.5])
def test_serverless_is_erlangs_loss_system_at_both_ends(policies: Path, service: object, load: float) -> None:
    """Kept for no time every request starts an instance, which is part of its service; kept for ever, none does."""
    ends = {1e-9: 1 + 1 / 0.2, 1e9: 1.0}
    for keep_alive, time in ends.items():
        found = exact(_scenario(policies, "serverless", arrival_rate=load, keep_alive=keep_alive, service=service))
        assert found.metrics["loss_probability"] == pytest.approx(erlang_b(3, 3 * load * time), rel=1e-6)
        assert found.metrics["cold_starts"] == pytest.approx(float(keep_alive < 1), abs=1e-6)


EXAMPLES = [
    ("tabs_threshold", {"level": 0.6}),
    ("tabs_shortest_of_d", {"choices": 2}),
    ("serverless", {"keep_alive": 2}),
]


@pytest.mark.parametrize("simulator", ["direct", "blocks"])
@pytest.mark.parametrize(("name", "keys"), EXAMPLES)
def test_simulated_metrics_are_exact_metrics(policies: Path, name, keys, simulator, monkeypatch) -> None:
    monkeypatch.setattr(definitions, "BLOCKS_FROM", 0.0 if simulator == "blocks" else math.inf)
    scenario = _scenario(policies, name, horizon=600, warm_up=100, service={"coxian": 3}, **keys)
    simulated = estimates(scenario, simulate(scenario, 0, 100)[0])
    for metric, value in exact(scenario).metrics.items():
        one = simulated[metric]
        assert one.se == 0 or abs(one.mean - value) <= 5 * one.se, metric


@pytest.mark.parametrize(
    "rate",
    [
        {"mean": 0.5, "amplitude": 0.4, "period": 6},
        {"steps": [[0, 0.9], [3, 0.2], [11, 0.7]]},
    ],
    ids=["sinusoid", "steps"],
)
def test_blocks_and_single_events_agree_under_a_varying_rate(policies: Path, rate, monkeypatch) -> None:
    scenario = _scenario(policies, "serverless", servers=40, keep_alive=2, arrival_rate=rate, horizon=20,
                         record_every=4)  # fmt: skip
    single, single_path = simulate(scenario, 0, 400)
    monkeypatch.setattr(definitions, "BLOCKS_FROM", 0.0)
    blocks, blocks_path = simulate(scenario, 400, 800)
    assert not np.array_equal(single, blocks)
    one, two = estimates(scenario, single), estimates(scenario, blocks)
    for name, a in one.items():
        assert abs(a.mean - two[name].mean) <= 5 * math.hypot(a.se, two[name].se), name
    error = np.sqrt(single_path.var(axis=0) / 400 + blocks_path.var(axis=0) / 400)
    assert (np.abs(single_path.mean(axis=0) - blocks_path.mean(axis=0)) <= 5 * error + 1e-12).all()


def test_a_file_is_found_by_the_commands_and_in_every_digest(policies: Path, tmp_path: Path, capsys) -> None:
    text = (policies / "serverless.py").read_text()
    (tmp_path / "mine.py").write_text(text)
    values = {"model": "mine.py", "servers": 3, "arrival_rate": 0.6, "setup_rate": 0.2, "keep_alive": 2.0}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({**values, "replications": 4, "horizon": 50}))
    scenario = read_scenario(tmp_path / "s.yaml")
    assert scenario.describe()["model"] == "mine"
    assert scenario.describe()["keep_alive"] == 2.0
    assert has_metric(scenario, "cold_starts")
    for command in ("simulate", "exact"):
        assert main([command, str(tmp_path / "s.yaml"), "--json", "-"]) == 0
        assert "cold_starts" in json.loads(capsys.readouterr().out)["metrics"]
    before = source_digest(*sources_of(scenario))
    values["model"] = str(tmp_path / "mine.py")
    run = load({"run": "r", "output": "o", "seed": 1, "replications": 2, "figures": {},
                "experiments": {"a": {"scenario": values, "grid": {"keep_alive": [1.0, 4.0]}}}})  # fmt: skip
    specification = chunks(run, "a")[0].specification()
    (tmp_path / "mine.py").write_text(text.replace("system.record(RED)", "pass"))
    assert source_digest(*sources_of(read_scenario(tmp_path / "s.yaml"))) != before
    assert chunks(run, "a")[0].specification() != specification
    assert len({digest.digest() for digest in (scenario, read_scenario(tmp_path / "s.yaml", {"keep_alive": 3.0}))}) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("x = (", "SyntaxError"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("x = 1", "must define Scenario, COUNTS"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "p.py").write_text(text)
    with pytest.raises(ConfigError, match=r"^model = .*p\.py: ") as caught:
        scenario_from({**KEYS, "model": str(tmp_path / "p.py")})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keys_of_a_policy_are_checked(policies: Path) -> None:
    for keys, says in (({"level": 2}, "level = 2"), ({}, "level: is missing"), ({"level": 0.5, "lvel": 1}, "lvel = 1")):
        with pytest.raises(ConfigError, match=says):
            _scenario(policies, "tabs_threshold", **keys)


def _tutorial(root: Path, folder: Path) -> dict[str, str]:
    """The files of the tutorial, written; the commands under the name ''."""
    text = (root / "CONTRIBUTING.md").read_text()
    text = text[text.index("## A policy of your own") :]
    files = dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", text, re.DOTALL))
    for name, content in files.items():
        (folder / name).write_text(content)
    return {**files, "": re.findall(r"```\n(elastiqueue .*?)```", text, re.DOTALL)[0]}


def test_the_tutorial_runs(root: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    files = _tutorial(root, tmp_path)
    assert set(files) == {"waiting_room.py", "shop.yaml", ""}
    monkeypatch.chdir(tmp_path)
    for command in files[""].splitlines():
        assert main([*command.split()[1:], "--json", "result.json"]) == 0
        found = json.loads(Path("result.json").read_text())["metrics"]["loss_probability"]
        weights = [1.0]
        for k in range(1, 6):
            weights.append(weights[-1] * 1.6 / min(k, 2))
        value = weights[-1] / sum(weights)
        assert abs(found["mean"] - value) <= max(5 * found.get("se", 0), 1e-12)
        assert f"{value:.5f}" in (root / "CONTRIBUTING.md").read_text()


def test_every_engine_serves_a_new_model_right_or_refuses_it_by_name(root, tmp_path, monkeypatch) -> None:
    _tutorial(root, tmp_path)
    file = str(tmp_path / "waiting_room.py")
    row = Model("a room", f"{file}:Scenario", ("simulate", "exact"), file, loses=True)
    monkeypatch.setitem(MODELS, "room", row)
    scenario = scenario_from({"model": "room", "servers": 1, "arrival_rate": 0.5, "places": 1, "horizon": 2000})
    for engine in ENGINE_MODULES:
        if engine not in row.engines:
            with pytest.raises(ConfigError, match=f"^model = room: {engine} is for "):
                compute_rows(engine, scenario)
    rows = {one["metric"]: one["mean"] for one in compute_rows("exact", scenario)}
    assert rows["loss_probability"] == pytest.approx(1 / 7)  # M/M/1/2: 1, 1/2, 1/4
    check_served("simulate", scenario)
    one = estimates(scenario, simulate(scenario, 0, 20)[0])["loss_probability"]
    assert abs(one.mean - 1 / 7) <= 5 * one.se
