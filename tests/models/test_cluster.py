"""The cluster model: compiled against plain Python bit for bit, against exact chains, and its invariants."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, eye
from scipy.sparse.linalg import spsolve

from elastiqueue.models.cluster import simulator
from elastiqueue.models.cluster.kernels import SLOT
from elastiqueue.models.cluster.parameters import MAX_SLOTS, ClusterParameters, columns, metrics
from elastiqueue.models.cluster.reference import Reference
from elastiqueue.models.cluster.simulator import Cluster
from elastiqueue.sampling.discrete import (
    FiniteDistribution,
    batch_bernoulli,
    binomial,
    deterministic,
    poisson,
    uniform_mixture,
)

INFOCOM = ((2, 0, 0), (1, 0, 1), (0, 1, 1))
AMOUNTS, NEEDS = ((30, 30, 4000),), ((15, 8, 1690), (17.1, 6.5, 420), (7, 20, 1690))


def stream(seed):
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


def identical(servers, configurations):
    return {"counts": (servers,), "configurations": (tuple(map(tuple, configurations)),)}


def simulate(parameters, words, warm_up, slots, batches=1):
    """Totals of consecutive batches after a warm-up, shape (batches, columns)."""
    cluster = Cluster(parameters, words)
    cluster.advance(warm_up)
    return np.stack([cluster.advance(slots // batches)[0] for _ in range(batches)])


def metric(parameters, totals, name):
    """The metric of one row of totals, or of each row."""
    names = columns(parameters)
    ratio = metrics(parameters)[name]
    top = sum(w * totals[..., names.index(k)] for k, w in ratio.numerator.items())
    return top / sum(w * totals[..., names.index(k)] for k, w in ratio.denominator.items())


def infocom(servers, rho, **options):
    sizes = FiniteDistribution((1, 7, 30), (0.5, 0.3, 0.2))
    arrivals = tuple(binomial(max(4, servers), rho * servers * x / sizes.mean) for x in (1, 1 / 3, 2 / 3))
    return ClusterParameters(
        **identical(servers, INFOCOM),
        arrivals=arrivals,
        sizes=(sizes,) * 3,
        resources=AMOUNTS,
        needs=NEEDS,
        norm_interval=3,
        **options,
    )


def two_classes(**options):
    """Servers with different numbers of configurations."""
    return ClusterParameters(
        counts=(3, 2),
        configurations=(((2, 0), (1, 1)), ((0, 2),)),
        arrivals=(poisson(0.8), batch_bernoulli(2, 0.7)),
        sizes=(uniform_mixture([(1, 4, 0.7), (9, 12, 0.3)]), deterministic(5)),
        **options,
    )


def nine_configurations(**options):
    """More configurations than the vectorised scheduler unrolls, up to eight jobs of a type at a time."""
    return ClusterParameters(
        **identical(4, [(8 - k, k) for k in range(9)]),
        arrivals=(poisson(1.5), poisson(1.5)),
        sizes=(uniform_mixture([(1, 16, 1.0)]),) * 2,
        **options,
    )


def five_configurations(**options):
    """Up to five best configurations at a time, in the vectorised scheduler."""
    return ClusterParameters(
        **identical(40, [(4 - k, k) for k in range(5)]),
        arrivals=(poisson(2.0), poisson(2.0)),
        sizes=(uniform_mixture([(1, 16, 1.0)]),) * 2,
        **options,
    )


SYSTEMS = {
    **{f"infocom-{r}": infocom(9, 0.9, routing=r) for r in ("jsq", "power_of_two", "power_of_two_with_replacement")},
    "infocom-random": infocom(9, 0.8, routing="random"),
    "infocom-power_of_5": infocom(9, 0.9, routing="power_of_d", d=5),
    "infocom-best_fit": infocom(9, 0.8, scheduling="best_fit"),
    "infocom-workload": infocom(9, 0.9, level="workload"),
    "two-classes": two_classes(),
    "two-classes-workload": two_classes(level="workload", routing="power_of_two", direction=(0.6, 0.8)),
    "five-configurations": five_configurations(),
    "nine-configurations": nine_configurations(),
}


def compare_with_plain_python(parameters):
    """Bit for bit, after each of some runs."""
    plain, compiled = Reference(parameters, stream(3)), Cluster(parameters, stream(3))
    totals = np.zeros(len(columns(parameters)))
    for slots in (1, 2, 150, 347):
        expected = plain.advance(slots)
        compiled.advance(slots, totals)
        servers = range(parameters.servers)
        backlogs = [[plain.backlog(j, m) for m in servers] for j in range(parameters.types)]
        assert compiled.backlogs().tolist() == backlogs
        if parameters.level == "job":
            for j, m in itertools.product(range(parameters.types), servers):
                assert compiled.jobs(j, m) == [tuple(job) for job in plain.jobs[j][m]]
    for name, value in zip(columns(parameters), totals, strict=True):
        # the compiled sums of squares round in another order: 500 additions of doubles
        assert value == pytest.approx(expected[name], rel=500 * 2.0**-52, abs=0), name
    assert sum(map(sum, backlogs)) > 0


@pytest.mark.parametrize("name", SYSTEMS)
def test_same_bits_as_plain_python(name):
    compare_with_plain_python(SYSTEMS[name])


def test_servers_that_do_much_in_a_slot():
    compare_with_plain_python(
        ClusterParameters(
            **identical(3, [(300, 0), (0, 300), (150, 150)]),
            arrivals=(binomial(250, 200.0),) * 2,
            sizes=(uniform_mixture([(1, 3, 1.0)]),) * 2,
        )
    )


def test_tiles_of_servers_do_not_matter():
    """More servers than one tile of rows holds."""
    parameters = infocom(1050, 0.95)
    plain, compiled = Reference(parameters, stream(5)), Cluster(parameters, stream(5))
    plain.advance(12)
    compiled.advance(12)
    assert compiled.backlogs().tolist() == [[plain.backlog(j, m) for m in range(1050)] for j in range(3)]


def test_growth_of_the_pool_and_splitting_of_runs_change_nothing():
    parameters = infocom(9, 1.5)  # overloaded: thousands of jobs wait
    whole, parts = Cluster(parameters, stream(7)), Cluster(parameters, stream(7))
    whole._grow(100_000)
    a, _ = whole.advance(20_000)
    b = np.zeros_like(a)
    for slots in (1, 9_999, 10_000):
        parts.advance(slots, b)
    assert sum(len(whole.jobs(j, m)) for j in range(3) for m in range(9)) > 2048
    assert (whole.backlogs() == parts.backlogs()).all()
    exact = [
        k for k, name in enumerate(columns(parameters)) if name not in ("weighted", "parallel_sq", "perpendicular_sq")
    ]
    assert (a[exact] == b[exact]).all()
    assert b == pytest.approx(a, rel=20_000 * 2.0**-52)


# ---- bounds of packed integers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["infocom-jsq", "two-classes", "infocom-best_fit"])
def test_response_times_up_to_the_last_slot(name):
    """The same system begun at slot 0 and 402 slots before the last one that can be counted."""
    early, late = Cluster(SYSTEMS[name], stream(4)), Cluster(SYSTEMS[name], stream(4))
    late._state.numbers[SLOT] = MAX_SLOTS - 402
    names = columns(SYSTEMS[name])
    a, b = (dict(zip(names, system.advance(402)[0], strict=True)) for system in (early, late))
    for key in ("response", "completions", "arrivals", "backlog_1", "served_1"):
        assert a[key] == b[key], key
    assert a["response"] > 0
    assert late.slot == MAX_SLOTS
    with pytest.raises(ValueError, match=r"slots = 1: must be >= 0 and end by slot 2,147,483,648"):
        late.advance(1)


def test_the_largest_backlog_counts_and_one_more_is_refused():
    single = ClusterParameters(**identical(1, [(1,)]), arrivals=(deterministic(1),), sizes=(deterministic(2**31 - 2),))
    assert single.largest_backlog == 2**31 - 2
    cluster = Cluster(single, stream(1))
    totals, _ = cluster.advance(1)
    assert cluster.backlogs().tolist() == [[2**31 - 3]]
    assert totals[columns(single).index("perpendicular_sq")] == 0.0
    with pytest.raises(ValueError, match=r"backlog of job type 1: is above 2,147,483,646 at a server in slot 1"):
        cluster.advance(1)
    sizes = (deterministic(3 * 10**7),)
    many = ClusterParameters(
        **identical(9_000, [(1,)]), arrivals=(deterministic(9_000),), sizes=sizes, routing="random"
    )
    assert many.largest_backlog == math.isqrt((2**63 - 1) // 9_000)  # so that the sum of squares stays below 2^63
    with pytest.raises(ValueError, match="largest that can be simulated"):
        Cluster(many, stream(1)).advance(2)


def test_sums_over_many_slots_stay_in_range(monkeypatch):
    """Runs are cut before a sum of backlogs or of responses could leave 64 bits: the cut changes nothing."""
    parameters = replace(SYSTEMS["infocom-jsq"], norm_interval=1)
    whole, parts = Cluster(parameters, stream(7)), Cluster(parameters, stream(7))
    a, x = whole.advance(1_000, None, 7)
    monkeypatch.setattr(ClusterParameters, "heaviest", 2**31 // 9 // 100)  # stretches of 100 slots
    b, y = parts.advance(1_000, None, 7)
    assert (x == y).all()
    assert b == pytest.approx(a, rel=1_000 * 2.0**-52)


def test_a_queue_that_no_memory_holds_is_refused(monkeypatch):
    monkeypatch.setattr(simulator, "MAX_WAITING", 2**12)
    with pytest.raises(ValueError, match=r"jobs: 4,096 at one server: at most 2,048 can wait at each of 2 queues"):
        Cluster(
            ClusterParameters(**identical(2, [(1,)]), arrivals=(batch_bernoulli(4096, 1),), sizes=(deterministic(1),)),
            stream(1),
        )
    overloaded = Cluster(replace(two_classes(), arrivals=(poisson(20.0),) * 2), stream(1))
    with pytest.raises(ValueError, match="can wait at each of 10 queues"):
        overloaded.advance(10_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": (deterministic(2**31),) * 3}, r"job_sizes = 2147483648: must be >= 1 slot and <= 2,147,483,647"),
        ({"configurations": (((2**24, 1, 0),),)}, r"serve 16777217 jobs at once: must be at most 16,777,216"),
        (
            {"scheduling": "best_fit", "resources": ((67_108_864.5, 30, 4000),)},
            r"resources = \[67108864.5\]: are 671,088,645 in the unit",
        ),
    ],
)
def test_numbers_beyond_their_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Cluster(replace(infocom(2, 0.5), **changes), stream(1))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(SYSTEMS)), st.integers(0, 2**32), st.lists(st.integers(1, 5), min_size=1, max_size=20))
def test_work_is_conserved_in_every_slot(name, seed, steps):
    """q(t+1) = q(t) + a(t) - s(t) + u(t): backlog = arrived - served, and service within the configurations."""
    parameters = SYSTEMS[name]
    cluster = Cluster(parameters, stream(seed))
    names = columns(parameters)
    for slots in steps:
        before, schedule = cluster.backlogs(), cluster.schedules()
        totals, _ = cluster.advance(slots)
        after = cluster.backlogs()
        assert (after >= 0).all()
        for j in range(parameters.types):
            arrived, served = totals[names.index(f"arrived_{j + 1}")], totals[names.index(f"served_{j + 1}")]
            assert after[j].sum() == before[j].sum() + arrived - served
            if slots == 1 and parameters.scheduling == "maxweight":
                assert served <= schedule[j].sum()
        if parameters.level == "job":
            for j, m in itertools.product(range(parameters.types), range(parameters.servers)):
                jobs = cluster.jobs(j, m)
                assert sum(size for size, _ in jobs) == after[j, m]
                assert [t for _, t in jobs] == sorted(t for _, t in jobs)  # first come, first served within a type
        if parameters.scheduling == "maxweight":
            for m, k in enumerate(parameters.classes):
                own = parameters.configurations[k]
                weights = {s: int(np.dot(s, after[:, m])) for s in own}
                assert weights[tuple(cluster.schedules()[:, m])] == max(weights.values())
        else:
            used = np.array(NEEDS).T @ cluster.schedules()
            assert (used <= np.array(AMOUNTS).T + 1e-9).all()


def test_responses_obey_littles_law_path_by_path():
    """Sum of responses = sum over slots of the jobs present, once every job has left."""
    parameters = infocom(9, 0.7)
    cluster = Cluster(parameters, stream(11))
    names = columns(parameters)
    totals = np.zeros(len(names))
    present = 0.0
    for _ in range(400):
        cluster.advance(1, totals)
        present += sum(len(cluster.jobs(j, m)) for j in range(3) for m in range(9))
    waiting = sum(400 - t for j in range(3) for m in range(9) for _, t in cluster.jobs(j, m))
    # a job of response r is present at the ends of r - 1 slots
    assert totals[names.index("response")] - totals[names.index("completions")] + waiting == present


def test_samples_are_the_weighted_backlog():
    parameters = infocom(9, 0.8, direction=(0.6, 0.0, 0.8))
    cluster, again = Cluster(parameters, stream(1)), Cluster(parameters, stream(1))
    _, samples = cluster.advance(103, sample_interval=10)
    assert samples.shape == (11,)
    for value in samples:
        _, more = again.advance(1, sample_interval=10)
        assert more.tolist() == [value]
        assert value == pytest.approx(np.dot((0.6, 0.0, 0.8), again.backlogs().sum(axis=1)) / 3.0, rel=1e-15)
        again.advance(9)


# --- exact chains -------------------------------------------------------------------------------------------------


def stationary(start, moves):
    """Stationary law of a finite chain given state -> {state: probability}."""
    index, order, rows, cols, values = {start: 0}, [start], [], [], []
    for state in order:
        for target, p in moves(state).items():
            if target not in index:
                index[target] = len(order)
                order.append(target)
            rows.append(index[state])
            cols.append(index[target])
            values.append(p)
    n = len(order)
    transition = csr_matrix((values, (rows, cols)), shape=(n, n))
    system = (transition.T - eye(n)).tolil()
    system[0, :] = 1.0
    return order, spsolve(system.tocsc(), np.eye(1, n)[0])


def add(law, state, p):
    law[state] = law.get(state, 0.0) + p


def one_type_chain(servers, batch_law, routing, cut):
    """E sum q for unit service per server and slot, the whole batch to one server; states sorted, q <= cut."""

    def moves(state):
        law = {}
        for size, p in batch_law:
            if routing == "jsq":
                targets = {state.index(min(state)): 1.0}
            else:
                pairs = list(itertools.product(range(servers), repeat=2))
                if routing == "power_of_two":
                    pairs = [(a, b) for a, b in pairs if a != b]
                targets = {}
                for a, b in pairs:
                    add(targets, a if state[a] <= state[b] else b, 1.0 / len(pairs))
            for m, chance in targets.items():
                q = [min(x + (size if k == m else 0), cut) for k, x in enumerate(state)]
                add(law, tuple(sorted(max(x - 1, 0) for x in q)), p * chance)
        return law

    order, law = stationary((0,) * servers, moves)
    return sum(sum(state) * p for state, p in zip(order, law, strict=True))


def binomial_pairs(trials, p):
    return [(k, math.comb(trials, k) * p**k * (1 - p) ** (trials - k)) for k in range(trials + 1)]


EXACT = {
    ("jsq", 2): 1.41358,
    ("jsq", 3): 2.75648,
    ("power_of_two", 3): 3.56184,
    ("power_of_two_with_replacement", 3): 4.64845,
}


@pytest.mark.parametrize(("routing", "servers"), EXACT)
def test_one_type_exact_and_simulated(routing, servers):
    load = 0.8 * servers
    cut = {2: 40, 3: 25}[servers]  # the mass beyond does not matter: from 25 to 30 the numbers move by 4e-7
    exact = one_type_chain(servers, binomial_pairs(2 * servers, load / (2 * servers)), routing, cut)
    assert exact == pytest.approx(EXACT[routing, servers], abs=6e-6)
    parameters = ClusterParameters(
        **identical(servers, [(1,)]),
        arrivals=(binomial(2 * servers, load),),
        sizes=(deterministic(1),),
        routing=routing,
    )
    totals = simulate(parameters, stream(2), 1_000, 1_200_000, batches=60)
    check(metric(parameters, totals, "total_backlog"), exact)
    # unit jobs: response - 1 slots in the system at slot ends; Little's law
    check((metric(parameters, totals, "mean_response") - 1.0) * load, exact)


def check(values, expected):
    """The mean of independent batches within 5 standard errors."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - expected) < 5 * error, (values.mean(), error, expected)


