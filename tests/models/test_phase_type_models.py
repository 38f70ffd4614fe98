"""Models with phase-type service: the exponential law in disguise, invariants of paths, same bits, the fluid limit."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.engines.exact import exact
from elastiqueue.engines.fluid import fluid_path
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.models.registry import model_of
from elastiqueue.models.tabs import phase_blocks
from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.sampling.phases import SURE, cumulated, kernel_kinds, kernel_service, phase_counts, pick
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import scenario_from

BASE = {"arrival_rate": 0.6, "standby_rate": 0.3, "setup_rate": 0.2, "buffer": 6, "seed": 3}
# Every phase ends a service at rate 1, so that the time to the end is exponential whatever happens between.
DISGUISES = {
    "two alike": {"initial": [0.3, 0.7], "rates": [1, 1], "routing": [[0, 0], [0, 0]]},
    "to and fro": {"initial": [0.5, 0.5], "rates": [3, 2], "routing": [[0, 2 / 3], [0.5, 0]]},
    "three": {"initial": [0.2, 0, 0.8], "rates": [2, 1, 4], "routing": [[0, 0.5, 0], [0, 0, 0], [0.25, 0.5, 0]]},
}
SHORT_RUN = """
import json, sys
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.engines.simulation import simulate
from elastiqueue.models import definitions
from elastiqueue.models.tabs import phase_blocks
definitions.BLOCKS_FROM = phase_blocks.MIN_RATIO = 0.0
out = []
for values in json.loads(sys.argv[1]):
    for direct in (False, True):
        totals, paths = simulate(scenario_from(values), 0, 2, direct=direct)
        out.append([totals.tobytes().hex(), paths.tobytes().hex()])
print(json.dumps(out))
"""


def test_compiled_and_interpreted_kernels_give_the_same_bits():
    common = {**BASE, "horizon": 12, "warm_up": 2, "record_every": 3, "servers": 7}
    scenarios = [
        {**common, "model": "tabs", "service": {"hyperexponential": 4}},
        {**common, "model": "tabs", "service": {"coxian": 0.8}, "buffer": None, "start": "all_off"},
        {**common, "model": "tabs", "service": {"erlang": 4}},
        {**common, "model": "tabs", "service": {"erlang": 9}, "servers": 400},
        {**common, "model": "tabs", "service": {"hyperexponential": 4}, "servers": 200},
        {
            **common,
            "model": "jiq",
            "service": {"erlang": 3},
            "arrival_rate": {"mean": 0.5, "amplitude": 0.4, "period": 6},
        },
        {**common, "model": "delayed_off", "service": {"coxian": 3}},
        {**common, "model": "delayed_off", "service": {"erlang": 2}, "abort_setups": False},
        {**common, "model": "delayed_off", "service": {"hyperexponential": 2}, "staggered": True},
        {**common, "model": "setup", "service": {"hyperexponential": 2}},
        {**common, "model": "always_on", "service": {"erlang": 2}},
    ]
    outputs = []
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", SHORT_RUN, json.dumps(scenarios)],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        outputs.append(json.loads(done.stdout))
    assert outputs[0] == outputs[1]
    assert len({json.dumps(one) for one in outputs[0]}) == len(outputs[0])


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they do not pay."""
    monkeypatch.setattr(phase_blocks, "MIN_RATIO", 0.0)


@pytest.mark.parametrize("model", ["tabs", "jiq", "delayed_off"])
@pytest.mark.parametrize("name", DISGUISES)
def test_an_exponential_law_in_disguise_gives_the_exponential_results(model, name, in_blocks):
    values = {**BASE, "model": model, "servers": 40, "horizon": 60, "warm_up": 10}
    plain = scenario_from(values)
    disguised = scenario_from({**values, "service": {"phase_type": DISGUISES[name]}})
    assert disguised.phase_type.mean() == pytest.approx(1, abs=1e-12)
    assert disguised.phase_type.scv() == pytest.approx(1, abs=1e-12)
    one, two = estimates(plain, simulate(plain, 0, 200)[0]), estimates(disguised, simulate(disguised, 0, 200)[0])
    assert set(one) == set(two)
    for metric in one:
        error = math.hypot(one[metric].se, two[metric].se)
        assert abs(one[metric].mean - two[metric].mean) <= 5 * error, metric


