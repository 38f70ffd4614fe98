"""The window of a replication: given by the scenario or, for a steady state (`horizon: auto`), fixed here.

A steady state is estimated by few long runs (`statistics.batches`): each is warmed up for a time w, and then measured
for `measured` w, in BATCHES batches. What w must be is not left to a pilot run alone, which cannot see a memory that is
longer than itself:

    w = max(5 t0, 30 tau_theory) 2^k,       t0 = 1 + 1/mu + 1/nu,

with tau_theory the integrated autocorrelation time of the slowest queue as far as theory knows it (`slow_queue`), and k
the first for which two pilot runs, one from the scenario's start and one from an overload, both warmed up for w and
then followed for w, show 10 tau <= w: tau the longer of the autocorrelation times of waiting tasks and power, about the
common mean of both (two runs that have not met look like one with a long memory). The runs themselves start from both
sides, too, and are judged again once they are done.

An unstable system is refused; where stability is not known the window says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elastiqueue.errors import ConfigError
from elastiqueue.models.registry import model_of
from elastiqueue.sampling.streams import PILOT, stream
from elastiqueue.scenarios.autoscaling import ServiceScenario
from elastiqueue.scenarios.registry import row_of
from elastiqueue.statistics.autocorrelation import autocorrelation_time
from elastiqueue.statistics.control_variates import PER_BATCH

if TYPE_CHECKING:
    from elastiqueue.scenarios.reading import Scenario

BATCHES = 4  # per run of a steady state
SAMPLES = 200  # of a pilot run
MAX_DOUBLINGS = 8
# Servers up to which the drifts of long queues are computed: finite buffers (exact, cheap), unlimited ones.
FINITE_SERVERS, UNLIMITED_SERVERS = 4, 32
MAX_STATES, MAX_EVENTS = 2_000, 2_000_000  # budgets of a drift


@dataclass(frozen=True)
class Window:
    """From when to when a replication is measured, and how a steady-state run came to it.

    Attributes
    ----------
    warm_up, horizon : in mean service times, or slots.
    batches : stretches of equal length in between.
    tau : autocorrelation time of the pilot runs; nan where there were none. pilot : their length in all.
    doubt : why a steady state is in doubt; empty where nothing speaks against it.
    parts : of each batch, that have totals of their own.
    """

    warm_up: float
    horizon: float
    batches: int = 1
    tau: float = math.nan
    pilot: float = 0.0
    doubt: str = ""
    parts: int = 1

    @property
    def edges(self) -> tuple[float, ...]:
        """Ends of the stretches that are measured, the end of the warm-up before them."""
        length, number = self.horizon - self.warm_up, self.batches * self.parts
        return *(self.warm_up + length * k / number for k in range(number)), self.horizon


def is_steady(scenario: Scenario) -> bool:
    """Whether a steady state is asked for, whose window is fixed here."""
    return isinstance(scenario, ServiceScenario) and scenario.horizon == "auto"


def _round_up(value: float) -> float:
    """Up to two significant digits, so that the window does not hang on the last bits of an estimate."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")


def slow_queue(scenario: ServiceScenario) -> tuple[float, str]:
    """Integrated autocorrelation time of the slowest queue as far as theory knows it, and what is in doubt.

    A queue whose net input has drift -d and variance v per unit of time forgets in v / d^2: for M/M/1, d = 1 - lambda
    and v = 1 + lambda, that is exact. N pooled servers: d and v are N times as large. A setup of mean 1/nu adds what
    has come meanwhile, lambda / nu (1 - lambda) in v. One of m long queues under TABS has the drift D_m
    (`theory.tabs_stability`), v = 2 + D_m, and a buffer of B tasks lets no memory grow beyond B^2 / 10.

    Raises
    ------
    ConfigError : the system is unstable.
    """
    rate, n = scenario.arrival.at(0.0), scenario.servers
    if rate >= 1.0:  # its buffers are finite
        return (scenario.buffer or 1.0) ** 2 / 10, ""
    variance = (1.0 + rate) * (1.0 + scenario.phase_type.scv()) / 2
    if scenario.setup_rate and row_of(scenario).turns_on:
        variance += rate * (1.0 - rate) / scenario.setup_rate
    time, doubt = variance / (n * (1.0 - rate) ** 2), ""
    if (
        not (scenario.row.distributed and scenario.row.turns_on)
        or scenario.aborts
        or n == 1
        or not scenario.standby_rate
    ):
        return time, doubt
    if n > (FINITE_SERVERS if scenario.buffer else UNLIMITED_SERVERS) or not scenario.phase_type.is_exponential:
        return time, doubt
    from elastiqueue.theory.tabs_stability import verdict

    rates = (rate, scenario.standby_rate, scenario.setup_rate or 0.0)
    found = verdict(n, *rates, MAX_STATES, MAX_EVENTS, scenario.seed)
    if scenario.buffer is None and found.verdict == "unstable":
        raise ConfigError(f"horizon = auto: there is no steady state; {found.reason}")
    if scenario.buffer is None and found.verdict == "undecided":
        doubt = f"stability is undecided; {found.reason}"
    for drift in found.drifts:
        capped = 0.0 if scenario.buffer is None else 10.0 / scenario.buffer**2
        time = max(time, 1.0 / max(drift.value**2 / (2.0 + drift.value) / drift.saturated, capped, 1e-6))
    return time, doubt


def window(scenario: Scenario) -> Window:
    """The scenario's own window, or for a steady state the one that theory and pilot runs fix."""
    if not isinstance(scenario, ServiceScenario):
        warm_up, slots = model_of(scenario).lengths(scenario)
        return Window(float(warm_up), float(warm_up + slots))
    scenario.check_events()
    if not isinstance(scenario.horizon, str) and not isinstance(scenario.warm_up, str):
        return Window(scenario.warm_up, scenario.horizon)
    time, doubt = slow_queue(scenario)
    warm_up, followed = _round_up(max(5 * scenario.relaxation_time, 30 * time)), 0.0
    for _ in range(MAX_DOUBLINGS):
        scenario.check_events((1 + scenario.measured) * warm_up)
        tau = _memory(scenario, warm_up)
        followed += 4 * warm_up
        if 10 * tau <= warm_up:
            break
        warm_up *= 2
    else:
        doubt = doubt or f"pilot runs of {2 * warm_up:g} have not settled"
    parts = PER_BATCH if scenario.control_variates else 1
    return Window(warm_up, (1 + scenario.measured) * warm_up, BATCHES, tau, followed, doubt, parts)


def from_both_sides(scenario: Scenario, index: int) -> Scenario:
    """The scenario of a replication: of a steady state every other one starts from an overload (`models.base`)."""
    return scenario.model_copy(update={"start": "overloaded"}) if is_steady(scenario) and index % 2 else scenario


def _memory(scenario: ServiceScenario, warm_up: float) -> float:
    """Autocorrelation time of two pilot runs from both sides, warmed up for `warm_up` and then followed for as long."""
    model, name = model_of(scenario), scenario.digest()
    grid = warm_up * (1.0 + np.arange(SAMPLES + 1) / SAMPLES)
    length = round(warm_up / scenario.relaxation_time * 100)  # no two doublings share a stream
    paths = [
        model.simulate(
            from_both_sides(scenario, index),
            stream(scenario.seed, name, 2 * length + index, PILOT),
            (warm_up, float(grid[-1])),
            grid,
        ).path
        for index in (0, 1)
    ]
    signals = zip(*(model.signals(scenario, path) for path in paths), strict=True)
    return max(autocorrelation_time(np.array(each), warm_up / SAMPLES) for each in signals)
