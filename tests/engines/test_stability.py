"""Verdicts on any scenario: the linear programme of routing, reports, tables, the command, and predicted growth."""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastiqueue.cli import stability as stability_cli
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.engines.stability import compute_rows, report
from elastiqueue.figures import stability_map, stability_paths, style
from elastiqueue.figures.rows import Rows
from elastiqueue.results.tidy_tables import VALUES, read_table, value_row
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.theory.capacity import ServerClass, capacity_region, maximal_configurations
from elastiqueue.theory.cluster_stability import drawn_classes, largest_routed_load
from elastiqueue.theory.tabs_stability import BATCHES, two_server_drift

TABS = {
    "model": "tabs", "servers": 4, "arrival_rate": 0.3, "standby_rate": 1, "setup_rate": 0.01, "buffer": None
}  # fmt: skip
WEAK_AND_STRONG = {
    "model": "cluster", "classes": [{"count": 3, "configurations": [[1]]}, {"count": 1, "configurations": [[5]]}],
    "arrivals": {"law": "binomial", "trials": 20, "mean": [5.5]}, "routing": "power_of_two",
}  # fmt: skip
TYPES = [[15, 8, 1690], [17.1, 6.5, 420], [7, 20, 1690]]


def cluster(routing: str = "power_of_two", mean: float = 5.5, **changes: object):
    arrivals = {**WEAK_AND_STRONG["arrivals"], "mean": [mean]}
    return scenario_from({**WEAK_AND_STRONG, "routing": routing, "arrivals": arrivals, **changes})


# ---- The linear programme --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draws", "replacement", "expected"),
    [
        (0, False, 8.0),  # all of the capacity
        (1, False, 4.0),  # a weak server gets a quarter of it and serves 1
        (2, False, 6.0),  # half of the pairs are weak; three weak servers serve 3
        (2, True, 16 / 3),  # 9 of 16
        (3, False, 8.0),  # one triple in four is weak: 12, so that the total binds
    ],
)
def test_three_weak_servers_and_a_strong_one(draws: int, replacement: bool, expected: float) -> None:
    found = largest_routed_load((3, 1), (((1,),), ((5,),)), (1.0,), draws, replacement)
    assert found == pytest.approx(expected, rel=1e-9)
    assert largest_routed_load((3, 1), (((1,),), ((5,),)), (2.0,), draws, replacement) == pytest.approx(expected / 2)


@pytest.mark.parametrize("draws", [0, 1, 2, 3])
def test_identical_servers_lose_nothing_by_routing(draws: int) -> None:
    configurations = ((2, 0, 0), (1, 0, 1), (0, 1, 1))
    assert largest_routed_load((7,), (configurations,), (7, 7 / 3, 14 / 3), draws) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("direction", [(1, 1 / 3, 2 / 3), (1, 0, 0), (0.2, 1, 0.1)])
def test_join_the_shortest_of_all_reaches_the_capacity_region(direction: tuple[float, ...]) -> None:
    kinds = [(3, (60, 60, 8000)), (2, (20, 20, 2000))]
    classes = [ServerClass(count, maximal_configurations(resources, TYPES)) for count, resources in kinds]
    region = capacity_region(classes)
    configurations = tuple(own.configurations for own in classes)
    found = largest_routed_load((3, 2), configurations, direction)
    assert found == pytest.approx(region.largest_stable_load(direction), rel=1e-9)
    # Random routing: every server serves its own share, so that the weakest one binds.
    own = [capacity_region([one]).largest_stable_load(direction) / one.count for one in classes]
    assert largest_routed_load((3, 2), configurations, direction, 1) == pytest.approx(5 * min(own), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(1, 3), st.booleans())
def test_probabilities_of_drawn_classes_by_enumeration(counts: list[int], draws: int, replacement: bool) -> None:
    owners = [k for k, n in enumerate(counts) for _ in range(n)]
    draws = draws if replacement else min(draws, len(owners))
    pick = itertools.product if replacement else itertools.permutations
    options = {"repeat": draws} if replacement else {"r": draws}
    seen = Counter(tuple(sorted({owners[m] for m in drawn})) for drawn in pick(range(len(owners)), **options))
    expected = {classes: Fraction(n, seen.total()) for classes, n in seen.items()}
    assert drawn_classes(counts, draws, replacement) == expected


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=3, max_size=3),
    st.floats(0.1, 3),
)
def test_more_choice_never_loses_capacity(counts: list[int], speeds: list[tuple[int, int]], ratio: float) -> None:
    configurations = tuple(((a, 0), (0, b)) for a, b in speeds[: len(counts)])
    options = [(1, False), (2, True), (2, False), (0, False)]
    found = [largest_routed_load(counts, configurations, (1.0, ratio), *option) for option in options]
    assert all(b >= a * (1 - 1e-9) for a, b in itertools.pairwise(found))
    assert found[0] > 0


