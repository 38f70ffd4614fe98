"""Tables of the user's own: what stands in them, and what they ask for in vain."""

from __future__ import annotations

import pandas as pd
import pytest

from elastiqueue.errors import ConfigError
from elastiqueue.results.markdown import read_markdown_table
from elastiqueue.results.tidy_tables import value_row
from elastiqueue.scenarios.reading import parse_yaml
from elastiqueue.statistics.estimates import Estimate
from elastiqueue.tables.formats import markdown
from elastiqueue.tables.own import own
from elastiqueue.tables.schema import TableSpec
from elastiqueue.workflow.experiments import load
from elastiqueue.workflow.figures import caption

RUN = """
run: mine
replications: 30
experiments:
  a:
    scenario: {model: tabs, arrival_rate: 0.3, standby_rate: 0.1, horizon: 20}
    grid: {servers: [10, 1000], setup_rate: [0.1, 1]}
    metrics: [power, mean_wait]
  limit: {engine: fluid, scenario: {model: tabs, servers: 1, arrival_rate: 0.3, standby_rate: 0.1, setup_rate: 0.1}}
"""


def _spec(**keys) -> TableSpec:
    return TableSpec.model_validate({"experiments": ["a"], "rows": "servers", "where": {"setup_rate": 1}, **keys})


def _data() -> pd.DataFrame:
    rows = []
    for servers in (10, 1000):
        for setup_rate in (0.1, 1.0):
            head = {"experiment": "a", "label": "", "model": "tabs", "servers": servers, "setup_rate": setup_rate}
            for metric, mean, n in (("power", 60.0 + servers * setup_rate, 30), ("mean_wait", 0.125, 0)):
                rows.append({**head, **value_row(metric, Estimate(mean, 0.5 if n else 0.0, n))})
    return pd.DataFrame(rows)


def test_a_row_for_each_value_and_a_column_for_each_metric():
    cells = [{"value": "2 * power", "label": "power", "unit": "W"}, "mean_wait", {"value": "1 / setup_rate"}]
    table = own(_data(), _spec(columns=cells, digits=2), "Power.")
    assert markdown(table).splitlines()[2:] == [
        "| servers | power (W) | mean wait | 1 / setup rate |",
        "| --- | --- | --- | --- |",
        "| 10 | 140.0 ± 2.0 | 0.12 | 1 |",  # t with 29 degrees of freedom, 2.045
        "| 1000 | 2120.0 ± 2.0 | 0.12 | 1 |",
    ]
    first = table.data.iloc[0]
    assert (first["mean"], first["ci_high"] - first["ci_low"]) == pytest.approx((140.0, 4 * 2.0452 * 0.5), rel=1e-4)


def test_a_table_is_read_back_as_it_was_written():
    table = own(_data(), _spec(rows={"value": "servers", "label": "a | b"}, columns=["power"]), "Power\nof some.")
    caption, heads, rows = read_markdown_table(markdown(table))
    assert (caption, tuple(heads), [tuple(row) for row in rows]) == ("Power\nof some.", table.header, table.rows)


def test_rows_and_columns_that_are_values_of_results():
    spec = _spec(
        where={}, rows={"value": "servers / 10", "label": "tens"}, columns="setup_rate", value="power", format="number"
    )
    table = own(_data(), spec, "")
    assert (table.header, table.rows) == (
        ("tens", "setup rate 0.1", "setup rate 1"), [("1", "61", "70"), ("100", "160", "1060")],
    )  # fmt: skip


def test_what_does_not_apply_is_empty_and_is_a_row_all_the_same():
    data = _data().assign(buffer=[50, 50, 50, 50, None, None, None, None])
    table = own(data, _spec(where={}, rows=["buffer", "setup_rate"], columns=["power"], format="number"), "")
    assert [row[:2] for row in table.rows] == [("50", "0.1"), ("50", "1"), ("", "0.1"), ("", "1")]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("{rows: servers, columns: [power]}", "tables.t.experiments: is missing"),
        ("{experiments: [], rows: servers, columns: [power]}", "tables.t.experiments = []"),
        ("{experiments: [b], rows: servers, columns: [power]}", "tables.t.experiments = b: must be one of a, limit"),
        ("{experiments: [a], columns: [power]}", "tables.t.rows: is missing"),
        ("{experiments: [a], rows: server, columns: [power]}", "tables.t.rows = server: must be one of"),
        ("{experiments: [a], rows: [], columns: [power]}", "tables.t.rows"),
        ("{experiments: [a], rows: [power], columns: [power]}", "tables.t.rows = power: must be one of"),
        ("{experiments: [a], rows: servers, columns: []}", "tables.t.columns"),
        ("{experiments: [a], rows: servers, columns: setup_rate}", "tables.t.value: goes with columns"),
        ("{experiments: [a], rows: servers, columns: [power], value: power}", "tables.t.value: goes with columns"),
        ("{experiments: [a], rows: servers, columns: mu, value: power}", "tables.t.columns = mu: must be one of"),
        ("{experiments: [a], rows: servers, columns: setup_rate, value: busy}", "busy: is nothing that a keeps"),
        ("{experiments: [a], rows: servers, columns: setup_rate, value: power +}", "must be arithmetic of"),
        ("{experiments: [a], rows: servers, columns: setup_rate, value: import os}", "must be arithmetic of"),
        ("{experiments: [a], rows: servers, columns: [power]}", "power: has several scenarios at servers = 10"),
        ("{experiments: [a, limit], rows: setup_rate, columns: [power]}", "power: has several scenarios at"),
        ("{experiments: [a], rows: servers, columns: [power], where: {mu: 1}}", "tables.t.where = mu: must be one of"),
        ("{experiments: [a], rows: servers, columns: [{value: power, where: {mu: 1}}]}", "where = mu: must be one of"),
        ("{experiments: [a], rows: servers, columns: [power], where: {setup_rate: 3}}", "no such scenario"),
        ("{experiments: [a], rows: servers, columns: [power], format: pretty}", "tables.t.format = 'pretty'"),
        ("{experiments: [a], rows: servers, columns: [power], digits: 0}", "tables.t.digits = 0"),
        ("{experiments: [a], rows: servers, columns: [power], colour: red}", "tables.t.colour = 'red': is not a known"),
        (
            "{experiments: [a], rows: servers, columns: setup_rate, value: power, caption: '{{colour}}'}",
            "tables.t.caption: {{colour}}: must be a key of",
        ),
        ("[a]", "tables.t = ['a']"),
        ("null", "tables.t = None"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_before_anything_is_run(table, says):
    values = parse_yaml(f"{RUN}tables:\n  t: {table}\n", "run.yaml")
    with pytest.raises(ConfigError) as caught:
        load({"output": "results/mine", **values})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_in_captions_are_those_of_the_run():
    values = parse_yaml(RUN, "run.yaml")
    keys = {"experiments": ["a"], "rows": "servers", "columns": "setup_rate", "value": "power"}
    config = load({"output": "o", **values, "tables": {"t": {**keys, "caption": "N = {{servers}}"}}})
    assert caption(config, "t", "tables") == "N = 10 and 1000"
