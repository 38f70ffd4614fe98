"""Comparison with the reference, the manifest, and the storing of a reference."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from elastiqueue.cli.main import main
from elastiqueue.engines.simulation import estimates, simulate
from elastiqueue.results.files import write_atomically, write_json
from elastiqueue.results.manifest import check_manifest, commit, facts, manifest, provenance, write_manifest
from elastiqueue.results.reference import (
    DIFFERENT,
    EQUAL,
    INCOMPARABLE,
    MISSING,
    PARTLY,
    WITHIN,
    Comparison,
    compare,
    report,
    store_reference,
    verify,
)
from elastiqueue.results.tidy_tables import value_row, write_table
from elastiqueue.sampling.streams import scenarios_digest
from elastiqueue.scenarios.base import settings_digest
from elastiqueue.scenarios.reading import ConfigError, scenario_from


def sampled(seed: int, shift: float = 0.0, rows: int = 400, n: int = 100) -> pd.DataFrame:
    """A table of estimates of known means, an exact row, and a single path."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"servers": range(rows), "metric": "x", "statistic": "estimate", "n": n})
    table["se"] = 0.1
    table["mean"] = table["servers"] + 0.1 * random.standard_normal(rows)
    table.loc[7, "mean"] += shift
    exact = {"servers": 1, "metric": "y", "statistic": "estimate", "mean": 60.0, "se": 0.0, "n": 0}
    path = {"servers": 1, "metric": "y", "statistic": "path", "mean": random.random(), "n": 1}
    return pd.concat([table, pd.DataFrame([exact, path])], ignore_index=True)


def stored(folder: Path, table: pd.DataFrame, name: str = "fig9") -> Path:
    write_table(table, folder / "data" / f"{name}.csv")
    return folder


def one(output: Path, reference: Path) -> Comparison:
    (found,) = compare(output, reference)
    return found


def test_the_same_bytes_are_equal(tmp_path: Path) -> None:
    found = one(stored(tmp_path / "run", sampled(1)), stored(tmp_path / "reference", sampled(1)))
    assert (found.status, found.rows) == (EQUAL, 402)


def test_another_seed_is_equal_within_error(tmp_path: Path) -> None:
    found = one(stored(tmp_path / "run", sampled(1)), stored(tmp_path / "reference", sampled(2)))
    assert (found.status, found.rows, found.without_error, found.differences) == (WITHIN, 402, 1, [])
    assert 2 < found.largest < 5


def test_a_shift_is_found_and_measured(tmp_path: Path) -> None:
    found = one(stored(tmp_path / "run", sampled(1, shift=1.5)), stored(tmp_path / "reference", sampled(2)))
    assert found.status == DIFFERENT
    (difference,) = found.differences
    assert "servers=7" in difference["row"]
    assert difference["standard_errors"] == pytest.approx(1.5 / 0.1 / math.sqrt(2), abs=3)
    assert "servers=7" in report([found], "test")


def test_few_replications_of_heavy_tails_do_not_fail_unless_most_rows_are_off(tmp_path: Path) -> None:
    """A row of six replications a hundred errors off is chance if it is one of many: large values are rare."""
    for shifted, status in ((1, WITHIN), (150, WITHIN), (250, DIFFERENT)):
        table = sampled(1, n=6)
        table.loc[: shifted - 1, "mean"] += 14.0
        run = stored(tmp_path / f"run{shifted}", table)
        assert one(run, stored(tmp_path / "reference", sampled(2, n=6))).status == status


def test_rows_of_other_settings_are_not_comparable(tmp_path: Path) -> None:
    reference = stored(tmp_path / "reference", sampled(1, n=100))
    assert one(stored(tmp_path / "a", sampled(2, shift=9.0, n=6)), reference).status == PARTLY  # the exact row is equal
    table = sampled(2, shift=9.0, n=6).iloc[:400]
    found = one(stored(tmp_path / "b", table), reference)
    assert (found.status, found.other_settings, found.rows) == (INCOMPARABLE, 400, 0)
    reference = stored(tmp_path / "c", sampled(1).assign(settings="aaaa"))
    longer = one(stored(tmp_path / "d", sampled(2, shift=9.0).assign(settings="bbbb")), reference)
    assert (longer.status, longer.other_settings) == (INCOMPARABLE, 402)
    same = one(stored(tmp_path / "e", sampled(2, shift=9.0).assign(settings="aaaa")), reference)
    assert same.status == DIFFERENT
    assert "| data/fig9.csv | not comparable |" in report([longer], "test")


