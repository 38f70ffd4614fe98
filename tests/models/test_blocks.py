"""The accelerated simulators against the plain ones, in distribution, against Poisson counts, and draw by draw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from elastiqueue.engines.simulation import simulate
from elastiqueue.models.central_queue import blocks as central_queue
from elastiqueue.models.registry import model_of
from elastiqueue.models.tabs import blocks, phase_blocks
from elastiqueue.sampling.rng import exponential, next_word, uniform
from elastiqueue.sampling.streams import stream
from elastiqueue.scenarios.reading import scenario_from

BASE = {"model": "tabs", "standby_rate": 0.3, "setup_rate": 0.2, "buffer": 6, "horizon": 20, "record_every": 5}
SINE = {"mean": 0.5, "amplitude": 0.4, "period": 9}
HYPER = {"hyperexponential": 4}
CASES = {
    "flips": {"servers": 4000, "arrival_rate": 0.5, "horizon": 10},
    "flips from all off": {"servers": 2000, "arrival_rate": 0.7, "start": "all_off"},
    "flips, mu > 1, unlimited": {"servers": 3000, "arrival_rate": 0.6, "standby_rate": 2.5, "buffer": None},
    "sinusoid": {"servers": 60, "arrival_rate": SINE},
    "sinusoid, large": {"servers": 3000, "arrival_rate": SINE},
    "steps": {"servers": 400, "arrival_rate": "trace"},
    "hyperexponential, sinusoid": {"servers": 1500, "arrival_rate": SINE, "service": HYPER},
    "hyperexponential, steps": {"servers": 1500, "arrival_rate": "trace", "service": HYPER},
    "Erlang, sinusoid": {"servers": 60, "arrival_rate": SINE, "service": {"erlang": 3}},
    **{
        f"{model}, {rule or 'kept'}, {servers} servers, {'sinusoid' if rate == SINE else rate}": {
            "model": model,
            "buffer": None,
            "servers": servers,
            "arrival_rate": rate,
            **({"staggered": True} if rule == "staggered" else {}),
            "abort_setups": rule != "",
        }
        for model, rule, servers, rate in (
            ("delayed_off", "abort_setups", 4000, 0.5),
            ("delayed_off", "abort_setups", 300, SINE),
            ("delayed_off", "", 4000, 0.5),
            ("delayed_off", "", 300, "trace"),
            ("delayed_off", "staggered", 4000, 0.5),
            ("setup", "abort_setups", 4000, 0.5),
            ("setup", "", 3000, SINE),
            ("always_on", "abort_setups", 2000, 0.99),
        )
    },
}
COUNTS = (
    "arrivals", "departures", "waited", "lost_full", "found", "green", "red", "setups_started", "setups", "shortened",
)  # fmt: skip
REPLICATIONS = 300
FALSE_ALARM = 1e-4  # of a case: over all of its comparisons


def _scenario(keys, tmp_path):
    if keys["arrival_rate"] == "trace":
        path = tmp_path / "rates.csv"
        path.write_text("time,rate\n0,0.3\n2.5,0.9\n4,0\n6,0.5\n11.25,0.7\n")
        keys = {**keys, "arrival_rate": {"trace": str(path)}}
    return scenario_from({**BASE, **keys})


@pytest.mark.parametrize("name", CASES)
def test_both_simulators_have_one_distribution(name, tmp_path, monkeypatch):
    """Counts and states at four times: means, variances and Kolmogorov-Smirnov; time integrals: means.

    (The accelerated time integrals are conditional expectations, so that they vary less.) Bonferroni's level.
    """
    monkeypatch.setattr(phase_blocks, "MIN_RATIO", 0.0)  # blocks, though they do not pay in a small system
    scenario = _scenario(CASES[name], tmp_path)
    fast, fast_paths = simulate(scenario, 0, REPLICATIONS)
    plain, plain_paths = simulate(scenario, REPLICATIONS, 2 * REPLICATIONS, direct=True)
    names = model_of(scenario).columns(scenario)
    pairs = [(fast[:, k], plain[:, k], column in COUNTS) for k, column in enumerate(names)]
    pairs += [
        (fast_paths[:, t, k], plain_paths[:, t, k], True)
        for t in range(1, fast_paths.shape[1])
        for k in range(fast_paths.shape[2])
    ]
    p_values = []
    for ours, theirs, in_full in pairs:
        if np.ptp(ours) < 1e-9 * abs(ours[0]) and np.ptp(theirs) < 1e-9 * abs(theirs[0]):
            assert ours[0] == pytest.approx(theirs[0])
            continue
        p_values.append(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
        if in_full and np.unique(ours).size > 10:
            p_values.append(stats.levene(ours, theirs, center="mean").pvalue)
        if in_full:
            p_values.append(stats.ks_2samp(ours, theirs, method="asymp").pvalue)
    assert len(p_values) > 30
    assert min(p_values) > FALSE_ALARM / len(p_values)


@pytest.mark.parametrize("service", ["exponential", HYPER], ids=str)
@pytest.mark.parametrize("servers", [5, 500, 50_000])
@pytest.mark.parametrize("rate", ["trace", SINE, {"mean": 2, "amplitude": 2, "period": 0.7}], ids=str)
def test_arrivals_are_poisson_with_the_integral_of_their_rate(rate, servers, service, tmp_path):
    scenario = _scenario({"servers": servers, "arrival_rate": rate, "horizon": 4.5, "service": service}, tmp_path)
    arrival = scenario.arrival
    mean = servers * np.mean([arrival.at(t) for t in np.arange(5e-5, 4.5, 1e-4)]) * 4.5
    count = 60 if servers > 5000 else 400
    totals, _ = simulate(scenario, 0, count)
    arrivals = totals[:, model_of(scenario).columns(scenario).index("arrivals")]
    assert abs(arrivals.mean() - mean) <= 5 * math.sqrt(mean / count)
    assert abs(arrivals.var(ddof=1) / mean - 1) <= 5 * math.sqrt(2 / (count - 1) + 1 / (count * mean))


def test_a_thousand_million_servers_fit_into_the_numbers():
    """Far from every limit of 64 bits, and the time of all servers is accounted for."""
    n = 10**9
    values = {**BASE, "servers": n, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "horizon": 2}
    scenario = scenario_from({**values, "record_every": None})
    run = model_of(scenario).simulate(scenario, stream(1, "ab", 0), (0.0, 2.0), np.empty(0))
    total = dict(zip(model_of(scenario).columns(scenario), run.totals[0], strict=True))
    of_servers = total["idle_on"] + total["idle_off"] + total["setup"] + total["q_1"]
    assert of_servers == pytest.approx(2.0 * n, rel=1e-12)
    assert abs(total["arrivals"] - 0.6 * n) <= 5 * math.sqrt(0.6 * n)
    assert total["q_1"] == pytest.approx(0.6 * n, rel=1e-3)
    assert 2 * blocks.MAX_WITH_FLIPS * (n + blocks.MAX_WITH_FLIPS) < 2**54


@pytest.mark.parametrize("rule", [central_queue.ABORTS, central_queue.KEEPS, central_queue.STAGGERS])
@pytest.mark.parametrize("tasks", [1250, 1620])
def test_flips_of_the_central_queue_are_the_same_events_one_by_one(rule, tasks):
    """`_flips` beside a plain reading of the same draws, flips singly, from servers that idle or tasks that wait."""
    n, arrival, doubtful, mu, nu, coin, events = 2000, 1303.4, 0.5, 0.3, 0.2, 1100, 6_000
    on = 1600 if tasks > 1300 else 1290
    setup = central_queue.in_setup(n, rule, on, tasks, 20)
    state, words = np.array([on, tasks, setup]), stream(1, "cd", tasks)
    counts, moved = np.zeros(len(central_queue.COUNTS), np.int64), np.zeros(4, np.int64)
    bound = arrival + doubtful + min(on, tasks) + mu * max(on - tasks, 0) + nu * setup + 60
    draws = words.copy()
    done, doubt = central_queue._flips(
        n, arrival, doubtful, bound, coin, mu, nu, rule, False, events, state, words, counts, moved
    )

    rest, k, ends = bound - 2 * coin, 0, False
    change, tally = np.zeros(4), dict.fromkeys(central_queue.COUNTS, 0)

    def slack() -> float:
        return bound - (arrival + doubtful + min(on, tasks) + mu * max(on - tasks, 0) + nu * setup)

    def happen(kind: str, at: float) -> None:
        nonlocal on, tasks, setup
        before = np.array([on, tasks, setup, min(on, tasks)])
        assert slack() >= -1e-9
        assert min(on, tasks) >= coin
        tally[kind] += 1
        if kind == "arrivals":
            tally["waited"] += tasks >= on
            setup += rule == central_queue.KEEPS and tasks >= on and on + setup < n
            tasks += 1
        elif kind == "departures":
            tasks -= 1
        elif kind == "red":
            on -= 1
        else:
            on, setup = on + 1, setup - 1
        if rule != central_queue.KEEPS:
            setup = min(max(tasks - on, 0), n - on, 1 if rule == central_queue.STAGGERS else n)
        change[:] += (np.array([on, tasks, setup, min(on, tasks)]) - before) * at

    def room() -> int:
        """Flips of which none can end what is linear: tasks taken by idle-on servers, or setups that follow tasks."""
        idle, waiting = on - min(on, tasks), tasks - min(on, tasks)
        if idle:
            return min(idle, min(on, tasks) - coin + 1)
        if rule == central_queue.KEEPS:
            return min(waiting, n - on - setup) if on + setup < n else waiting
        needed = min(n - on, 1 if rule == central_queue.STAGGERS else n)
        return min(waiting, needed - waiting) if waiting < needed else waiting - needed

    def new_run() -> int:
        return int(-exponential(draws) / np.log(2 * coin / bound))

    with np.errstate(over="ignore"):
        run = new_run()
        while k < events and min(on, tasks) >= coin and slack() >= 0 and not ends:
            limit = min(room(), int(slack() / max(1 - mu, nu)) + 1, events - k)
            if limit > 0:
                flips = min(run, limit)
                lengths = [min(64, flips - first) for first in range(0, flips + 1, 64)]
                bits = "".join(f"{int(next_word(draws)):064b}"[:length] for length in lengths)
                for bit in bits:
                    happen("arrivals" if bit == "1" else "departures", k + (flips + 1) / 2)
                k, run = k + flips, run - flips
                if flips == limit:
                    continue
            k += 1
            if run > 0:
                run -= 1
                happen("arrivals" if int(next_word(draws)) % 2 else "departures", k)
                continue
            run = new_run()
            y = uniform(draws) * rest - (arrival - coin)
            x = coin + rest - arrival - y
            if y < 0:
                happen("arrivals", k)
            elif y < min(on, tasks) - coin:
                happen("departures", k)
            elif x < mu * max(on - tasks, 0):
                happen("red", k)
            elif x < mu * max(on - tasks, 0) + nu * setup:
                happen("setups", k)
            else:
                ends = x < mu * max(on - tasks, 0) + nu * setup + doubtful
    assert done == k > 200
    assert doubt == ends
    assert state.tolist() == [on, tasks, setup]
    assert dict(zip(central_queue.COUNTS, counts.tolist(), strict=True)) == tally
    assert moved.tolist() == (2 * change).tolist()
    assert words.tolist() == draws.tolist()
