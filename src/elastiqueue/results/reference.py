"""A run compared with the reference results, and the storing of a reference.

Rows belong together if they agree in all columns but the measures, and are compared where they were made under the same
settings (all keys of the scenario but the seed; the number of replications). Two estimates of the same quantity, with
means a, b, standard errors s, r and degrees of freedom f, g, differ where

    t = (a - b) / sqrt(s^2 + r^2),   2 P(T > |t|) <= min(2 Phi(-5), 0.05 / m),   T of Welch's degrees of freedom,

that is at five combined standard errors, more where few replications make the tails heavy or where Bonferroni's
correction for the m comparisons of all files asks for it. With fewer than 30 replications a skewed estimate may lie
farther off by chance: such rows are judged together; a file differs where more than half of them have p < 0.01. What is
exact must agree to the ten digits of the files; a single sample path, which has no error, is
compared only for identity.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elastiqueue.errors import ConfigError, check_run
from elastiqueue.results.files import write_atomically, write_json
from elastiqueue.results.manifest import provenance
from elastiqueue.results.markdown import markdown_table
from elastiqueue.results.tidy_tables import FACTS, MEASURES

EQUAL, WITHIN, PARTLY, DIFFERENT = "bit-equal", "equal within error", "equal in part", "different"
INCOMPARABLE, MISSING = "not comparable", "missing"
STATUSES = (EQUAL, WITHIN, PARTLY, DIFFERENT, INCOMPARABLE, MISSING)
STANDARD_ERRORS = 5.0
FAMILY = 0.05
FEW_REPLICATIONS, FEW_LEVEL = 30, 0.01
DIGITS = 1e-8  # relative; files have ten significant digits
SETTINGS = "settings"  # column with the digest of what a row was made under
TABLES = ("data", "tables")  # folders of a run's output that hold numbers
COMPRESSED_ABOVE = 400_000  # bytes; larger tables are kept as .csv.gz
PREVIEW_WIDTH = 900  # pixels
REPORTED = 20  # differences listed per file


@dataclass
class Comparison:
    """One file of the reference beside the run's."""

    file: str
    status: str
    rows: int = 0  # compared with each other
    only_in_reference: int = 0
    only_in_run: int = 0
    other_settings: int = 0  # rows of both that were made under different settings
    without_error: int = 0  # rows of single sample paths that differ: they cannot be judged
    largest: float = 0.0  # difference in combined standard errors
    differences: list[dict[str, Any]] = field(default_factory=list)


def tables_of(folder: Path) -> dict[str, Path]:
    """Name (without .gz) -> path of each table below a folder of results."""
    paths = [path for kind in TABLES for path in sorted((folder / kind).glob("**/*.csv*"))]
    names = {path.relative_to(folder).as_posix().removesuffix(".gz"): path for path in paths}
    return {name: path for name, path in names.items() if name.endswith(".csv")}


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _keyed(content: bytes) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows by all columns but the measures; equal keys are told apart by their order."""
    import pandas as pd

    table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    keys = [name for name in table.columns if name not in (*MEASURES, *FACTS)]
    seen: Counter[tuple[str, ...]] = Counter()
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for values in table.itertuples(index=False, name=None):
        record = dict(zip(table.columns, values, strict=True))
        key = tuple(f"{name}={record[name]}" for name in keys if record[name] != "")
        rows[(*key, f"#{seen[key]}")] = record
        seen[key] += 1
    return rows


def _float(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row.get(name) or "nan")
    except ValueError:
        return math.nan


def _close(a: str, b: str) -> bool:
    try:
        return a == b or math.isclose(float(a), float(b), rel_tol=DIGITS, abs_tol=1e-12)
    except ValueError:
        return False


def _same_settings(reference: Mapping[str, str], run: Mapping[str, str]) -> bool:
    """Whether two rows were made under the same settings; by the number of replications where a file says no more."""
    known = (reference.get(SETTINGS), run.get(SETTINGS))
    return reference.get("n") == run.get("n") and (known[0] == known[1] or not all(known))


def _difference(reference: Mapping[str, str], run: Mapping[str, str]) -> tuple[str, float, float]:
    """Kind of two rows' difference (equal, chance, few, error-free, path), its size in standard errors, its p value."""
    from scipy.special import stdtr

    if "mean" not in reference:  # a table without errors, of what is computed
        same = all(_close(reference[name], run.get(name, "")) for name in reference)
        return ("equal", 0.0, 1.0) if same else ("error-free", math.inf, 0.0)
    if _close(reference["mean"], run["mean"]):
        return "equal", 0.0, 1.0
    counts, errors = ([_float(row, name) for row in (reference, run)] for name in ("n", "se"))
    if any(math.isnan(se) for se in errors):
        return "path", math.nan, 1.0
    variances = [se**2 for se in errors]
    total = math.fsum(variances)
    few = min(counts) < FEW_REPLICATIONS
    if total == 0.0:
        return ("few", math.nan, 1.0) if few and min(counts) > 0 else ("error-free", math.inf, 0.0)
    terms = [v**2 / max(n - 1, 1) for v, n in zip(variances, counts, strict=True) if v > 0]
    t = abs(_float(reference, "mean") - _float(run, "mean")) / math.sqrt(total)
    return "few" if few else "chance", t, 2 * float(stdtr(total**2 / math.fsum(terms), -t))