def test_the_settings_of_a_scenario_are_its_keys_but_for_seed_and_replications() -> None:
    base = {"model": "tabs", "servers": 10, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1, "horizon": 100}

    def digest_of(**keys: Any) -> str:
        return settings_digest(scenario_from({**base, **keys}))

    assert digest_of() == digest_of(seed=5) == digest_of(replications=7)
    assert len({digest_of(), digest_of(horizon=200), digest_of(warm_up=10), digest_of(power={"idle": 100})}) == 4


def test_bonferroni_holds_in_many_rows(tmp_path: Path) -> None:
    """Of 40 pairs of runs of 400 rows none is called different (probability of one: 0.01)."""
    reference = stored(tmp_path / "reference", sampled(1))
    statuses = {one(stored(tmp_path / "run", sampled(seed)), reference).status for seed in range(2, 42)}
    assert statuses == {WITHIN}


def test_what_has_no_error_must_agree_to_its_digits(tmp_path: Path) -> None:
    reference = stored(tmp_path / "reference", sampled(1))
    table = sampled(1)
    table.loc[400, "mean"] = 60.0 * (1 + 1e-10)
    assert one(stored(tmp_path / "a", table), reference).status in (EQUAL, WITHIN)
    table.loc[400, "mean"] = 60.0 * (1 + 1e-6)
    found = one(stored(tmp_path / "b", table), reference)
    assert found.status == DIFFERENT
    assert found.differences[0]["standard_errors"] is None
    facets = pd.DataFrame({"facet": [1, 2], "b": [2.0, 1.0]})
    reference = stored(tmp_path / "facets", facets)
    assert one(stored(tmp_path / "c", facets.assign(b=[2.0, 1.0 + 1e-12])), reference).status in (EQUAL, WITHIN)
    assert one(stored(tmp_path / "d", facets.assign(b=[2.0, 1.1])), reference).status != EQUAL


def test_rows_and_files_that_are_not_there(tmp_path: Path) -> None:
    reference = stored(tmp_path / "reference", sampled(1))
    shorter = one(stored(tmp_path / "a", sampled(1).iloc[:100]), reference)
    assert (shorter.status, shorter.rows, shorter.only_in_reference, shorter.only_in_run) == (PARTLY, 100, 302, 0)
    other = one(stored(tmp_path / "b", sampled(1).assign(metric="z")), reference)
    assert (other.status, other.only_in_run) == (INCOMPARABLE, 402)
    assert one(stored(tmp_path / "c", sampled(1), "fig8"), reference).status == MISSING
    with pytest.raises(ConfigError, match="must hold reference results"):
        compare(tmp_path / "a", tmp_path / "nothing")


def test_two_seeds_of_a_simulation_agree_and_two_models_do_not(tmp_path: Path) -> None:
    def run(name: str, **keys: Any) -> Path:
        base = {"model": "tabs", "servers": 10, "arrival_rate": 0.3, "standby_rate": 0.1, "setup_rate": 0.1}
        scenario = scenario_from({**base, "horizon": 100, "replications": 60, **keys})
        found = estimates(scenario, simulate(scenario, 0, 60)[0])
        rows = [{"servers": 10, **value_row(metric, value)} for metric, value in found.items()]
        return stored(tmp_path / name, pd.DataFrame(rows))

    reference = run("reference", seed=1)
    assert one(run("seed", seed=2), reference).status == WITHIN
    changed = one(run("changed", seed=2, setup_rate=0.05), reference)
    assert changed.status == DIFFERENT
    assert any("metric=power" in row["row"] for row in changed.differences)


def finished_run(folder: Path, run: str = "mine") -> tuple[Path, Path]:
    """Output and results of a run: one table, one figure, one provenance record per block."""
    output, results = folder / "output", folder / "results" / run
    stored(output, sampled(1))
    stored(output, sampled(2, rows=16000), "fig8")
    (output / "data").joinpath("notes.txt").write_text("no table")
    noise = np.random.default_rng(1).integers(0, 255, (900, 1800, 3)).astype(np.uint8)
    Image.fromarray(noise).save(output / "fig9.png")
    for i in range(2):
        record = {
            "cpu": "Processor", "platform": "Linux", "python": "3.11", "sources": "abc", "versions": {"numpy": "2"},
            "wall_seconds": 1.5 + i, "cpu_seconds": 1.0, "peak_memory_mb": 100.0 + i, "scenarios": [{"seed": 5}],
        }  # fmt: skip
        write_json(results / "blocks" / "convergence" / "0123" / f"{i}.provenance.json", record)
    write_json(output / "claims.json", {"run": run})
    return output, results


