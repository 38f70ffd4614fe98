"""A run compared with the reference results, its manifest of checksums, and the storing of a reference.

Two estimates of the same quantity, with means a, b, standard errors s, r and degrees of freedom f, g, differ where

    t = (a - b) / sqrt(s^2 + r^2),   2 P(T > |t|) <= min(2 Phi(-5), 0.05 / m),   T of Welch's degrees of freedom,

that is at five combined standard errors, more where few replications make the tails heavy or where Bonferroni's
correction for the m comparisons of all files asks for it. What is computed without chance must agree to the ten digits
of the files; a single sample path, which has no error, is compared only for identity.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elastiqueue.errors import ConfigError, check_run

EQUAL, WITHIN, PARTLY, DIFFERENT, MISSING = "bit-equal", "equal within error", "equal in part", "different", "missing"
STANDARD_ERRORS = 5.0
FAMILY = 0.05
DIGITS = 1e-8  # relative; files have ten significant digits
MEASURES = ("mean", "se", "ci_low", "ci_high", "n")
TABLES = ("data", "tables")  # folders of a run's output that hold numbers
COMPRESSED_ABOVE = 400_000  # bytes; larger tables are kept as .csv.gz
PREVIEW_WIDTH = 900  # pixels
REPORTED = 20  # differences listed per file


# ---- Comparison ------------------------------------------------------------------------------------------------------


@dataclass
class Comparison:
    """One file of the reference beside the run's."""

    file: str
    status: str
    rows: int = 0  # compared with each other
    only_in_reference: int = 0
    only_in_run: int = 0
    without_error: int = 0  # rows of single sample paths that differ: they cannot be judged
    largest: float = 0.0  # difference in combined standard errors
    differences: list[dict[str, Any]] = field(default_factory=list)


def _tables(folder: Path) -> dict[str, Path]:
    """Name (without .gz) -> path of each table below a folder of results."""
    found = {}
    for kind in TABLES:
        for path in sorted((folder / kind).glob("**/*.csv*")):
            name = path.relative_to(folder).as_posix().removesuffix(".gz")
            if name.endswith(".csv"):
                found[name] = path
    return found


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _keyed(content: bytes) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows by all columns but the measures; equal keys are told apart by their order."""
    import pandas as pd

    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    keys = [name for name in table.columns if name not in MEASURES]
    seen: Counter[tuple[str, ...]] = Counter()
    rows = {}
    for record in table.to_dict("records"):
        key = tuple(f"{name}={record[name]}" for name in keys if record[name] != "")
        rows[(*key, f"#{seen[key]}")] = {name: record.get(name, "") for name in table.columns}
        seen[key] += 1
    return rows


def _float(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row.get(name) or "nan")
    except ValueError:
        return math.nan


def _difference(reference: Mapping[str, str], run: Mapping[str, str]) -> tuple[str, float, float]:
    """Kind of two rows' difference (equal, chance, error-free or path), its size in standard errors, its p value."""
    from scipy.special import stdtr

    if dict(reference) == dict(run):
        return "equal", 0.0, 1.0
    if "mean" not in reference:  # a table without errors, of what is computed
        same = all(_close(reference[name], run.get(name, "")) for name in reference)
        return ("equal", 0.0, 1.0) if same else ("error-free", math.inf, 0.0)
    a, b = _float(reference, "mean"), _float(run, "mean")
    if _close(reference["mean"], run["mean"]):
        return "equal", 0.0, 1.0
    counts = [_float(row, "n") for row in (reference, run)]
    errors = [_float(row, "se") for row in (reference, run)]
    if any(math.isnan(se) for se in errors):
        return "path", math.nan, 1.0
    variances = [se**2 for se in errors]
    total = math.fsum(variances)
    if total == 0.0:
        return "error-free", math.inf, 0.0
    terms = [v**2 / max(n - 1, 1) for v, n in zip(variances, counts, strict=True) if v > 0]
    t = abs(a - b) / math.sqrt(total)
    return "chance", t, 2 * float(stdtr(total**2 / math.fsum(terms), -t))


def _close(a: str, b: str) -> bool:
    try:
        return a == b or math.isclose(float(a), float(b), rel_tol=DIGITS, abs_tol=1e-12)
    except ValueError:
        return False