def compare(output: str | Path, reference: str | Path, only: Collection[str] = ()) -> list[Comparison]:
    """Compare the tables in a run's output folder with those of the reference; raises ConfigError where it has none.

    only : names of tables without folder and suffix; empty: all.
    """
    known, present = tables_of(Path(reference)), tables_of(Path(output))
    if not known:
        raise ConfigError(f"--reference = {reference}: must hold reference results (data/*.csv)")
    results, cases = [], []
    for name, path in known.items():
        if only and Path(name).stem not in only:
            continue
        comparison = Comparison(name, MISSING)
        results.append(comparison)
        if name not in present:
            continue
        contents = _content(path), _content(present[name])
        if contents[0] == contents[1]:
            comparison.status, comparison.rows = EQUAL, contents[0].count(b"\n") - 1
            continue
        left, right = map(_keyed, contents)
        comparison.only_in_reference = len(left.keys() - right.keys())
        comparison.only_in_run = len(right.keys() - left.keys())
        for key in (key for key in left if key in right):
            if not _same_settings(left[key], right[key]):
                comparison.other_settings += 1
                continue
            comparison.rows += 1
            kind, size, p = _difference(left[key], right[key])
            if kind == "path":
                comparison.without_error += 1
            elif kind != "equal":
                comparison.largest = max(comparison.largest, size)
            cases.append((comparison, kind, key, left[key], right[key], size, p))
        if comparison.rows:
            whole = not (comparison.only_in_reference or comparison.other_settings)
            comparison.status = WITHIN if whole else PARTLY
        else:
            comparison.status = INCOMPARABLE
    threshold = min(math.erfc(STANDARD_ERRORS / math.sqrt(2)), FAMILY / max(1, len(cases)))
    for comparison in results:
        of_file = [case for case in cases if case[0] is comparison]
        few = [case for case in of_file if case[1] == "few"]
        off = [case for case in few if case[-1] < FEW_LEVEL]
        wrong = [case for case in of_file if case[1] in ("chance", "error-free") and case[-1] <= threshold]
        wrong += off if len(off) > len(few) / 2 else []
        for _, _, key, row, other, size, _ in wrong:
            comparison.status = DIFFERENT
            comparison.differences.append(
                {
                    "row": ", ".join(part for part in key if part != "#0"),
                    "reference": row.get("mean", ""),
                    "run": other.get("mean", ""),
                    "standard_errors": size if math.isfinite(size) else None,
                }
            )
    return results


