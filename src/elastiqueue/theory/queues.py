"""Closed forms of classical queues.

Unit of time: the mean service time (service rate 1). N servers, a = total arrival rate (offered load), L = arrival rate
at a single server.

    Erlang B     B(0) = 1,  B(n) = a B(n-1) / (n + a B(n-1))           probability that all N servers are busy, no queue
    Erlang C     C = N B / (N - a (1 - B))                             probability of waiting, M/M/N
    M/M/N        E[W] = C / (N - a);   N = 1: L / (1 - L)
    M/M/1/setup/delayedoff, standby rate mu, setup rate nu (setup without a standby period: mu = infinity):
        p = mu / (mu + L)                                              probability that the idle server turns off
        E[W] = L / (1 - L) + p (1/nu + L/nu^2) / (1 + L p / nu)
        the fractions busy : idle-on : off : in setup follow from L = busy and the equal flows
        mu idle = L off = nu setup.
    The formula for E[W] is Welch's for an M/G/1 queue with exceptional first service, here a setup with probability p
    before the first task of a busy period (P. D. Welch, Operations Research 12(5), 1964).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "DelayedOffFractions",
    "delayed_off_single_fractions",
    "delayed_off_single_mean_wait",
    "erlang_b",
    "erlang_c",
    "mm1_mean_wait",
    "mmn_mean_wait",
]


@dataclass(frozen=True)
class DelayedOffFractions:
    """Stationary fractions of time of a single server with setup and delayed turn-off; they add up to 1."""

    busy: float
    idle_on: float
    idle_off: float
    setup: float


def erlang_b(servers: int, offered_load: float) -> float:
    """Erlang's loss formula: probability that all `servers` of M/M/N/N are busy at `offered_load` (erlang)."""
    blocking = 1.0
    for n in range(1, servers + 1):
        blocking = offered_load * blocking / (n + offered_load * blocking)
    return blocking


def erlang_c(servers: int, offered_load: float) -> float:
    """Erlang's delay formula: probability that a task of M/M/N waits, offered_load < servers."""
    blocking = erlang_b(servers, offered_load)
    return servers * blocking / (servers - offered_load * (1.0 - blocking))


def mmn_mean_wait(servers: int, offered_load: float) -> float:
    """Mean wait of M/M/N in mean service times, offered_load < servers."""
    return erlang_c(servers, offered_load) / (servers - offered_load)


def mm1_mean_wait(load: float) -> float:
    """Mean wait of M/M/1 in mean service times, load < 1."""
    return load / (1.0 - load)


def delayed_off_single_mean_wait(load: float, standby_rate: float, setup_rate: float) -> float:
    """Mean wait of M/M/1/setup/delayedoff in mean service times.

    load : arrival rate, in (0, 1). standby_rate : >= 0, infinite for M/M/1/setup. setup_rate : > 0.
    """
    off_first = 1.0 if math.isinf(standby_rate) else standby_rate / (standby_rate + load) if standby_rate > 0.0 else 0.0
    setup = off_first * (1.0 / setup_rate + load / setup_rate**2) / (1.0 + load * off_first / setup_rate)
    return mm1_mean_wait(load) + setup


def delayed_off_single_fractions(load: float, standby_rate: float, setup_rate: float) -> DelayedOffFractions:
    """Stationary fractions of time of the server of M/M/1/setup/delayedoff; arguments as for the mean wait."""
    idle = 0.0 if math.isinf(standby_rate) else 1.0
    flow = 1.0 if math.isinf(standby_rate) else standby_rate
    off, setup = flow / load, flow / setup_rate
    scale = (1.0 - load) / (idle + off + setup)
    return DelayedOffFractions(load, idle * scale, off * scale, setup * scale)