def compare(output: str | Path, reference: str | Path) -> list[Comparison]:
    """Compare the tables in a run's output folder with those of the reference; raises ValueError where it has none."""
    known, found = _tables(Path(reference)), _tables(Path(output))
    if not known:
        raise ConfigError(f"--reference = {reference}: must hold reference results (data/*.csv)")
    results, open_cases = [], []
    for name, path in known.items():
        if name not in found:
            results.append(Comparison(name, MISSING))
            continue
        ours, theirs = _content(path), _content(found[name])
        if ours == theirs:
            results.append(Comparison(name, EQUAL, rows=ours.count(b"\n") - 1))
            continue
        one = Comparison(name, WITHIN)
        results.append(one)
        left, right = _keyed(ours), _keyed(theirs)
        one.only_in_reference, one.only_in_run = len(left.keys() - right.keys()), len(right.keys() - left.keys())
        for key in (key for key in left if key in right):
            one.rows += 1
            kind, size, p = _difference(left[key], right[key])
            if kind == "path":
                one.without_error += 1
            elif kind != "equal":
                one.largest = max(one.largest, size)
                open_cases.append((one, key, left[key], right[key], size, p))
        if one.only_in_reference:
            one.status = PARTLY if one.rows else MISSING
    comparisons = max(1, sum(one.rows for one in results))
    threshold = min(math.erfc(STANDARD_ERRORS / math.sqrt(2)), FAMILY / comparisons)
    for one, key, row, other, size, p in open_cases:
        if p <= threshold:
            one.status = DIFFERENT
            one.differences.append(
                {
                    "row": ", ".join(part for part in key if part != "#0"),
                    "reference": row.get("mean", ""),
                    "run": other.get("mean", ""),
                    "standard_errors": size if math.isfinite(size) else None,
                }
            )
    return results


