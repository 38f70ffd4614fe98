"""`python -m elastiqueue.tables TABLE --inputs FILE... --csv FILE --md FILE --tex FILE`: a table of paper B.

An input is the tidy table of the experiment that it is named after.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from elastiqueue.errors import Parser, printable
from elastiqueue.results.tidy_tables import read_table
from elastiqueue.tables.bounds import bounds
from elastiqueue.tables.facets import facets

TABLES = {"facets": facets, "bounds": bounds}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a table; returns the exit status."""
    parser = Parser(prog="elastiqueue.tables", description=__doc__)
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("--inputs", nargs="+", required=True)
    for kind in ("csv", "md", "tex"):
        parser.add_argument(f"--{kind}", required=True)
    options = parser.parse_args(arguments)
    try:
        table = TABLES[options.table]({Path(path).stem: read_table(path) for path in options.inputs})
        table.write(options.csv, options.md, options.tex)
    except (ValueError, OSError) as error:
        print(f"elastiqueue: {printable(error)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