@pytest.mark.parametrize("model", ["tabs", "delayed_off", "setup"])
def test_the_readable_chain_of_a_disguised_law_has_the_exponential_solution(model):
    values = {"model": model, "servers": 2, "arrival_rate": 0.4, "standby_rate": 0.3, "setup_rate": 0.2, "buffer": 4}
    plain = exact(scenario_from(values)).metrics
    disguised = exact(scenario_from({**values, "service": {"phase_type": DISGUISES["to and fro"]}})).metrics
    for name, value in plain.items():  # an unlimited queue is cut where rates move by less than 1e-9
        assert disguised[name] == pytest.approx(value, rel=1e-7, abs=1e-9), name


probabilities = st.lists(st.floats(0, 1), min_size=2, max_size=4).filter(lambda values: sum(values) > 0.1)


@st.composite
def laws(draw):
    """A random phase-type law of mean 1, as the service key of a scenario."""
    weights = draw(probabilities)
    size = len(weights)
    rate = st.floats(0.1, 10)
    rows = draw(st.lists(st.lists(st.floats(0, 1), min_size=size, max_size=size), min_size=size, max_size=size))
    shrink = [draw(st.floats(0, 0.95)) / max(sum(row), 1e-9) if sum(row) > 0.95 else 1.0 for row in rows]
    return {
        "phase_type": {
            "initial": [weight / math.fsum(weights) for weight in weights],
            "rates": [draw(rate) for _ in weights],
            "routing": [[p * factor for p in row] for row, factor in zip(rows, shrink, strict=True)],
        }
    }


rates = st.floats(0.01, 10)


@settings(max_examples=80, deadline=None)
@given(
    servers=st.integers(1, 60) | st.integers(61, 3000), load=st.floats(0, 1.5), mu=rates, nu=rates,
    buffer=st.integers(1, 8), service=laws(),
    start=st.sampled_from(["fixed_point", "all_idle_on", "all_off"]), model=st.sampled_from(["tabs", "jiq"]),
    direct=st.booleans(), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_paths_of_tabs_conserve_servers_and_tasks(servers, load, mu, nu, buffer, service, start, model, direct, seed):
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
            "service": service,
            "start": start,
            "horizon": 20,
            "record_every": 0.5,
            "seed": seed,
        }
    )
    grid = np.arange(0, 20.5, 0.5)
    module = model_of(scenario)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phase_blocks, "MIN_RATIO", 0.0)
        run = module.simulate(scenario, stream(seed, scenario.digest(), 0), (0.0, 20.0), grid, direct)
    counts = run.path * servers
    assert np.allclose(counts, np.round(counts), atol=1e-9)
    assert counts.min() >= 0
    others, queue = counts[:, :4], counts[:, 4:]  # u, d0, d1, tasks; q_1, q_2, ...
    assert np.allclose(others[:, :3].sum(axis=1) + queue[:, 0], servers)
    assert np.allclose(others[:, 3], queue.sum(axis=1))
    assert (np.diff(queue, axis=1) <= 1e-9).all()
    total = dict(zip(module.columns(scenario), run.totals[0], strict=True))
    of_servers = total["idle_on"] + total["idle_off"] + total["setup"] + total["q_1"]
    assert of_servers == pytest.approx(20 * servers, rel=1e-9)
    assert total["arrivals"] == total["accepted"] + total["lost_off"] + total["lost_full"]
    assert total["accepted"] - total["green"] - total["shortened"] == pytest.approx(others[-1, 3] - others[0, 3])
    assert total["setups_started"] - total["setups"] == pytest.approx(others[-1, 2] - others[0, 2])
    idle = total["green"] + total["setups"] - total["red"] - (total["accepted"] - total["waited"])
    assert idle == pytest.approx(others[-1, 0] - others[0, 0])  # flow into and out of idle-on
    assert total["waiting"] == pytest.approx(sum(total[f"q_{i}"] for i in range(2, buffer + 1)), rel=1e-9, abs=1e-9)
    assert (total["found"] > 0) == (total["waited"] > 0)
    if all(p == 0 for row in scenario.phase_type.routing for p in row) and not scenario.phase_type.is_exponential:
        assert total["phase_changes"] == 0