def maxweight_chain(p, cut):
    """E sum q for 2 servers, 2 types, configurations (1, 0) and (0, 1), a_j = 2 with probability p, unit jobs."""

    def moves(state):  # (q of type 1 at server 1, of type 2 at server 1, then server 2)
        law = {}
        schedules = []
        for m in (0, 1):
            a, b = state[2 * m], state[2 * m + 1]
            schedules.append([(1, 0)] if a > b else [(0, 1)] if b > a else [(1, 0), (0, 1)])
        for batches in itertools.product((0, 2), repeat=2):
            chance = math.prod(p if a else 1 - p for a in batches)
            options = []
            for j in (0, 1):
                x, y = state[j], state[2 + j]
                options.append([None] if batches[j] == 0 else [0] if x < y else [1] if y < x else [0, 1])
            combinations = list(itertools.product(*options, *schedules))
            for one, two, first, second in combinations:
                q = list(state)
                if one is not None:
                    q[2 * one] += 2
                if two is not None:
                    q[2 * two + 1] += 2
                served = (*first, *second)
                q = [max(min(x, cut) - s, 0) for x, s in zip(q, served, strict=True)]
                target = min(tuple(q), (q[2], q[3], q[0], q[1]), (q[1], q[0], q[3], q[2]), (q[3], q[2], q[1], q[0]))
                add(law, target, chance / len(combinations))
        return law

    order, law = stationary((0, 0, 0, 0), moves)
    return sum(sum(state) * weight for state, weight in zip(order, law, strict=True))


