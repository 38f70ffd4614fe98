"""Any file is a run or one line: named mistakes with the message expected, and whatever hypothesis makes up."""

from __future__ import annotations

import string

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastiqueue.errors import printable
from elastiqueue.scenarios.reading import ConfigError, parse_yaml, read_yaml, scenario_from
from elastiqueue.workflow.experiments import check_output, chunks, load
from elastiqueue.workflow.runs import composed
from tests.conftest import ROOT

TABS = "model: tabs, servers: 4, arrival_rate: 0.3, standby_rate: 0.1, setup_rate: 0.1, buffer: 3, horizon: 20"
BASE = f"run: mine\nexperiments:\n  a:\n    scenario: {{{TABS}}}\n"
IN = "    "  # further keys of the experiment

MISTAKES = {
    # what is no YAML, by the core schema of version 1.2
    "empty": ("", "must hold a mapping"),
    "list": ("[1, 2]", "must hold a mapping"),
    "text": ("hello", "must hold a mapping"),
    "open bracket": ("run: [1", "is not YAML"),
    "tab": ("run: mine\n\tx: 1", "is not YAML"),
    "control character": ("run: \x01", "is not YAML"),
    "two documents": ("run: a\n---\nrun: b", "expected a single document"),
    "key twice": ("run: a\nrun: b", "has run twice"),
    "key twice inside": ("experiments: {a: {block: 1, block: 2}}", "has block twice"),
    "key number": ("1: 2", "has a key that is not text: 1"),
    "key null": ("~: 2", "has a key that is not text: ~"),
    "key true": ("true: 2", "has a key that is not text: true"),
    "key list": ("? [1]\n: 2", "has a key that is not text: a list or mapping"),
    "binary": ("run: !!binary aGFsbG8=", "tag:yaml.org,2002:binary"),
    "timestamp": ("run: !!timestamp 2024-05-01", "tag:yaml.org,2002:timestamp"),
    "set": ("run: !!set {a}", "tag:yaml.org,2002:set"),
    "own tag": ("run: !mine 3", "'!mine'"),
    "python": ("run: !!python/object/apply:os.system [ls]", "python/object/apply"),
    "no int": ("seed: !!int three", "three is not a valid int"),
    "no float": ("seed: !!float 1:30", "1:30 is not a valid float"),
    "cycle": ("a: &a [*a]", "an anchor holds itself"),
    "cycle of mappings": ("a: &a {b: *a}", "an anchor holds itself"),
    "nested": ("a: " + "[" * 60 + "]" * 60, "nested more than 50 deep"),
    "nested far": ("[" * 3000, "is not YAML"),
    "laughs": (
        "x: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"x{k}: &x{k} [{', '.join([f'*x{k - 1}'] * 10)}]\n" for k in range(1, 8)),
        "holds more than 1,000,000 values",
    ),
    "unknown anchor": ("a: *b", "undefined alias"),
    "5000 digits": ("seed: 1" + "0" * 5000, "has 5,001 digits: at most 1000"),
    "merge of a number": ("a: {<<: 3}", "is not YAML"),
    "latin-1": (b"run: caf\xe9", "byte 9 is not UTF-8"),
    "utf-16": ("run: mine".encode("utf-16"), "byte 1 is not UTF-8"),
    # the run
    "no experiments": (
        "run: mine\nfigures: {f: {draw: protocol, experiments: [], caption: c}}",
        "experiments: is miss",
    ),
    "name of a run": (BASE.replace("mine", "my/run"), "run = 'my/run'"),
    "run is a number": (BASE.replace("mine", "3"), "run = 3"),
    "run of the papers": (BASE.replace("mine", "paper"), "run = paper: must be another name"),
    "extends": ("extends: mine\n" + BASE, "extends = 'mine': must be papers"),
    "unknown key": (BASE + "speed: 3", "speed = 3: is not a known key"),
    "seed": (BASE + "seed: -1", "seed = -1"),
    "seed is a text": (BASE + "seed: new", "seed = 'new'"),
    "seed is a time": (BASE + "seed: 1:30", "seed = '1:30'"),
    "seed is true": (BASE + "seed: true", "seed = True: must not be true or false"),
    "seed is infinite": (BASE + "seed: .inf", "seed = inf"),
    "one replication": (BASE + "replications: 1", "replications = 1"),
    "half a replication": (BASE + "replications: 2.5", "replications = 2.5"),
    "replications null": (BASE + "replications: null", "replications = None"),
    "output empty": (BASE + "output: ''", "output = ''"),
    "output with braces": (BASE + "output: 'a{b}'", "output = 'a{b}'"),
    "output above": (BASE + "output: ..", "output = '..'"),
    "output here": (BASE + "output: results/..", "output = results/..: must be a folder of its own"),
    "output is the root": (BASE + "output: /", "output = /: must be a folder of its own"),
    "output in the sources": (BASE + "output: src/new", "output = src/new: must not lie in sources"),
    "output over the references": (BASE + "output: paper_figures/reference", "must not lie in sources"),
    "output of the papers": (BASE + "output: paper_figures", "output = paper_figures: is that of the papers' run"),
    "output among the papers' files": (BASE + "output: paper_figures/data", "is that of the papers' run"),
    "output is a file": (BASE + "output: /etc/passwd/new", "output = /etc/passwd/new: must be a folder"),
    "output too long": (BASE + f"output: {'a' * 300}", "must be the name of a folder (File name too long)"),
    "output of all runs": (BASE + "output: results", "must not be the results of another run"),
    "output of another run": (BASE + "output: results/yours/figures", "must not be the results of another run"),
    "experiments a list": ("run: mine\nexperiments: [a]", "experiments = ['a']"),
    "experiment null": ("run: mine\nexperiments: {a: null}", "experiments.a = None"),
    "name of an experiment": (BASE.replace("  a:", "  a b:"), "experiments"),
    "no scenario": ("run: mine\nexperiments: {a: {block: 3}}", "experiments.a.scenario: is missing"),
    "scenario a text": ("run: mine\nexperiments: {a: {scenario: tabs}}", "experiments.a.scenario = 'tabs'"),
    "key of an experiment": (BASE + IN + "gird: {}", "experiments.a.gird"),
    "engine": (BASE + IN + "engine: simulator", "experiments.a.engine = 'simulator'"),
    "engine of another model": (BASE + IN + "engine: capacity", "experiments.a: model = tabs: capacity is for cluster"),
    **{
        f"{engine} of aborted setups": (
            BASE + IN + f"engine: {engine}\n    grid: {{abort_setups: [false, true]}}",
            "experiments.a: abort_setups = true: must be false",
        )
        for engine in ("fluid", "fluid_stability")
    },
    "block": (BASE + IN + "block: 0", "experiments.a.block = 0"),
    "blocks": (BASE + IN + "block: 1\n    grid: {replications: [1000000]}", "block = 1: 1,000,000 jobs"),
    "grid of 10^8": (
        BASE + IN + "grid: {" + ", ".join(f"{key}: [{', '.join(['1'] * 100)}]" for key in "abcd") + "}",
        "experiments.a: grid: has 100,000,000 combinations",
    ),
    "grid of seeds": (BASE + IN + "grid: {seed: [1, 2]}", "experiments.a: grid.seed = [1, 2]: must be one value"),
    "grid empty": (BASE + IN + "grid: {servers: []}", "experiments.a.grid.servers = []"),
    "grid a number": (BASE + IN + "grid: {servers: 3}", "experiments.a.grid.servers = 3"),
    "grid of a wrong value": (BASE + IN + "grid: {servers: [3, 0]}", "experiments.a: servers = 0"),
    "grid of an unknown key": (BASE + IN + "grid: {colour: [3]}", "experiments.a: colour = 3"),
    "split by nothing": (BASE + IN + "split_by: [colour]", "experiments.a: split_by = colour"),
    "cases empty": (BASE + IN + "cases: []", "experiments.a.cases = []"),
    "case a text": (BASE + IN + "cases: [fast]", "experiments.a.cases.0 = 'fast'"),
    "label nan": (BASE + IN + "cases: [{label: .nan}]", "experiments.a: label = nan: must be a text"),
    "label null": (BASE + IN + "cases: [{label: null}]", "experiments.a: label = None: must be a text"),
    "label true": (BASE + IN + "cases: [{label: true}]", "experiments.a: label = True: must be a text"),
    "label a list": (BASE + IN + "cases: [{label: [a]}]", "experiments.a: label = ['a']: must be a text"),
    "label of two lines": (BASE + IN + 'cases: [{label: "a\\nb"}]', "must be one line"),
    "label long": (BASE + IN + f"cases: [{{label: {'a' * 300}}}]", "must be one line of at most 200"),
    "metric": (BASE + IN + "metrics: [mean_wiat]", "experiments.a: metrics = mean_wiat: must be one"),
    "metrics a text": (BASE + IN + "metrics: power", "experiments.a.metrics = 'power'"),
    "precision": (BASE + IN + "grid: {precision.metric: [power], precision.relative: [.1]}", "precision: is for"),
    "figure of nothing": (
        BASE + "figures: {f: {draw: protocol, experiments: [b], caption: c}}",
        "figures.f.experiment",
    ),
    "figure unknown": (BASE + "figures: {f: {draw: pie, experiments: [a], caption: c}}", "pie"),
    "claims of nowhere": (BASE + "claims: 3", "claims = 3"),
    # the scenario
    **{
        f"scenario: {old} -> {new}": (BASE.replace(old, new), says)
        for old, new, says in (
            ("model: tabs", "model: tab", "model = 'tab'"),
            ("model: tabs", "model: 3", "model = 3"),
            ("model: tabs", "model: [tabs]", "model = ['tabs']"),
            ("model: tabs", "model: nowhere.py", "nowhere.py"),
            ("servers: 4", "servers: 0", "servers = 0"),
            ("servers: 4", "servers: four", "servers = 'four'"),
            ("servers: 4", "servers: 4:30", "servers = '4:30'"),
            ("servers: 4", "servers: 2.5", "servers = 2.5"),
            ("servers: 4", "servers: 1e30", "servers"),
            ("servers: 4", "servers: yes", "servers = 'yes'"),
            ("servers: 4", "servers: null", "servers = None"),
            ("servers: 4", "servers: {a: 1}", "servers = {'a': 1}"),
            ("servers: 4", "serves: 4", "serve"),
            ("arrival_rate: 0.3", "arrival_rate: -1", "arrival_rate = -1"),
            ("arrival_rate: 0.3", "arrival_rate: .nan", "arrival_rate = nan"),
            ("arrival_rate: 0.3", "arrival_rate: 2024-05-01", "arrival_rate = '2024-05-01'"),
            ("arrival_rate: 0.3", "arrival_rate: {trace: nowhere.csv}", "nowhere.csv: must be a CSV file"),
            ("arrival_rate: 0.3", "arrival_rate: {trace: 3}", "arrival_rate.trace = 3"),
            ("arrival_rate: 0.3", "arrival_rate: {trace: [a]}", "arrival_rate.trace = ['"),
            ("arrival_rate: 0.3", "arrival_rate: {trace: a.csv, time_unit: day}", "arrival_rate.time_unit = 'day'"),
            ("arrival_rate: 0.3", "arrival_rate: {steps: [[1, 0.3]]}", "arrival_rate.times[0] = 1"),
            ("setup_rate: 0.1", "setup_rate: 0", "setup_rate = 0"),
            ("setup_rate: 0.1", "setup_rate: .inf", "setup_rate = inf"),
            ("horizon: 20", "horizon: 0", "horizon = 0"),
            ("horizon: 20", "horizon: auto", "warm_up"),
            ("horizon: 20", "horizon: 1e9, replications: 1000000", "must be at most"),
            ("buffer: 3", "buffer: 010x", "buffer = '010x'"),
            ("buffer: 3", "service: normal", "service = 'normal'"),
            ("buffer: 3", "waits: 99", "waits = 99"),
            ("buffer: 3", "waits: {percentiles: [100]}", "waits.percentiles.0 = 100"),
            ("buffer: 3", "waits: {percentiles: 99}", "waits.percentiles = 99"),
            ("buffer: 3", "waits: {percentiles: [p99]}", "waits.percentiles.0 = 'p99'"),
            ("buffer: 3", "waits: {times: [0]}", "waits.times.0 = 0"),
            ("buffer: 3", "waits: {times: [.inf]}", "waits.times.0 = inf"),
            ("buffer: 3", "waits: {times: [50 ms]}", "waits.times = 50 ms: needs units.service_time"),
            ("buffer: 3", "waits: {times: [true]}", "waits.times = [True]: must not be true or false"),
            ("buffer: 3", "waits: {at: [1]}", "waits.at = [1]: is not a known key"),
        )
    },
}