@settings(max_examples=60, deadline=None)
@given(
    servers=st.integers(1, 60), load=st.floats(0, 0.99), mu=rates, nu=rates, direct=st.booleans(), service=laws(),
    model=st.sampled_from(["delayed_off", "setup", "always_on"]), rule=st.sampled_from(["abort", "keep", "stagger"]),
    seed=st.integers(0, 2**32),
)  # fmt: skip
def test_paths_of_the_central_queue_conserve_servers_and_tasks(
    servers, load, mu, nu, direct, service, model, rule, seed
):
    options = {"abort_setups": rule != "keep", "staggered": rule == "stagger"} if model != "always_on" else {}
    scenario = scenario_from(
        {
            "model": model,
            "servers": servers,
            "arrival_rate": load,
            "standby_rate": mu,
            "setup_rate": nu,
            "horizon": 20,
            "service": service,
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
    of_servers = total["idle_on"] + total["idle_off"] + total["setup"] + total["busy"]
    assert of_servers == pytest.approx(20 * servers, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(service=laws(), busy=st.integers(0, 1000), share=st.floats(0, 1))
def test_choices_and_starting_phases(service, busy, share):
    law = PhaseType.from_config(service)
    counts = phase_counts(busy, law)
    assert sum(counts) == busy
    mix = [v / rate / law.mean() for v, rate in zip(law.visits(), law.rates, strict=True)]
    assert all(abs(count - busy * part) <= 1 + 1e-9 for count, part in zip(counts, mix, strict=True))
    gammas, initial, ways = kernel_service(law)
    assert gammas.tolist() == list(law.rates)
    assert law.initial[pick(share, initial)] > 0
    for k, row in enumerate(ways):
        way = pick(share, row)
        assert (law.exit[k] if way == 0 else law.routing[k][way - 1]) > 0
    assert cumulated([0.1, 0.2, 0.7, 0.0]) == [0.1, 0.1 + 0.2, SURE, SURE]


@pytest.mark.parametrize("service", [{"hyperexponential": 4}, {"coxian": 3}, {"erlang": 4}], ids=str)
@pytest.mark.parametrize("rate", [0.3, {"mean": 0.3, "amplitude": 0.2, "period": 40}], ids=["constant", "sinusoid"])
def test_large_systems_follow_the_fluid_path_of_their_own_law(service, rate):
    """Mean of 8 paths at N = 40 000. A fraction has a standard deviation of at most 1 / (2 sqrt(N)); reflection at
    U = 0 moves the mean by the same order, which the average over paths does not reduce: 5 times 1 / (2 sqrt(N))."""
    n = 40_000
    values = {
        "model": "tabs",
        "servers": n,
        "arrival_rate": rate,
        "standby_rate": 0.1,
        "setup_rate": 0.1,
        "buffer": 6,
        "service": service,
        "start": "all_idle_on",
        "horizon": 60,
        "record_every": 1,
        "seed": 2,
    }
    scenario = scenario_from(values)
    mean = simulate(scenario, 0, 8)[1].mean(axis=0)

    def distance(law):
        limit = fluid_path(scenario_from({**values, "service": law}))
        return max(
            np.abs(mean[:, :3] - np.column_stack([limit.u, limit.d0, limit.d1])).max(),
            np.abs(mean[:, 4:] - limit.q).max(),
        )

    assert distance(service) <= 5 / (2 * math.sqrt(n))
    assert distance("exponential") > 5 / (2 * math.sqrt(n))


def test_an_unlimited_buffer_is_a_very_long_one():
    values = {**BASE, "servers": 2, "model": "tabs", "arrival_rate": 0.9, "standby_rate": 2.0, "setup_rate": 0.05}
    for service in ({"hyperexponential": 4}, {"erlang": 3}):
        endless = scenario_from({**values, "buffer": None, "service": service})
        long = scenario_from({**values, "buffer": 20_000, "service": service})
        module = model_of(endless)
        for direct in (False, True):
            one = module.simulate(endless, stream(1, "ab", 0), (0.0, 400.0), np.empty(0), direct)
            two = module.simulate(long, stream(1, "ab", 0), (0.0, 400.0), np.empty(0), direct)
            first = dict(zip(module.columns(endless), one.totals[0], strict=True))
            second = dict(zip(module.columns(long), two.totals[0], strict=True))
            assert second["lost_full"] == 0
            assert second["q_45"] > 0  # beyond the first allocation
            assert all(first[name] == second[name] for name in first if name in second)


@pytest.mark.parametrize("service", ["exponential", {"hyperexponential": 4}], ids=str)
def test_a_block_that_could_hold_more_events_than_a_number_can_count_ends_well(service):
    """10^8 servers turn off at once, and 10^19 events would fit into the time that is left: all is off from then on."""
    values = {
        "model": "tabs", "servers": 10**8, "arrival_rate": 0, "standby_rate": 1000, "setup_rate": 1,
        "start": "all_idle_on", "horizon": 9.9e7, "service": service,
    }  # fmt: skip
    scenario = scenario_from(values)
    module = model_of(scenario)
    run = module.simulate(scenario, stream(1, "ab", 0), (0.0, 9.9e7), np.empty(0))
    total = dict(zip(module.columns(scenario), run.totals[0], strict=True))
    # each server is idle-on for an exponential time of mean 1/1000
    assert total["idle_on"] == pytest.approx(1e5, abs=5 * 1e-3 * math.sqrt(1e8))
    assert total["idle_off"] == pytest.approx(9.9e7 * 1e8, rel=1e-9)


GENERAL = {
    "initial": [0.5, 0.3, 0.2], "rates": [2, 1.5, 4],
    "routing": [[0, 0.25, 0.25], [0.25, 0, 0.25], [0.25, 0.25, 0]],
}  # fmt: skip


@pytest.mark.parametrize("service", [{"hyperexponential": 4}, {"erlang": 4}, {"phase_type": GENERAL}], ids=str)
@pytest.mark.parametrize("servers", [60, 250])
def test_blocks_give_what_the_plain_simulator_gives(service, servers, in_blocks):
    """Every metric, of systems too large for the exact solver, within 5 standard errors of the difference.

    The last law has twelve kinds of event, of which eight are in the table.
    """
    values = {**BASE, "model": "tabs", "servers": servers, "service": service, "horizon": 80, "warm_up": 20}
    scenario = scenario_from(values)
    blocks = estimates(scenario, simulate(scenario, 0, 300)[0])
    plain = estimates(scenario, simulate(scenario, 300, 600, direct=True)[0])
    assert blocks["mean_wait"].mean > 5 * blocks["mean_wait"].se
    for name, one in blocks.items():
        two = plain[name]
        assert abs(one.mean - two.mean) <= 5 * math.hypot(one.se, two.se), name


def test_kinds_of_event_come_with_the_most_frequent_first():
    law = scenario_from({**BASE, "model": "tabs", "servers": 1, "service": {"phase_type": GENERAL}}).phase_type
    before, after, chances = kernel_kinds(law)
    assert len(before) == 12
    for kind, phase in zip(before, after, strict=True):
        assert (kind == 3) + (phase == 3) <= 1
    often = [1.0, *law.visits()]
    rates = [often[(k + 1) % 4] * p for k, p in zip(before, chances, strict=True)]
    assert rates == sorted(rates, reverse=True)
    for k in range(4):  # whatever leaves a phase, or starts
        assert sum(p for b, p in zip(before, chances, strict=True) if b == k) == pytest.approx(1)