def test_maxweight_exact_and_simulated():
    exact = maxweight_chain(0.4, 16)
    assert exact == pytest.approx(3.40803, abs=6e-6)
    for level in ("job", "workload"):  # with unit jobs the two levels are one model
        parameters = ClusterParameters(
            **identical(2, [(1, 0), (0, 1)]),
            arrivals=(batch_bernoulli(2, 0.8),) * 2,
            sizes=(deterministic(1),) * 2,
            level=level,
        )
        totals = simulate(parameters, stream(4), 1_000, 1_200_000, batches=60)
        check(metric(parameters, totals, "total_backlog"), exact)


def test_job_level_exact_with_long_jobs():
    """One server, configuration (2,), jobs of 2 slots: the second unit of service needs a second job."""

    def moves(state):  # remaining sizes in order
        law = {}
        for jobs, p in ((0, 0.6), (1, 0.4)):
            queue = [*state, *([2] * jobs)][:60]
            served = [x - 1 if k < 2 else x for k, x in enumerate(queue)]
            add(law, tuple(x for x in served if x > 0), p)
        return law

    order, law = stationary((), moves)
    exact = sum(sum(state) * p for state, p in zip(order, law, strict=True))
    parameters = ClusterParameters(
        **identical(1, [(2,)]), arrivals=(batch_bernoulli(1, 0.4),), sizes=(deterministic(2),)
    )
    totals = simulate(parameters, stream(6), 100, 600_000, batches=60)
    check(metric(parameters, totals, "total_backlog"), exact)
    assert exact == pytest.approx(0.4, rel=1e-12)  # every job starts at once: 1 unit left at one slot end


