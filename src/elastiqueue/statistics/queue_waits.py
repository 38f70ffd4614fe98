"""The distribution of waits and response times in one queue that is served in the order of arrival.

What a task there waits for depends on later arrivals, too, which start setups; no closed form is known. So each wait is
observed, when it ends (`models.simulators`), and counted in bins: every power of 2 from 2^-16 to 2^15 mean service
times has 32 bins up to the next one, and the times at which tails are asked for are ends of bins, too. Of the tasks
that start in the stretch that is measured, those that start at once among them,

    P(W > t) = sum of the bins above t / tasks that start.

The service S of a task is independent of its wait. For each wait that ends the kernel draws an S and counts W + S;
tasks that start at once have P(S > t) each. Between ends a, b of a bin a quantile takes the tail as the geometric mean
of the line and the hyperbola through its values there, which an exponential tail is to the third order. Its standard
error is half the way to the farther of the quantiles at 1 - p -+ 2 s, s that of the tail there (after Woodruff 1952);
where too few tasks wait so long there is no value. A tail above which no wait was seen has the error of one task: it
need not be 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from elastiqueue.sampling.phase_type import PhaseType
from elastiqueue.statistics.waiting import name_of, parts_of_service, phase_type_of, solved, survival

if TYPE_CHECKING:  # the definitions of models name these metrics, and are read where numpy is not
    from elastiqueue.statistics.estimates import Estimate, Ratio

QUEUED = "queued"  # the count of the tasks that have to wait, when they come


@lru_cache(maxsize=8)
def ends_of_bins(times: tuple[float, ...]) -> tuple[float, ...]:
    """Ends of the bins in mean service times, ascending; what lies above the last is a bin too."""
    return tuple(sorted({2.0**j * (1 + i / 32) for j in range(-16, 16) for i in range(32)} | set(times)))


def bins(response: bool, times: Sequence[float]) -> tuple[str, ...]:
    """Names of the counts of waits (or response times of tasks that waited) in each bin."""
    word = "response" if response else "wait"
    return tuple(f"{word}_in_bin_{b}" for b in range(len(ends_of_bins(tuple(times))) + 1))


def queue_columns(times: Sequence[float]) -> tuple[str, ...]:
    """Names of all counts: the tasks that come and wait, the waits that end, the response times of these tasks."""
    return (QUEUED, *bins(False, times), *bins(True, times))


@dataclass(frozen=True)
class QueueMetric:
    """A tail or a quantile of the wait or the response time, from the totals named by `queue_columns`.

    Attributes
    ----------
    kind : "tail", P(W > value); "quantile", the value-quantile in mean service times.
    value : the time in mean service times; the probability.
    response : of the response time.
    times : ends of bins beside the standing ones.
    accepted : column -> weight, whose sum counts the tasks that come and are not lost.
    service : initial, rates and routing of the service times.
    """

    kind: str
    value: float
    response: bool
    times: Sequence[float]
    accepted: Mapping[str, float]
    service: Mapping[str, Any]

    def resolve(self, totals: Mapping[str, float]) -> tuple[Ratio, Callable[[Estimate], Estimate]]:
        """A ratio of totals, and what turns its estimate into that of the metric; `totals` are those of all runs."""
        from elastiqueue.statistics.estimates import Ratio

        ends, names = ends_of_bins(tuple(self.times)), bins(self.response, self.times)
        phase_type = phase_type_of(self.service)
        counts = [totals.get(name, 0.0) for name in names]
        above = [*reversed(list(accumulate(reversed(counts)))), 0.0]  # above[b]: in bin b and those behind it
        at_once = math.fsum(w * totals.get(name, 0.0) for name, w in self.accepted.items()) - totals.get(QUEUED, 0.0)
        starts = at_once + above[0]

        def waited(time: float) -> tuple[int, float]:
            """The bin that holds a time, and how many values are above it."""
            b = bisect_left(ends, time)
            if b == len(ends):
                return b, math.nan if counts[b] else 0.0
            low, top, rest = ends[b - 1] if b else 0.0, above[b], above[b + 1]
            share = (time - low) / (ends[b] - low)
            line = top + share * (rest - top)
            return b, math.sqrt(line * top * rest / (top * share + rest * (1 - share))) if rest and share < 1 else line

        def tail(time: float) -> float:
            alone = at_once * survival(phase_type, time) if self.response else 0.0
            return (alone + waited(time)[1]) / starts

        def quantile(rest: float) -> float:
            return solved(tail, rest, ends[-1]) if rest > 0 else math.nan

        rest = 1.0 - self.value
        time = self.value if self.kind == "tail" else quantile(rest) if starts > 0 else math.nan
        if not starts > 0 or math.isnan(time):
            time, starts = 0.0, math.nan
        b, over = waited(time)
        share = (over - above[b + 1]) / counts[b] if counts[b] else 0.0
        numerator = dict.fromkeys(names[b + 1 :], 1.0) | {names[b]: share}
        if self.response:
            chance = survival(phase_type, time)
            numerator |= {name: w * chance for name, w in self.accepted.items()} | {QUEUED: -chance}
        denominator = {**self.accepted, QUEUED: -1.0, **dict.fromkeys(names, 1.0)}

        def back(found: Estimate) -> Estimate:
            if math.isnan(starts):
                return replace(found, mean=math.nan, se=math.nan)
            if self.kind == "tail":
                return found if over else replace(found, se=math.hypot(found.se, 1.0 / starts))
            if time == 0.0 and found.mean + 5 * found.se < rest:
                return replace(found, mean=0.0, se=0.0)
            sides = ((quantile(rest - k * found.se) - time, time - quantile(rest + k * found.se)) for k in (2, 1))
            se = next(
                (max(pair) / k for k, pair in zip((2, 1), sides, strict=True) if not math.isnan(sum(pair))), math.nan
            )
            return replace(found, mean=math.nan if math.isnan(se) else time, se=se)

        return Ratio(numerator, denominator), back


def queue_metrics(
    percentiles: Sequence[float], times: Sequence[float], accepted: Mapping[str, float], phase_type: PhaseType
) -> dict[str, QueueMetric]:
    """Tails and quantiles of the wait and the response time."""
    common: dict[str, Any] = {"times": list(times), "accepted": dict(accepted), "service": parts_of_service(phase_type)}
    return {
        name_of(kind, value, response): QueueMetric(kind, value, response, **common)
        for response in (False, True)
        for kind, value in [*(("quantile", p / 100) for p in percentiles), *(("tail", t) for t in times)]
    }
