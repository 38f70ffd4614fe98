"""The cheapest value of a key within a limit: standby period, servers or any other number of a scenario.

Points of a grid, even on a log scale, are simulated with the random streams of one scenario (common random numbers).
Each limit <metric> <= W and each difference of the objective f to that of the best point x* gets an error bound, from
ratios of totals over independent replications (Cochran 1977, Section 6.3),

    f_a - f_b:  se^2 = var_r(e_a,r - e_b,r) / n,    e_r = (numerator_r - f denominator_r) / mean denominator,

at a level that is divided by the number of all comparisons (Bonferroni), the rounds of the search included: this is
screening and selection (Nelson, Swann, Goldsman, Song 2001), with a check of feasibility. x* has the least f among the
points that keep all limits for certain. A stretch between two neighbours may hold the optimum unless both surely break
a limit; how much it could save is taken from the lower bounds at its ends. While some stretch could save more than
`within`, it is halved, and its ends are simulated longer. Assumed between neighbours: f is no lower than at the
ends, except beside x*, where it is taken for convex, and f and the metrics cross their limits at most once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from elastiqueue.api.solve import Progress, exact
from elastiqueue.api.sweep import each
from elastiqueue.engines.simulation import Window, simulate, window
from elastiqueue.models.registry import model_of
from elastiqueue.results.provenance import usable_cores
from elastiqueue.scenarios.reading import ConfigError, Scenario, ServiceScenario, changed
from elastiqueue.scenarios.units import INSTEAD_OF, with_costs
from elastiqueue.statistics.estimates import Estimate, estimate, linear_form

if TYPE_CHECKING:
    import pandas as pd

FIRST_POINTS, MAX_POINTS, MAX_ROUNDS = 7, 60, 16
FIRST_REPLICATIONS, MORE, MAX_REPLICATIONS = 20, 4, 5120  # of a point: at first, times as many, at most
NARROW = 1.001  # stretches are not halved below this ratio of their ends
OBJECTIVES = ("power", "cost_per_hour")


@dataclass(frozen=True)
class Point:
    """One value of the key.

    Attributes
    ----------
    objective : of the whole system: watts, or cost per hour. limits : the limited metrics.
    keeps : whether all limits are kept, for certain; None: undecided.
    residuals : e_r of the objective, shape (n,); empty where it is exact.
    """

    value: float
    scenario: ServiceScenario
    objective: Estimate
    limits: Mapping[str, Estimate]
    residuals: NDArray[np.float64]
    keeps: bool | None = None


@dataclass(frozen=True)
class Plan:
    """The answer of `plan`.

    Attributes
    ----------
    key, objective, limits : the question.
    points : all values that were tried, ascending.
    best : the answer; None where no value keeps the limits for certain.
    low, high : the best value lies between them, with the certainty asked for.
    saving : share of the objective that the best value saves at most against the answer, with the same certainty.
    settled : whether `saving` is as small as was asked for.
    """

    key: str
    objective: str
    limits: Mapping[str, float]
    points: Sequence[Point]
    best: Point | None
    low: float = math.nan
    high: float = math.nan
    saving: float = math.nan
    settled: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """The trade-off: one row per value with objective and limited metrics, their errors, and `keeps`."""
        rows = []
        for point in self.points:
            row: dict[str, Any] = {self.key: point.value}
            for name, found in ((self.objective, point.objective), *point.limits.items()):
                low, high = found.interval()
                row |= {name: found.mean, f"{name}_se": found.se, f"{name}_ci_low": low, f"{name}_ci_high": high}
            rows.append(row | {"n": point.objective.n, "keeps": "undecided" if point.keeps is None else point.keeps})
        return rows

    def table(self) -> pd.DataFrame:
        """`rows` as a DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def document(self) -> dict[str, Any]:
        """The same as JSON-able values."""
        from elastiqueue.api.result import finite

        document: dict[str, Any] = finite(
            {
                "key": self.key, "objective": self.objective, "limits": dict(self.limits),
                "answer": self.best and self.best.value, "between": [self.low, self.high], "saving": self.saving,
                "settled": self.settled, "points": self.rows(),
                "scenario": self.best and self.best.scenario.model_dump(mode="json"),
            }
        )  # fmt: skip
        return document


