"""Traces of arrival rates and logs of requests: read in every common form, refused by file and line."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiqueue.cli.main import main
from elastiqueue.sampling import traces
from elastiqueue.sampling.traces import read_trace
from elastiqueue.scenarios.reading import ConfigError, scenario_from

SCENARIO = {"model": "tabs", "servers": 4, "standby_rate": 0.1, "setup_rate": 0.1, "buffer": 3, "horizon": 20}


def _file(tmp_path, content):
    path = tmp_path / "rates.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "time,rate\n0,0.5\n10,0.25\n",
        "rate,time\n0.5,0\n0.25,10\n",
        "time,rate\r\n0,0.5\r\n10,0.25\r\n",
        "\ufefftime,rate\n0,0.5\n10,0.25\n",
        "time;rate\n0;0,5\n10;0,25\n",
        "Time\tRate\n0\t0.5\n10\t2.5e-1\n",
        "host,time,note,rate\na,0,x,0.5\nb,10,,0.25\n",
        "\n time , rate \n\n0, 0.5\n\n10, 0.25",
        '"time","rate"\n"0","0.5"\n"10","0.25"\n',
    ],
    ids=["plain", "order", "CRLF", "BOM", "decimal commas", "tabs", "other columns", "empty lines", "quotes"],
)
def test_every_common_form_is_the_same_trace(content, tmp_path):
    rate = read_trace(_file(tmp_path, content))
    assert (rate.times, rate.rates) == ((0.0, 10.0), (0.5, 0.25))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty: must begin with a header"),
        ("time,rate\n", "is empty; must hold at least one line"),
        ("0,.1\n5,.2\n", "line 1, 0, .1: must begin with a header that names the columns time and rate"),
        ("time,load\n0,1\n", "line 1, time, load: must begin with a header"),
        ("time,rate\n0,1\n1,.5\n.5,.4\n", "line 4, .5, .4: times must increase"),
        ("time,rate\n0,1\n0,1\n", "line 3, 0, 1: times must increase"),
        ("time,rate\n0,a\n", "line 2, 0, a: 'a' must be a finite number"),
        ("time,rate\n0,nan\n", "line 2, 0, nan: 'nan' must be a finite number"),
        ("time,rate\n0,1_0\n", "'1_0' must be a finite number"),
        ("time,rate\n0,\n", "'' must be a finite number"),
        ("time,rate\n1,.5\n", "begins at time 1: must be 0"),
        ("time,rate\n0,-1\n", "line 2, 0, -1: a rate must be >= 0"),
        ("time,rate\n0,0,5\n", "line 2, 0, 0, 5: must have 2 cells (numbers with decimal commas: ;"),
        ("time,rate\n\n0\n", "line 3, 0: must have 2 cells"),
        ("time,rate\nnoon,1\n", "'noon' must be a number or a time stamp such as 2024-05-01T12:00:00"),
        ("time,rate\n0,1\n2024-05-01,1\n", "line 3, 2024-05-01, 1: '2024-05-01' must be a finite number"),
        (b"time,rate\n0,\xff\n", "must be a CSV file in UTF-8"),
        ("time,rate\n0," + "1" * 200_000, "must be a CSV file in UTF-8: field larger"),
        ("time,rate\n0,200\n", "rises to 200: must stay <= 100 per server"),
        ("time,rate\n2024-05-01T00:00,1\n", "arrival_rate.time_unit = service: must be second, since "),
    ],
)
def test_what_is_no_trace_is_refused_by_file_and_line(content, says, tmp_path):
    path = _file(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        scenario_from({**SCENARIO, "arrival_rate": {"trace": str(path)}})
    text = str(caught.value)
    assert says in text
    assert "\n" not in text
    assert str(path) in text or "per server" in says


def test_units_of_a_clock(tmp_path):
    """36,000 requests an hour on 20 servers with services of 0.2 s: 10 a second, 0.5 a second and server, load 0.1."""
    path = _file(tmp_path, "time,rate\n0,36000\n5,18000\n")
    arrival = {
        "trace": str(path), "time_unit": "minute", "rate_unit": "hour", "service_time": 0.2, "rates_of": "system",
    }  # fmt: skip
    rate = scenario_from({**SCENARIO, "servers": 20, "arrival_rate": arrival}).arrival
    assert rate.times == pytest.approx((0, 5 * 60 / 0.2))
    assert rate.rates == pytest.approx((0.1, 0.05))
    with pytest.raises(ConfigError, match=r"^arrival_rate.service_time: is missing; time_unit = minute needs it"):
        scenario_from({**SCENARIO, "arrival_rate": {"trace": str(path), "time_unit": "minute"}})


def test_time_stamps_with_and_without_zones(tmp_path):
    for stamps in (
        ("2024-05-01T23:59:00", "2024-05-02T00:01:00"),
        ("2024-05-01 23:59", "2024-05-02 00:01"),
        ("2024-05-01T23:59:00Z", "2024-05-02T02:01:00+02:00"),
    ):
        path = _file(tmp_path, "time,rate\n" + "".join(f"{stamp},{k}\n" for k, stamp in enumerate(stamps)))
        assert read_trace(path, "second", "second", 0.5).times == (0.0, 240.0)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 90)), min_size=1, max_size=8))
def test_on_lines_no_task_is_lost_and_every_rate_is_near_its_line(tmp_path_factory, points):
    times = np.concatenate([[0.0], np.cumsum([gap for gap, _ in points])])[:-1]
    rates = np.array([rate for _, rate in points])
    starts, heights = traces._on_lines(times.tolist(), rates.tolist())
    assert np.all(np.diff(starts) > 0)
    tasks = np.sum(np.diff(starts) * heights[:-1])
    assert math.isclose(tasks, np.trapezoid(rates, times), rel_tol=1e-9, abs_tol=1e-9)
    assert np.all(np.abs(np.interp(starts, times, rates) - heights) <= max(rates) / 100 + 1e-12)


def test_a_trace_is_read_once_until_it_changes(tmp_path, monkeypatch):
    path = _file(tmp_path, "time,rate\n0,0.5\n")
    read = []
    real = traces._rows
    monkeypatch.setattr(traces, "_rows", lambda path: read.append(path) or real(path))
    assert [read_trace(path).rates for _ in range(5)] == [(0.5,)] * 5
    assert len(read) == 1
    _file(tmp_path, "time,rate\n0,0.25\n")
    assert read_trace(path).rates == (0.25,)


def test_a_log_of_requests_becomes_a_trace(tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text("id,timestamp\n" + "".join(f"{k},2024-05-01T10:00:{s:02}\n" for k, s in enumerate([5, 0, 1, 9, 25])))
    assert main(["rates", str(log), "--every", "10"]) == 0
    assert capsys.readouterr().out == "time,rate\n0,0.4\n10,0\n"
    log.write_text("3.5\n1.5\n2.0\n")  # seconds, without a header
    assert main(["rates", str(log), "--every", "1"]) == 0
    out = capsys.readouterr().out
    assert out == "time,rate\n0,2\n1,0\n"
    (tmp_path / "rates.csv").write_text(out)
    assert read_trace(tmp_path / "rates.csv", "second", "second", 0.5, share=0.1).rates == (0.1, 0.0)


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        ("", [], "--every = 60: must part the 0 s of "),
        ("5\n6\n", [], "--every = 60: must part the 1 s of "),
        ("time\n0\nx\n", [], "line 3, x: 'x' must be a finite number"),
        ("time\nx\n", [], "line 2, x: 'x' must be a number or a time stamp"),
        ("a,time\n0\n", [], "line 2, 0: has no time stamp"),
        ("0\n100\n", ["--every", "0"], "--every = 0: must be seconds"),
        ("0\n100\n", ["--every", "nan"], "--every = nan: must be seconds"),
    ],
)
def test_what_is_no_log_is_one_line(content, options, says, tmp_path, capsys):
    log = tmp_path / "log.csv"
    log.write_text(content)
    assert main(["rates", str(log), *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert printed.err.startswith("elastiqueue: ")
    assert printed.err.count("\n") == 1
