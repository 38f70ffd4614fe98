"""Make a run of your own: the experiments, figures, tables and claims of its file, and nothing else.

Relative paths in the file, and results, are taken from the folder of the file: results/NAME and the folder that
`output` names. What is there and still fits is kept. Snakemake does the work, and keeps a log in .snakemake/log.

Examples:
  elastiqueue new study && elastiqueue run study/run.yaml
  elastiqueue run study/run.yaml --cores 4
  elastiqueue run study/run.yaml --targets results/study/wait_and_power.pdf
  elastiqueue run study/run.yaml --profile profiles/slurm
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from elastiqueue.scenarios.reading import ConfigError, read_yaml
from elastiqueue.workflow.experiments import load
from elastiqueue.workflow.runs import WORKFLOW, composed


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="RUN.yaml")
    parser.add_argument("--targets", nargs="+", default=[], metavar="FILE", help="make these files only")
    parser.add_argument("--cores", default="all", metavar="N", help="default: all of them")
    parser.add_argument("--profile", metavar="FOLDER", help="a profile of Snakemake, of a cluster say")
    parser.add_argument("--dry-run", "-n", action="store_true", help="count the jobs, do none")


def run(options: argparse.Namespace) -> int:
    """Validate the file, then let Snakemake do what is missing; returns the exit status."""
    if options.cores != "all" and not (options.cores.isdecimal() and int(options.cores) > 0):
        raise ConfigError(f"--cores = {options.cores}: must be a number of at least 1, or all")
    values, file = read_yaml(options.file), Path(options.file).resolve()
    if values.get("run") is None:
        values["run"] = re.sub(r"^[^A-Za-z]+|[^A-Za-z0-9_]", "", file.stem.replace("-", "_")) or "own"
    config = load(composed(values, WORKFLOW / "config/config.yaml", WORKFLOW / "config/claims.yaml"))
    command = [
        sys.executable, "-P", "-m", "snakemake", "--snakefile", str(WORKFLOW / "workflow/Snakefile"),
        "--directory", str(file.parent), "--configfile", str(file), "--config", f"run={config.run}",
        "--cores", options.cores, "--workflow-profile", str(WORKFLOW / "profiles/default"),
    ]  # fmt: skip
    if options.profile is not None:
        command += [
            "--profile",
            str(Path(options.profile).resolve()) if Path(options.profile).is_dir() else options.profile,
        ]
    if options.dry_run:
        command += ["--dry-run", "--quiet", "rules"]
    with subprocess.Popen(
        [*command, "--", *options.targets], text=True, stdout=subprocess.PIPE if options.dry_run else None
    ) as process:
        try:
            said, _ = process.communicate()
        finally:  # an interrupt reaches Snakemake, too, which removes what is half made
            status = process.wait()
    results = file.parent / f"results/{config.run}"
    if status:
        logs = sorted((file.parent / ".snakemake/log").glob("*.log"))
        where = f"; all that was said is in {logs[-1]}" if logs and not options.dry_run else ""
        print(f"elastiqueue: run = {config.run}: is not complete{where}", file=sys.stderr)
        return 2 if where and "\nelastiqueue: " in logs[-1].read_text(encoding="utf-8", errors="replace") else 1
    if options.dry_run:
        print(said.partition("Job stats:\n")[2].partition("\n\n")[0] or "nothing to be done")
    else:
        figures = f"figures are in {file.parent / config.output}, " * bool(config.figures)
        print(f"{config.run}: complete; {figures}tables in {results}")
    return 0
