"""Judge the papers' claims on the results of a finished run.

Examples:
  elastiqueue claims
  elastiqueue claims --run quick --strict
  elastiqueue claims --only A1 A2
"""

from __future__ import annotations

import argparse
from pathlib import Path

from elastiqueue.claims.schema import read_claims
from elastiqueue.errors import ConfigError, check_run


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--run", default="paper", metavar="NAME", help="name of the run; its results are results/NAME")
    parser.add_argument("--claims", default="config/claims.yaml", metavar="FILE", help="the claims")
    parser.add_argument("--only", nargs="+", default=[], metavar="CLAIM", help="judge these, at the level of all")
    parser.add_argument("--output", metavar="FOLDER", help="write claims.json and claims.md there")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a claim is contradicted")


def run(options: argparse.Namespace) -> int:
    """Judge the claims; print the table, or write the files."""
    claims = read_claims(options.claims)
    if unknown := [name for name in options.only if name not in claims.claims]:
        raise ConfigError(f"--only = {unknown[0]}: must be one of {', '.join(claims.claims)}")
    check_run(options.run)
    folder = Path("results") / options.run
    if not folder.is_dir():
        raise ConfigError(f"--run = {options.run}: must be a finished run; {folder} does not exist")
    from elastiqueue.claims.pages import part_line
    from elastiqueue.claims.quantities import KINDS, Results
    from elastiqueue.claims.verdicts import CONTRADICTED, counts, judge, write_verdicts

    if not any((folder / kind / f"{name}.csv").exists() for kind in KINDS for name in claims.experiments()):
        raise ConfigError(f"--run = {options.run}: must be a finished run; {folder} has no tables that the claims read")
    verdicts = judge(claims, Results(folder), options.only)
    if options.output:
        write_verdicts(verdicts, options.run, options.output)
    else:
        for name, claim in verdicts["claims"].items():
            print(f"{name:<5}{claim['verdict']:<14}{claim['statement']}")
            for part in claim["parts"]:
                print(f"     {part_line(part)}")
    print(f"claims: {counts(verdicts)}")
    contradicted = any(claim["verdict"] == CONTRADICTED for claim in verdicts["claims"].values())
    return 1 if options.strict and contradicted else 0
