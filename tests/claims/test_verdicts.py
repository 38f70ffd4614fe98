"""The claims and their tests: worlds in which each part of each claim is true, false, or drowned in noise."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import binom, ttest_ind

from elastiqueue.claims.contrasts import UNDECIDED, Contrast
from elastiqueue.claims.pages import Figure, markdown, readings_table, report_opening, report_page
from elastiqueue.claims.quantities import Measured, Results, measured, rows_of
from elastiqueue.claims.schema import Bound, Claim, Claims, Effect, Monotonicity, Ordering, Quantity, Rate, read_claims
from elastiqueue.claims.verdicts import CONTRADICTED, DEPENDS, SUPPORTED, judge, write_verdicts
from elastiqueue.claims.vocabulary import contrasts
from elastiqueue.cli.main import main
from elastiqueue.results.markdown import markdown_table
from elastiqueue.results.tidy_tables import VALUES
from elastiqueue.scenarios.reading import ConfigError, read_yaml
from elastiqueue.workflow.experiments import chunks, load, points
from elastiqueue.workflow.jobs import computed_rows

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = read_claims(ROOT / "config" / "claims.yaml")
CONFIG = load(read_yaml(ROOT / "config" / "config.yaml"))
World = Callable[[str, dict[str, Any]], float]


# ---- Worlds: the mean of a metric of a scenario ----------------------------------------------------------------------


def tabs_like(metric: str, s: dict[str, Any]) -> float:
    """A world in which every claim of paper A holds."""
    n, lam, nu, mu = s["servers"], s["arrival_rate"], s["setup_rate"], s["standby_rate"]
    if s["model"] == "jiq":
        values = {"power": 200 * lam + 140 * (1 - lam), "mean_wait_integral": 0.3 * n**-1.5}
        return values.get(metric, 0.1)
    central = s["model"] == "delayed_off"
    if metric == "power":
        shape = mu**0.1 * (1.2 if mu > 1 else 1) if nu < 1 or mu > 1 else mu**-0.1
        return 200 * lam + 50 * n**-0.5 * nu**-0.5 * shape * (0.5 if central else 1)
    if metric in ("mean_wait", "mean_wait_integral"):
        return 0.3 * n**-0.5 * nu**-0.3 * mu**0.05 * (2 if central else 1)
    return {"setup": 0.5 * n**-0.5 * nu**-0.5, "messages_per_task": 1.0, "setups_per_task": 0.1}.get(metric, 0.1)


@cache
def bounds(experiment: str) -> dict[tuple[str, int, float], float]:
    """Metric, servers and eps -> value, of an experiment with the bounds of paper B."""
    specifications = [chunk.specification() for chunk in chunks(CONFIG, experiment)]
    table = pd.DataFrame([row for text in specifications for row in computed_rows("bounds", text)])
    return {(row.metric, row.servers, row.epsilon): row.mean for row in table.itertuples()}


def heavy_like(metric: str, s: dict[str, Any]) -> float:
    """A world in which every claim of paper B holds."""
    if metric == "growth":
        largest = 1.25 if s["experiment"] == "cluster_heterogeneous" else 1.0
        return 0.01 if s["load"] is None or s["load"] <= largest else 100 * (s["load"] - largest)
    if s["epsilon"] is None:
        return 1.0
    name = s["experiment"].removesuffix("_random") + "_bounds"
    known = {key: bounds(name)[key, s["servers"], s["epsilon"]] for key in ("leading", "facet_limit")}
    return {
        "weighted_backlog": known["leading"] + 0.3 * s["servers"],
        "total_backlog": known["leading"] * (3 if s["routing"] == "random" else 1) + 0.5 * s["servers"],
        "excess_backlog": 0.5 * s["servers"],
        "perpendicular_sq": 5.0 * s["servers"],
        "parallel_sq": 2 * (known["facet_limit"] / s["epsilon"]) ** 2,
    }.get(metric, 1.0)


def paper_like(metric: str, s: dict[str, Any]) -> float:
    """A world in which every claim holds."""
    return (heavy_like if s["model"] in ("cluster", "single_type") else tabs_like)(metric, s)


def but(metric: str, change: Callable[[float, dict[str, Any]], float], **where: Any) -> World:
    """The same world but for one metric, for scenarios (of TABS, or of an experiment) with these values."""
    where = where if "experiment" in where else {"model": "tabs", **where}

    def world(name: str, s: dict[str, Any]) -> float:
        value = paper_like(name, s)
        return change(value, s) if name == metric and all(s.get(key) == one for key, one in where.items()) else value

    return world


@cache
def scenarios(experiment: str) -> list[tuple[str, dict[str, Any]]]:
    """Label and columns of each scenario of an experiment at paper scale."""
    found = points(CONFIG, CONFIG.experiments[experiment])
    return [(point.label, {**point.scenario.describe(), "experiment": experiment}) for point in found]


def tables(world: World, noise: float, replications: int = 100, claims: Claims = CLAIMS) -> Results:
    """Tables of every experiment that claims read: means of the world, errors of `noise` times excess."""
    random = np.random.default_rng(1)
    found = {}
    for name in claims.experiments():
        experiment = CONFIG.experiments[name]
        rows = []
        for label, s in scenarios(name):
            head = {"label": label, **s, **dict.fromkeys(VALUES), "statistic": "estimate"}
            if experiment.engine == "bounds":
                for (metric, servers, epsilon), mean in bounds(name).items():
                    if (servers, epsilon) == (s["servers"], s["epsilon"]):
                        rows.append(head | {"metric": metric, "mean": mean, "se": 0.0, "n": 0})
                continue
            for metric in experiment.metrics or []:
                limit = 200 * s["arrival_rate"] if metric == "power" else 0.0
                if experiment.engine == "fluid":
                    mean, se, n = limit, 0.0, 0
                else:
                    mean, n = world(metric, s), replications
                    se = noise * abs(mean - limit)
                    mean += se * random.standard_normal()
                rows.append(head | {"metric": metric, "mean": mean, "se": se, "n": n})
        found[name] = pd.DataFrame(rows)
    return Results(tables=found)


# One world for each part of each claim: (claim, number of the part, world in which it is false). Of a claim with
# readings: the first reading, and a world in which all of them are false.
FALSE: list[tuple[str, int, World]] = [
    ("A1", 0, but("mean_wait", lambda w, s: 0.05)),
    ("A1", 1, but("power", lambda p, s: 90 + 1e-3 * p, start="fixed_point")),
    ("A1", 2, but("mean_wait", lambda w, s: 1e-3 * s["servers"])),
    ("A1", 3, but("power", lambda p, s: 60 + 0.01 * s["servers"])),
    ("A2", 0, but("mean_wait", lambda w, s: 10 * w, setup_rate=0.1)),
    ("A2", 1, but("power", lambda p, s: p + 30, setup_rate=0.1)),
    ("A3a", 0, but("setup", lambda d, s: 2 * s["setup_rate"] * d)),
    ("A3a", 1, but("setup", lambda d, s: d * s["setup_rate"])),
    ("A3b", 0, but("setup", lambda d, s: 0.1 / s["setup_rate"])),
    ("A4a", 0, but("power", lambda p, s: 60 + 100 * s["standby_rate"])),
    ("A4b", 0, but("mean_wait", lambda w, s: s["standby_rate"] / s["servers"])),
    ("A5a", 0, but("mean_wait", lambda w, s: w / s["standby_rate"])),
    ("A5a", 1, but("power", lambda p, s: p + 5 / s["standby_rate"], setup_rate=0.01)),
    ("A5a", 2, but("power", lambda p, s: p + (5 if s["standby_rate"] < 0.005 else 0), setup_rate=0.1)),
    ("A5b", 0, but("power", lambda p, s: 60 + 1 / s["standby_rate"], setup_rate=1)),
    ("A5b", 1, but("power", lambda p, s: p + 50 * s["standby_rate"], setup_rate=1)),
    ("A6a", 0, but("mean_wait", lambda w, s: 100 * w)),
    ("A6b", 0, but("power", lambda p, s: p + 20)),
    ("A6c", 0, but("power", lambda p, s: 61.0, setup_rate=0.01)),
    ("A6c", 1, but("power", lambda p, s: 61.0, standby_rate=10)),
    ("A7", 0, but("setups_per_task", lambda m, s: 1.1, arrival_rate=0.3)),
    ("A7", 1, but("setups_per_task", lambda m, s: 1.1, arrival_rate=0.9)),
    ("A8", 0, but("mean_wait_integral", lambda w, s: w + 0.1, model="delayed_off")),
    ("A8", 1, but("power", lambda p, s: p - 20, model="delayed_off")),
    ("A9a", 0, but("mean_wait", lambda w, s: 1e-3 * s["servers"], arrival_rate=0.9)),
    ("A9a", 1, but("power", lambda p, s: 180 + 1e-3 * s["servers"], arrival_rate=0.9)),
    ("A9a", 2, but("mean_wait", lambda w, s: w + 0.2, arrival_rate=0.9)),
    ("A9b", 0, but("mean_wait", lambda w, s: 100 * w, arrival_rate=0.9, setup_rate=1)),
    ("A9b", 1, but("power", lambda p, s: p + 100, arrival_rate=0.9, setup_rate=1)),
    ("A9c", 0, but("mean_wait_integral", lambda w, s: w + 0.1, model="delayed_off", arrival_rate=0.9)),
    ("A9c", 1, but("power", lambda p, s: p + 20, model="delayed_off", arrival_rate=0.9)),
    ("A10", 0, but("mean_wait", lambda w, s: w + 0.1, experiment="service_laws_servers")),
    ("A10", 1, but("power", lambda p, s: p + 10, experiment="service_laws_servers")),
    ("A10", 2, but("mean_wait", lambda w, s: 1e-3 * s["servers"], experiment="service_laws_servers")),
    ("A10", 3, but("mean_wait", lambda w, s: w / s["standby_rate"], experiment="service_laws_standby")),
    ("A11a", 0, but("mean_wait_integral", lambda w, s: 1e-6 * s["servers"], model="jiq")),
    ("A11a", 1, but("mean_wait_integral", lambda w, s: 0.2, model="jiq", servers=10000)),
    ("A11b", 0, but("power", lambda p, s: 60 + 100 * s["servers"] ** -0.5, model="jiq", arrival_rate=0.3)),
    ("A11b", 1, but("power", lambda p, s: 180 + 100 * s["servers"] ** -0.5, model="jiq", arrival_rate=0.9)),
    ("A11b", 2, but("power", lambda p, s: 199.0, model="tabs")),
    ("B-1", 0, but("growth", lambda g, s: 2.0, experiment="throughput", routing="jsq")),
    ("B-1", 1, but("growth", lambda g, s: 0.5, experiment="cluster_heterogeneous", routing="jsq")),
    ("B-2", 0, but("growth", lambda g, s: 2.0, experiment="throughput", routing="power_of_two")),
    ("B-2", 1, but("growth", lambda g, s: 0.5, experiment="cluster_identical", routing="power_of_two")),
    *[
        ("B-3", i, but("weighted_backlog", lambda w, s: 1.5 * w, experiment=f"heavy_traffic_{servers}"))
        for i, servers in enumerate((2, 5, 20))
    ],
    *[
        ("B-4a", i, but("perpendicular_sq", lambda x, s: x / s["epsilon"] ** 2, experiment=f"heavy_traffic_{servers}"))
        for i, servers in enumerate((2, 5, 20))
    ],
    *[
        ("B-4b", i, but("parallel_sq", lambda x, s: 5.0, experiment=f"heavy_traffic_{servers}"))
        for i, servers in enumerate((2, 5, 20))
    ],
    *[
        ("B-5", i, but("excess_backlog", lambda q, s: q / s["epsilon"], experiment="single_type", servers=servers))
        for i, servers in enumerate((2, 5, 10))
    ],
    ("B-6", 0, but("total_backlog", lambda q, s: q / 3 + s["servers"], experiment="single_type_random")),
]


@pytest.fixture(scope="module")
def true_world() -> dict[str, Any]:
    return judge(CLAIMS, tables(paper_like, 0.001))


@pytest.mark.parametrize("name", CLAIMS.claims)
def test_a_true_claim_is_supported(name: str, true_world: dict[str, Any]) -> None:
    one = true_world["claims"][name]
    assert one["verdict"] == SUPPORTED, one["tightest"]
    assert all(part["verdict"] == SUPPORTED for part in one["parts"])


@pytest.mark.parametrize(("name", "part", "world"), FALSE, ids=[f"{name}-{part}" for name, part, _ in FALSE])
def test_a_false_part_contradicts_its_claim(name: str, part: int, world: World) -> None:
    alone = Claims(level=CLAIMS.level, claims={name: CLAIMS.claims[name]})
    one = judge(alone, tables(world, 0.001, claims=alone))["claims"][name]
    assert one["verdict"] == CONTRADICTED
    assert one["parts"][part]["verdict"] == CONTRADICTED, one["parts"][part]["tightest"]


def test_every_part_of_every_claim_has_a_negative_control() -> None:
    wanted = {(name, i) for name, claim in CLAIMS.claims.items() for i in range(len(claim.parts) or 1)}
    assert {(name, part) for name, part, _ in FALSE} == wanted


def test_noise_leaves_every_claim_undecided() -> None:
    verdicts = judge(CLAIMS, tables(paper_like, 50.0, replications=6))["claims"]
    assert {name: one["verdict"] for name, one in verdicts.items()} == dict.fromkeys(CLAIMS.claims, UNDECIDED)


def test_without_results_every_claim_is_undecided_and_says_why(tmp_path: Path) -> None:
    verdicts = judge(CLAIMS, Results(tmp_path))["claims"]
    assert {one["verdict"] for one in verdicts.values()} == {UNDECIDED}
    assert verdicts["A1"]["tightest"]["why"] == "no results of convergence"


def test_scenarios_missing_from_a_run_leave_a_claim_undecided_unless_the_rest_contradicts_it() -> None:
    def without_the_largest(world: World) -> Results:
        results = tables(world, 0.001)
        table = results.tables["standby_high_load"]
        return Results(tables={**results.tables, "standby_high_load": table[table["servers"] < 10000]})

    missing = judge(CLAIMS, without_the_largest(paper_like), ["A9a"])["claims"]
    assert missing["A9a"]["verdict"] == UNDECIDED
    growing = Quantity(experiment="standby_high_load", metric="mean_wait", where={"standby_rate": 0.1})
    part = Monotonicity(test="monotonicity", says="", of=growing, along="servers", direction="decreasing")
    claim = CLAIMS.claims["A9a"].model_copy(update={"parts": [*CLAIMS.claims["A9a"].parts, part]})
    rising = without_the_largest(but("mean_wait", lambda w, s: 1e-3 * s["servers"]))
    assert judge(Claims(level=0.05, claims={"C": claim}), rising)["claims"]["C"]["verdict"] == CONTRADICTED


def test_tolerances_come_from_the_rules_of_the_file() -> None:
    """Bounds are the tolerance, the largest number of messages, or a tenth of the growth at 5 % overload (200 and 40
    units of work per slot); rates the three exponents that the head of the file derives."""
    for claim in CLAIMS.claims.values():
        for part in claim.parts:
            limits = {getattr(part, key, None) for key in ("below", "above", "within")} - {None}
            if isinstance(part, Rate):
                assert limits < {-0.25, -0.5, -1.0}
            elif isinstance(part, Bound):
                growth = {1.0, 0.2} if part.of.metric == "growth" else set()
                assert limits <= {CLAIMS.tolerance, 2.0, *growth}
        if claim.readings and isinstance(claim.tested()[0], Bound):
            assert CLAIMS.tolerance in {getattr(part, "below", None) for part in claim.tested()}


def test_claims_name_figures_and_experiments_of_the_configuration() -> None:
    assert set(CLAIMS.experiments()) <= set(CONFIG.experiments)
    for claim in CLAIMS.claims.values():
        assert claim.figures
        assert set(claim.figures) <= set(CONFIG.figures)


# ---- Arithmetic of estimates -----------------------------------------------------------------------------------------


def test_difference_of_two_means_is_welchs_test() -> None:
    random = np.random.default_rng(2)
    a, b = random.normal(1.0, 1.0, 12), random.normal(0.5, 3.0, 7)
    x = measured(a.mean(), a.std(ddof=1) / math.sqrt(a.size), a.size, "a")
    y = measured(b.mean(), b.std(ddof=1) / math.sqrt(b.size), b.size, "b")
    expected = ttest_ind(a, b, equal_var=False, alternative="greater")
    contrast = Contrast("", x - y, ">", 0.0)
    assert contrast.p_values()[0] == pytest.approx(float(expected.pvalue), rel=1e-9)
    assert contrast.p_values()[1] == pytest.approx(1 - float(expected.pvalue), rel=1e-9)
    assert contrast.value is not None
    assert contrast.value.df == pytest.approx(float(expected.df), rel=1e-9)


def test_the_end_of_an_interval_is_where_the_test_flips() -> None:
    value = measured(3.0, 0.5, 11, "a")
    low, high = Contrast("", value).interval(0.01)
    assert Contrast("", value, "<", high).p_values()[0] == pytest.approx(0.01, rel=1e-6)
    assert Contrast("", value, ">", low).p_values()[0] == pytest.approx(0.01, rel=1e-6)


def test_errors_of_one_scenario_add_and_those_of_two_are_independent() -> None:
    x, y = measured(1.0, 0.3, 10, "a"), measured(2.0, 0.4, 10, "a")
    assert (x + y).se == pytest.approx(0.7)
    assert (x - y).se == pytest.approx(0.7)
    assert (x + y).df == pytest.approx(9)
    assert (x + measured(2.0, 0.4, 10, "b")).se == pytest.approx(0.5)
    assert (x - Measured(0.5)).se == pytest.approx(0.3)


def test_slope_is_least_squares_and_its_error_is_right() -> None:
    n = np.array([10.0, 100.0, 1000.0, 10000.0])
    means, relative = 3 * n**-0.5, 0.02
    random = np.random.default_rng(3)

    def slope(values: np.ndarray) -> Contrast:
        table = pd.DataFrame({"servers": n, "metric": "x", "mean": values, "se": relative * means, "n": 50})
        part = Rate(test="rate", says="", of={"experiment": "e", "metric": "x"}, along="servers", below=-0.4)
        return contrasts(Results(tables={"e": table}), part)[0]

    exact = slope(means)
    assert exact.value is not None
    assert exact.value.mean == pytest.approx(-0.5, abs=1e-12)
    drawn = [means * (1 + relative * random.standard_normal(4)) for _ in range(400)]
    slopes = [float(np.polyfit(np.log(n), np.log(values), 1)[0]) for values in drawn]
    found = slope(drawn[0])
    assert found.value is not None
    assert found.value.mean == pytest.approx(slopes[0], abs=1e-12)
    # The standard deviation of 400 normal values has a relative error of 1 / sqrt(800).
    assert float(np.std(slopes)) == pytest.approx(exact.value.se, rel=5 / math.sqrt(800))


def one_table(**columns: Any) -> Results:
    return Results(tables={"e": pd.DataFrame({"metric": "x", **columns})})


def of(metric: str | list[str] = "x", **more: Any) -> dict[str, Any]:
    return {"experiment": "e", "metric": metric, **more}


def test_no_logarithm_of_what_cannot_be_told_from_zero() -> None:
    results = one_table(servers=[10, 100], mean=[1.0, 0.1], se=[0.01, 0.03], n=50)
    rate = Rate(test="rate", says="", of=of(), along="servers", below=-0.25)
    (found,) = contrasts(results, rate)
    assert found.value is None
    assert "standard errors from 0" in found.why
    grid = one_table(servers=[10, 10, 100, 100], rate=[1, 2, 1, 2], mean=[1.0, 1.0, 0.1, 0.2], se=0.03, n=50)
    assert [one.value is None for one in contrasts(grid, effect("quotient"))] == [True]
    assert [one.value is None for one in contrasts(grid, effect("difference"))] == [False]


def effect(scale: str) -> Effect:
    """Changing the rate from 1 to 2 at 10 servers moves x more than changing the servers at rate 1."""
    stronger = {"column": "rate", "values": [1, 2], "at": {"servers": 10}}
    weaker = {"column": "servers", "values": [10, 100], "at": {"rate": 1}}
    return Effect(test="effect", says="", of=of(), stronger=stronger, weaker=weaker, scale=scale)


def test_a_value_without_scatter_is_judged_by_its_sign_if_enough_replications_agree() -> None:
    assert Contrast("", measured(0.0, 0.0, 100, "a"), "<", 0.1).p_values() == (0.0, 1.0)
    assert Contrast("", measured(0.2, 0.0, 100, "a"), "<", 0.1).p_values() == (1.0, 0.0)
    assert Contrast("", measured(0.0, 0.0, 10, "a"), "<", 0.1).p_values() == (1.0, 1.0)
    assert Contrast("", Measured(0.0), "<", 0.1).p_values() == (0.0, 1.0)
    assert Contrast("", measured(0.0, 0.0, 100, "a"), "<", 0.0).p_values() == (1.0, 1.0)
    assert Contrast("", measured(1.0, math.nan, 10, "a"), "<", 0.1).p_values() == (1.0, 1.0)


def test_each_test_of_the_vocabulary_on_numbers_done_by_hand() -> None:
    results = one_table(servers=[10, 10, 100, 100], rate=[1, 2, 1, 2], mean=[4.0, 1.0, 2.0, 0.5], se=0.1, n=0)

    def margins(part: Any) -> list[float]:
        return [pytest.approx(one.margin) for one in contrasts(results, part)]

    assert margins(Bound(test="bound", says="", of=of(), below=3)) == [-1, 2, 1, 2.5]
    assert margins(Bound(test="bound", says="", of=of(where={"rate": 1}, minus=3), within=1.5)) == [0.5, 2.5, 2.5, 0.5]
    assert margins(Bound(test="bound", says="", of=of(where={"rate": 2}, scale="servers"), above=20)) == [-10, 30]
    matched = of(where={"rate": 1}, minus=of(where={"rate": 2}), match=["servers"])
    assert margins(Bound(test="bound", says="", of=matched, below=2)) == [-1, 0.5]
    relative = {**matched, "relative": True}  # (4 - 1) / 1 and (2 - 0.5) / 0.5
    assert margins(Bound(test="bound", says="", of=relative, below=2)) == [-1, -1]
    greater, lesser = of(where={"rate": 1}), of(where={"rate": 2})
    order = Ordering(test="ordering", says="", greater=greater, lesser=lesser, match=["servers"], factor=3)
    assert margins(order) == [1.0, 0.5]
    falls = Monotonicity(test="monotonicity", says="", of=of(), along="servers", direction="decreasing")
    assert margins(falls) == [2.0, 0.5]
    grows = Monotonicity(test="monotonicity", says="", of=of(), along="servers", direction="increasing")
    assert margins(grows) == [-2.0, -0.5]
    slope = -math.log(2) / math.log(10)
    assert margins(Rate(test="rate", says="", of=of(), along="servers", above=-1)) == [slope + 1] * 2
    exact = one_table(servers=[10, 10, 100], rate=[1, 2, 1], mean=[4.0, 1.0, 2.0], se=0.0, n=0)
    assert margins_of(exact, effect("quotient")) == [pytest.approx(math.log(4) - math.log(2))]
    assert margins_of(exact, effect("difference")) == [pytest.approx(3 - 2)]


def margins_of(results: Results, part: Any) -> list[float]:
    return [one.margin for one in contrasts(results, part)]


@pytest.mark.parametrize(
    ("bounds_read", "verdict"),
    [((3, 4), SUPPORTED), ((0.1, 0.2), CONTRADICTED), ((0.1, 3), DEPENDS), ((1, 3), UNDECIDED), ((1, 0.1), UNDECIDED)],
)
def test_readings_agree_or_the_verdict_depends_on_them(bounds_read: tuple[float, float], verdict: str) -> None:
    low, high = bounds_read
    claim = {
        "paper": "A", "where": "", "statement": "",
        "readings": {"part": {"test": "bound", "of": of()}, "vary": [
            {"as it is": {"of.where.servers": 10}}, {"strict": {"below": low}, "lenient": {"below": high}},
        ]},
    }  # fmt: skip
    claims = Claims(level=0.05, claims={"C": claim})
    results = one_table(servers=[10, 20], mean=[1.0, 99.0], se=0.01, n=50)
    found = judge(claims, results)["claims"]["C"]
    assert found["verdict"] == verdict
    heads, rows = readings_table(found)
    assert heads == ["reading", "strict", "lenient"]
    assert [row[0] for row in rows] == ["as it is"]
    with pytest.raises(ValueError, match="parts: must not be empty"):
        Claim.model_validate({**claim, "readings": None})


def test_selection_of_rows() -> None:
    results = one_table(
        servers=[10, 20, 30], rate=[0.1, math.nan, 0.3], flag=[True, False, True], mean=1.0, se=0.1, n=5
    )

    def chosen(**where: Any) -> list[int]:
        return [row.key["servers"] for row in rows_of(results, Quantity(**of(where=where)))]

    assert chosen(servers={"min": 20}) == [20, 30]
    assert chosen(rate={"max": 0.1}) == [10]
    assert chosen(flag=True) == [10, 30]
    assert chosen(rate=[0.1, 0.3]) == [10, 30]
    for where, text in (({"servers": [10, 40]}, "no servers = 40"), ({"servers": 40}, "no x at servers = 40")):
        (found,) = contrasts(results, Bound(test="bound", says="", of=of(where=where), below=2))
        assert (found.value, text in found.why) == (None, True)
    (found,) = contrasts(results, Bound(test="bound", says="", of=of(where={"colour": 1}), below=2))
    assert found.why == "e has no column colour"
    twice = one_table(servers=[10, 10], mean=1.0, se=0.1, n=5)
    (found,) = contrasts(twice, Bound(test="bound", says="", of=of(), below=2))
    assert "two rows" in found.why


def test_deviations_show_the_readings_of_the_reference_run() -> None:
    known = json.loads((ROOT / "paper_figures" / "reference" / "claims.json").read_text())["claims"]
    lines = (ROOT / "DEVIATIONS.md").read_text().splitlines()
    for name, claim in CLAIMS.claims.items():
        if claim.readings and "readings" in known.get(name, {}):
            table = markdown_table(*readings_table(known[name], numbers=False))
            assert [line for line in table if f"  {line}" not in lines] == [], f"DEVIATIONS.md is behind on {name}"


# ---- Error rates -----------------------------------------------------------------------------------------------------


def test_wrong_verdicts_are_as_rare_as_promised_on_the_boundary() -> None:
    """Ten values on their bounds: either verdict is wrong, and neither is more frequent than its level."""
    level, runs, n = 0.05, 600, 20
    part = {"test": "bound", "says": "", "of": of(), "below": 0.0}
    claims = Claims(level=level, claims={"C": {"paper": "A", "where": "", "statement": "", "parts": [part]}})
    random = np.random.default_rng(4)
    counted = dict.fromkeys((SUPPORTED, CONTRADICTED, UNDECIDED), 0)
    for _ in range(runs):
        sample = random.standard_normal((10, n))
        results = one_table(
            servers=range(10), mean=sample.mean(axis=1), se=sample.std(axis=1, ddof=1) / math.sqrt(n), n=n
        )
        counted[judge(claims, results)["claims"]["C"]["verdict"]] += 1
    assert counted[CONTRADICTED] <= binom.isf(3e-7, runs, level)
    assert counted[CONTRADICTED] >= binom.ppf(3e-7, runs, 1 - (1 - level / 10) ** 10)
    assert counted[SUPPORTED] <= binom.isf(3e-7, runs, level**10)


def test_level_is_divided_by_the_number_of_claims() -> None:
    assert CLAIMS.alpha == pytest.approx(CLAIMS.level / len(CLAIMS.claims))


# ---- The file and the command ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda c: c.update(levels=1), "levels = 1: is not a known key"),
        (lambda c: c.update(level=0.7), "level = 0.7: input should be less than 0.5"),
        (lambda c: c["claims"]["C"].pop("where"), "claims.C.where: is missing"),
        (lambda c: c["claims"]["C"]["parts"][0].pop("below"), "bound: needs below, above or within"),
        (lambda c: c["claims"]["C"]["parts"][0].update(test="vote"), "test"),
        (lambda c: c["claims"]["C"]["parts"][0]["of"].update(wher={}), "wher = {}: is not a known key"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(change: Any, text: str, tmp_path: Path) -> None:
    part = {"test": "bound", "says": "s", "of": of(), "below": 1}
    values: dict[str, Any] = {
        "level": 0.05, "claims": {"C": {"paper": "A", "where": "w", "statement": "s", "parts": [part]}}
    }  # fmt: skip
    change(values)
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError) as error:
        read_claims(path)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_files_hold_every_verdict(tmp_path: Path, true_world: dict[str, Any]) -> None:
    write_verdicts(true_world, "test", tmp_path)
    read = json.loads((tmp_path / "claims.json").read_text())
    assert read["run"] == "test"
    assert read["claims"].keys() == CLAIMS.claims.keys()
    for one in read["claims"].values():
        for contrast in (contrast for part in one["parts"] for contrast in part["contrasts"]):
            assert {"mean", "se", "interval", "margin_in_se", "requirement", "verdict"} <= contrast.keys()
    text = markdown(true_world, "test")
    table = [line for line in text.splitlines() if line.startswith(("| A", "| B-"))]
    assert len(table) == len(CLAIMS.claims)
    assert {line.count("|") for line in table} == {9}


class Links(HTMLParser):
    """Anchors of a page, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        given = dict(attributes)
        self.anchors |= {given["id"]} if "id" in given else set()
        self.links += [given["href"]] if "href" in given else []


