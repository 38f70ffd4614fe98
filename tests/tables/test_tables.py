"""Tables and figures of paper B: what they hold is what their data hold."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

from elastiqueue.engines.capacity import compute_rows
from elastiqueue.figures import draw
from elastiqueue.figures.schema import FigureSpec
from elastiqueue.results.tidy_tables import read_table, value_row, write_table
from elastiqueue.scenarios.reading import scenario_from
from elastiqueue.statistics.estimates import mean_estimate
from elastiqueue.tables.__main__ import main
from elastiqueue.tables.bounds import bounds
from elastiqueue.tables.facets import facets
from elastiqueue.tables.formats import latex, markdown

CLUSTER = {
    "model": "cluster", "servers": 4, "resources": [30, 30, 4000], "facet": 1,
    "job_types": [[15, 8, 1690], [17.1, 6.5, 420], [7, 20, 1690]],
}  # fmt: skip
EPSILONS = (1.0, 0.3, 0.1)
SINGLE = {"model": "single_type", "servers": 2}


def cluster(**changes):
    arrivals = {"law": "binomial", "trials": 12, **changes.pop("arrivals", {"epsilon": 0.1})}
    return scenario_from({**CLUSTER, "arrivals": arrivals, **changes})


def exact(engine, scenarios, label=""):
    return pd.DataFrame(
        [{"label": label, **one.describe(), **row} for one in scenarios for row in compute_rows(engine, one)]
    )


def measured(scenario, label, values):
    """Rows as a summary has them; `values` maps a metric to its replications."""
    return [
        {"label": label, **scenario.describe(), **value_row(name, mean_estimate(list(one)), *rest)}
        for name, one, *rest in values
    ]


@pytest.fixture
def heavy(rng):
    """A simulated experiment whose numbers are made up, and its true bounds."""
    scenarios = [cluster(arrivals={"epsilon": e}) for e in EPSILONS]
    theory = exact("bounds", scenarios)
    rows = []
    for scenario in scenarios:
        epsilon = scenario.arrivals.epsilon
        limit = theory[(theory["metric"] == "facet_limit") & (theory["epsilon"] == epsilon)]["mean"].iloc[0]
        for label, routing in (("JSQ", "jsq"), ("power of two", "power_of_two")):
            own = cluster(arrivals={"epsilon": epsilon}, routing=routing)
            backlog = limit / epsilon + 2 + rng.normal(size=10)
            shifted = rng.normal(size=10) + (50 if (routing, epsilon) == ("jsq", 0.3) else 0)
            rows += measured(
                own,
                label,
                [
                    ("weighted_backlog", backlog),
                    ("warm_up_test", shifted),
                    ("parallel_sq", 2 * backlog**2),
                    ("perpendicular_sq", 3 + 0.1 * rng.random(10)),
                ],
            )
    return {"heavy": pd.DataFrame(rows), "heavy_bounds": theory}


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def joined(tables):
    return pd.concat([table.assign(experiment=name) for name, table in tables.items()], ignore_index=True)


def test_facets_are_listed_once_each_with_the_position_of_the_rates():
    one = exact("capacity", [cluster(arrivals={"mean": [4, 1, 2]})], "one")
    loads = [cluster(arrivals={"load": rho, "direction": [1, 0.5, 0.5]}) for rho in (0.5, 0.9)]
    table = facets({"region": one, "loads": exact("capacity", loads)})
    assert len(table.data) == len(table.rows) == 6
    first = table.data[table.data["experiment"] == "region"]
    assert first["b"].tolist() == pytest.approx([8 / math.sqrt(5), 8 / math.sqrt(3), 4.0])
    assert first["epsilon"].tolist() == pytest.approx([2 / math.sqrt(5), 1 / math.sqrt(3), 2.0])
    # (4.4, 1.8, 2) and (4, 1, 4) violate <(1, 1, 1), s> <= 8; (13, 4, 7) / 3 does not
    assert first["position"].tolist() == ["outside", "K interior", "outside"]
    assert first["largest_stable_load"].tolist() == pytest.approx([8 / 7] * 3)
    assert table.data[table.data["experiment"] == "loads"]["position"].tolist() == [""] * 3
    assert table.rows[1][3] == "(0.5774, 0.5774, 0.5774)"


def test_bounds_hold_the_measurements_their_ratio_and_their_verdicts(heavy):
    table = bounds(heavy)
    assert (len(table.rows), len(table.data)) == (6, 18)
    ratio = table.data[table.data["quantity"] == "ratio_to_limit"]
    direct = table.data[table.data["quantity"] == "weighted_backlog"]
    for name in ("mean", "se", "ci_low", "ci_high"):
        expected = direct[name] * direct["epsilon"] / direct["limit"]
        assert ratio[name].to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-12)
    assert (direct["mean"] > direct["lower_bound"]).all()
    settled = {(row[2], row[3]): row[-1] for row in table.rows}
    assert settled[("jsq", "0.3")] == "NO"
    assert sum(value == "NO" for value in settled.values()) == 1
    assert {row[-2] for row in table.rows} == {"yes"}
    low = heavy["heavy"].copy()
    low.loc[low["metric"] == "weighted_backlog", ["mean", "ci_high"]] = 0.01
    assert "NO" in {row[-2] for row in bounds({**heavy, "heavy": low}).rows}


def test_a_table_without_its_partner_is_refused(heavy):
    with pytest.raises(ValueError, match="inputs = heavy_bounds: must have heavy beside it"):
        bounds({"heavy_bounds": heavy["heavy_bounds"]})


def test_markdown_and_latex_have_all_cells(heavy):
    table = bounds(heavy)
    lines = markdown(table).splitlines()[2:]
    assert len(lines) == 8
    assert {line.count("|") for line in lines} == {len(table.header) + 1}
    text = latex(table)
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
    assert len(body) == 6
    assert all(line.count("&") == len(table.header) - 1 and line.endswith(r"\\") for line in body)
    assert "±" not in text
    assert not re.search(r"(?<!\\)%", text)
    # 12.3 +- 4.5, digits by the half-width
    assert all(re.fullmatch(r"[\d.]+ ± [\d.]+", row[5]) for row in table.rows)


def test_the_step_writes_three_files_that_read_back_the_same(heavy, tmp_path):
    inputs = []
    for name, table in heavy.items():
        write_table(table, tmp_path / f"{name}.csv")
        inputs.append(str(tmp_path / f"{name}.csv"))
    outputs = [option for kind in ("csv", "md", "tex") for option in (f"--{kind}", str(tmp_path / f"out.{kind}"))]
    assert main(["bounds", "--inputs", *inputs, *outputs]) == 0
    first = [(tmp_path / f"out.{kind}").read_bytes() for kind in ("csv", "md", "tex")]
    back = read_table(tmp_path / "out.csv")
    assert back["mean"].to_numpy() == pytest.approx(bounds(heavy).data["mean"].to_numpy(float), rel=1e-9)
    assert main(["bounds", "--inputs", *inputs, *outputs]) == 0
    assert first == [(tmp_path / f"out.{kind}").read_bytes() for kind in ("csv", "md", "tex")]
    assert main(["bounds", "--inputs", inputs[1], *outputs]) == 2


# ---- Figures ---------------------------------------------------------------------------------------------------------


def regions():
    plane = scenario_from(
        {
            "model": "cluster", "job_types": [[2, 2], [1, 8]], "arrivals": {"law": "poisson", "mean": [5, 4]},
            "classes": [{"count": 2, "resources": [8, 16]}, {"count": 1, "resources": [4, 32]}],
        }
    )  # fmt: skip
    space = exact("capacity", [cluster(arrivals={"mean": [4, 1, 2]})], "3 types")
    return pd.concat([exact("capacity", [plane], "2 types"), space]).assign(experiment="regions")


def test_capacity_regions_are_drawn_in_two_and_three_types(tmp_path):
    write_table(regions(), tmp_path / "data.csv")
    spec = FigureSpec.model_validate({"draw": "capacity_region", "experiments": ["regions"]})
    draw(spec, tmp_path / "data.csv", tmp_path / "one.pdf", tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 20_000