@pytest.mark.parametrize(("rho", "stable"), [(0.97, True), (1.03, False)])
def test_drift_inside_and_outside_the_capacity_region(rho, stable):
    """rho (1, 1/3, 2/3) per server meets s1 + s2 + s3 <= 2 at rho = 1: beyond, work grows at least by the excess."""
    parameters = infocom(20, rho)
    totals = simulate(parameters, stream(8), 20_000, 400_000, batches=40)
    drift = metric(parameters, totals, "drift")
    error = drift.std(ddof=1) / math.sqrt(len(drift))
    if stable:
        assert abs(drift.mean()) < 5 * error
    else:
        assert drift.mean() > 2 * 20 * (rho - 1.0) - 5 * error
        assert drift.mean() > 5 * error


def test_errors_name_key_value_and_what_is_allowed():
    good = {"arrivals": (deterministic(0),), "sizes": (deterministic(1),)}
    with pytest.raises(ValueError, match="servers = 1: must be at least 2"):
        ClusterParameters(**identical(1, [(1,)]), **good, routing="power_of_two")
    with pytest.raises(ValueError, match="d = 3: must be between 1 and"):
        ClusterParameters(**identical(2, [(1,)]), **good, routing="power_of_d", d=3)
    with pytest.raises(ValueError, match="best_fit: needs resources"):
        ClusterParameters(**identical(2, [(1,)]), **good, scheduling="best_fit")
    with pytest.raises(ValueError, match="level = workload: must be job"):
        ClusterParameters(**identical(2, [(1,)]), **good, scheduling="best_fit", level="workload")
    with pytest.raises(ValueError, match="job_sizes = 0: must be >= 1"):
        ClusterParameters(**identical(2, [(1,)]), arrivals=good["arrivals"], sizes=(deterministic(0),))
