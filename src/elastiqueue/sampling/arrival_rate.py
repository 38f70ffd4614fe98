"""The arrival rate per server as a function of time.

    lambda(t) = rates[k] + amplitude * sin(2 pi t / period),   times[k] <= t < times[k + 1]

A constant, a sinusoid and a trace of steps are the three cases that scenarios can name; the last step has no end.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

MAX_PER_SERVER = 100.0


@dataclass(frozen=True)
class ArrivalRate:
    """Arrival rate per server, a step function plus a sinusoid.

    Parameters
    ----------
    times : starts of the steps in mean service times, the first one 0, strictly increasing.
    rates : tasks per mean service time and server on each step, non-negative.
    amplitude, period : of the sinusoid; the total must not become negative.

    Raises
    ------
    ValueError : one line that names the key, the value and what is allowed.
    """

    times: tuple[float, ...] = (0.0,)
    rates: tuple[float, ...] = (0.0,)
    amplitude: float = 0.0
    period: float = 1.0

    def __post_init__(self) -> None:
        if len(self.times) == 0 or len(self.times) != len(self.rates):
            raise ValueError(f"arrival_rate: {len(self.times)} times, {len(self.rates)} rates: must be as many, >= 1")
        if self.times[0] != 0:
            raise ValueError(f"arrival_rate.times[0] = {self.times[0]}: must be 0")
        if any(later <= earlier for earlier, later in zip(self.times, self.times[1:], strict=False)):
            raise ValueError("arrival_rate.times: must increase strictly (the trace is unsorted or repeats a time)")
        if not all(math.isfinite(value) for value in (*self.times, *self.rates, self.amplitude, self.period)):
            raise ValueError("arrival_rate: every number must be finite")
        if self.period <= 0:
            raise ValueError(f"arrival_rate.period = {self.period}: must be > 0")
        if min(self.rates) - abs(self.amplitude) < 0:
            low = min(self.rates) - abs(self.amplitude)
            raise ValueError(f"arrival_rate: falls to {low:g}: must stay >= 0")
        if self.maximum() > MAX_PER_SERVER:
            raise ValueError(f"arrival_rate: rises to {self.maximum():g}: must stay <= {MAX_PER_SERVER:g} per server")

    @classmethod
    def constant_rate(cls, rate: float) -> ArrivalRate:
        """The same rate at all times."""
        return cls((0.0,), (float(rate),))

    @property
    def constant(self) -> bool:
        """Whether the rate never changes."""
        return self.amplitude == 0 and len(set(self.rates)) == 1

    def at(self, t: float) -> float:
        """The rate at time t >= 0."""
        step = self.rates[bisect_right(self.times, t) - 1]
        if self.amplitude == 0:
            return step
        return step + self.amplitude * math.sin(2 * math.pi * t / self.period)

    def maximum(self) -> float:
        """A bound that the rate never exceeds (attained when there is no sinusoid)."""
        return max(self.rates) + abs(self.amplitude)

    def mean(self) -> float:
        """The rate of the first step, the sinusoid averaged out: the load at which a system is started."""
        return self.rates[0]