def _read(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(composed(read_yaml(path), "config/config.yaml", "config/claims.yaml"))


def test_there_are_at_least_a_hundred_and_the_base_is_fine(tmp_path, root, monkeypatch):
    monkeypatch.chdir(root)
    assert len(MISTAKES) >= 100
    config = _read(tmp_path / "run.yaml", BASE + "replications: 010\nseed: 1e2\n" + IN[4:])
    assert (config.replications, config.seed) == (10, 100)
    labels = _read(
        tmp_path / "run.yaml", BASE + IN + "cases: [{label: 2024-05-01}, {label: no}, {label: NA}, {label: 1}]"
    )
    assert [point["label"] for point in labels.experiments["a"].cases] == ["2024-05-01", "no", "NA", 1]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(name, tmp_path, root, monkeypatch):
    monkeypatch.chdir(root)
    content, says = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path / "run.yaml", content)
    assert says in printable(caught.value)
    assert len(printable(caught.value)) < 1000


def test_another_run_in_the_same_output_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/manifest.json").write_text('{"run": "yours"}')
    with pytest.raises(ConfigError, match="holds the results of the run yours; run mine needs another folder"):
        _read(tmp_path / "run.yaml", BASE + "output: pictures")


@pytest.mark.parametrize("inside", ["", "config/new", "results/mine", "paper_figures"])
@pytest.mark.parametrize("way", ["{}", "{}/../project", "link"])
def test_the_files_of_another_checkout_are_safe(inside, way, tmp_path, monkeypatch):
    (tmp_path / "project/workflow").mkdir(parents=True)
    (tmp_path / "project/workflow/Snakefile").touch()
    (tmp_path / "study").mkdir()
    (tmp_path / "study/link").symlink_to("../project")
    monkeypatch.chdir(tmp_path / "study")
    output = f"{way.format(tmp_path / 'project')}/{inside}".rstrip("/")
    with pytest.raises(ConfigError) as caught:
        load({**yaml.safe_load(BASE), "output": output})
    _check_line(caught.value, f"output = {output}: ")