def finished(run: str, output: str | None, with_tables: bool = True) -> Path:
    """The folder with figures and tables of a finished run; raises ConfigError where there is none."""
    check_run(run)
    folder = Path(output or ("paper_figures" if run == "paper" else f"results/{run}"))
    if not folder.is_dir():
        raise ConfigError(f"--run = {run}: must be a finished run; {folder} does not exist")
    if with_tables and not tables_of(folder):
        raise ConfigError(f"--run = {run}: must be a finished run; {folder} holds no data/*.csv")
    return folder


def summary(results: list[Comparison]) -> str:
    """How many files have which status, in words."""
    counts = Counter(one.status for one in results)
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])


def report(results: list[Comparison], run: str) -> str:
    """The comparison as a readable table, then what differs and by how much."""
    lines = [
        f"# Run `{run}` beside the reference results",
        "",
        f"Files: {summary(results)}.",
        "",
        f"Equal within error: no row differs by {STANDARD_ERRORS:g} combined standard errors (Student's distribution, "
        f"Bonferroni's correction over all rows; those of fewer than {FEW_REPLICATIONS} replications judged together); "
        "what has no error agrees to the digits of the file. Equal in part: the same, but the run lacks rows of the "
        "reference, or made them under other settings, such as another run length or number of replications. Not "
        "comparable: it has none of the rows, or made all of them under other settings.",
        "",
    ]
    heads = (
        "file",
        "verdict",
        "rows compared",
        "only in reference",
        "only in run",
        "other settings",
        "paths that differ",
    )
    lines += markdown_table(
        (*heads, "largest (s.e.)"),
        (
            (
                one.file, one.status, one.rows, one.only_in_reference, one.only_in_run, one.other_settings,
                one.without_error, f"{one.largest:.2f}" if math.isfinite(one.largest) else "no error",
            )
            for one in results
        ),
    )  # fmt: skip
    for one in results:
        if one.differences:
            lines += ["", f"## {one.file}: {len(one.differences)} rows differ", ""]
            ordered = sorted(one.differences, key=lambda row: -(row["standard_errors"] or math.inf))[:REPORTED]
            sizes = ["no error" if (size := row["standard_errors"]) is None else f"{size:.1f}" for row in ordered]
            rows = [(row["row"], row["reference"], row["run"], size) for row, size in zip(ordered, sizes, strict=True)]
            lines += markdown_table(("row", "reference", "run", "difference (s.e.)"), rows)
    return "\n".join(lines) + "\n"


def verify(
    output: str | Path,
    reference: str | Path,
    run: str,
    only: Collection[str] = (),
    folder: str | Path | None = None,
) -> list[Comparison]:
    """Compare, and write verification.json and verification.md into a folder, by default the run's output."""
    results = compare(output, reference, only)
    folder = Path(folder or output)
    records = [{**asdict(one), "largest": one.largest if math.isfinite(one.largest) else None} for one in results]
    write_json(folder / "verification.json", {"run": run, "summary": summary(results), "files": records})
    write_atomically(folder / "verification.md", report(results, run))
    return results


def store_reference(
    output: str | Path, reference: str | Path, results: str | Path | None = None, yardstick: float | None = None
) -> None:
    """Keep a run as the reference: its tables, small previews of its figures, its verdicts, and what made it.

    Parameters
    ----------
    output : folder of a finished run's figures and tables.
    reference : folder that is filled; what it held of tables and previews is replaced.
    results : folder of the run's blocks, for machine.json; default results/<run> as claims.json or manifest.json say.
    yardstick : CPU seconds of the fixed simulation by which run times are predicted (`workflow.running_time`).
    """
    output, reference = Path(output), Path(reference)
    if not (tables := tables_of(output)):
        raise ConfigError(f"output = {output}: must be the output of a finished run (data/*.csv)")
    for old in [*tables_of(reference).values(), *(reference / "previews").glob("*.png")]:
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
    write_json(reference / "machine.json", {**provenance(results), "yardstick_seconds": yardstick})


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
