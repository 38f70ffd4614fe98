"""The distribution of waits and response times, exact given what each task found.

A task that finds i tasks at its server, the one in service in phase k, waits for the rest of that service and for i - 1
whole ones; its response takes one service more. With phase rates gamma_k, routing r_kj, exit r_k0 and initial
distribution r_j, uniformised at the rate G = max gamma_k, the probability that n steps have not ended it is

    H_0(i, k) = 1,  H_n(0, k) = 0
    H_{n+1}(i, k) = H_n(i, k) + gamma_k/G [sum_j r_kj H_n(i, j) + r_k0 sum_j r_j H_n(i - 1, j) - H_n(i, k)]

    P(W > t | i, k) = sum_n Poisson(n; G t) H_n(i, k)

With one phase that is an Erlang distribution of i phases. The totals count the tasks by what they found, so that

    P(W > t) = sum_ik found_ik P(W > t | i, k) / accepted

is a ratio of totals, and a p-quantile solves P(W > t) = 1 - p. Its standard error is that of P(W > t) over the density
there (the delta method); it is 0 where fewer than 1 - p of the tasks wait. Only sums, products and roots are taken, in
an order of their own: results are the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from elastiqueue.sampling.phase_type import PhaseType

if TYPE_CHECKING:  # the definitions of models name these metrics, and are read where numpy is not
    import numpy as np
    from numpy.typing import NDArray

    from elastiqueue.statistics.estimates import Estimate, Ratio

    Floats = NDArray[np.float64]
PERCENTILES = (50.0, 95.0, 99.0)  # that are metrics where a scenario does not name others
TIMES = (1.0, 2.0, 5.0, 10.0, 20.0)  # in mean service times, at which tails are metrics then
MAX_STEPS = 20_000
MAX_DOUBT = 1e-3  # relative, of a tail: by tasks that found more than is counted one by one


def column(level: int, phase: int) -> str:
    """Name of the total that counts the tasks that found so many tasks, the one in service in this phase (from 1)."""
    return f"found_{level}_{phase}"


def levels_counted(buffer: int | None, phases: int) -> int:
    """Levels that are counted one by one; the last also counts what lies above."""
    largest = max(8, 100 // phases)
    return largest if buffer is None else max(1, min(buffer - 1, largest))


def _steps(phase_type: PhaseType, levels: int) -> Iterator[Floats]:
    """H_0, H_1, ..., shape (levels, K) each: rows from 1 task on."""
    import numpy as np

    phases, rate = phase_type.phases, max(phase_type.rates)
    speed = [gamma / rate for gamma in phase_type.rates]
    h = np.ones((levels + 1, phases))
    h[0] = 0.0
    while True:
        yield h[1:]
        following = np.zeros_like(h[1:])
        for j, start in enumerate(phase_type.initial):
            if start:
                following += start * h[:-1, j : j + 1]
        moved = np.empty_like(h)
        moved[0] = 0.0
        for k in range(phases):
            after = phase_type.exit[k] * following[:, k]
            for j, probability in enumerate(phase_type.routing[k]):
                if probability:
                    after = after + probability * h[1:, j]
            moved[1:, k] = (1.0 - speed[k]) * h[1:, k] + speed[k] * after
        h = moved


def poisson(mean: float) -> tuple[int, list[float]]:
    """First n, and the probabilities from there on, without tails below 1e-18: by ratios from the mode."""
    mode = int(mean)
    up, down = [1.0], []
    while up[-1] > 1e-18:
        up.append(up[-1] * mean / (mode + len(up)))
    weight, n = 1.0, mode
    while n > 0 and weight > 1e-18:
        weight *= n / mean
        n -= 1
        down.append(weight)
    weights = [*reversed(down), *up]
    total = math.fsum(weights)
    return n, [weight / total for weight in weights]


class _Sequence:
    """H_n, kept: all metrics of a scenario need them."""

    def __init__(self, phase_type: PhaseType, levels: int) -> None:
        self.steps, self.kept = _steps(phase_type, levels), []  # type: tuple[Iterator[Floats], list[Floats]]

    def __getitem__(self, n: int) -> Floats:
        while len(self.kept) <= n:
            self.kept.append(next(self.steps))
        return self.kept[n]


_sequence = lru_cache(maxsize=4)(_Sequence)


def tails(phase_type: PhaseType, levels: int, time: float) -> Floats:
    """P(W > time | i, k), shape (levels, K), i from 1 on; the time in mean services, `phase_type` of mean 1."""
    import numpy as np

    first, weights = poisson(max(phase_type.rates) * time)
    result, sequence = np.zeros((levels, phase_type.phases)), _sequence(phase_type, levels)
    for n, weight in enumerate(weights, first):
        result += weight * sequence[n]
    return result


def survival(phase_type: PhaseType, time: float) -> float:
    """P(S > time) of a service time; 0 where it is far out of reach."""
    if max(phase_type.rates) * time > MAX_STEPS:
        return 0.0
    return math.fsum(p * float(x) for p, x in zip(phase_type.initial, tails(phase_type, 1, time)[0], strict=True))


def solved(above: Callable[[float], float], wanted: float, most: float) -> float:
    """The least time >= 0 from which on a tail, a decreasing function, is at most `wanted`; nan beyond `most`."""
    low, high = 0.0, 1.0
    if above(low) <= wanted:
        return low
    while not above(high) <= wanted:
        low, high = high, 2.0 * high
        if high > most:
            return math.nan
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if above(middle) > wanted else (low, middle)
    return high


def phase_type_of(service: Mapping[str, Any]) -> PhaseType:
    """The service times from what `parts_of_service` says of them."""
    routing = tuple(tuple(row) for row in service["routing"])
    return PhaseType(tuple(service["initial"]), tuple(service["rates"]), routing)


def parts_of_service(service: PhaseType) -> dict[str, Any]:
    """Initial, rates and routing as JSON-able values."""
    return {
        "initial": list(service.initial),
        "rates": list(service.rates),
        "routing": [list(row) for row in service.routing],
    }


def name_of(kind: str, value: float, response: bool) -> str:
    """Name of a metric: wait_p99 and wait_p99_9 are percentiles, response_tail[2.5] is P(response > 2.5)."""
    word = "response" if response else "wait"
    if kind == "tail":
        return f"{word}_tail[{value:.10g}]"
    return f"{word}_p{100 * value:.10g}".replace(".", "_")


@dataclass(frozen=True)
class WaitMetric:
    """A tail or a quantile of the wait or the response time, from the totals named by `column`, and `accepted`.

    Attributes
    ----------
    kind : "tail", P(W > value); "quantile", the value-quantile in mean service times.
    value : the time in mean service times; the probability.
    response : of the response time.
    levels : that are counted one by one, the last with all above; `cut` says whether there are such.
    service : initial, rates and routing of the service times.
    """

    kind: str
    value: float
    response: bool
    levels: int
    cut: bool
    service: Mapping[str, Any]

    @property
    def phase_type(self) -> PhaseType:
        """The service times."""
        return phase_type_of(self.service)

    def _ratio(self, time: float) -> Ratio:
        """P(W > time), or of the response time, as a ratio of totals."""
        from elastiqueue.statistics.estimates import Ratio

        phase_type = self.phase_type
        chance = tails(phase_type, self.levels + 1, time)
        columns = [(column(i, k), i - 1 + self.response, k) for i, k in _kinds(self.levels, phase_type.phases)]
        numerator = {name: float(chance[row, k - 1]) for name, row, k in columns}
        if self.response:  # of those that start at once
            whole = survival(phase_type, time)
            numerator |= {"accepted": whole, "waited": -whole}
        return Ratio(numerator, {"accepted": 1.0})

    def _quantile(self, totals: Mapping[str, float]) -> tuple[float, float]:
        """The quantile, and the density there (at 0: just above)."""
        import numpy as np

        phase_type = self.phase_type
        weights = np.zeros((self.levels + self.response, phase_type.phases))
        for i, k in _kinds(self.levels, phase_type.phases):
            weights[i - 1 + self.response, k - 1] = totals.get(column(i, k), 0.0)
        if self.response:
            weights[0] = (totals["accepted"] - totals.get("waited", 0.0)) * np.array(phase_type.initial)
        weights /= totals["accepted"]
        rate, sequence = max(phase_type.rates), _sequence(phase_type, self.levels + 1)
        left: list[float] = []

        def above(time: float) -> tuple[float, float]:
            first, chances = poisson(rate * time)
            while len(left) <= first + len(chances):
                left.append(math.fsum((weights * sequence[len(left)][: len(weights)]).ravel()))
            tail = math.fsum(p * left[first + i] for i, p in enumerate(chances))
            return tail, rate * math.fsum(p * (left[first + i] - left[first + i + 1]) for i, p in enumerate(chances))

        time = solved(lambda time: above(time)[0], 1.0 - self.value, MAX_STEPS / rate)
        return time, math.nan if math.isnan(time) else above(time)[1]

    def resolve(self, totals: Mapping[str, float]) -> tuple[Ratio, Callable[[Estimate], Estimate]]:
        """A ratio of totals, and what turns its estimate into that of the metric; `totals` are those of all runs.

        nan where a thousandth of the tail hangs on tasks that found more than is counted one by one.
        """
        from dataclasses import replace

        if totals.get("accepted", 0.0) <= 0.0:
            return self._ratio(0.0), lambda tail: replace(tail, mean=math.nan, se=math.nan)
        time, density = (self.value, 1.0) if self.kind == "tail" else self._quantile(totals)
        if math.isnan(time) or time * max(self.service["rates"]) > MAX_STEPS:
            return self._ratio(0.0), lambda tail: replace(tail, mean=math.nan, se=math.nan)
        ratio = self._ratio(time)
        tail = math.fsum(weight * totals.get(name, 0.0) for name, weight in ratio.numerator.items())
        last = [column(self.levels, k) for k in range(1, self.phase_type.phases + 1)]
        doubt = math.fsum((1.0 - ratio.numerator[name]) * totals.get(name, 0.0) for name in last) if self.cut else 0.0

        def back(found: Estimate) -> Estimate:
            if doubt > MAX_DOUBT * tail:
                return replace(found, mean=math.nan, se=math.nan)
            if self.kind == "tail":
                return found
            if time == 0.0 and found.mean + 5 * found.se < 1.0 - self.value:
                return replace(found, mean=0.0, se=0.0)
            return replace(found, mean=time, se=found.se / density if density > 0.0 else math.nan)

        return ratio, back


def _kinds(levels: int, phases: int) -> Iterator[tuple[int, int]]:
    return ((i, k) for i in range(1, levels + 1) for k in range(1, phases + 1))


def parts_of(metric: Any) -> list[Any]:
    """A metric, a `Ratio` or one with `resolve`, as JSON-able values."""
    if hasattr(metric, "resolve"):
        return [asdict(metric)]
    return [dict(metric.numerator), dict(metric.denominator), *([True] if metric.skewed else [])]


def metric_from(parts: Sequence[Any]) -> Any:
    """The metric of these parts."""
    from elastiqueue.statistics.estimates import Ratio
    from elastiqueue.statistics.queue_waits import QueueMetric

    if len(parts) > 1:
        return Ratio(*parts)
    return WaitMetric(**parts[0]) if "levels" in parts[0] else QueueMetric(**parts[0])


def wait_metrics(
    buffer: int | None,
    phase_type: PhaseType,
    percentiles: Sequence[float] = PERCENTILES,
    times: Sequence[float] = TIMES,
) -> dict[str, WaitMetric]:
    """Tails and quantiles of the wait and the response time where every server has a queue of its own."""
    levels = levels_counted(buffer, phase_type.phases)
    common: dict[str, Any] = {
        "levels": levels, "cut": buffer is None or buffer - 1 > levels, "service": parts_of_service(phase_type),
    }  # fmt: skip
    return {
        name_of(kind, value, response): WaitMetric(kind, value, response, **common)
        for response in (False, True)
        for kind, value in [*(("quantile", p / 100) for p in percentiles), *(("tail", t) for t in times)]
    }
