"""The compiled simulators of the service models: same bits, invariants on paths, and the chain's balance."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.engines.exact import exact
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.models.definitions import accelerated
from elastiqueue.models.registry import model_of
from elastiqueue.models.tabs import blocks
from elastiqueue.sampling.rng import exponential, next_word, uniform
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.scenarios.registry import MODELS

BASE = {"arrival_rate": 0.6, "standby_rate": 0.3, "setup_rate": 0.2, "buffer": 6, "seed": 3}
SHORT_RUN = """
import json, sys
import numpy as np
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.scenarios.registry import MODELS
from elastiqueue.engines.simulation import simulate
out = []
for values in json.loads(sys.argv[1]):
    for direct in (False, True):
        totals, paths = simulate(scenario_from(values), 0, 2, direct=direct)
        out.append([totals.tobytes().hex(), paths.tobytes().hex()])
print(json.dumps(out))
"""


def _short_scenarios():
    common = {**BASE, "horizon": 12, "warm_up": 2, "record_every": 3}
    return [
        {**common, "model": "tabs", "servers": 7},
        {**common, "model": "tabs", "servers": 7, "buffer": None, "start": "all_off"},
        {**common, "model": "tabs", "servers": 5, "arrival_rate": {"mean": 0.5, "amplitude": 0.4, "period": 6}},
        {**common, "model": "tabs", "servers": 5, "abort_setups": True},
        {**common, "model": "jiq", "servers": 7},
        {**common, "model": "jiq", "servers": 2000, "horizon": 3},  # runs of coin flips
        {**common, "model": "delayed_off", "servers": 7},
        {**common, "model": "delayed_off", "servers": 7, "abort_setups": False},
        {**common, "model": "delayed_off", "servers": 7, "staggered": True},
        {**common, "model": "setup", "servers": 7},
        {**common, "model": "always_on", "servers": 7},
    ]


def test_compiled_and_interpreted_kernels_give_the_same_bits():
    outputs = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", SHORT_RUN, json.dumps(_short_scenarios())],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        outputs.append(json.loads(done.stdout))
    assert outputs[0] == outputs[1]
    assert len({json.dumps(one) for one in outputs[0]}) == len(outputs[0]) - 1  # one has the plain simulator only


@pytest.mark.parametrize(
    ("idle", "events"), [(380, 30_000), (3, 3_000)], ids=["far from no idle-on server", "close to it"]
)
def test_runs_of_coin_flips_are_the_same_events_one_by_one(idle, events):
    """`_flips` beside a plain reading of the same draws: flips singly, rates in floating point, limits checked."""
    n, arrival, doubtful, mu, nu = 2000, 1203.4, 2.5, 0.02, 0.3
    off, setup, coin, wander = 630 - idle, 120, 1100, 80
    queue, others = np.array([0, 1250, 12, 3, 0, 0, 0, 0]), np.array([idle, off, setup, 3])
    words, counts, moved = stream(1, "ab", idle), np.zeros(len(blocks.COUNTS), np.int64), np.zeros(10, np.int64)
    bound = arrival + doubtful + 1250 + mu * idle + nu * setup + wander
    draws = words.copy()
    arguments = (n, arrival, doubtful, bound, coin, mu, nu, 6, 0, events, queue, others, words, counts, moved)
    done, doubt = blocks._flips(*arguments)

    q1, q = 1250, [0, 0, 12, 3, 0, 0, 0, 0]  # q[i], i >= 2
    rest, k, change, tally = bound - 2 * coin, 0, np.zeros(10), dict.fromkeys(blocks.COUNTS, 0)
    met_nobody, ends = 0, False

    def slack() -> float:
        return bound - (arrival + doubtful + q1 + mu * idle + nu * setup)

    def new_run() -> int:
        return int(-exponential(draws) / np.log(2 * coin / bound))

    def step(up: int, at: float) -> None:
        nonlocal q1, idle
        assert idle > 0 or up < 0
        assert q1 - q[2] >= coin
        assert slack() >= -1e-9
        q1, idle = q1 + up, idle - up
        tally["arrivals" if up > 0 else "green"] += 1
        change[[0, 3]] += np.array([-up, up]) * at

    def arrive_at_a_busy_server(share: float) -> None:
        nonlocal off, setup
        tally["arrivals"] += 1
        i = 1
        while share * q1 < q[i + 1]:
            i += 1
        q[i + 1] += 1
        change[i + 3] += k
        tally["waited"] += 1
        tally["found"] += i
        if off > 0:
            off, setup = off - 1, setup + 1
            change[[1, 2]] += np.array([-k, k])
            tally["setups_started"] += 1

    with np.errstate(over="ignore"):
        run = new_run()
        while k < events and q1 - q[2] >= coin and slack() >= 0 and not ends:
            if idle > 0:
                limit = min(idle, q1 - q[2] - coin + 1, int(slack() / (1 - mu)) + 1, events - k)
                flips = min(run, limit)
                bits = [
                    bit
                    for first in range(0, flips + 1, 64)
                    for bit in _first_bits(int(next_word(draws)), min(64, flips - first))
                ]
                for bit in bits:
                    step(1 if bit else -1, k + (flips + 1) / 2)
                k, run = k + flips, run - flips
                if flips == limit:
                    continue
            elif run > 0:
                run, k = run - 1, k + 1
                word = int(next_word(draws))
                if word % 2:
                    met_nobody += 1
                    arrive_at_a_busy_server((word >> 11) / 2**53)
                else:
                    step(-1, k)
                continue
            k += 1
            run = new_run()
            y = uniform(draws) * rest - (arrival - coin)
            if y < 0 and idle > 0:
                step(1, k)
            elif y < 0:
                arrive_at_a_busy_server(1 + y / (arrival - coin))
            elif y < q1 - q[2] - coin:
                step(-1, k)
            else:
                x = coin + rest - arrival - y  # from the top
                if x < q[2]:
                    tally["shortened"] += 1
                    i = 2
                    while x < q[i + 1]:
                        i += 1
                    q[i] -= 1
                    change[i + 2] -= k
                elif x < q[2] + mu * idle:
                    idle, off = idle - 1, off + 1
                    tally["red"] += 1
                    change[[0, 1]] += np.array([-k, k])
                elif x < q[2] + mu * idle + nu * setup:
                    setup, idle = setup - 1, idle + 1
                    tally["setups"] += 1
                    change[[2, 0]] += np.array([-k, k])
                else:
                    ends = x < q[2] + mu * idle + nu * setup + doubtful
    assert done == k > 100
    assert doubt == ends
    assert queue[1:].tolist() == [q1, *q[2:]]
    assert others[:3].tolist() == [idle, off, setup]
    assert dict(zip(blocks.COUNTS, counts.tolist(), strict=True)) == tally
    assert min(tally[name] for name in ("setups", "shortened")) > 0
    assert (met_nobody > 0) == (events == 3_000)
    assert moved.tolist() == (2 * change).tolist()
    assert words.tolist() == draws.tolist()


def _first_bits(word: int, count: int) -> list[int]:
    return [int(bit) for bit in f"{word:064b}"[:count]]


@pytest.mark.parametrize("direct", [False, True], ids=["fast", "plain"])
def test_where_nobody_waits_the_busy_servers_are_those_of_infinitely_many(direct):
    """JIQ from all idle: Q_1(t) is Poisson of mean lambda N (1 - exp(-t)), and arrivals are Poisson; flips from t = 2.

    Means at 5 standard errors; the variances of 400 values too, whose relative standard error is sqrt(2/400).
    """
    scenario = scenario_from(
        {
            "model": "jiq",
            "servers": 2000,
            "arrival_rate": 0.3,
            "start": "all_idle_on",
            "horizon": 8,
            "record_every": 0.5,
        }
    )
    totals, paths = simulate(scenario, 0, 400, direct=direct)
    times, column = np.arange(0.5, 8.5, 0.5), dict(zip(model_of(scenario).columns(scenario), totals.T, strict=True))
    mean = 600 * (1 - np.exp(-times))
    busy = 2000 * paths[:, 1:, 4]
    assert (np.abs(busy.mean(axis=0) - mean) <= 5 * np.sqrt(mean / 400)).all()
    assert (np.abs(busy.var(axis=0) / mean - 1) <= 5 * np.sqrt(2 / 400)).all()
    assert abs(column["arrivals"].mean() - 4800) <= 5 * np.sqrt(4800 / 400)
    assert abs(column["arrivals"].var() / 4800 - 1) <= 5 * np.sqrt(2 / 400)
    area = 600 * (8 - 1 + np.exp(-8.0))
    assert abs(column["q_1"].mean() - area) <= 5 * column["q_1"].std() / 20
    assert np.allclose(column["q_1"] + column["idle_on"], 16_000)


def test_same_seed_same_bits_and_replications_differ():
    scenario = scenario_from({**BASE, "model": "tabs", "servers": 30, "horizon": 50})
    first, again = simulate(scenario, 0, 4)[0], simulate(scenario, 0, 4)[0]
    assert first.tobytes() == again.tobytes()
    assert len({row.tobytes() for row in first}) == 4
    part = simulate(scenario, 2, 4)[0]
    assert part.tobytes() == first[2:].tobytes()
    other = simulate(scenario_from({**BASE, "model": "tabs", "servers": 30, "horizon": 50, "seed": 4}), 0, 4)[0]
    assert other.tobytes() != first.tobytes()


def test_the_power_model_leaves_the_stream_alone():
    scenario = scenario_from({**BASE, "model": "tabs", "servers": 3})
    warmer = scenario_from({**BASE, "model": "tabs", "servers": 3, "power": {"full": 300, "idle": 1, "off": 1}})
    assert scenario.digest() == warmer.digest()
    assert scenario.digest() != scenario_from({**BASE, "model": "tabs", "servers": 4}).digest()


rates = st.floats(0.01, 10)


@settings(max_examples=60, deadline=None)
@given(
    servers=st.integers(1, 60), load=st.floats(0, 1.5), mu=rates, nu=rates, buffer=st.integers(1, 8),
    start=st.sampled_from(["fixed_point", "all_idle_on", "all_off"]), model=st.sampled_from(["tabs", "jiq"]),
    direct=st.booleans(), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_paths_of_tabs_keep_their_invariants(servers, load, mu, nu, buffer, start, model, direct, seed):
    if model == "jiq" and start == "all_off":
        start = "all_idle_on"
    scenario = scenario_from(
        {
            "model": model,
            "servers": servers,
            "arrival_rate": load,
            "standby_rate": mu,
            "setup_rate": nu,
            "buffer": buffer,
            "start": start,
            "horizon": 20,
            "record_every": 0.5,
            "seed": seed,
        }
    )
    grid = np.arange(0, 20.5, 0.5)
    run = model_of(scenario).simulate(scenario, stream(seed, scenario.digest(), 0), (0.0, 20.0), grid, direct)
    counts = run.path * servers
    assert np.allclose(counts, np.round(counts), atol=1e-9)
    assert counts.min() >= 0
    tail = counts[:, 4:]
    assert np.allclose(counts[:, :3].sum(axis=1) + tail[:, 0], servers)  # idle-on + off + setup + q_1 = N
    assert (np.diff(tail, axis=1) <= 1e-9).all()  # q_i decreasing in i
    assert np.allclose(counts[:, 3], tail.sum(axis=1))
    assert len(model_of(scenario).components(scenario)) == counts.shape[1]
    total = dict(zip(model_of(scenario).columns(scenario), run.totals[0], strict=True))
    time_of_servers = total["idle_on"] + total["idle_off"] + total["setup"] + total["q_1"]
    assert time_of_servers == pytest.approx(20 * servers, rel=1e-9)
    assert total["arrivals"] == total["accepted"] + total["lost_off"] + total["lost_full"]
    departures = total["green"] + total["shortened"]
    tasks = counts[-1, 3] - counts[0, 3]
    assert total["accepted"] - departures == pytest.approx(tasks)
    assert total["setups_started"] - total["setups"] == pytest.approx(counts[-1, 2] - counts[0, 2])
    assert total["waiting"] == pytest.approx(sum(total[f"q_{i}"] for i in range(2, buffer + 1)), rel=1e-9, abs=1e-9)
    assert total["green"] <= total["accepted"] + servers


@settings(max_examples=40, deadline=None)
@given(
    servers=st.integers(1, 60), load=st.floats(0, 0.99), mu=rates, nu=rates, direct=st.booleans(),
    model=st.sampled_from(["delayed_off", "setup", "always_on"]), rule=st.sampled_from(["abort", "keep", "stagger"]),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_paths_of_the_central_queue_keep_their_invariants(servers, load, mu, nu, direct, model, rule, seed):
    options = {"abort_setups": rule != "keep", "staggered": rule == "stagger"} if model != "always_on" else {}
    scenario = scenario_from(
        {
            "model": model,
            "servers": servers,
            "arrival_rate": load,
            "standby_rate": mu,
            "setup_rate": nu,
            "horizon": 20,
            "seed": seed,
            **options,
        }
    )
    grid = np.arange(0, 20.5, 0.5)
    module = model_of(scenario)
    run = module.simulate(scenario, stream(seed, scenario.digest(), 0), (0.0, 20.0), grid, direct)
    counts = run.path * servers
    assert np.allclose(counts, np.round(counts), atol=1e-9)
    assert counts.min() >= 0
    assert np.allclose(counts[:, :4].sum(axis=1), servers)
    waits, idle, off, setup = counts[:, 4] > 0.5, counts[:, 0] > 0.5, counts[:, 1], counts[:, 2]
    assert not (waits & idle).any()  # no task waits beside an idle-on server
    if model == "setup":
        assert not idle.any()
    if rule == "abort" and model != "always_on":
        assert np.allclose(setup, np.minimum(counts[:, 4], setup + off))
    if rule == "stagger" and model != "always_on":
        assert setup.max() <= 1
    total = dict(zip(module.columns(scenario), run.totals[0], strict=True))
    assert total["arrivals"] - total["departures"] == pytest.approx(counts[-1, 3:].sum() - counts[0, 3:].sum())


def test_nobody_owns_n_server_objects():
    """Ten thousand times the servers, the same length of the state: cost per event must not depend on N."""
    small = scenario_from({**BASE, "model": "tabs", "servers": 100})
    large = scenario_from({**BASE, "model": "tabs", "servers": 1_000_000})
    assert model_of(small).columns(small) == model_of(large).columns(large)


def test_an_unlimited_buffer_is_a_very_long_one():
    """A buffer that never fills gives the path of an unlimited one, event by event, also where arrays must grow."""
    values = {
        **BASE,
        "model": "tabs",
        "servers": 2,
        "arrival_rate": 0.9,
        "standby_rate": 2.0,
        "setup_rate": 0.05,
        "horizon": 400,
    }
    endless = scenario_from({**values, "buffer": None})
    long = scenario_from({**values, "buffer": 2000})
    for direct in (False, True):
        words = stream(1, "ab", 0)
        one = model_of(endless).simulate(endless, words.copy(), (0.0, 400.0), np.empty(0), direct)
        two = model_of(long).simulate(long, words.copy(), (0.0, 400.0), np.empty(0), direct)
        first = dict(zip(model_of(endless).columns(endless), one.totals[0], strict=True))
        second = dict(zip(model_of(long).columns(long), two.totals[0], strict=True))
        assert second["lost_full"] == 0
        assert second["q_45"] > 0  # beyond the first allocation
        assert all(first[name] == second[name] for name in first if name in second)
        grid = np.linspace(0.0, 400.0, 5)
        paths = [model_of(one).simulate(one, words.copy(), (0.0, 400.0), grid, direct).path for one in (endless, long)]
        assert np.array_equal(paths[0], paths[1][:, : paths[0].shape[1]])
        assert paths[0][-1, 3] > paths[0][-1, 4:].sum() + 1  # tasks are counted at all levels, the tail is cut


@pytest.mark.parametrize("model", [name for name, row in MODELS.items() if row.continuous])
def test_every_model_counts_the_events_that_its_readable_chain_has(model):
    scenario = scenario_from({**BASE, "model": model, "servers": 3})
    module = model_of(scenario)
    chain = module.chain(scenario, 12)
    names = set(module.columns(scenario))
    seen, todo = {chain.initial}, [chain.initial]
    assert set(chain.occupancy([chain.initial])) <= names
    while todo and len(seen) < 3000:
        state = todo.pop()
        for rate, after, counts in chain.transitions(state):
            assert rate > 0
            assert set(counts) <= names
            if after not in seen:
                seen.add(after)
                todo.append(after)


@pytest.mark.parametrize(
    "keys",
    [
        {"servers": 50},
        {"servers": 3000, "standby_rate": 0.02, "start": "all_idle_on"},
        {"standby_rate": 8, "servers": 50},
    ],
    ids=str,
)
def test_time_averages_of_blocks_and_of_single_events_agree(keys):
    """The block estimator replaces interval lengths by expectations: same mean (to 5 standard errors)."""
    scenario = scenario_from({**BASE, "model": "tabs", "horizon": 60, "warm_up": 10, **keys})
    fast = estimates(scenario, simulate(scenario, 0, 300)[0])
    plain = estimates(scenario, simulate(scenario, 300, 600, direct=True)[0])
    for name in fast:
        error = np.hypot(fast[name].se, plain[name].se)
        rounding = 1e-12 * abs(plain[name].mean)  # where nobody waits a response is a service: no error but that
        assert abs(fast[name].mean - plain[name].mean) <= 5 * error + rounding, name


@pytest.mark.parametrize("model", ["tabs", "delayed_off"])
@pytest.mark.parametrize("service", ["exponential", {"coxian": 3.0}])
def test_batches_of_one_replication_add_up_to_the_whole(model: str, service: object) -> None:
    """What is counted in (e_0, e_M] is the sum over its stretches, where the pauses (here: the grid) are the same."""
    scenario = scenario_from({**BASE, "model": model, "servers": 30, "service": service, "horizon": 50})
    module, grid = model_of(scenario), np.array([5.0, 20.0, 45.0, 50.0])
    whole = module.simulate(scenario, stream(1, "ab", 0), (5.0, 50.0), grid)
    parts = module.simulate(scenario, stream(1, "ab", 0), (5.0, 20.0, 45.0, 50.0), grid)
    assert parts.totals.shape == (3, whole.totals.shape[1])
    np.testing.assert_allclose(parts.totals.sum(axis=0), whole.totals[0], rtol=1e-12)
    np.testing.assert_array_equal(parts.path, whole.path)


@pytest.mark.parametrize("service", ["exponential", {"erlang": 2}], ids=str)
@pytest.mark.parametrize("direct", [False, True], ids=["fast", "plain"])
def test_with_instant_standby_servers_without_a_task_are_off_from_the_start(service: object, direct: bool) -> None:
    """Model `setup` from all_idle_on: nothing arrives, so that every server is off all the time."""
    values = {"model": "setup", "servers": 50, "arrival_rate": 0, "setup_rate": 1, "start": "all_idle_on"}
    scenario = scenario_from({**values, "service": service, "horizon": 10, "record_every": 5})
    totals, paths = simulate(scenario, 0, 2, direct=direct)
    column = dict(zip(model_of(scenario).columns(scenario), totals.T, strict=True))
    assert (column["idle_off"] == 500).all()
    assert (paths[:, :, model_of(scenario).components(scenario).index("idle_off")] == 1).all()


@pytest.mark.parametrize(
    ("model", "service"), [("tabs", "exponential"), ("tabs", {"erlang": 2}), ("delayed_off", "exponential")], ids=str
)
def test_fast_clocks_in_small_systems_cost_no_events_that_are_none(model: str, service: object) -> None:
    """Blocks with a bound 1000 above the total rate would draw hundreds of times per event: none applies there."""
    small = scenario_from({**BASE, "model": model, "servers": 2, "standby_rate": 1000, "setup_rate": 1000,
                           "service": service})  # fmt: skip
    large = scenario_from({**BASE, "model": model, "servers": 2000, "service": service})
    assert accelerated(small) is None
    assert accelerated(large) is not None


def test_power_that_serves_no_task_is_power_less_that_of_busy_servers() -> None:
    """Tasks that are lost are no work: it is never negative (N = 1, buffer 1, rate 5 gave -810 W)."""
    scenario = scenario_from({**BASE, "model": "tabs", "servers": 1, "buffer": 1, "arrival_rate": 5, "horizon": 100})
    simulated = estimates(scenario, simulate(scenario, 0, 20)[0])
    exactly = exact(scenario).metrics
    assert exactly["wasted_power"] == pytest.approx(exactly["power"] - 200 * exactly["busy"])
    assert 0 <= exactly["wasted_power"] <= 200
    assert abs(simulated["wasted_power"].mean - exactly["wasted_power"]) <= 5 * simulated["wasted_power"].se