def test_the_page_links_claims_to_figures_and_figures_to_data_and_claims(
    tmp_path: Path, true_world: dict[str, Any]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fig3.csv").touch()
    figures = [Figure("fig1", "Servers < tasks."), Figure("fig3", "Mean wait & power.")]
    facts = {"run": "test", "seed": "1"}
    text = report_page(facts, true_world, figures, tmp_path, lambda path: path.name.encode())
    page = Links(text)
    assert page.anchors == {*CLAIMS.claims, "fig1", "fig3"}
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.anchors
    files = [link for link in page.links if not link.startswith("#")]
    assert files == ["fig1.pdf", "fig1.png", "fig3.pdf", "fig3.png", "data/fig3.csv"]
    assert text.count('href="#A1"') == 2  # in the table, and under figure 3
    assert "Servers &lt; tasks." in text
    assert "http" not in text
    opening = report_opening(facts, true_world, figures, "out")
    assert "javascript:app.showResultInfo(&#x27;out/fig3.png&#x27;)" in opening
    assert f"{len(CLAIMS.claims)} supported" in opening


@pytest.mark.parametrize(("world", "strict", "status"), [
    (paper_like, True, 0), (FALSE[0][2], True, 1), (FALSE[0][2], False, 0),
])  # fmt: skip
def test_command(
    world: World, strict: bool, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = tmp_path / "results" / "mine" / "summaries"
    folder.mkdir(parents=True)
    for name, table in tables(world, 0.001).tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    options = ["claims", "--run", "mine", "--claims", str(ROOT / "config" / "claims.yaml")]
    assert main([*options, *(["--strict"] if strict else [])]) == status
    verdict = CONTRADICTED if world is not paper_like else SUPPORTED
    assert f"A1   {verdict}" in capsys.readouterr().out
    assert main([*options, "--output", "out"]) == 0
    assert json.loads((tmp_path / "out" / "claims.json").read_text())["claims"]["A1"]["verdict"] == verdict


def test_command_without_a_run_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["claims", "--run", "none", "--claims", str(ROOT / "config" / "claims.yaml")]) == 2
    error = capsys.readouterr().err
    assert error == "elastiqueue: --run = none: must be a finished run; results/none does not exist\n"