def test_load_must_be_a_load() -> None:
    for load in ((0.0,), (-1.0,)):
        with pytest.raises(ValueError, match=r"^load = \[-?\d\.0\]: must be >= 0, and > 0 for some job type$"):
            largest_routed_load((1,), (((1,),),), load)


# ---- Reports ---------------------------------------------------------------------------------------------------------


def test_clusters() -> None:
    found = report(cluster())
    assert (found.verdict, found.margin) == ("stable", -found.drift)
    assert found.drift == pytest.approx(5.5 / 6 - 1)
    assert found.facts["largest_stable_load"] == pytest.approx(6 / 5.5)
    beyond = report(cluster(mean=6.6))
    assert (beyond.verdict, beyond.drift) == ("unstable", pytest.approx(0.1))
    assert "inside the capacity region, but not for this routing" in beyond.reason
    assert report(cluster("jsq", 6.6)).verdict == "stable"
    assert "outside the capacity region" in report(cluster("jsq", 8.8)).reason
    assert report(cluster("random", 4.4)).verdict == "unstable"
    assert report(cluster("random", 3.6)).verdict == "stable"
    assert report(cluster("power_of_two_with_replacement", 5.5)).verdict == "unstable"
    on = report(cluster(mean=6.0))
    assert (on.verdict, on.margin) == ("undecided", 0.0)
    assert report(cluster(mean=0.0)).verdict == "stable"


def test_best_fit_is_settled_outside_the_region_and_for_one_type_only() -> None:
    values = {
        "model": "cluster", "servers": 2, "resources": [30, 30, 4000], "scheduling": "best_fit", "job_types": TYPES
    }  # fmt: skip
    arrivals = {"law": "poisson", "direction": [1, 1 / 3, 2 / 3]}
    inside = report(scenario_from({**values, "arrivals": {**arrivals, "load": 0.5}}))
    assert inside.verdict == "undecided"
    assert "may fail below it" in inside.reason
    assert math.isnan(inside.margin)
    assert report(scenario_from({**values, "arrivals": {**arrivals, "load": 1.1}})).verdict == "unstable"
    single = {**values, "job_types": TYPES[:1], "arrivals": {**arrivals, "direction": [1], "load": 1.9}}
    assert report(scenario_from(single)).verdict == "stable"


def test_a_class_that_cannot_serve_a_type() -> None:
    classes = [{"count": 2, "configurations": [[1, 0]]}, {"count": 1, "configurations": [[1, 1]]}]
    values = {"model": "cluster", "classes": classes, "arrivals": {"law": "poisson", "mean": [0.1, 0.1]}}
    found = report(scenario_from({**values, "routing": "jsq"}))
    assert (found.verdict, "type 2 to servers of class 1" in found.reason) == ("undecided", True)
    random = report(scenario_from({**values, "routing": "random"}))
    assert (random.verdict, random.drift) == ("unstable", math.inf)


def test_single_type_clusters() -> None:
    values = {"model": "single_type", "servers": 4, "routing": "random"}
    for load, word in ((0.9, "stable"), (1.1, "unstable"), (1.0, "undecided")):
        found = report(scenario_from({**values, "arrivals": {"law": "binomial", "load": load}}))
        assert (found.verdict, found.drift) == (word, pytest.approx(load - 1))


def test_tabs_and_its_relatives() -> None:
    found = report(scenario_from(TABS))
    assert (found.verdict, found.facts["saturated"], found.facts["method"]) == ("unstable", 1, "exact")
    assert found.drift == pytest.approx(0.119, abs=2e-3)
    assert found.margin > 0.1
    assert found.facts["growth"] == found.drift
    finite = report(scenario_from({**TABS, "buffer": 50}))
    assert (finite.verdict, finite.drift) == ("unstable", found.drift)
    assert finite.reason.endswith("with an unlimited buffer instead of 50")
    assert report(scenario_from({"model": "jiq", "servers": 4, "arrival_rate": 0.9})).verdict == "stable"
    central = report(scenario_from({**TABS, "model": "delayed_off", "arrival_rate": 0.9}))
    assert (central.verdict, central.margin) == ("stable", pytest.approx(0.1))


