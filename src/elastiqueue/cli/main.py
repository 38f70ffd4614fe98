"""The command line: one scenario simulated, solved exactly or taken to its limit; the claims of a finished run.

A mistake of the user's is answered by one line on standard error and exit status 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from elastiqueue import __version__
from elastiqueue.claims import verdicts as claims
from elastiqueue.cli import capacity as capacity_cli
from elastiqueue.cli import estimate
from elastiqueue.cli import stability as stability_cli
from elastiqueue.cli.options import finite, read
from elastiqueue.errors import Parser, printable
from elastiqueue.results import reference as verification
from elastiqueue.scenarios.autoscaling import SERVICE_MODELS, ServiceScenario
from elastiqueue.scenarios.reading import ConfigError, Scenario


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


def _simulate(options: argparse.Namespace) -> None:
    scenario = read(options)
    from elastiqueue.engines.simulation import estimates, simulate_to_precision
    from elastiqueue.models.registry import model_of, module_name
    from elastiqueue.results.provenance import Stopwatch
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
    scenario = read(options)
    if not isinstance(scenario, ServiceScenario):
        raise ConfigError(f"model = {scenario.model}: {command} is for {', '.join(SERVICE_MODELS)}")
    return scenario


def _exact(options: argparse.Namespace) -> None:
    scenario = _read_service(options, "exact")
    from elastiqueue.engines.exact import exact
    from elastiqueue.models.registry import module_name
    from elastiqueue.results.provenance import Stopwatch
    from elastiqueue.sources import source_digest

    watch = Stopwatch()
    result = exact(scenario)
    facts: dict[str, Any] = {"sources": source_digest("elastiqueue.engines.exact", module_name(scenario))}
    if result.level is not None:
        facts |= {"truncation_level": result.level, "relative_change": result.change}
    _report(
        options, scenario, {name: {"mean": value} for name, value in result.metrics.items()}, watch.provenance(**facts)
    )


def _fluid(options: argparse.Namespace) -> None:
    scenario = _read_service(options, "fluid")
    from elastiqueue.engines.fluid import fluid_averages, fluid_path
    from elastiqueue.results.provenance import Stopwatch
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
    facts = {"sources": source_digest("elastiqueue.engines.fluid")}
    _report(options, scenario, found, watch.provenance(**facts), extra)


def _report(
    options: argparse.Namespace,
    scenario: Scenario,
    metrics: Mapping[str, Mapping[str, Any]],
    provenance: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
) -> None:
    if options.json is not None:
        from elastiqueue.results.files import write_atomically

        document = {
            "scenario": scenario.model_dump(mode="json"),
            "metrics": _listed(metrics),
            **(extra or {}),
            "provenance": provenance,
        }
        text = json.dumps(finite(document), indent=1) + "\n"
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


def _schema(options: argparse.Namespace) -> None:
    from elastiqueue.workflow.experiments import schema_text

    sys.stdout.write(schema_text())


if __name__ == "__main__":
    sys.exit(main())