def _check_line(error, start=""):
    assert printable(error).startswith(start)
    assert len(printable(error)) < 2000


PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable, max_size=8)
    | st.sampled_from(["auto", "tabs", "jiq", "cluster", "delayed_off", "exponential", "poisson", "jsq", 0.5, 3, 1e9])
)  # fmt: skip
WORDS = """
    model servers arrival_rate standby_rate setup_rate buffer service start horizon warm_up record_every replications
    precision seed power slots resources job_types arrivals job_sizes facet classes configurations law mean load units
    epsilon trace steps time_unit erlang phase_type initial rates routing metric relative label grid cases scenario
    block split_by engine metrics experiments figures draw caption claims run output a b
    waits percentiles times tables rows columns value digits format where
"""
KEYS = st.sampled_from(WORDS.split())
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
GOOD = parse_yaml(BASE, "base")


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=4), VALUES), min_size=1, max_size=3), VALUES)
def test_any_run_file_is_planned_or_refused_in_one_line(changes, whole):
    """Good values with some keys replaced, at any depth, and values made up altogether."""
    values = parse_yaml(yaml.safe_dump(GOOD), "good")
    for path, value in changes:
        place = values
        for key in path[:-1]:
            inner = {"experiments": GOOD["experiments"]}.get(key, {})
            place = place.setdefault(key, inner) if isinstance(place.get(key, inner), dict) else {}
        place[path[-1]] = value
    for text in (yaml.safe_dump(values), yaml.safe_dump(whole)):
        try:
            read = parse_yaml(text, "run.yaml")
            if isinstance(read, dict):
                config = load(
                    composed({"run": "r", "experiments": {}, **read}, "config/config.yaml", "config/claims.yaml")
                )
                for name in config.experiments:
                    chunks(config, name)
        except ConfigError as error:
            _check_line(error)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_scenario_is_read_or_refused_in_one_line(changes):
    base = GOOD["experiments"]["a"]["scenario"]
    try:
        scenario_from({**base, **changes}).digest()
    except ConfigError as error:
        _check_line(error)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(string.printable + "\xe9\u2028\ufeff\x00", max_size=60))
def test_any_text_is_yaml_or_refused_in_one_line(text):
    try:
        parse_yaml(text, "name")
    except ConfigError as error:
        _check_line(error, "name: is not YAML: ")


def test_the_results_of_an_example_stand_beside_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """In `config/`, whose other folders hold settings."""
    monkeypatch.chdir(ROOT / "config" / "examples")
    check_output("mine", "results/mine")
    with pytest.raises(ConfigError, match="must not lie in sources, settings"):
        check_output("mine", "policies/mine")
