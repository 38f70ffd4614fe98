"""What the commands share: a scenario read with `--set`, the files of `--json` and `--csv`, tables, progress."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastiqueue.scenarios.reading import ConfigError, Scenario, parse_yaml, read_scenario

if TYPE_CHECKING:
    from elastiqueue.api.compare import Comparison
    from elastiqueue.api.plan import Plan
    from elastiqueue.api.result import Result


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what every command on a scenario has."""
    parser.add_argument("scenario", metavar="SCENARIO.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key (dotted inside)")
    parser.add_argument("--json", metavar="FILE", help="write JSON to FILE; - writes it to standard output")
    parser.add_argument("--csv", metavar="FILE", help="write the table as CSV to FILE; - writes it to standard output")


def read(options: argparse.Namespace) -> Scenario:
    """The scenario with its changes; raises ConfigError also where a file cannot be written."""
    changes = settings("--set", options.set)
    check_file("--json", options.json)
    check_file("--csv", options.csv)
    if options.json == "-" and options.csv == "-":
        raise ConfigError("--csv = -: must be a file where --json is -")
    scenario = read_scenario(options.scenario, changes)
    keep_inputs(options, options.scenario, scenario)
    return scenario


def keep_inputs(options: argparse.Namespace, file: str, scenario: Scenario) -> None:
    """Raise ConfigError where a result would replace a scenario's file, its policy or its trace."""
    inputs = [Path(file), *(Path(text) for text in _texts(scenario.model_dump()) if "." in text)]
    for option, output in (("--json", options.json), ("--csv", options.csv)):
        if output and os.path.exists(output) and any(each.is_file() and each.samefile(output) for each in inputs):
            raise ConfigError(f"{option} = {output}: must not be a file that is read")


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested mappings and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def settings(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """The keys and values of texts KEY=VALUE; raises ConfigError."""
    changes: dict[str, Any] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not all(part.strip() for part in key.split(".")):
            raise ConfigError(f"{option} = {text}: must be KEY=VALUE, with a KEY such as servers or arrivals.load")
        changes[key] = parse_yaml(value, f"{option} {key} = {value}")
    return changes


def check_file(option: str, file: str | None) -> None:
    """Raise ConfigError unless a file of this name can be written, found out by making one beside it."""
    if file is None or file == "-":
        return
    try:
        path = Path(file)
        if file.endswith("/") or (path.exists() and not path.is_file()):
            raise ConfigError(f"{option} = {file!r}: must be a file, or - for standard output")
        if not path.parent.is_dir():
            raise ConfigError(f"{option} = {file}: its folder must exist")
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"{option} = {file}: must be a file that can be written: {why}") from None


def report(options: argparse.Namespace, result: Result | Plan | Comparison, text: str) -> None:
    """Write the files that were asked for, and print the text unless standard output is one of them."""
    write(options.json, lambda: json.dumps(result.document(), indent=1) + "\n")
    write(options.csv, lambda: result.table().to_csv(index=False, lineterminator="\n"))
    if "-" not in (options.json, options.csv):
        print(text)


def write(file: str | None, content: Callable[[], str]) -> None:
    """Write a text to a file, to standard output if its name is -, or nowhere if it is None."""
    if file == "-":
        sys.stdout.write(content())
    elif file is not None:
        from elastiqueue.results.files import write_atomically

        write_atomically(file, content())


def title(scenario: Scenario) -> str:
    """Model and size of a scenario."""
    from elastiqueue.scenarios.units import said_of

    count = scenario.describe()["servers"]
    text = f"{scenario.model}, {count} server{'s' if count != 1 else ''}"
    return f"{text}; {said_of(scenario)}" if scenario.units else text


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines of columns two spaces apart, the first flush left, the others flush right."""
    first, *rest = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        "  ".join([f"{row[0]:<{first}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], rest, strict=True))])
        for row in rows
    )


def metrics_text(*results: Result) -> str:
    """Metrics of one or more results side by side, rounded to their errors; zeros of queue tails are left out."""
    from elastiqueue.scenarios.units import unit_of

    with_errors = any(one.n for result in results for one in result.metrics.values())
    heads = [["value (exact)", "mean (s.e.)"][any(one.n for one in result.metrics.values())] for result in results]
    real = getattr(results[0].scenario, "units", None) is not None
    tail = [*(["95 % interval", "n"] if with_errors else []), "unit", *(["in practice", ""] if real else [])]
    table = [["metric", *heads, *tail]]
    for name, first in results[0].metrics.items():
        if name.startswith("queue_tail[") and not first.mean > 0:
            continue
        low, high = first.interval()
        cells = [str(result.metrics[name]) if name in result.metrics else "" for result in results]
        cells += [f"[{low:.5g}, {high:.5g}]", str(first.n)] if with_errors else []
        cells.append(unit_of(results[0].scenario, name))
        cells += [str(part) for part in results[0].real(name) or ("", "")] if real else []
        table.append([name, *cells])
    return "\n".join([title(results[0].scenario), aligned(table)])


class Progress:
    """A line with the share that is done and the time left, on a terminal only; it is wiped at the end."""

    def __init__(self, what: str) -> None:
        self.what, self.begin, self.shown = what, time.monotonic(), False

    def __enter__(self) -> Callable[[int, int], None]:
        return self.show

    def show(self, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        left = (time.monotonic() - self.begin) * (total - done) / done
        clock = f"{int(left) // 3600}:{int(left) // 60 % 60:02}:{int(left) % 60:02}"
        print(f"\r{self.what} {done} of {total}, {clock} left \033[K", end="", file=sys.stderr, flush=True)
        self.shown = True

    def __exit__(self, *exception: object) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