def test_too_large_for_the_exact_chain_is_simulated_and_says_so() -> None:
    found = report(scenario_from({**TABS, "servers": 20}), max_states=300, max_events=1_000_000)
    assert (found.verdict, found.facts["method"]) == ("stable", "simulated")
    assert "simulated, the exact chain is too large; standard error" in found.reason
    assert found.facts["standard_error"] > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"service": {"erlang": 2}}, "service = erlang=2: must be exponential for a verdict on stability"),
        ({"abort_setups": True}, "abort_setups = true: must be false for a verdict on stability"),
        (
            {"arrival_rate": {"mean": 0.3, "amplitude": 0.1, "period": 9}},
            "arrival_rate: must be constant for a verdict on stability",
        ),
    ],
)
def test_what_the_theory_does_not_cover(changes: dict, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared in full
        report(scenario_from({**TABS, **changes}))
    assert str(caught.value) == message


# ---- Tables ----------------------------------------------------------------------------------------------------------


def rows_of(values: dict, engine: str = "stability") -> dict[str, dict]:
    rows = compute_rows(engine, scenario_from(values))
    assert all(set(row) == {*VALUES, "note"} for row in rows)
    return {row["metric"]: row for row in rows}


def test_rows_of_an_exact_verdict() -> None:
    rows = rows_of({**TABS, "servers": 2, "arrival_rate": 0.9, "standby_rate": 0.44, "setup_rate": 0.1})
    expected = two_server_drift(0.9, 0.44, 0.1)
    assert rows["verdict"]["mean"] == -1
    for name in ("drift", "growth"):
        assert (rows[name]["n"], rows[name]["se"]) == (0, 0)
        assert rows[name]["ci_low"] <= expected <= rows[name]["ci_high"]
        assert rows[name]["ci_high"] - rows[name]["ci_low"] <= 2 * 5e-4
    assert rows_of({**TABS, "servers": 3})["growth"]["mean"] == 0


def test_rows_of_a_simulated_verdict() -> None:
    rows = rows_of({**TABS, "servers": 9, "standby_rate": 10})
    drift, growth = rows["drift"], rows["growth"]
    assert drift["n"] == growth["n"] == BATCHES
    assert rows["verdict"]["mean"] == -1
    assert growth["mean"] == pytest.approx(rows["saturated"]["mean"] * drift["mean"])
    assert growth["se"] == pytest.approx(rows["saturated"]["mean"] * drift["se"])
    assert drift["ci_low"] < drift["mean"] < drift["ci_high"]


def test_rows_of_the_map() -> None:
    low = rows_of({**TABS, "servers": 6}, "stability_map")
    assert math.isnan(low["smallest_stable"]["mean"])
    assert (low["certain"]["mean"], low["blocking_servers"]["mean"]) == (1, 6)
    assert low["blocking_drift"]["mean"] > 0
    everywhere = rows_of({**TABS, "servers": 6, "standby_rate": 0.01, "setup_rate": 1}, "stability_map")
    assert (everywhere["smallest_stable"]["mean"], everywhere["certain"]["mean"]) == (1, 1)
    assert "blocking_drift" not in everywhere
    near = rows_of({**TABS, "servers": 12}, "stability_map")
    found = near["smallest_stable"]
    assert found["ci_low"] <= found["mean"] == found["ci_high"]
    assert near["blocking_servers"]["mean"] == found["mean"] - 1
    # The drift is +0.035 at N = 8 and -0.013 at N = 11: N0 is 9, 10 or 11, and the range must hold one of them.
    assert found["ci_low"] in (9, 10, 11)
    assert found["mean"] in (9, 10, 11)


def test_rows_of_a_cluster_and_unknown_engines() -> None:
    rows = {row["metric"]: row["mean"] for row in compute_rows("stability", cluster())}
    assert rows["verdict"] == 1
    assert rows["largest_stable_load"] == pytest.approx(6 / 5.5)
    assert rows["capacity_load"] == pytest.approx(8 / 5.5)
    with pytest.raises(ValueError, match=r"^engine = exact: must be one of stability, stability_map$"):
        compute_rows("exact", cluster())
    with pytest.raises(ValueError, match=r"^model = cluster: stability_map is for tabs$"):
        compute_rows("stability_map", cluster())


# ---- Predicted and simulated growth ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "growth"), [(5.5, 0.0), (6.6, 0.3), (7.2, 0.6)])
def test_power_of_two_on_unequal_servers_grows_as_predicted(mean: float, growth: float) -> None:
    """Pairs of weak servers, half of all, bring mean / 2 work to servers that serve 3; the strong one has room."""
    scenario = cluster(mean=mean, slots=20_000, warm_up=5_000, replications=20)
    found = estimates(scenario, simulate(scenario, 0, 20)[0])["growth"]
    assert abs(found.mean - growth) < 5 * found.se
    assert found.se < 0.02


POINTS = [(2, 0.9, 0.23, 0.1), (2, 0.9, 1.0, 0.1), (3, 0.9, 3.0, 0.1), (4, 0.3, 1.0, 0.01)]


@pytest.fixture(scope="module")
def growth_table() -> pd.DataFrame:
    rows = []
    for servers, load, mu, nu in POINTS:
        values = {"servers": servers, "arrival_rate": load, "standby_rate": mu, "setup_rate": nu}
        scenario = scenario_from({**TABS, **values, "horizon": 6_000, "warm_up": 2_000, "replications": 10})
        head = {"label": "near" if mu == 0.23 else "far", **scenario.describe()}
        growth = estimates(scenario, simulate(scenario, 0, 20)[0])["growth"]
        rows.append({"experiment": "stability_growth", **head, **value_row("growth", growth)})
        rows += [{"experiment": "stability_points", **head, **row} for row in compute_rows("stability", scenario)]
    return pd.DataFrame(rows)


DIFFERENCE = "growth - stability_points.growth"
ERROR = "hypot(se(growth), se(stability_points.growth))"


def test_simulated_growth_agrees_with_the_drift(growth_table: pd.DataFrame) -> None:
    rows = Rows.of(growth_table).where({"experiment": "stability_growth"})
    assert len(rows) == len(POINTS)
    difference, error = rows.evaluate(DIFFERENCE), rows.evaluate(ERROR)
    assert (abs(difference) <= 4 * error).all()
    unstable = rows.only(rows.evaluate("stability_points.growth") > 0)
    assert len(unstable) == 3
    assert (unstable.evaluate("growth / se(growth)") > 10).all()  # growth that is seen, not noise that agrees
    assert not (abs(difference + 0.1) <= 4 * error).any()


# ---- Figures and the command -----------------------------------------------------------------------------------------


def test_cells_of_the_map() -> None:
    assert stability_map.cell(4, 4, True, 32) == "4"
    assert stability_map.cell(11, 9, False, 32) == "9..11"
    assert stability_map.cell(11, math.nan, False, 32) == "?..11"
    assert stability_map.cell(math.nan, 33, True, 32) == "> 32"
    assert stability_map.cell(math.nan, 21, False, 32) == "21..?"


def test_figures_draw_what_the_tables_hold() -> None:
    grid = itertools.product((0.1, 1), (0.01, 0.1))
    mapped = pd.DataFrame(
        [
            {**scenario.describe(), **row}
            for mu, nu in grid
            for scenario in [scenario_from({**TABS, "servers": 5, "standby_rate": mu, "setup_rate": nu})]
            for row in compute_rows("stability_map", scenario)
        ]
    )
    path = [
        {"experiment": "stability_paths", "servers": 4, "metric": "tasks", "time": float(t), "statistic": statistic,
         "mean": 0.03 * t, "ci_low": 0.02 * t, "ci_high": 0.04 * t, "n": 2}
        for t in range(0, 100, 10) for statistic in ("path", "path mean")
    ]  # fmt: skip
    one = scenario_from(TABS)
    panel = [{"experiment": "stability_panel", **one.describe(), **row} for row in compute_rows("stability", one)]
    with style.applied():
        texts = [text.get_text() for axes in stability_map.draw(mapped).axes for text in axes.texts]
        assert sorted(texts) == ["1", "1", "1", "> 5"]
        assert "unstable" in stability_paths.draw(pd.DataFrame(path + panel)).axes[0].get_title()


def run(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    stability_cli.arguments(parser)
    stability_cli.run(parser.parse_args(arguments))


def test_command(tmp_path, capsys) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps({**TABS, "buffer": None}))
    run([str(path), "--json", "-"])
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["saturated"], found["method"]) == ("unstable", 1, "exact")
    assert found["drift"] == pytest.approx(0.119, abs=2e-3)
    assert 0 < found["margin"] < found["drift"]
    assert found["drifts"][-1]["value"] == found["drift"]
    run([str(path), "--set", "servers=2", "--accuracy", "1e-6", "--json", str(tmp_path / "out.json")])
    assert capsys.readouterr().out.startswith("tabs, 2 servers: stable\ndrift -0.408")
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "stable"
    path.write_text(json.dumps(WEAK_AND_STRONG))
    run([str(path), "--json", "-"])
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["largest_stable_load"]) == ("stable", pytest.approx(6 / 5.5))
    run([str(path), "--set", "arrivals.mean=[0]"])
    assert "cluster, 4 servers: stable" in capsys.readouterr().out
    path.write_text(json.dumps(TABS))
    with pytest.raises(ValueError, match=r"^accuracy = 0\.0: must be > 0$"):
        run([str(path), "--accuracy", "0"])


def test_the_reference_run_grew_as_predicted_at_every_point(root):
    """The paper-scale run behind the reference results: all points within 4 standard errors and truncation."""
    data = read_table(root / "paper_figures/reference/data/stability_growth.csv")
    rows = Rows.of(data).where({"experiment": "stability_growth"})
    assert len(rows) >= 20
    assert len(rows.where({"label": "near the boundary"})) >= 10
    assert (abs(rows.evaluate(DIFFERENCE)) <= 4 * rows.evaluate(ERROR)).all()