def report(results: list[Comparison], run: str) -> str:
    """The comparison as a readable table, then what differs and by how much."""
    counts = Counter(one.status for one in results)
    lines = [
        f"# Run `{run}` beside the reference results",
        "",
        ", ".join(f"{counts[status]} {status}" for status in (EQUAL, WITHIN, PARTLY, DIFFERENT, MISSING)),
        "",
        f"Equal within error: no row differs by {STANDARD_ERRORS:g} combined standard errors (Student's law, and "
        "Bonferroni's correction over all rows); what has no error agrees to the digits of the file. Equal in part: "
        "the same, but the run lacks rows of the reference.",
        "",
        "| file | verdict | rows compared | only in reference | only in run | paths that differ | largest (s.e.) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in results:
        largest = f"{one.largest:.2f}" if math.isfinite(one.largest) else "no error"
        lines.append(
            f"| {one.file} | {one.status} | {one.rows} | {one.only_in_reference} | {one.only_in_run} | "
            f"{one.without_error} | {largest} |"
        )
    for one in results:
        if one.differences:
            lines += ["", f"## {one.file}: {len(one.differences)} rows differ", ""]
            lines += ["| row | reference | run | difference (s.e.) |", "| --- | --- | --- | --- |"]
            ordered = sorted(one.differences, key=lambda row: -(row["standard_errors"] or math.inf))
            for row in ordered[:REPORTED]:
                size = "no error" if row["standard_errors"] is None else f"{row['standard_errors']:.1f}"
                text = row["row"].replace("|", "\\|")
                lines.append(f"| {text} | {row['reference']} | {row['run']} | {size} |")
    return "\n".join(lines) + "\n"


def verify(output: str | Path, reference: str | Path, run: str) -> list[Comparison]:
    """Compare, and write verification.json and verification.md into the run's output folder."""
    from elastiqueue.results.files import write_atomically, write_json

    results = compare(output, reference)
    records = [{**asdict(one), "largest": _finite(one.largest)} for one in results]
    write_json(Path(output) / "verification.json", {"run": run, "files": records})
    write_atomically(Path(output) / "verification.md", report(results, run))
    return results


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ---- Provenance, manifest, reference ---------------------------------------------------------------------------------


def _records(results: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Experiment and provenance of each job of a run that computes: pilot runs, blocks, engines without chance."""
    for folder in ("pilots", "blocks", "computed"):
        for path in sorted((results / folder).rglob("*.provenance.json")):
            inside = path.relative_to(results / folder).parts
            yield inside[0].removesuffix(".provenance.json"), json.loads(path.read_text())


def provenance(results: str | Path) -> dict[str, Any]:
    """What made a run, summed over its jobs: machine, versions, seeds, wall and CPU seconds, peak memory."""
    from elastiqueue.sampling.streams import scenarios_digest

    experiments: dict[str, dict[str, Any]] = {}
    seen: dict[str, set[str]] = {name: set() for name in ("cpu", "platform", "python", "versions", "sources", "seeds")}
    for name, record in _records(Path(results)):
        one = experiments.setdefault(
            name,
            {
                "jobs": 0,
                "wall_seconds": 0.0,
                "cpu_seconds": 0.0,
                "peak_memory_mb": 0.0,
                "sources": set(),
                "scenarios": [],
            },
        )
        one["jobs"] += 1
        one["wall_seconds"] += record["wall_seconds"]
        one["cpu_seconds"] += record["cpu_seconds"]
        one["peak_memory_mb"] = max(one["peak_memory_mb"], record["peak_memory_mb"])
        one["sources"].add(record["sources"])
        one["scenarios"] += record["scenarios"]
        for key in ("cpu", "platform", "python", "sources"):
            seen[key].add(record[key])
        seen["versions"].update(f"{package} {number}" for package, number in record["versions"].items())
        seen["seeds"].update(str(scenario["seed"]) for scenario in record["scenarios"])
    for one in experiments.values():
        one["sources"] = sorted(one["sources"])
        one["scenarios"] = scenarios_digest(one["scenarios"])
        for key in ("wall_seconds", "cpu_seconds"):
            one[key] = round(one[key], 3)
    total = {
        "jobs": sum(one["jobs"] for one in experiments.values()),
        "wall_seconds": round(math.fsum(one["wall_seconds"] for one in experiments.values()), 3),
        "cpu_seconds": round(math.fsum(one["cpu_seconds"] for one in experiments.values()), 3),
        "peak_memory_mb": max((one["peak_memory_mb"] for one in experiments.values()), default=0.0),
    }
    return {**{key: sorted(values) for key, values in seen.items()}, "total": total, "experiments": experiments}


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()


def manifest(output: str | Path, results: str | Path, run: str) -> dict[str, Any]:
    """Checksums and sizes of every file of a run, and its provenance.

    Left out: the reference, logs, and what is written after the manifest (itself, the verification).
    """
    output, results = Path(output), Path(results)
    paths = {path for folder in (output, results) for path in folder.rglob("*") if path.is_file()}
    left_out = {output / name for name in ("manifest.json", "verification.json", "verification.md", "README.md")}
    kept = sorted(
        path
        for path in paths - left_out
        if not path.name.startswith(".") and not {output / "reference", results / "logs"} & set(path.parents)
    )
    files = {path.as_posix(): {"sha256": checksum(path), "bytes": path.stat().st_size} for path in kept}
    return {"run": run, "files": files, "provenance": provenance(results)}


def write_manifest(output: str | Path, results: str | Path, run: str) -> None:
    """Write manifest.json into the run's output folder."""
    from elastiqueue.results.files import write_json

    write_json(Path(output) / "manifest.json", manifest(output, results, run))


def check_manifest(path: str | Path) -> list[str]:
    """Files of a manifest that are missing or have other contents (paths are those from where it was written)."""
    files = json.loads(Path(path).read_text())["files"]
    return [
        name for name, entry in files.items() if not Path(name).is_file() or checksum(Path(name)) != entry["sha256"]
    ]


def store_reference(output: str | Path, reference: str | Path, results: str | Path | None = None) -> None:
    """Keep a run as the reference: its tables, small previews of its figures, its verdicts, and what made it.

    Parameters
    ----------
    output : folder of a finished run's figures and tables.
    reference : folder that is filled; what it held of tables and previews is replaced.
    results : folder of the run's blocks, for machine.json; default results/<run> as claims.json or manifest.json say.
    """
    from elastiqueue.results.files import write_atomically, write_json

    output, reference = Path(output), Path(reference)
    if not (tables := _tables(output)):
        raise ConfigError(f"output = {output}: must be the output of a finished run (data/*.csv)")
    for old in [*_tables(reference).values(), *(reference / "previews").glob("*.png")]:
        old.unlink()
    for name, path in tables.items():
        content = _content(path)
        if len(content) > COMPRESSED_ABOVE:
            write_atomically(reference / f"{name}.gz", gzip.compress(content, 9, mtime=0))
        else:
            write_atomically(reference / name, content)
    for path in sorted(output.glob("*.png")):
        write_atomically(reference / "previews" / path.name, preview(path))
    for name in ("claims.json", "claims.md"):
        if (output / name).exists():
            write_atomically(reference / name, (output / name).read_bytes())
    if results is None:
        notes = [output / name for name in ("manifest.json", "claims.json") if (output / name).exists()]
        results = Path("results") / (json.loads(notes[0].read_text())["run"] if notes else "paper")
    write_json(reference / "machine.json", provenance(results))


def preview(path: Path, width: int = PREVIEW_WIDTH) -> bytes:
    """A PNG image made at most `width` pixels wide."""
    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB")
        if small.width > width:
            small = small.resize((width, round(small.height * width / small.width)), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.quantize(128, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def finished(run: str, output: str | None) -> Path:
    """The folder with figures and tables of a finished run; raises ConfigError where there is none."""
    check_run(run)
    folder = Path(output or ("paper_figures" if run == "paper" else f"results/{run}"))
    if not folder.is_dir():
        raise ConfigError(f"--run = {run}: must be a finished run; {folder} does not exist")
    if not _tables(folder):
        raise ConfigError(f"--run = {run}: must be a finished run; {folder} holds no data/*.csv")
    return folder
