"""Write the page of a finished run: what was run, the verdicts on the claims, the figures with their data and claims.

Example:
  elastiqueue page --run quick --figures '{"fig3": "Mean wait and power against N."}'
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from elastiqueue.claims.pages import Figure, report_opening, report_page
from elastiqueue.cli.verify import finished_run
from elastiqueue.results.files import write_atomically
from elastiqueue.results.manifest import facts
from elastiqueue.results.reference import finished, preview


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    finished_run(parser)
    parser.add_argument("--figures", default="{}", metavar="JSON", help="captions of the figures by their names")
    parser.add_argument("--tables", nargs="*", default=[], metavar="NAME", help="tables that it shows")
    parser.add_argument("--into", metavar="FOLDER", help="folder of the page, and of the claims.json that it reads")
    parser.add_argument("--opening", metavar="FILE", help="also write the text on which Snakemake's report opens")


def _natural(item: tuple[str, object]) -> list[tuple[str, int]]:
    return [(rest, int(part or 0)) for rest, part in re.findall(r"(\D*)(\d*)", item[0])]


def run(options: argparse.Namespace) -> None:
    """Write index.html."""
    output = finished(options.run, options.output, with_tables=False)
    folder = Path(options.into or output)
    figures = [Figure(name, " ".join(caption.split())) for name, caption in json.loads(options.figures).items()]
    known = facts(Path("results") / options.run, options.run)
    comparison, verdicts = folder / "verification.json", folder / "claims.json"
    if options.into and comparison.exists():
        known["beside the reference"] = json.loads(comparison.read_text())["summary"]
    judged = json.loads(verdicts.read_text()) if verdicts.exists() else {"claims": {}}
    judged["claims"] = dict(sorted(judged["claims"].items(), key=_natural))  # files have them as texts are ordered
    beside = "" if folder == output else f"{os.path.relpath(output, folder)}/"
    write_atomically(
        folder / "index.html", report_page(known, judged, figures, output, preview, beside, options.tables)
    )
    if options.opening:
        write_atomically(options.opening, report_opening(known, judged, figures, str(output)))
    print(f"{folder / 'index.html'}: {len(figures)} figures")
