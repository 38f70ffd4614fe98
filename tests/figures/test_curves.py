"""Figures as data: what the drawing shows is what the tables hold; what cannot be shown is said in one line."""

from __future__ import annotations

import gzip
import io
import runpy

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from elastiqueue.errors import ConfigError
from elastiqueue.figures import curves, draw, expressions, style
from elastiqueue.figures.rows import Rows, filled
from elastiqueue.figures.schema import FigureSpec, drawings
from elastiqueue.scenarios.reading import read_yaml
from elastiqueue.workflow.experiments import load
from elastiqueue.workflow.figures import caption
from elastiqueue.workflow.runs import composed
from tests.conftest import ROOT

FIGURES = read_yaml(ROOT / "config" / "config.yaml")["figures"]
LARGE = {"fig2", "service_paths", "fig5", "fig6"}  # seconds each


def reference(name: str) -> pd.DataFrame:
    path = ROOT / "paper_figures/reference/data" / f"{name}.csv"
    text = path.read_text() if path.exists() else gzip.decompress(path.with_suffix(".csv.gz").read_bytes()).decode()
    return pd.read_csv(io.StringIO(text), dtype={"label": str}, keep_default_na=False, na_values=[""])


def table(**columns) -> pd.DataFrame:
    """Estimates of mean_wait: se .1, interval +- .2, ten replications."""
    frame = pd.DataFrame({"experiment": "run", "label": "", "metric": "mean_wait", "statistic": "estimate", **columns})
    mean = frame["mean"]
    return frame.assign(**{"time": np.nan, "se": 0.1, "ci_low": mean - 0.2, "ci_high": mean + 0.2, "n": 10})


def drawn(data: pd.DataFrame, **spec):
    with style.applied():
        return curves.draw(data, FigureSpec.model_validate({"experiments": ["run"], **spec}))


def lines(axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()]


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in LARGE else one for one in FIGURES if one != "fig1"]
)
def test_every_figure_of_the_papers_is_drawn_from_the_reference_data(name, tmp_path):
    spec = FigureSpec.model_validate(FIGURES[name])
    (tmp_path / "data.csv").write_text(reference(name).to_csv(index=False))
    draw(spec, tmp_path / "data.csv", tmp_path / "one.pdf", tmp_path / "one.png")
    assert (tmp_path / "one.png").stat().st_size > 20_000
    if name == "figB4":
        draw(spec, tmp_path / "data.csv", tmp_path / "two.pdf", tmp_path / "two.png")
        for kind in ("pdf", "png"):
            assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_the_values_in_the_panels_are_those_of_the_table():
    data = reference("figB2")
    with style.applied():
        axes = curves.draw(data, FigureSpec.model_validate(FIGURES["figB2"])).axes[0]
    own = data[
        (data["experiment"] == "heavy_traffic_2") & (data["metric"] == "weighted_backlog") & (data["label"] == "JSQ")
    ]
    own = own.sort_values("epsilon")
    shown = next((x, y) for x, y in lines(axes) if x == own["epsilon"].tolist())
    assert shown[1] == pytest.approx((own["mean"] * own["epsilon"]).tolist())
    limit = data[(data["experiment"] == "heavy_traffic_2_bounds") & (data["metric"] == "facet_limit")]["mean"].iloc[0]
    assert any(y == pytest.approx([limit] * 2) for _, y in lines(axes))


def test_any_number_of_curves_and_each_told_apart():
    data = table(servers=[n for n in range(1, 13) for _ in range(2)], load=[0.1, 0.9] * 12, mean=range(24))
    axes = drawn(data, x="load", y="mean_wait", curves={"by": "servers"}).axes[0]
    assert len(axes.get_lines()) == 12
    assert len({(one.get_color(), str(one.get_linestyle())) for one in axes.get_lines()}) == 12


def test_a_decreasing_expression_has_its_interval_the_right_way_round():
    rows = Rows.of(table(load=[0.5], mean=[2.0]))
    low, high = rows.interval("1 / mean_wait")
    assert (low[0], high[0]) == pytest.approx((1 / 2.2, 1 / 1.8))


