"""Judge the papers' claims on the results of a finished run.

Examples:
  elastiqueue claims
  elastiqueue claims --run quick --strict
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.claims import verdicts as judged
from elastiqueue.errors import ConfigError, check_run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--run", default="paper", metavar="NAME", help="name of the run; its results are results/NAME")
    parser.add_argument("--claims", default="config/claims.yaml", metavar="FILE", help="the claims")
    parser.add_argument("--output", metavar="FOLDER", help="write claims.json, claims.md and claims.html there")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a claim is contradicted")


def run(options: argparse.Namespace) -> int:
    """Judge the claims; print the table, or write the files."""
    claims = judged.read_claims(options.claims)
    check_run(options.run)
    folder = Path("results") / options.run
    if not folder.is_dir():
        raise ConfigError(f"--run = {options.run}: must be a finished run; {folder} does not exist")
    if not any((folder / kind / f"{name}.csv").exists() for kind in judged.KINDS for name in claims.experiments()):
        raise ConfigError(f"--run = {options.run}: must be a finished run; {folder} has no tables that the claims read")
    verdicts = judged.judge(claims, judged.Results(folder))
    if options.output:
        judged.write_verdicts(verdicts, options.run, options.output)
    else:
        for name, claim in verdicts["claims"].items():
            print(f"{name:<5}{claim['verdict']:<14}{claim['statement']}")
            for part in claim["parts"]:
                tight = part["tightest"]
                margin = judged.margin_text(tight)
                print(f"     {part['verdict']:<14}- {part['says']}: {judged.measured_text(tight)}", end="")
                print(f" {tight['requirement']} (margin {margin} s.e.)" if margin else "")
    contradicted = any(claim["verdict"] == judged.CONTRADICTED for claim in verdicts["claims"].values())
    return 1 if options.strict and contradicted else 0