def plan(
    scenario: Scenario,
    limits: Mapping[str, float],
    vary: str = "standby_time",
    objective: str = "power",
    between: tuple[float, float] | None = None,
    within: float = 0.01,
    certainty: float = 0.95,
    solve_exactly: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """The value of a key that minimises power (or cost) within limits.

    Parameters
    ----------
    scenario : in continuous time; its window and its seed are those of every point.
    limits : metric -> the largest value allowed, in the units of the metric (times in mean service times). Any
        wait_p99_9 or response_tail[2.5] may be limited, whatever `waits` says.
    vary : a key with a number > 0; of `servers` the arrival rate of the whole system is kept.
    objective : power or, of a scenario with prices, cost_per_hour.
    between : range of the key; default: from a hundredth to a hundred times its value, of whole numbers a quarter to
        four times.
    within : share of the objective that the answer may be away from the best.
    certainty : of all statements of the answer together.
    solve_exactly : by the exact solver, for small systems.
    jobs : processes; default: all cores. The answer does not depend on it.
    progress : called with (done, all) tasks of each round.

    Raises
    ------
    ConfigError : a key, metric or range that cannot be.

    >>> import elastiqueue as eq
    >>> small = eq.scenario(model="tabs", servers=2, arrival_rate=0.3, standby_rate=0.1, setup_rate=0.1, buffer=5)
    >>> found = eq.plan(small, {"mean_wait": 0.5}, solve_exactly=True)
    >>> found.best.limits["mean_wait"].mean <= 0.5, found.settled
    (True, True)
    """
    if not isinstance(scenario, ServiceScenario):
        raise ConfigError(f"model = {scenario.model}: plan is for systems in continuous time")
    search = _Search(scenario, dict(limits), vary, objective, within, certainty, solve_exactly, jobs, progress)
    search.try_values(search.grid(between))
    settled = False
    for _ in range(MAX_ROUNDS - 1):
        halves, longer = search.wanted()
        settled = not halves and not longer
        halves, longer = search.affordable(halves, longer)
        if not halves and not longer:
            break
        search.try_values(sorted(halves), sorted(longer))
    return search.answer(settled)


class _Search:
    """The points that are known, and what to do next."""

    def __init__(
        self,
        base: ServiceScenario,
        limits: dict[str, float],
        vary: str,
        objective: str,
        within: float,
        certainty: float,
        solve_exactly: bool,
        jobs: int | None,
        progress: Progress | None,
    ) -> None:
        base = base.with_metrics(limits)
        known = with_costs(base, model_of(base).metrics(base))
        if objective not in OBJECTIVES or objective not in known:
            needed = " (cost_per_hour needs units with prices)" if objective in OBJECTIVES else ""
            raise ConfigError(f"objective = {objective}: must be one of {', '.join(OBJECTIVES)}{needed}")
        for name, limit in limits.items():
            if name not in known:
                raise ConfigError(f"metric = {name}: must be one of {', '.join(known)}")
            if not limit > 0:
                raise ConfigError(f"limit of {name} = {limit}: must be a number > 0")
        for name, share in (("within", within), ("certainty", certainty)):
            if not 0 < share < 1:
                raise ConfigError(f"{name} = {share}: must be between 0 and 1")
        self.base, self.limits, self.vary, self.objective = base, limits, vary, objective
        self.within, self.certainty, self.solve_exactly = within, certainty, solve_exactly
        self.jobs, self.progress = jobs or usable_cores(), progress
        self.start = _value_of(base, vary)
        self.whole = isinstance(self.start, int)
        self.points: dict[float, Point] = {}
        self.totals: dict[float, tuple[Window, NDArray[np.float64]]] = {}

    def grid(self, between: tuple[float, float] | None) -> list[float]:
        """Values at the first look; raises ConfigError where the range is none."""
        factor = 4 if self.whole else 100
        if between is None and self.start is None:
            raise ConfigError(f"vary = {self.vary}: has no number in the scenario; name a range")
        low, high = between or (float(self.start or 1) / factor, float(self.start or 1) * factor)
        if self.whole and between is None:
            low = max(1.0, low)
        if not 0 < low < high < math.inf:
            raise ConfigError(f"range of {self.vary} = {low:g} to {high:g}: must be two numbers > 0, the smaller first")
        values = np.geomspace(low, high, FIRST_POINTS).tolist()
        return sorted({self._rounded(value) for value in values})

    def _rounded(self, value: float) -> float:
        return round(value) if self.whole else float(f"{value:.4g}")

    def scenario(self, value: float) -> ServiceScenario:
        """The scenario at a value of the key."""
        changes: dict[str, Any] = {self.vary: value}
        if self.vary == "servers":
            if not isinstance(self.base.arrival_rate, float):
                raise ConfigError("vary = servers: needs a constant arrival_rate, which is that of the whole system")
            changes["arrival_rate"] = self.base.arrival_rate * self.base.servers / max(value, 1e-9)
        found = changed(self.base, changes)
        assert isinstance(found, ServiceScenario)
        return found

    def try_values(self, values: Sequence[float], more: Sequence[float] = ()) -> None:
        """Compute new values, and simulate known ones (`more`) MORE times as long."""
        tasks: list[tuple[Any, ...]] = []
        for value in values:
            tasks.append((value, self.scenario(value), self.base.digest(), 0, self._first(value), None))
        for value in more:
            span, totals = self.totals[value]
            tasks.append(
                (value, self.points[value].scenario, self.base.digest(), len(totals), MORE * len(totals), span)
            )
        if self.solve_exactly:
            tasks = [(value, one) for value, one, *_ in tasks]
        results = each(_exactly if self.solve_exactly else _simulated, tasks, self.jobs)
        for done, (task, result) in enumerate(zip(tasks, results, strict=True), 1):
            value, scenario = task[:2]
            self.points[value] = self._point(value, scenario, result)
            if self.progress is not None:
                self.progress(done, len(tasks))
        self._judge()

    def _first(self, value: float) -> int:
        """Replications of a new value: as many as the least known of its two neighbours."""
        below = [known for known in self.totals if known < value]
        above = [known for known in self.totals if known > value]
        neighbours = ([max(below)] if below else []) + ([min(above)] if above else [])
        return min((len(self.totals[known][1]) for known in neighbours), default=FIRST_REPLICATIONS)

    def _point(self, value: float, scenario: ServiceScenario, result: Any) -> Point:
        scale = scenario.servers if self.objective == "power" else 1  # of the whole system
        if self.solve_exactly:
            found = Estimate(scale * result[self.objective].mean, 0.0, 0)
            return Point(value, scenario, found, {name: result[name] for name in self.limits}, np.empty(0))
        span, totals = result
        if value in self.totals:
            totals = np.concatenate([self.totals[value][1], totals])
        self.totals[value] = span, totals
        model = model_of(scenario)
        metrics, columns = with_costs(scenario, model.metrics(scenario)), model.columns(scenario)
        objective, residuals = _ratio(metrics[self.objective], columns, totals)
        limits = {name: estimate(metrics[name], columns, totals) for name in self.limits}
        whole = Estimate(scale * objective.mean, scale * objective.se, objective.n)
        return Point(value, scenario, whole, limits, scale * residuals)

    def _bound(self, se: float, n: int) -> float:
        """Half-width of a one-sided bound that holds for all comparisons of all rounds together."""
        if n == 0:
            return 0.0
        comparisons = MAX_ROUNDS * len(self.points) * (len(self.limits) + 1)
        return float(stdtrit(n - 1, 1 - (1 - self.certainty) / comparisons)) * se

    def _judge(self) -> None:
        for value, point in self.points.items():
            tests = [(self.limits[name], found) for name, found in point.limits.items()]
            bounds = [(limit - found.mean, self._bound(found.se, found.n)) for limit, found in tests]
            keeps = all(slack >= bound for slack, bound in bounds) or (
                False if any(slack < -bound or math.isnan(slack) for slack, bound in bounds) else None
            )
            self.points[value] = replace(point, keeps=keeps)

    def best(self) -> Point | None:
        kept = [point for point in self.points.values() if point.keeps]
        return min(kept, key=lambda point: point.objective.mean, default=None)

    def difference(self, point: Point, best: Point) -> Estimate:
        """Of their objectives, by replications that share random numbers."""
        mean, n = point.objective.mean - best.objective.mean, min(len(point.residuals), len(best.residuals))
        if point is best or n == 0:
            return Estimate(mean, 0.0, 0)
        if len(point.residuals) == len(best.residuals):
            spread = point.residuals - best.residuals
            return Estimate(mean, math.sqrt(float(spread @ spread) / (n - 1) / n), n)
        return Estimate(mean, math.hypot(point.objective.se, best.objective.se), n)

    def stretches(self) -> list[tuple[Point, Point, float]]:
        """Neighbours between which the optimum may lie, with the largest saving there; best is known."""
        best, values = self.best(), sorted(self.points)
        assert best is not None

        def saving(point: Point) -> float:
            gap = self.difference(point, best)
            return self._bound(gap.se, gap.n) - gap.mean

        found = []
        for low, high in itertools.pairwise(values):
            left, right = self.points[low], self.points[high]
            inner = self._between(low, high) is not None
            ends = [point for point in (left, right) if inner or point.keeps is not False]
            if left.keeps is False and right.keeps is False:
                continue
            most = max(saving(point) for point in ends)
            if inner and best in (left, right):  # a dip beside the best is no deeper than the step to a neighbour
                most = max(most, abs(left.objective.mean - right.objective.mean))
            found.append((left, right, most))
        return found

    def _between(self, low: float, high: float) -> float | None:
        middle = self._rounded(math.sqrt(low * high))
        return middle if low < middle < high and high / low > NARROW else None

    def wanted(self) -> tuple[set[float], set[float]]:
        """Values to be tried next, and known ones to be simulated longer; none: the question is settled."""
        best, longer, halves = self.best(), set[float](), set[float]()
        if best is None:
            longer = {value for value, point in self.points.items() if point.keeps is None}
            values = sorted(self.points)
            pairs = [pair for pair in itertools.pairwise(values) if longer.intersection(pair)]
            return {middle for pair in pairs if (middle := self._between(*pair)) is not None}, longer
        allowed = self.within * best.objective.mean
        for left, right, most in self.stretches():
            if most <= allowed:
                continue
            middle, step = self._between(left.value, right.value), self.difference(left, right)
            noisy = {
                point.value
                for point in (left, right)
                if point.keeps is None or self._bound((gap := self.difference(point, best)).se, gap.n) > allowed / 2
            }
            longer |= noisy | {best.value} if noisy else noisy
            if middle is not None and abs(step.mean) > max(allowed / 2, self._bound(step.se, step.n) * bool(noisy)):
                halves.add(middle)
        if halves or longer:  # a better answer may be among those that are undecided, or beside them
            for left, right, _ in self.stretches():
                for point in (left, right):
                    if point.keeps is not None or point.objective.mean >= best.objective.mean:
                        continue
                    longer.add(point.value)
                    middle = self._between(left.value, right.value)
                    if middle is not None and MORE * point.objective.n > MAX_REPLICATIONS:
                        halves.add(middle)
        return halves, longer

    def affordable(self, halves: set[float], longer: set[float]) -> tuple[set[float], set[float]]:
        """Those of them that the bounds on points and replications allow; exact values need no repetition."""
        known = {} if self.solve_exactly else {value: len(totals) for value, (_, totals) in self.totals.items()}
        room = max(0, MAX_POINTS - len(self.points))
        return set(sorted(halves)[:room]), {x for x in longer if x in known and MORE * known[x] <= MAX_REPLICATIONS}

    def answer(self, settled: bool) -> Plan:
        best = self.best()
        points = [self.points[value] for value in sorted(self.points)]
        if best is None:
            return Plan(self.vary, self.objective, self.limits, points, None)
        open_ = [(left, right) for left, right, most in self.stretches() if most > 0]
        low = min([best.value, *(left.value for left, _ in open_)])
        high = max([best.value, *(right.value for _, right in open_)])
        most = max([0.0, *(most for *_, most in self.stretches())]) / best.objective.mean
        return Plan(self.vary, self.objective, self.limits, points, best, low, high, most, settled)


def _value_of(base: ServiceScenario, key: str) -> float | int | None:
    """The number that the scenario has at a dotted key; of a mean period the reciprocal of its rate."""
    if key in INSTEAD_OF:
        rate = getattr(base, INSTEAD_OF[key])
        return 1 / rate if rate else None
    if key in ("seed", "replications", "horizon", "warm_up", "max_cpu_hours"):
        raise ConfigError(f"vary = {key}: must be a key of the system, not of its simulation")
    value: Any = base.model_dump()
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise ConfigError(f"vary = {key}: is not a key of the scenario")
        value = value[part]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise ConfigError(f"vary = {key}: must be a key with a number > 0, not {value}")
    return value


def _exactly(task: tuple[float, ServiceScenario]) -> Mapping[str, Estimate]:
    return exact(task[1]).metrics


def _simulated(task: tuple[float, ServiceScenario, str, int, int, Window | None]) -> tuple[Window, NDArray[np.float64]]:
    """Totals of replications first, ..., last - 1, shape (last - first, columns); and the window."""
    _, scenario, name, first, last, span = task
    scenario.check_events()
    span = span or window(scenario)
    totals, _ = simulate(scenario, first, last, span, name=name)
    return span, totals.reshape(last - first, -1, totals.shape[1]).sum(axis=1)


def _ratio(metric: Any, columns: Sequence[str], totals: NDArray[np.float64]) -> tuple[Estimate, NDArray[np.float64]]:
    """A ratio of sums over independent replications with its linearised error, and the residuals e_r."""
    top = np.array(linear_form(metric.numerator, columns, totals))
    bottom = np.array(linear_form(metric.denominator, columns, totals))
    n, below = len(top), float(bottom.mean())
    if below == 0.0:
        return Estimate(math.nan, math.nan, n), np.full(n, math.nan)
    mean = float(top.mean()) / below
    residuals = (top - mean * bottom) / below
    return Estimate(mean, math.sqrt(float(residuals @ residuals) / (n - 1) / n), n), residuals
