"""Turn a log with one time stamp per request (ISO 8601, or seconds) into a trace of arrival rates.

Prints time,rate: seconds since the first request, requests per second.

Examples:
  elastiqueue rates log.csv --every 60 > rates.csv
  then in a scenario: arrival_rate: {trace: rates.csv, time_unit: second, rate_unit: second, service_time: 0.2,
  rates_of: system}
"""

from __future__ import annotations

import argparse
import sys

from elastiqueue.errors import ConfigError
from elastiqueue.sampling.traces import rates_of_log


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "log", metavar="LOG.csv", help="a column of time stamps, named time or timestamp, else the first"
    )
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="an interval (default: 60)")


def run(options: argparse.Namespace) -> None:
    """Print the trace."""
    if not 1e-3 <= options.every <= 1e9:
        raise ConfigError(f"--every = {options.every:g}: must be seconds, from 0.001 to 1e9")
    lines = [f"{time:.10g},{rate:.10g}" for time, rate in rates_of_log(options.log, options.every)]
    sys.stdout.write("\n".join(["time,rate", *lines]) + "\n")
