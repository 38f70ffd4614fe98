"""Files are whole or not there; blocks hold their replications; equal contents are equal bytes."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from elastiqueue.errors import ConfigError
from elastiqueue.results.files import read_arrays, write_arrays, write_atomically, write_checked
from elastiqueue.sources import PACKAGE, source_digest, source_files
from elastiqueue.workflow.experiments import blocks, chunks, load, specified_points, write_specifications
from elastiqueue.workflow.jobs import read_windows, run_block, run_pilots
from elastiqueue.workflow.summaries import summarise_chunk

VALUES = {
    "run": "r", "output": "o", "seed": 1, "replications": 9,
    "experiments": {
        "a": {
            "scenario": {"model": "tabs", "arrival_rate": 0.4, "setup_rate": 0.5, "buffer": 4, "horizon": 20},
            "grid": {"servers": [3, 5], "standby_rate": [0.1, 1]},
            "split_by": ["servers"],
            "block": 4,
        }
    },
    "figures": {},
}  # fmt: skip


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    with pytest.raises(TypeError):
        write_atomically(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path):
    """As root, /dev/null would else become a file of everybody's output."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_checked(path, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert os.listdir(tmp_path) == ["pipe"]
    assert path.is_fifo()


def test_two_writers_never_mix(tmp_path):
    path = tmp_path / "file.txt"
    texts = [str(k) * 200_000 for k in range(4)]
    writers = [threading.Thread(target=write_atomically, args=(path, text)) for text in texts for _ in range(5)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert path.read_text() in texts


def test_equal_arrays_are_equal_bytes_and_damage_is_noticed(tmp_path):
    for name in ("one", "two"):
        write_arrays(tmp_path / name, {"k": 1}, {"x": np.arange(1000.0)})
    content = (tmp_path / "one").read_bytes()
    assert content == (tmp_path / "two").read_bytes()
    meta, arrays = read_arrays(tmp_path / "one")
    assert meta == {"k": 1}
    assert arrays["x"].tolist() == list(range(1000))
    for damaged in (b"", content[: len(content) // 2], content[:-4], b"nonsense"):
        (tmp_path / "three").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            read_arrays(tmp_path / "three")


def test_blocks_only_grow_by_new_ranges():
    assert blocks(9, 4) == [(0, 4), (4, 8), (8, 9)]
    assert set(blocks(8, 4)) < set(blocks(12, 4))


def test_chunks_split_by_keys_and_name_what_determines_them():
    config = load(VALUES)
    first, second = chunks(config, "a")
    assert [len(specified_points(chunk.specification())) for chunk in (first, second)] == [2, 2]
    more = chunks(load({**VALUES, "replications": 20}), "a")
    assert [chunk.name for chunk in more] == [first.name, second.name]
    other = chunks(load({**VALUES, "seed": 2}), "a")
    assert not {chunk.name for chunk in other} & {first.name, second.name}


def _summary(folder, size, replications=9):
    chunk = chunks(load(VALUES), "a")[0]
    files = []
    for first, last in blocks(replications, size):
        file = folder / f"{first:07d}-{last:07d}.npz"
        run_block(chunk.specification(), first, last, file, file.with_suffix(".json"), None)
        files.append(file)
    return summarise_chunk(chunk.specification(), files, None)


def test_results_do_not_depend_on_the_size_of_blocks(tmp_path):
    tables = []
    for size in (1, 4, 9):
        folder = tmp_path / str(size)
        folder.mkdir()
        tables.append(_summary(folder, size))
    assert tables[0] == tables[1] == tables[2]


def test_a_longer_block_takes_over_the_replications_of_a_shorter_one(tmp_path, monkeypatch):
    spec = chunks(load(VALUES), "a")[0].specification()
    short, long, fresh = (
        tmp_path / name for name in ("x/0000000-0000003.npz", "x/0000000-0000006.npz", "y/0000000-0000006.npz")
    )
    run_block(spec, 0, 3, short, short.with_suffix(".json"), None)
    run_block(spec, 0, 6, fresh, fresh.with_suffix(".json"), None)
    import elastiqueue.workflow.jobs as jobs

    asked = []
    real = jobs.simulate
    monkeypatch.setattr(
        jobs, "simulate", lambda s, first, last, span: asked.append((first, last)) or real(s, first, last, span)
    )
    run_block(spec, 0, 6, long, long.with_suffix(".json"), None)
    assert asked == [(3, 6), (3, 6)]
    assert long.read_bytes() == fresh.read_bytes()
    changed = json.dumps({**json.loads(spec), "sources": "0" * 32})
    asked.clear()
    run_block(changed, 0, 6, long, long.with_suffix(".json"), None)
    assert asked == [(0, 6), (0, 6)]


def test_a_block_of_other_scenarios_is_refused(tmp_path):
    one, two = chunks(load(VALUES), "a")
    file = tmp_path / "0000000-0000002.npz"
    run_block(one.specification(), 0, 2, file, file.with_suffix(".json"), None)
    with pytest.raises(ValueError, match="another scenario"):
        summarise_chunk(two.specification(), [file], None)


def test_provenance_says_what_made_a_block(tmp_path):
    spec = chunks(load(VALUES), "a")[0].specification()
    file = tmp_path / "0000000-0000002.npz"
    run_block(spec, 0, 2, file, file.with_suffix(".json"), None)
    facts = json.loads(file.with_suffix(".json").read_text())
    for key in ("versions", "cpu", "wall_seconds", "cpu_seconds", "peak_memory_mb", "scenarios", "sources"):
        assert facts[key]


def test_pilots_fix_windows_of_at_least_five_relaxation_times(tmp_path):
    values = {**VALUES, "experiments": {"a": {**VALUES["experiments"]["a"]}}}
    values["experiments"]["a"]["scenario"] = {
        **VALUES["experiments"]["a"]["scenario"], "horizon": "auto", "warm_up": "auto",
    }  # fmt: skip
    chunk = chunks(load(values), "a")[0]
    assert chunk.steady
    run_pilots(chunk.specification(), tmp_path / "p.json", tmp_path / "p.provenance.json")
    spans = read_windows(tmp_path / "p.json")
    for span, point in zip(spans, specified_points(chunk.specification()), strict=True):
        assert span.warm_up >= max(5 * point.scenario.relaxation_time, 10 * span.tau) * (1 - 1e-9)
        assert span.horizon == 9 * span.warm_up
        assert span.batches == 4


def test_digests_follow_imports_and_only_those():
    tabs = {path.relative_to(PACKAGE).as_posix() for path in source_files("elastiqueue.models.tabs.definition")}
    assert {"models/tabs/definition.py", "sampling/phase_type.py", "scenarios/autoscaling.py"} <= tabs
    assert not {path for path in tabs if path.startswith(("models/central_queue", "figures", "workflow", "cli"))}
    assert source_digest("elastiqueue.models.tabs.definition") != source_digest(
        "elastiqueue.models.central_queue.definition"
    )


def _traced(tmp_path, rate):
    """The chunk of a scenario with a trace, as it is planned now."""
    (tmp_path / "rates.csv").write_text(f"time,rate\n0,{rate}\n")
    scenario = {**VALUES["experiments"]["a"]["scenario"], "arrival_rate": {"trace": str(tmp_path / "rates.csv")}}
    experiment = {**VALUES["experiments"]["a"], "scenario": scenario, "grid": {"servers": [3], "standby_rate": [1]}}
    return chunks(load({**VALUES, "experiments": {"a": experiment}}), "a")[0]


def test_an_edited_trace_is_another_specification_and_mixes_with_nothing_old(tmp_path):
    old = _traced(tmp_path, 0.4)
    short, long, fresh = (tmp_path / name for name in ("x/0-3.npz", "x/0000000-0000006.npz", "y/0000000-0000006.npz"))
    short = short.with_name("0000000-0000003.npz")
    run_block(old.specification(), 0, 3, short, short.with_suffix(".json"), None)
    new = _traced(tmp_path, 0.2)
    assert (new.name, new.settings) == (old.name, old.settings)
    assert new.specification() != old.specification()
    for file in (long, fresh):
        run_block(new.specification(), 0, 6, file, file.with_suffix(".json"), None)
    assert long.read_bytes() == fresh.read_bytes()  # nothing of `short` was taken over
    with pytest.raises(ValueError, match="another scenario"):
        summarise_chunk(new.specification(), [short], None)
    with pytest.raises(ValueError, match=r"rates\.csv: was edited after the run had begun"):
        run_block(old.specification(), 0, 3, short, short.with_suffix(".json"), None)


def test_a_large_experiment_is_few_jobs_that_some_more_scenarios_leave_alone():
    def names(rates, split_by):
        experiment = {**VALUES["experiments"]["a"], "grid": {"standby_rate": rates}, "split_by": split_by}
        experiment["scenario"] = {**experiment["scenario"], "servers": 3}
        return [chunk.name for chunk in chunks(load({**VALUES, "experiments": {"a": experiment}}), "a")]

    rates = [round(0.1 + 0.01 * k, 2) for k in range(600)]
    for split_by, count in (([], 5), (["standby_rate"], 75)):
        assert len(names(rates, split_by)) == count
        assert names(rates[:520], split_by)[:4] == names(rates, split_by)[:4]


def test_specifications_are_files_named_by_what_they_hold(tmp_path):
    write_specifications(tmp_path / "s", {"a": "1", "b": "2"})
    write_specifications(tmp_path / "s", {"a": "other", "c": "3"})
    assert {path.name: path.read_text() for path in (tmp_path / "s").iterdir()} == {
        "a.json": "1", "b.json": "2", "c.json": "3",
    }  # fmt: skip


def to_a_precision(tmp_path: Path, block: int) -> tuple[list[dict], list[int]]:
    """Rows of the summary of a run to a precision, and the replications of each of its two scenarios."""
    scenario = {"model": "always_on", "servers": 1, "arrival_rate": 0.5, "horizon": 200}
    experiment = {
        "scenario": scenario, "grid": {"arrival_rate": [0.2, 0.8]}, "metrics": ["busy"], "block": block,
        "precision": {"metric": "busy", "relative": 0.02}, "at_most": 300,
    }  # fmt: skip
    (chunk,) = chunks(load({**VALUES, "replications": 2, "figures": {}, "experiments": {"a": experiment}}), "a")
    assert chunk.rounds == (30, 60, 120, 240, 300)
    folder = tmp_path / str(block)
    files = {pair: folder / f"{pair[0]:07d}-{pair[1]:07d}.npz" for pair in chunk.ranges}
    for (first, last), file in files.items():
        before = [files[pair] for pair in chunk.before(first)]
        assert all(pair[1] <= first for pair in chunk.before(first))
        run_block(chunk.specification(), first, last, file, file.with_suffix(".json"), None, before)
    rows = summarise_chunk(chunk.specification(), list(files.values()), ["busy"])
    return rows, [row["n"] for row in rows]


def test_a_run_to_a_precision_adds_rounds_until_it_is_reached(tmp_path) -> None:
    rows, counts = to_a_precision(tmp_path, 10)
    assert set(counts) <= {30, 60, 120, 240, 300}
    assert counts[0] > counts[1]  # light load: a shorter busy fraction, known less well in so many services
    for row in rows:
        assert (row["ci_high"] - row["ci_low"]) / 2 <= 0.02 * row["mean"] or row["n"] == 300
    assert to_a_precision(tmp_path, 64) == (rows, counts)  # whatever the size of the jobs


def test_a_precision_that_is_not_reached_is_said(tmp_path, capsys) -> None:
    experiment = {
        "scenario": {"model": "always_on", "servers": 1, "arrival_rate": 0.5, "horizon": 20}, "at_most": 30,
        "precision": {"metric": "busy", "relative": 0.0001},
    }  # fmt: skip
    (chunk,) = chunks(load({**VALUES, "figures": {}, "experiments": {"a": experiment}}), "a")
    file = tmp_path / "0000000-0000030.npz"
    run_block(chunk.specification(), 0, 30, file, file.with_suffix(".json"), None)
    notes = {row["metric"]: row.get("note") for row in summarise_chunk(chunk.specification(), [file], None)}
    assert notes["busy"] == "precision of 0.0001 not reached in 30 replications or batches"
    assert notes["power"] is None
    assert "busy: precision of 0.0001 not reached" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": {"metric": "nothing", "relative": 0.1}}, "precision.metric = nothing: must be one"),
        ({"precision": {"metric": "busy", "relative": 2}}, "precision.relative = 2"),
    ],
)
def test_impossible_precisions_are_refused(change, message) -> None:
    scenario = {"model": "always_on", "servers": 1, "arrival_rate": 0.5}
    with pytest.raises(ConfigError, match=message):
        load({**VALUES, "figures": {}, "experiments": {"a": {"scenario": scenario, **change}}})