def test_an_index_may_be_a_fraction_and_an_experiment_may_be_named_before_it():
    names = [name for name, _ in expressions.names("other.wait_tail[0.5] / wait_tail[0.5] + wait_p99_9 + c[1, 2]")]
    assert [expressions.split(name) for name in names] == [
        ("other", "wait_tail[0.5]"), ("", "wait_tail[0.5]"), ("", "wait_p99_9"), ("", "c[1, 2]"),
    ]  # fmt: skip
    data = pd.concat([table(experiment="run", mean=[3.0]), table(experiment="other", mean=[2.0])])
    rows = Rows.of(data.assign(metric="wait_tail[0.5]")).where({"experiment": "run"})
    assert rows.evaluate("wait_tail[0.5] - other.wait_tail[0.5]").tolist() == [1.0]


def test_errors_of_several_metrics_are_added_up():
    """Of any correlation: |a - b| is known to the sum of both errors, and a constant adds none."""
    rows = Rows.of(table(load=[0.5, 0.5], metric=["power", "busy"], mean=[2.0, 1.0]))
    low, high = rows.interval("3 * power - busy / load")
    assert (low[0], high[0]) == pytest.approx((4.0 - 0.6 - 0.4, 4.0 + 0.6 + 0.4))
    assert rows.interval("load")[0] == rows.interval("load")[1] == 0.5


def test_hollow_and_crossed_points_and_values_that_a_log_axis_cannot_show():
    data = table(load=[0.1, 0.5, 0.9, 0.95], mean=[0.0, 1.0, 2.0, 3.0])
    axes = drawn(
        data, x="load", y={"value": "mean_wait", "scale": "log"},
        curves={"hollow": "load > 0.8", "cross": "mean_wait > 2.5 * load + 0.5", "cross_label": "grows"},
    ).axes[0]  # fmt: skip
    crossed, curve, hollow = axes.get_lines()
    assert list(crossed.get_xdata()) == [0.95]
    assert np.isnan(curve.get_ydata()[0])
    assert list(hollow.get_xdata()) == [0.9]


def test_limits_are_told_apart_by_what_varies_in_them():
    data = pd.concat(
        [
            table(servers=[1, 2, 1, 2], load=[0.1, 0.1, 0.9, 0.9], mean=[1.0, 2.0, 3.0, 4.0]),
            table(servers=1, load=[0.1, 0.9], mean=[0.5, 1.5]).assign(experiment="fluid", n=0, se=0.0),
        ]
    )
    figure = drawn(
        data, experiments=["run", "fluid"], x="servers", y="mean_wait", columns="load", limits=[{"experiment": "fluid"}]
    )
    for axes, limit in zip(figure.axes, (0.5, 1.5), strict=True):
        assert [y for _, y in lines(axes)][-1] == [limit, limit]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["$\\rho$ = 0.1", "$\\rho$ = 0.9"]


def test_a_function_a_vertical_line_and_a_joined_metric():
    data = pd.concat(
        [
            table(load=[0.1, 0.9], mean=[1.0, 3.0]),
            table(load=[0.1, 0.9], mean=[2.0, 4.0]).assign(experiment="theory", n=0, se=0.0),
        ]
    )
    axes = drawn(
        data, experiments=["run", "theory"], x="theory.mean_wait", y="mean_wait", curves={"experiment": "run"},
        limits=[{"y": "x"}, {"experiment": "theory", "x": "load", "where": {"load": 0.9}}],
    ).axes[0]  # fmt: skip
    (xs, ys), (vertical, _), (span, same) = lines(axes)
    assert (xs, ys) == ([2.0, 4.0], [1.0, 3.0])
    assert vertical == [0.9, 0.9]
    assert span == same


def test_metrics_of_a_scenario_are_in_one_row_whatever_is_said_of_each():
    data = pd.concat([table(servers=[5], mean=[2.0]), table(servers=[5], mean=[3.0]).assign(metric="power")])
    rows = Rows.of(data.assign(lag_1=[0.1, 0.2], effective=[9.0, 10.0], settings=["a", "b"]))
    assert rows.evaluate("power / mean_wait").tolist() == [1.5]


def test_texts_are_filled_from_the_data():
    rows = Rows.of(table(servers=[1000, 1000], setup_rate=[0.1, 0.01], mean=[1.0, 2.0]))
    assert filled("N = {{servers}}, {{1 / setup_rate}}: {{mean_wait:.2f}}", rows) == "N = $10^{3}$, 10, 100: 1.00, 2.00"


