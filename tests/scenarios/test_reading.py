"""Bad input is answered by one line that names key, value and what is allowed; good input by the right scenario."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from elastiqueue.cli.main import main
from elastiqueue.engines.exact import exact
from elastiqueue.engines.fluid import fluid_path
from elastiqueue.engines.simulation import window
from elastiqueue.engines.stability import report
from elastiqueue.errors import printable
from elastiqueue.models.registry import has_metric, metric_names, model_of
from elastiqueue.scenarios.base import settings_digest
from elastiqueue.scenarios.reading import ConfigError, parse_yaml, read_scenario, read_yaml, scenario_from
from elastiqueue.scenarios.registry import MODELS
from elastiqueue.theory.stationary_law import enumerate_states
from elastiqueue.workflow.experiments import chunks, load, schema_text, specified_points

GOOD = {
    "model": "tabs", "servers": 4, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "buffer": 3,
    "horizon": 20, "warm_up": 2, "replications": 4,
}  # fmt: skip
RUN = {
    "run": "r", "output": "o", "seed": 1, "replications": 4, "experiments": {"a": {"scenario": GOOD}}, "figures": {}
}  # fmt: skip

MACHINES = {
    "model": "cluster", "servers": 2, "resources": [4], "job_types": [[1], [2]], "slots": 10, "warm_up": 5,
    "arrivals": {"law": "poisson", "mean": [1, 1]},
}  # fmt: skip
BAD = [
    ({"arrival_rate": 1.0, "buffer": None}, "arrival_rate", "1"),
    ({"arrival_rate": 1.3, "model": "delayed_off"}, "arrival_rate", "1.3"),
    ({"standby_rate": -0.1}, "standby_rate", "-0.1"),
    ({"setup_rate": 0}, "setup_rate", "0"),
    ({"arrival_rate": -1}, "arrival_rate", "-1"),
    ({"arrival_rate": "fast"}, "arrival_rate", "fast"),
    ({"arrival_rate": float("nan")}, "arrival_rate", "nan"),
    ({"arrival_rate": {"mean": 0.1, "amplitude": 0.2, "period": 5}}, "arrival_rate", "-0.1"),
    ({"arrival_rate": {"mean": 0.1, "amplitude": 0.1, "period": 0}}, "arrival_rate.period", "0"),
    ({"arrival_rate": {"mean": 0.1, "amplitud": 0.1, "period": 4}}, "arrival_rate.amplitude", "missing"),
    ({"arrival_rate": {"steps": []}}, "arrival_rate.steps", "[]"),
    ({"arrival_rate": {"steps": [[0, 0.1], [5, 0.2], [4, 0.3]]}}, "arrival_rate", "increase"),
    ({"arrival_rate": {"trace": "nowhere.csv"}}, "arrival_rate.trace", "nowhere.csv"),
    ({"buffer": 0}, "buffer", "0"),
    ({"servers": 0}, "servers", "0"),
    ({"servers": 2.5}, "servers", "2.5"),
    ({"speed": 3}, "speed", "3"),
    ({"model": "tab"}, "model", "tab"),
    ({"horizon": 1}, "warm_up", "horizon = 1"),
    ({"horizon": "auto"}, "warm_up", "auto"),
    ({"horizon": "long"}, "horizon", "long"),
    ({"replications": 1}, "replications", "1"),
    ({"start": "hot"}, "start", "hot"),
    ({"start": "all_off", "model": "jiq"}, "start", "all_off"),
    ({"staggered": True}, "staggered", "true"),
    ({"standby_rate": None}, "standby_rate", "missing"),
    ({"service": "normal"}, "service", "normal"),
    ({"service": {"erlang": 0}}, "service.erlang", "0"),
    ({"service": {"hyperexponential": 0.5}}, "service.hyperexponential", "0.5"),
    ({"service": {"phase_type": {"initial": [1], "rates": [1], "routing": [[1]]}}}, "routing", "must end"),
    ({"seed": -1}, "seed", "-1"),
    ({"power": {"full": -5}}, "power.full", "-5"),
    ({"precision": {"metric": "mean_wait", "relative": 2}}, "precision.relative", "2"),
    ({"servers": True}, "servers = True", "must not be true or false"),
    ({"arrival_rate": {"steps": [[0, True]]}}, "arrival_rate.steps = ", "must not be true or false"),
    ({"arrival_rate": 1e300}, "arrival_rate = 1e+300", "1000000000"),
    ({"arrival_rate": {"steps": [[0, 2e6]]}}, "arrival_rate: ", "<= 100 per server"),
    ({"arrival_rate": {"mean": 0.2, "amplitude": 0.1, "period": 1e-6}}, "arrival_rate.period = 1e-06", "2e-05"),
    ({"arrival_rate": {"steps": [[0, 0.1], [1]]}}, "arrival_rate.steps.1.1", "missing"),
    ({"record_every": 1e-6}, "record_every = 1e-06", "2e-05"),
    ({"measured": 1e300}, "measured = 1e+300", "1000000000"),
    ({"service": {"phase_type": {"initial": [1], "rates": [1e-300], "routing": [[0]]}}},
     "service.phase_type.rates.0 = 1e-300", "0.000000001"),
    ({"service": {"phase_type": {"initial": [0.5], "rates": [1], "routing": [[0]]}}},
     "service.phase_type.initial = [0.5]", "sum to 1"),
    ({"service": {"phase_type": {"initial": [1], "rates": [1]}}}, "service.phase_type.routing", "is missing"),
    ({"service": {"erlang": 2, "coxian": 3}}, "service.coxian = 3", "not a known key"),
    *(({"service": law}, "service = ", "exponential, {erlang: k}, {hyperexponential: scv}, {coxian: scv} or {phase")
      for law in ("foo", {}, {"gamma": 2}, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("change", "key", "shown"), BAD, ids=lambda value: json.dumps(value, default=str)[:60])
def test_a_mistake_is_one_line_with_key_and_value(change, key, shown):
    with pytest.raises(ConfigError) as caught:
        scenario_from({**GOOD, **change})
    text = str(caught.value)
    assert "\n" not in text
    assert key in text
    assert shown in text


@pytest.mark.parametrize("command", ["simulate", "exact", "fluid"])
@pytest.mark.parametrize(
    "change",
    ["standby_rate=-1", "nonsense=1", "buffer=0", "model=tap", "broken", "servers=[1", "=3", ".=3", "S.=3", "a..b=3",
     "power={full: 1, full: 2}", "servers=2026-13-45"],
)  # fmt: skip
def test_a_mistake_on_the_command_line_exits_2_and_writes_nothing(command, change, tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    output = tmp_path / "out.json"
    assert main([command, str(file), "--set", change, "--json", str(output)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("elastiqueue: ")
    assert [path.name for path in tmp_path.iterdir()] == ["scenario.yaml"]


@pytest.mark.parametrize(
    "text",
    ["", "- 1\n", "a: [", "\x00", "[" * 5000, "model: tabs\nservers: 4\nservers: 5\n", "seed: " + "1" * 5000],
    ids=lambda text: text[:20],
)
def test_a_scenario_file_that_is_not_a_mapping_is_refused(text, tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    assert main(["simulate", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"elastiqueue: {file}: ")
    assert error.count("\n") == 1
    assert main(["simulate", str(tmp_path / "missing.yaml")]) == 2
    assert "missing.yaml" in capsys.readouterr().err


def test_a_key_beside_a_merged_mapping_is_no_duplicate(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text("a: &a {n: 4}\nb:\n  c: &c {<<: *a, n: 5}\nd: {<<: *c, m: 6}\n")
    found = read_yaml(file)
    assert found["b"]["c"] == {"n": 5}
    assert set(found["d"]) == {"n", "m"}


@pytest.mark.parametrize("text", ["!!map [b]", "!!set [b]", "!!timestamp foo", "!!bool foo", "a: {b: 1, b: 2}"])
def test_what_is_no_yaml_is_one_line(text):
    with pytest.raises(ConfigError, match=r"^name: is not YAML: ") as caught:
        parse_yaml(text, "name")
    assert "\n" not in printable(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"servers": 100_000_000}, "servers = 100000000, buffer = 3: states = "),
        ({"servers": 1, "buffer": 1_000_000}, "servers = 1, buffer = 1000000: states = "),
        ({"servers": 1, "buffer": 50_000}, "100,000,000 numbers are allowed"),
        ({"buffer": None, "arrival_rate": 0.999999}, "servers = 4, arrival_rate = 0.999999: states = "),
        ({"model": "setup", "servers": 20, "service": {"erlang": 64}}, "arrival_rate = 0.3: states = "),
        ({"model": "always_on", "arrival_rate": 0.999999}, "1.036e+07 or more: at most max_states = 200000"),
    ],
)
def test_the_exact_solver_counts_the_states_before_it_builds_them(change, says, monkeypatch):
    monkeypatch.setattr("elastiqueue.theory.stationary_law.enumerate_states", None)
    with pytest.raises(ConfigError) as caught:
        exact(scenario_from({**GOOD, **change}))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("compute", "change", "says"),
    [
        (fluid_path, {"buffer": 1_000_000, "service": {"erlang": 64}}, "buffer = 1000000: has 64,000,000 levels and"),
        (fluid_path, {"buffer": None, "arrival_rate": {"steps": [[0, 100], [19, 0.5]]}}, "arrival_rate: 100 until"),
        (report, {"servers": 10**8}, "servers = 100000000: must be at most 10,000"),
    ],
)
def test_what_would_take_for_ever_is_refused(compute, change, says):
    with pytest.raises(ConfigError) as caught:
        compute(scenario_from({**GOOD, **change}))
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    "rate",
    [{"steps": [[0, 0.3], [10, 1.5], [20, 0.3]]}, {"mean": 0.6, "amplitude": 0.5, "period": 12.5}],
)
def test_a_burst_or_a_peak_is_no_overload(rate):
    """The queues fill to a few tasks per server, not by the largest rate for all of the time."""
    path = fluid_path(scenario_from({**GOOD, "buffer": None, "arrival_rate": rate, "horizon": 3000, "warm_up": 0}))
    assert path.q[-1, 5:].max() < 1e-3


def test_a_run_of_large_systems_is_accepted():
    """A million servers for a hundred thousand service times, with the replications that the run asks for."""
    large = {"scenario": {**GOOD, "servers": 10**6, "horizon": 1e5, "replications": 4, "buffer": 500}}
    config = load({**RUN, "experiments": {"a": large}})
    for point in specified_points(chunks(config, "a")[0].specification()):
        assert window(point.scenario).horizon == 1e5


@pytest.mark.parametrize("model", ["tabs", "jiq", "delayed_off", "setup", "always_on"])
@pytest.mark.parametrize(
    "change", [{}, {"standby_rate": 0}, {"abort_setups": False}, {"service": {"erlang": 2}}, {"start": "all_idle_on"}]
)
def test_no_chain_has_fewer_states_than_it_is_said_to_have_at_least(model, change):
    scenario = scenario_from({**GOOD, "servers": 3, "model": model, **change})
    level = None if model in ("tabs", "jiq") else 11
    states = enumerate_states(model_of(scenario).chain(scenario, level)).states
    least, numbers = model_of(scenario).definition.least_states(scenario, level)
    assert least <= len(states)
    if model in ("tabs", "jiq") and scenario.standby_rate:
        assert least == len(states)
        assert len(states[0]) - numbers in (1, scenario.phase_type.phases + 1)  # U and P_k, which follow from the rest


@pytest.mark.parametrize(
    "change",
    [{"horizon": 1e9}, {"servers": 10**8, "horizon": 100}, {"horizon": "auto", "warm_up": "auto", "setup_rate": 1e-9},
     {"service": {"phase_type": {"initial": [1, 0], "rates": [1, 1], "routing": [[0, 1], [1 - 1e-9, 0]]}}}],
)  # fmt: skip
def test_a_simulation_that_would_never_end_is_refused(change, tmp_path, capsys):
    values = {**GOOD, "replications": 1_000_000, **change}
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(values))
    assert main(["simulate", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"elastiqueue: servers = {values['servers']}: ")
    assert error.endswith("events: must be at most 1e+15\n")
    with pytest.raises(ConfigError, match=r"^experiments.a: servers = .*must be at most 1e\+15"):
        load({**RUN, "experiments": {"a": {"scenario": values}}})


@pytest.mark.parametrize(
    ("change", "key"),
    [({"horizon": 1e9, "replications": 10_000}, "horizon = 1000000000.0"),
     ({"servers": 10**7, "horizon": 1e6, "replications": 100}, "servers = 10000000"),
     ({"horizon": "auto", "warm_up": "auto", "setup_rate": 1e-9, "servers": 40}, "horizon = auto"),
     ({"standby_rate": 1e9, "setup_rate": 1e9, "horizon": 1e8, "replications": 100_000}, "horizon = 100000000.0"),
     ({"model": "always_on", "servers": 1, "arrival_rate": 0.99999, "buffer": None, "horizon": "auto",
       "warm_up": "auto", "replications": 12}, "horizon = auto"),
     ({"model": "single_type", "servers": 2, "arrivals": {"law": "binomial", "epsilon": 1e-5}, "slots": "auto",
       "service": {"values": [0, 1], "probabilities": [0.5, 0.5]}, "warm_up": "auto"}, "slots = auto")],
)  # fmt: skip
def test_a_simulation_of_days_is_refused_unless_it_is_asked_for(change, key):
    values = change if "epsilon" in str(change) else {**GOOD, **change}
    if values["model"] == "always_on":
        values = {name: value for name, value in values.items() if name not in ("standby_rate", "setup_rate")}
    pattern = (
        rf"^{key}: all replications would take some \S+ CPU hours: must be at most max_cpu_hours = 24, which can be"
    )
    with pytest.raises(ConfigError, match=pattern):
        window(scenario_from(values))


def test_the_limit_of_cpu_hours_can_be_raised_and_changes_no_result():
    values = {**GOOD, "horizon": 1e8, "replications": 100_000}
    with pytest.raises(ConfigError, match="max_cpu_hours = 24"):
        window(scenario_from(values))
    raised = scenario_from({**values, "max_cpu_hours": 1e5})
    assert window(raised).horizon == 1e8
    assert raised.digest() == scenario_from(values).digest()
    assert settings_digest(raised) == settings_digest(scenario_from(values))
    slotted = {
        "model": "single_type", "servers": 1, "arrivals": {"law": "binomial", "epsilon": 0.5},
        "service": {"values": [0, 2], "probabilities": [0.5, 0.5]},
    }  # fmt: skip
    assert scenario_from({**slotted, "max_cpu_hours": 1}).digest() == scenario_from(slotted).digest()


@pytest.mark.parametrize("command", ["simulate", "exact", "fluid", "stability", "capacity", "estimate"])
@pytest.mark.parametrize("name", ["", "/", "folder", "folder/", "no/file.json", "a\0b", "/dev/null", "n" * 250])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    command, name, tmp_path, root, monkeypatch, capsys
):
    cluster = {"model": "cluster", "servers": 2, "configurations": [[1]], "arrivals": {"law": "poisson", "mean": [1]}}
    (tmp_path / "folder").mkdir()
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(cluster if command == "capacity" else GOOD))
    monkeypatch.chdir(root if command == "estimate" else tmp_path)
    for work in ("results.provenance.Stopwatch", "cli.estimate.predict"):
        monkeypatch.setattr(f"elastiqueue.{work}", None)
    path = name if name in ("", "/", "/dev/null") else f"{tmp_path}/{name}"
    given = [] if command == "estimate" else [str(tmp_path / "scenario.yaml")]
    assert main([command, *given, "--json", path]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("elastiqueue: --json = ")
    assert printed.err.count("\n") == 1
    assert {path.name for path in tmp_path.rglob("*")} == {"scenario.yaml", "folder"}


@pytest.mark.parametrize(
    "arguments",
    [[], ["explore"], ["simulate"], ["simulate", "a", "--speed"], ["stability", "a", "--accuracy", "x"],
     ["estimate", "--cores", "x"], ["simulate", "a\nb", "c\nd"]],
)  # fmt: skip
def test_mistakes_in_the_arguments_are_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("elastiqueue: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["claims", "verify", "manifest", "reference"])
@pytest.mark.parametrize("run", ["", "/tmp", "..", "empty"])
def test_a_run_without_results_is_refused(command, run, tmp_path, root, monkeypatch, capsys):
    (tmp_path / "results" / "empty").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    given = ["--claims", str(root / "config/claims.yaml")] if command == "claims" else []
    assert main([command, "--run", run, *given]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("elastiqueue: --run = ")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", ["ra\0tes.csv", ".", "nowhere.csv"])
def test_a_trace_that_is_no_file_is_refused(name, tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps({**GOOD, "arrival_rate": {"trace": name}}))
    assert main(["simulate", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("elastiqueue: arrival_rate.trace = ")
    assert error.count("\n") == 1
    assert "\0" not in error


def test_a_trace_is_found_beside_its_scenario_and_is_part_of_the_law(tmp_path):
    (tmp_path / "rates.csv").write_text("time,rate\n0,0.2\n5,0.6\n")
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({**GOOD, "arrival_rate": {"trace": "rates.csv"}}))
    scenario = read_scenario(file)
    assert [scenario.arrival.at(t) for t in (0, 4.9, 5, 100)] == [0.2, 0.2, 0.6, 0.6]
    inline = scenario_from({**GOOD, "arrival_rate": {"steps": [[0, 0.2], [5, 0.6]]}})
    assert scenario.digest() == inline.digest()
    (tmp_path / "rates.csv").write_text("time,rate\n0,0.2\n5,0.5\n")
    assert read_scenario(file).digest() != inline.digest()


def test_json_of_the_command_line_keeps_the_contract(tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    assert main(["simulate", str(file), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"scenario", "metrics", "provenance"}
    wanted = {
        "mean_wait", "wait_probability", "loss_probability", "power", "wasted_power", "busy", "idle_on", "idle_off",
        "setup", "queue_tail", "messages_per_task",
    }  # fmt: skip
    assert wanted <= set(document["metrics"])
    one = document["metrics"]["power"]
    assert set(one) == {"mean", "se", "ci95", "n"}
    assert one["n"] == 4
    assert one["ci95"][0] < one["mean"] < one["ci95"][1]
    assert len(document["metrics"]["queue_tail"]["mean"]) == GOOD["buffer"]
    assert main(["exact", str(file), "--set", "model=delayed_off", "--json", str(tmp_path / "exact.json")]) == 0
    exact = json.loads((tmp_path / "exact.json").read_text())
    assert set(exact["metrics"]["power"]) == {"mean"}
    assert exact["metrics"]["mean_wait"]["mean"] > 0


def test_precision_adds_replications_until_the_interval_is_narrow(tmp_path, capsys):
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump({**GOOD, "horizon": 200, "precision": {"metric": "power", "relative": 0.01}}))
    assert main(["simulate", str(file), "--json", "-"]) == 0
    power = json.loads(capsys.readouterr().out)["metrics"]["power"]
    assert power["n"] >= 30
    assert (power["ci95"][1] - power["ci95"][0]) / 2 <= 0.01 * power["mean"]
    assert main(["simulate", str(file), "--set", "precision.metric=speed"]) == 2
    assert "precision.metric = speed" in capsys.readouterr().err


def test_the_module_is_a_command_too():
    done = subprocess.run(
        [sys.executable, "-m", "elastiqueue", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("elastiqueue ")


def test_the_schema_on_disk_is_the_exported_one(root):
    assert (root / "config/schema.json").read_text() == schema_text()


@pytest.mark.parametrize("name", ["config.yaml", "quick.yaml"])
def test_every_key_of_the_configuration_is_described(root, name):
    values = yaml.safe_load((root / "config/config.yaml").read_text())
    if name == "quick.yaml":
        quick = yaml.safe_load((root / "config/quick.yaml").read_text())
        for experiment, change in quick.pop("experiments").items():
            assert experiment in values["experiments"], experiment
            for key, value in change.items():
                old = values["experiments"][experiment].get(key)
                both = isinstance(old, dict) and isinstance(value, dict)
                values["experiments"][experiment][key] = {**old, **value} if both else value
        values.update(quick)
    config = load(values)
    assert {"fig1", "fig2", "fig3", "fig4", "fig5", "fig6"} <= set(config.figures)

    def described(schema):
        for properties in [schema.get("properties", {}), *(d.get("properties", {}) for d in schema["$defs"].values())]:
            for key, value in properties.items():
                yield key, "description" in value or "$ref" in json.dumps(value)

    assert not [key for key, fine in described(json.loads(schema_text())) if not fine]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"experiments": {"a": {"scenario": GOOD, "grid": {"servers": [0]}}}}, "experiments.a: servers = 0"),
        ({"experiments": {"a": {"scenario": GOOD, "gird": {}}}}, "experiments.a.gird"),
        ({"experiments": {"a": {"scenario": GOOD, "split_by": ["colour"]}}}, "split_by = colour"),
        (
            {"experiments": {"a": {"scenario": {**GOOD, "precision": {"metric": "power", "relative": 0.1}}}}},
            "precision",
        ),
        ({"figures": {"f": {"draw": "protocol", "experiments": ["b"], "caption": "c"}}}, "figures.f.experiments = b"),
        ({"figures": {"f": {"draw": "no_such", "experiments": [], "caption": "c"}}}, "figures.f.draw = no_such"),
        (
            {"figures": {"f": {"draw": "stability_map", "experiments": [], "caption": "c"}}},
            "figures.f.experiments = []",
        ),
        (
            {"experiments": {"a": {"scenario": GOOD, "engine": "capacity"}}},
            "experiments.a: model = tabs: capacity is for",
        ),
        (
            {"experiments": {"a": {"scenario": GOOD, "metrics": ["mean_wiat"]}}},
            "experiments.a: metrics = mean_wiat: must",
        ),
        ({"experiments": {"a": {"scenario": GOOD, "metrics": ["busy[1]"]}}}, "experiments.a: metrics = busy[1]"),
        ({"output": "{x}"}, "output = '{x}'"),
        ({"output": ""}, "output = ''"),
        ({"run": "a/b"}, "run = 'a/b'"),
        ({"replications": 1}, "replications = 1"),
        ({"seed": True}, "seed = True: must not be true or false"),
    ],
)
def test_mistakes_in_a_run_configuration_are_one_line(change, says):
    assert load(RUN).run == "r"
    with pytest.raises(ConfigError) as caught:
        load({**RUN, **change})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
def test_the_names_of_metrics_are_those_of_the_models(model):
    slotted = {"slots": 10, "warm_up": 5, "servers": 2, "arrivals": {"law": "poisson", "mean": 0.5}}
    values = {
        "cluster": {
            **slotted,
            "resources": [4],
            "job_types": [[1], [2]],
            "arrivals": {"law": "poisson", "mean": [1, 1]},
        },
        "single_type": slotted,
    }.get(model, {**GOOD, "buffer": 3 if model in ("tabs", "jiq") else None})
    scenario = scenario_from({**values, "model": model})
    names = list(model_of(scenario).metrics(scenario))
    assert {re.sub(r"\[\d+\]", "[i]", name) for name in names} == set(metric_names(scenario))
    assert all(has_metric(scenario, name) for name in names)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({}, "queue_tail[4]"),
        ({}, "queue_tail[i]"),
        ({}, "queue_tail[0]"),
        ({}, "queue_tail"),
        ({}, "busy[1]"),
        ({}, "sup_distance"),
        ({"buffer": None}, "queue_tail[21]"),
        ({"model": "delayed_off", "buffer": None}, "queue_tail[1]"),
        ({"model": "delayed_off", "buffer": None, "record_every": 1}, "sup_distance"),
        (MACHINES, "backlog_by_type[3]"),
        ({**MACHINES, "level": "workload"}, "mean_response"),
    ],
)
def test_a_metric_that_a_scenario_does_not_have_is_not_taken_for_one(change, name):
    values = change if "slots" in change else {**GOOD, **change}
    scenario = scenario_from(values)
    assert not has_metric(scenario, name)
    assert name not in model_of(scenario).metrics(scenario)
    run = {**RUN, "experiments": {"a": {"scenario": values, "metrics": ["growth" if "slots" in change else "power"]}}}
    load(run)
    run["experiments"]["a"]["metrics"].append(name)
    with pytest.raises(ConfigError) as caught:
        load(run)
    assert f"experiments.a: metrics = {name}: must be one" in str(caught.value)


def test_names_with_an_index_and_of_recorded_paths_are_taken():
    assert has_metric(scenario_from(GOOD), "queue_tail[3]")
    assert has_metric(scenario_from({**GOOD, "buffer": None}), "queue_tail[20]")
    assert has_metric(scenario_from({**GOOD, "record_every": 1}), "sup_distance")
    assert has_metric(scenario_from(MACHINES), "backlog_by_type[2]")
    given = {key: value for key, value in MACHINES.items() if key not in ("resources", "job_types")}
    assert scenario_from({**given, "configurations": [[1, 0], [0, 2]]}).types == 2


def test_the_workflow_is_read_without_numpy():
    """The Snakefile imports this, and every job on a cluster reads the Snakefile."""
    code = "import sys, elastiqueue.workflow.experiments; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
