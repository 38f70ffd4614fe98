"""What made a run, and the checksums of its files."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elastiqueue.errors import ConfigError
from elastiqueue.results.files import write_json

# written after the manifest, or telling of time and place
LEFT_OUT = ("manifest.json", "verification.json", "verification.md", "README.md", "index.html", "report.rst")
LEFT_OUT_FOLDERS = ("reference", "evaluation", "logs")


def _records(results: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Experiment and provenance of each job of a run that computes: pilot runs, blocks, exact engines."""
    for folder in ("pilots", "blocks", "computed"):
        for path in sorted((results / folder).rglob("*.provenance.json")):
            inside = path.relative_to(results / folder).parts
            try:
                record = json.loads(path.read_text())
            except ValueError:
                raise ValueError(f"{path}: is damaged; delete it and run again") from None
            yield inside[0].removesuffix(".provenance.json"), record


def provenance(results: str | Path) -> dict[str, Any]:
    """What made a run, summed over its jobs: machine, versions, seeds, wall and CPU seconds, peak memory."""
    from elastiqueue.sampling.streams import scenarios_digest

    jobs: dict[str, list[dict[str, Any]]] = {}
    for name, record in _records(Path(results)):
        jobs.setdefault(name, []).append(record)
    everything = [record for records in jobs.values() for record in records]

    def total(records: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "jobs": len(records),
            **{key: round(math.fsum(one[key] for one in records), 3) for key in ("wall_seconds", "cpu_seconds")},
            "peak_memory_mb": max((one["peak_memory_mb"] for one in records), default=0.0),
        }

    experiments = {
        name: {
            **total(records),
            "sources": sorted({one["sources"] for one in records}),
            "scenarios": scenarios_digest([scenario for one in records for scenario in one["scenarios"]]),
        }
        for name, records in jobs.items()
    }
    return {
        **{key: sorted({one[key] for one in everything}) for key in ("cpu", "platform", "python", "sources")},
        "versions": sorted({f"{name} {number}" for one in everything for name, number in one["versions"].items()}),
        "seeds": sorted({str(scenario["seed"]) for one in everything for scenario in one["scenarios"]}),
        "total": total(everything),
        "experiments": experiments,
    }


def commit() -> str:
    """The commit of the sources, with a remark where they differ from it; elsewhere than in a clone, the version."""
    from elastiqueue import __version__
    from elastiqueue.sources import PACKAGE

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        if not git("ls-files", str(PACKAGE / "__init__.py")):
            raise FileNotFoundError
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain", str(PACKAGE)) else "")
    except (OSError, subprocess.SubprocessError):
        return f"none (version {__version__})"


def facts(results: str | Path, run: str) -> dict[str, str]:
    """What was run, where, and what it took, in words and in the order of a page."""
    made = provenance(results)
    starts = sorted(record["started"] for _, record in _records(Path(results)) if "started" in record)
    total = made["total"]
    return {
        "run": run,
        "computed": f"{len(made['experiments'])} experiments in {total['jobs']} jobs",
        "commit": commit(),
        "seed": ", ".join(made["seeds"]),
        "machine": "; ".join(made["cpu"] + made["platform"]),
        "versions": ", ".join([f"Python {number}" for number in made["python"]] + made["versions"]),
        "duration": f"{total['cpu_seconds'] / 60:.1f} minutes of CPU time, {total['wall_seconds'] / 60:.1f} of wall "
        "time summed over the jobs",
        **({"date": " to ".join(dict.fromkeys((starts[0], starts[-1])))} if starts else {}),
    }


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(output: str | Path, results: str | Path, run: str) -> dict[str, Any]:
    """Checksums and sizes of the files of a run, and its provenance.

    Left out: the reference, logs, and what is written after the manifest (itself, the verification, the pages).
    """
    output, results = Path(output), Path(results)
    paths = {path for folder in (output, results) for path in folder.rglob("*") if path.is_file()}
    outside = {folder / name for folder in (output, results) for name in LEFT_OUT_FOLDERS}
    kept = sorted(
        path
        for path in paths - {folder / name for folder in (output, results) for name in LEFT_OUT}
        if not path.name.startswith(".") and not outside & set(path.parents)
    )
    files = {path.as_posix(): {"sha256": checksum(path), "bytes": path.stat().st_size} for path in kept}
    return {"run": run, "files": files, "provenance": provenance(results)}


def write_manifest(output: str | Path, results: str | Path, run: str) -> None:
    """Write manifest.json into the run's output folder."""
    write_json(Path(output) / "manifest.json", manifest(output, results, run))


def check_manifest(path: str | Path) -> dict[str, str]:
    """Files of a manifest that are missing or have other contents (paths are those from where it was written)."""
    try:
        files = {name: entry["sha256"] for name, entry in json.loads(Path(path).read_text())["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{path}: is not a manifest") from None
    wrong = {}
    for name, known in files.items():
        if not Path(name).is_file():
            wrong[name] = "missing"
        elif checksum(Path(name)) != known:
            wrong[name] = "changed"
    return wrong
