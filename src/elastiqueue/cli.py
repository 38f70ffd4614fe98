"""The command line: one scenario simulated, solved exactly or taken to its limit; the claims of a finished run.

A mistake of the user's is answered by one line on standard error and exit status 2.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elastiqueue import __version__, capacity_cli, claims, estimate, stability_cli, verification
from elastiqueue.config import ConfigError, Scenario, parse_yaml, read_scenario
from elastiqueue.errors import Parser, printable
from elastiqueue.scenarios.service import SERVICE_MODELS, ServiceScenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        print("elastiqueue: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        print(f"elastiqueue: {printable(text)}", file=sys.stderr)
        return 2
    except (MemoryError, ArithmeticError, RuntimeError) as error:  # sizes and rates that no bound has caught
        print(f"elastiqueue: {printable(error) or type(error).__name__}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="elastiqueue", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, text in (
        ("simulate", _simulate, "simulate one scenario: a table of its metrics with errors"),
        ("exact", _exact, "the same metrics from the exact solver, where the state space allows it"),
        ("fluid", _fluid, "the fluid limit: averages, trajectory and fixed point"),
    ):
        one = commands.add_parser(name, help=text, description=text)
        one.add_argument("scenario", metavar="SCENARIO.yaml")
        one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key (dotted inside)")
        one.add_argument("--json", metavar="FILE", help="write JSON to FILE; - writes it to standard output")
        one.set_defaults(command=command)
    schema = commands.add_parser("schema", help="print the JSON schema of run configurations and scenarios")
    schema.set_defaults(command=_schema)
    for module in (capacity_cli, stability_cli, claims, verification, estimate):
        module.add_command(commands)
    return parser


def _read(options: argparse.Namespace) -> Scenario:
    changes: dict[str, Any] = {}
    for text in options.set:
        key, separator, value = text.partition("=")
        if not separator or not all(part.strip() for part in key.split(".")):
            raise ConfigError(f"--set = {text}: must be KEY=VALUE, with a KEY such as servers or arrivals.load")
        changes[key] = parse_yaml(value, f"--set {key} = {value}")
    check_json(options.json)
    return read_scenario(options.scenario, changes)


def check_json(file: str | None) -> None:
    """Raise ConfigError unless a file of this name can be written, found out by making one beside it."""
    if file is None or file == "-":
        return
    try:
        path = Path(file)
        if file.endswith("/") or (path.exists() and not path.is_file()):
            raise ConfigError(f"--json = {file!r}: must be a file, or - for standard output")
        if not path.parent.is_dir():
            raise ConfigError(f"--json = {file}: its folder must exist")
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--json = {file}: must be a file that can be written: {getattr(error, 'strerror', None) or error}"
        ) from None


def _simulate(options: argparse.Namespace) -> None:
    scenario = _read(options)
    from elastiqueue.engines.simulation import estimates, simulate_to_precision
    from elastiqueue.models.registry import model_of, module_name
    from elastiqueue.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    known = model_of(scenario).metrics(scenario)
    if scenario.precision is not None and scenario.precision.metric not in known:
        raise ConfigError(f"precision.metric = {scenario.precision.metric}: must be one of {', '.join(known)}")
    watch = Stopwatch()
    totals, _ = simulate_to_precision(scenario)
    found = {
        name: {"mean": one.mean, "se": one.se, "ci95": list(one.interval()), "n": one.n}
        for name, one in estimates(scenario, totals).items()
    }
    sources = source_digest("elastiqueue.engines.simulation", module_name(scenario))
    _report(options, scenario, found, watch.provenance(seed=scenario.seed, sources=sources))


def _read_service(options: argparse.Namespace, command: str) -> ServiceScenario:
    scenario = _read(options)
    if not isinstance(scenario, ServiceScenario):
        raise ConfigError(f"model = {scenario.model}: {command} is for {', '.join(SERVICE_MODELS)}")
    return scenario


def _exact(options: argparse.Namespace) -> None:
    scenario = _read_service(options, "exact")
    from elastiqueue.exact_tables import exact
    from elastiqueue.models.registry import module_name
    from elastiqueue.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    watch = Stopwatch()
    result = exact(scenario)
    facts: dict[str, Any] = {"sources": source_digest("elastiqueue.exact_tables", module_name(scenario))}
    if result.level is not None:
        facts |= {"truncation_level": result.level, "relative_change": result.change}
    _report(
        options, scenario, {name: {"mean": value} for name, value in result.metrics.items()}, watch.provenance(**facts)
    )


def _fluid(options: argparse.Namespace) -> None:
    scenario = _read_service(options, "fluid")
    from elastiqueue.fluid_tables import fluid_averages, fluid_path
    from elastiqueue.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    watch = Stopwatch()
    steady = {"horizon": "auto", "warm_up": "auto", "record_every": None}
    extra: dict[str, Any] = {}
    if scenario.arrival.constant and scenario.arrival.at(0.0) < 1:
        point = fluid_averages(type(scenario).model_validate({**scenario.model_dump(), **steady}))
        extra["fixed_point"] = {
            "q": [point["busy"]], "idle_on": point["idle_on"], "idle_off": point["idle_off"], "setup": point["setup"],
            "power": point["power"],
        }  # fmt: skip
    if not isinstance(scenario.horizon, str):
        path = fluid_path(scenario)
        extra["trajectory"] = {
            "time": path.times.tolist(), "q": path.q.tolist(), "idle_off": path.d0.tolist(), "setup": path.d1.tolist(),
            "idle_on": path.u.tolist(),
        }  # fmt: skip
    found = {name: {"mean": value} for name, value in fluid_averages(scenario).items()}
    facts = {"sources": source_digest("elastiqueue.fluid_tables")}
    _report(options, scenario, found, watch.provenance(**facts), extra)


def _report(
    options: argparse.Namespace,
    scenario: Scenario,
    metrics: Mapping[str, Mapping[str, Any]],
    provenance: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
) -> None:
    if options.json is not None:
        from elastiqueue.results import write_atomically

        document = {
            "scenario": scenario.model_dump(mode="json"),
            "metrics": _listed(metrics),
            **(extra or {}),
            "provenance": provenance,
        }
        text = json.dumps(_finite(document), indent=1) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
            return
        write_atomically(options.json, text)
    count = scenario.describe()["servers"]
    print(f"{scenario.model}, {count} server{'s' if count != 1 else ''}")
    with_errors = any("se" in entry for entry in metrics.values())
    heads = ("mean", "se", "95 % interval", "n") if with_errors else ("value (exact)",)
    print(f"{'metric':<24}" + "".join(f"{head:>14}" if i != 2 else f"{head:>28}" for i, head in enumerate(heads)))
    for name, entry in metrics.items():
        line = f"{name:<24}{entry['mean']:>14.6g}"
        if with_errors:
            low, high = entry["ci95"]
            line += f"{entry['se']:>14.2g}{f'[{low:.6g}, {high:.6g}]':>28}{entry['n']:>14}"
        if not name.startswith("queue_tail[") or entry["mean"] > 0:
            print(line)


def _listed(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Gather name[1], name[2], ... into one entry `name` whose mean, se and ci95 are lists."""
    result: dict[str, dict[str, Any]] = {}
    for name, entry in metrics.items():
        base, bracket, _ = name.partition("[")
        if not bracket:
            result[name] = dict(entry)
            continue
        gathered = result.setdefault(base, {key: [] for key in entry})
        for key, value in entry.items():
            if key == "n":
                gathered[key] = value
            else:
                gathered[key].append(value)
    return result


def _finite(value: Any) -> Any:
    """The same with null for what is not a finite number, which JSON cannot say."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _schema(options: argparse.Namespace) -> None:
    from elastiqueue.experiments import schema_text

    sys.stdout.write(schema_text())


if __name__ == "__main__":
    sys.exit(main())
