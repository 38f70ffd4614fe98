"""The compiled simulators of the service models: same bits, invariants on paths, and the readable chain's balance."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.models.registry import MODULES, model_of
from elastiqueue.models.tabs import blocks
from elastiqueue.models.tabs import exponential as tabs
from elastiqueue.sampling.rng import exponential, next_word, uniform
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import scenario_from

BASE = {"arrival_rate": 0.6, "standby_rate": 0.3, "setup_rate": 0.2, "buffer": 6, "seed": 3}
SHORT_RUN = """
import json, sys
import numpy as np
from elastiqueue.scenarios.reading import scenario_from
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
    assert len({json.dumps(one) for one in outputs[0]}) == len(outputs[0]) - 2  # two have the plain simulator only


def test_runs_of_coin_flips_are_the_same_events_one_by_one():
    """`_flips` beside a plain reading of the same draws: flips singly, rates in floating point, limits checked."""
    n, arrival, mu, nu, delta, most, events = 2000, 1203.4, 0.02, 0.3, 0.98, 20, 30_000
    queue, others = np.array([0, 1250, 12, 3, 0, 0]), np.array([380, 250, 120, 3])
    first = {"queue": queue.copy(), "others": others.copy()}
    coin, words, counts, moved = 1150, stream(1, "ab", 0), np.zeros(len(tabs.COUNTS), np.int64), np.zeros(8, np.int64)
    bound = arrival + 1250 + mu * 380 + nu * 120 + 40.0
    draws = words.copy()
    done = blocks._flips(n, arrival, bound, coin, most, delta, mu, nu, events, queue, others, words, counts, moved)

    (_, q1, q2, q3, *_), (idle, off, setup, _) = first["queue"].tolist(), first["others"].tolist()
    rest, k, change, tally = bound - 2 * coin, 0, np.zeros(6), dict.fromkeys(tabs.COUNTS, 0)
    with np.errstate(over="ignore"):
        while k < events:
            assert arrival + q1 + mu * idle + nu * setup <= bound + 1e-9
            if not (q1 - q2 - coin >= most and idle > blocks.LEAST):
                break
            if arrival + q1 + mu * idle + nu * setup + most * delta > bound:
                break
            limit = min(idle - 1, most, events - k)
            flips = min(int(-exponential(draws) / np.log(2 * coin / bound)), limit)
            bits = [int(bit) for bit in f"{int(next_word(draws)):064b}"[:flips]]
            for bit in bits:
                assert idle > 0
                assert q1 - q2 >= coin
                assert arrival + q1 + mu * idle + nu * setup <= bound + 1e-9
                up = 1 if bit else -1
                q1, idle = q1 + up, idle - up
                tally["arrivals" if bit else "green"] += 1
                change[[0, 3]] += np.array([-up, up]) * (k + (flips + 1) / 2)
            k += flips
            if flips == limit:
                continue
            k += 1
            y = uniform(draws) * rest - (arrival - coin)
            if y < 0:
                q1, idle, up = q1 + 1, idle - 1, 1
                tally["arrivals"] += 1
                change[[0, 3]] += np.array([-k, k])
            elif y < q1 - q2 - coin:
                q1, idle = q1 - 1, idle + 1
                tally["green"] += 1
                change[[0, 3]] += np.array([k, -k])
            else:
                x = coin + rest - arrival - y  # from the top
                if x < q2:
                    tally["shortened"] += 1
                    i = 3 if x < q3 else 2
                    q2, q3 = q2 - (i == 2), q3 - (i == 3)
                    change[i + 2] -= k
                elif x < q2 + mu * idle:
                    idle, off = idle - 1, off + 1
                    tally["red"] += 1
                    change[[0, 1]] += np.array([-k, k])
                elif x < q2 + mu * idle + nu * setup:
                    setup, idle = setup - 1, idle + 1
                    tally["setups"] += 1
                    change[[2, 0]] += np.array([-k, k])
    assert done == k > 1000
    assert queue[1:4].tolist() == [q1, q2, q3]
    assert others[:3].tolist() == [idle, off, setup]
    assert dict(zip(tabs.COUNTS, counts.tolist(), strict=True)) == tally
    assert min(tally[name] for name in ("red", "setups", "shortened")) > 0
    assert moved[:6].tolist() == (2 * change).tolist()
    assert words.tolist() == draws.tolist()


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
    times, column = np.arange(0.5, 8.5, 0.5), dict(zip(tabs.columns(scenario), totals.T, strict=True))
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
    run = tabs.simulate(scenario, stream(seed, scenario.digest(), 0), (0.0, 20.0), grid, direct)
    counts = run.path * servers
    assert np.allclose(counts, np.round(counts), atol=1e-9)
    assert counts.min() >= 0
    tail = counts[:, 4:]
    assert np.allclose(counts[:, :3].sum(axis=1) + tail[:, 0], servers)  # idle-on + off + setup + q_1 = N
    assert (np.diff(tail, axis=1) <= 1e-9).all()  # q_i decreasing in i
    assert np.allclose(counts[:, 3], tail.sum(axis=1))
    assert len(tabs.components(scenario)) == counts.shape[1]
    total = dict(zip(tabs.columns(scenario), run.totals[0], strict=True))
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
    assert tabs.columns(small) == tabs.columns(large)


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
        one = tabs.simulate(endless, words.copy(), (0.0, 400.0), np.empty(0), direct)
        two = tabs.simulate(long, words.copy(), (0.0, 400.0), np.empty(0), direct)
        first = dict(zip(tabs.columns(endless), one.totals[0], strict=True))
        second = dict(zip(tabs.columns(long), two.totals[0], strict=True))
        assert second["lost_full"] == 0
        assert second["q_45"] > 0  # beyond the first allocation
        assert all(first[name] == second[name] for name in first if name in second)
        grid = np.linspace(0.0, 400.0, 5)
        paths = [tabs.simulate(one, words.copy(), (0.0, 400.0), grid, direct).path for one in (endless, long)]
        assert np.array_equal(paths[0], paths[1][:, : paths[0].shape[1]])
        assert paths[0][-1, 3] > paths[0][-1, 4:].sum() + 1  # tasks are counted at all levels, the tail is cut


@pytest.mark.parametrize("model", sorted(set(MODULES) - {"cluster", "single_type"}))
def test_every_model_counts_the_events_that_its_readable_chain_has(model):
    scenario = scenario_from({**BASE, "model": model, "servers": 3})
    module = model_of(scenario)
    chain = module.chain(scenario, 12)
    names = set(module.columns(scenario))
    seen, todo = {chain.initial}, [chain.initial]
    while todo and len(seen) < 3000:
        state = todo.pop()
        assert set(chain.occupancy(state)) <= names
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
        assert abs(fast[name].mean - plain[name].mean) <= 5 * error, name


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