def test_provenance_is_summed_over_jobs(tmp_path: Path) -> None:
    _, results = finished_run(tmp_path)
    found = provenance(results)
    total = {"jobs": 2, "wall_seconds": 4.0, "cpu_seconds": 2.0, "peak_memory_mb": 101.0}
    assert found["total"] == total
    scenarios = scenarios_digest([{"seed": 5}])
    assert found["experiments"] == {"convergence": {**total, "sources": ["abc"], "scenarios": scenarios}}
    assert (found["cpu"], found["versions"], found["seeds"]) == (["Processor"], ["numpy 2"], ["5"])
    record = next(results.rglob("*.provenance.json"))
    record.write_text(record.read_text()[:-5])
    with pytest.raises(ValueError, match=f"{record.name}: is damaged; delete it and run again"):
        provenance(results)


def test_manifest_finds_what_changed(tmp_path: Path) -> None:
    output, results = finished_run(tmp_path)
    write_manifest(output, results, "mine")
    assert check_manifest(output / "manifest.json") == {}
    files = json.loads((output / "manifest.json").read_text())["files"]
    names = {Path(name).name for name in files}
    assert names == {
        "fig9.csv",
        "fig8.csv",
        "notes.txt",
        "fig9.png",
        "0.provenance.json",
        "1.provenance.json",
        "claims.json",
    }
    (output / "data" / "fig9.csv").write_text("changed")
    (output / "fig9.png").unlink()
    wrong = {Path(name).name: what for name, what in check_manifest(output / "manifest.json").items()}
    assert wrong == {"fig9.csv": "changed", "fig9.png": "missing"}
    assert manifest(output, results, "mine")["files"].keys() < files.keys()


def test_a_stored_reference_verifies_and_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, results = finished_run(tmp_path)
    reference = output / "reference"
    store_reference(output, reference, results)
    assert {item.status for item in compare(output, reference)} == {EQUAL}
    names = {path.relative_to(reference).as_posix() for path in reference.rglob("*") if path.is_file()}
    assert names == {"data/fig9.csv", "data/fig8.csv.gz", "previews/fig9.png", "machine.json", "claims.json"}
    with Image.open(reference / "previews" / "fig9.png") as small:
        assert small.size == (900, 450)
    assert json.loads((reference / "machine.json").read_text())["total"]["cpu_seconds"] == 2.0
    before = {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}
    (reference / "data" / "old.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    store_reference(output, reference)  # finds results/mine by the run's own notes
    assert {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()} == before
    with pytest.raises(ConfigError, match="must be the output of a finished run"):
        store_reference(results, reference)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    output, results = finished_run(tmp_path)
    write_atomically(results / "summaries" / "convergence.csv", "metric\n")
    monkeypatch.chdir(tmp_path)
    options = ["--run", "mine", "--output", "output"]
    assert main(["reference", *options, "--reference", "reference"]) == 0
    assert main(["manifest", *options]) == 0
    assert main(["manifest", *options, "--check"]) == 0
    assert main(["verify", *options, "--reference", "reference", "--strict"]) == 0
    assert "bit-equal" in capsys.readouterr().out
    stored(output, sampled(1, shift=5.0))
    capsys.readouterr()
    assert main(["manifest", *options, "--check"]) == 1
    assert capsys.readouterr().out.startswith("changed: output/data/fig9.csv")
    (output / "manifest.json").write_text("{}")
    assert main(["manifest", *options, "--check"]) == 2
    assert main(["verify", *options, "--reference", "reference"]) == 0
    assert main(["verify", *options, "--reference", "reference", "--strict"]) == 1
    assert main(["verify", *options, "--reference", "reference", "--strict", "--only", "fig8", "--into", "apart"]) == 0
    assert "fig9" not in (tmp_path / "apart" / "verification.md").read_text()
    assert "1 differ" in capsys.readouterr().out
    read = json.loads((output / "verification.json").read_text())
    assert {entry["file"]: entry["status"] for entry in read["files"]} == {
        "data/fig8.csv": EQUAL, "data/fig9.csv": DIFFERENT
    }  # fmt: skip
    assert "| data/fig9.csv | different |" in (output / "verification.md").read_text()
    assert main(["verify", "--run", "none"]) == 2
    assert capsys.readouterr().err.endswith("must be a finished run; results/none does not exist\n")


def test_a_verification_is_not_part_of_what_it_verifies(tmp_path: Path) -> None:
    output, results = finished_run(tmp_path)
    store_reference(output, tmp_path / "reference", results)
    before = manifest(output, results, "mine")
    verify(output, tmp_path / "reference", "mine")
    assert manifest(output, results, "mine") == before


def test_the_facts_of_a_run(tmp_path: Path) -> None:
    _, results = finished_run(tmp_path)
    found = facts(results, "mine")
    assert list(found)[:4] == ["run", "computed", "commit", "seed"]
    assert (found["seed"], found["computed"]) == ("5", "1 experiments in 2 jobs")
    assert commit().startswith("none") or len(commit().split()[0]) == 40