@pytest.mark.parametrize(
    "text", ["__import__('os')", "x[", "a.b.c", "'a'", "lambda: 1", "mean_wait if 1 else 2", "f(x)"]
)
def test_an_expression_is_arithmetic_and_nothing_else(text):
    with pytest.raises(ConfigError, match="must be arithmetic"):
        expressions.parse(text)


# ---- Before anything is simulated ------------------------------------------------------------------------------------

RUN = {
    "run": "own", "output": "results/own", "experiments": {
        "sweep": {
            "scenario": {"model": "tabs", "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1},
            "grid": {"servers": [5, 10]}, "metrics": ["power"],
        }
    },
}  # fmt: skip


def run_with(**figure):
    return {**RUN, "figures": {"mine": {"experiments": ["sweep"], "x": "servers", "y": "power", **figure}}}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": "mean_wait"}, "figures.mine.y = mean_wait: mean_wait is neither a column nor a metric that sweep keeps"),
        ({"y": "powr"}, "figures.mine.y = powr: powr is neither a column nor a metric"),
        ({"curves": "servers"}, "figures.mine.curves = 'servers': must be a list or a mapping"),
        ({"x": "epsilon"}, "figures.mine.x = epsilon: epsilon is neither a column nor a metric"),
        ({"rows": "epsilon"}, "figures.mine.rows = epsilon: must be a column, one of abort_setups"),
        ({"curves": {"by": "epsilon"}}, "figures.mine.by = epsilon: must be one of"),
        ({"where": {"servers": 7}}, "figures.mine.where = servers = 7: its experiments have no such scenario"),
        (
            {"limits": [{"experiment": "fluid"}]},
            "figures.mine.experiment = fluid: must be one of its experiments, sweep",
        ),
        ({"experiments": ["sweeep"]}, "figures.mine.experiments = sweeep: must be one of sweep"),
        ({"experiments": []}, "figures.mine.experiments = []: must name at least one"),
        ({"draw": "nothing"}, "figures.mine.draw = nothing: must be one of capacity_region, curves"),
        ({"caption": "{{speed}}"}, "figures.mine.caption: {{speed}}: must be a key of the scenarios"),
        ({"y": "power +"}, "must be arithmetic"),
        ({"x": {"value": "servers", "scale": "cubic"}}, "scale = 'cubic'"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_simulated(change, says):
    with pytest.raises(ConfigError) as caught:
        load(run_with(**change))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_captions_are_those_of_the_run():
    text = "{{replications}} replications, N = {{servers}}, lambda = {{arrival_rate}}, B = {{sweep.buffer}}"
    assert caption(load(run_with(caption=text)), "mine") == "100 replications, N = 5 and 10, lambda = 0.3, B = 50"
    papers = (ROOT / "config/config.yaml", ROOT / "config/claims.yaml")
    quick = load(composed(read_yaml(ROOT / "config/quick.yaml"), *papers))
    assert "6 independent replications" in caption(quick, "fig3")
    for name in quick.figures:
        assert "{{" not in caption(quick, name)


def test_a_figure_needs_what_stands_along_its_axes():
    with pytest.raises(ValidationError, match="y: is missing"):
        FigureSpec.model_validate({"experiments": ["run"], "x": "load"})
    assert "curves" in drawings()


@pytest.mark.parametrize("name", ["serverless", "virtual_machines", "flash_crowd", "threshold"])
def test_every_example_is_a_run_of_its_own_with_a_page(name):
    config = load(
        composed(
            read_yaml(ROOT / f"config/examples/{name}.yaml"), ROOT / "config/config.yaml", ROOT / "config/claims.yaml"
        )
    )
    assert config.run == name
    assert config.figures
    assert f"{name}.yaml" in (ROOT / f"config/examples/{name}.md").read_text()


def test_the_trace_of_the_flash_crowd_is_what_its_script_writes(capsys):
    runpy.run_path(str(ROOT / "config/examples/flash_crowd.py"))
    assert capsys.readouterr().out == (ROOT / "config/examples/flash_crowd.csv").read_text()
