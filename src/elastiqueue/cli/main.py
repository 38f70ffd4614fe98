"""The command line: a module per command in this folder, each with two functions.

    arguments(parser)   declares the command's arguments
    run(options)        does the work; returns the exit status, None for 0

The module's docstring is its help. Only the module of the command that is called is imported: the help of all costs
nothing. A mistake of the user's is answered by one line on standard error and exit status 2.

Why argparse and no library: with Typer 0.29 and rich 15 the help of a program of two empty commands takes .10 s of CPU,
here .04 s; both would fit, but what they add is frames and colours around tables of twenty lines.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from elastiqueue import __version__
from elastiqueue.errors import Parser, printable

COMMANDS = {
    "simulate": "simulate one scenario: its metrics with errors",
    "exact": "the same metrics from the exact solver, where the state space allows it",
    "fluid": "the fluid limit: averages, trajectory and fixed point",
    "stability": "whether a scenario with unlimited buffers is stable: verdict, drift and margin",
    "capacity": "capacity region of a cluster: facets, distances, dominant facets, largest stable load",
    "compare": "two scenarios on common random clocks: the differences of their metrics",
    "plan": "the cheapest standby period, or any other key, within a limit of the wait",
    "run": "make a run of your own: its experiments, figures, tables and claims",
    "new": "write a commented starting file of a run of your own",
    "claims": "judge the papers' claims on the results of a finished run",
    "page": "write the page of a finished run: what was run, the verdicts on the claims, the figures",
    "verify": "compare a finished run with the reference results",
    "manifest": "write checksums and provenance of a finished run, or check them",
    "reference": "keep a finished run as the reference results",
    "estimate": "predict how long the workflow takes on this machine",
    "rates": "turn a log with one time stamp per request into a trace of arrival rates",
    "schema": "print the JSON schema of run configurations and scenarios",
}


class _Command(Parser):
    """The parser of a command, made from the command's module when it is called."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        module = import_module(f"elastiqueue.cli.{self.prog.split()[-1]}")
        self.description, self.formatter_class = module.__doc__, argparse.RawDescriptionHelpFormatter
        module.arguments(self)
        self.set_defaults(run_command=module.run)
        return super().parse_known_args(args, namespace)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    parser = Parser(
        prog="elastiqueue",
        description="Elasticity and load balancing in clouds: simulate, solve, compare.",
        epilog="elastiqueue COMMAND --help has the options of a command, and examples",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    options = parser.parse_args(arguments)
    try:
        return int(options.run_command(options) or 0)
    except BrokenPipeError:
        return 1
    except (KeyboardInterrupt, SystemError) as error:  # the latter is what a kernel makes of an interrupt
        cause: BaseException | None = error
        while not isinstance(cause, KeyboardInterrupt):
            if cause is None:
                raise
            cause = cause.__cause__
        print("elastiqueue: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        print(f"elastiqueue: {printable(text)}", file=sys.stderr)
        return 2
    except (MemoryError, ArithmeticError, RuntimeError) as error:  # sizes and rates that no bound has caught
        print(f"elastiqueue: {printable(error) or type(error).__name__}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
