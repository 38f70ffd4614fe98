"""One question about many scenarios, on all cores."""

from __future__ import annotations

import itertools
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_all_start_methods, get_context
from typing import TYPE_CHECKING, Any

from elastiqueue.api import solve
from elastiqueue.api.result import Result
from elastiqueue.results.provenance import usable_cores
from elastiqueue.scenarios.reading import ConfigError, Scenario, changed

if TYPE_CHECKING:
    import pandas as pd

ENGINES = ("simulate", "exact", "fluid", "stability", "capacity")


class Sweep(list[tuple[dict[str, Any], Result]]):
    """Pairs (settings, result) in the order of the grid, the last key fastest."""

    def table(self) -> pd.DataFrame:
        """All results in one tidy DataFrame: a column per key of the grid, then those of `Result.table`."""
        import pandas as pd

        return pd.DataFrame([{**settings, **row} for settings, result in self for row in result.rows()])


def sweep(
    base: Scenario,
    grid: Mapping[str, Sequence[Any]],
    jobs: int | None = None,
    engine: str = "simulate",
    progress: solve.Progress | None = None,
) -> Sweep:
    """Ask one engine about every point of a grid, points side by side on all cores.

    Parameters
    ----------
    base : the scenario that the grid changes.
    grid : dotted key -> values; every combination is a point.
    jobs : how many processes; default: as many as there are cores. Results do not depend on it.
    engine : simulate, exact, fluid, stability or capacity.
    progress : called with (done, all) points.

    Raises
    ------
    ConfigError : a point of the grid is not a scenario (before anything is computed), or an engine refuses it.

    >>> import elastiqueue as eq
    >>> base = eq.scenario(model="tabs", servers=2, arrival_rate=0.3, standby_rate=0.1, setup_rate=0.1, buffer=5)
    >>> found = eq.sweep(base, {"standby_rate": [0.1, 1.0]}, jobs=1, engine="exact")
    >>> [(settings["standby_rate"], str(result.metric("mean_wait"))) for settings, result in found]
    [(0.1, '0.664793'), (1.0, '0.949355')]
    """
    if engine not in ENGINES:
        raise ConfigError(f"engine = {engine}: must be one of {', '.join(ENGINES)}")
    jobs = usable_cores() if jobs is None else jobs
    if jobs < 1:
        raise ConfigError(f"jobs = {jobs}: must be >= 1")
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    tasks = [(engine, changed(base, point)) for point in settings]
    results = []
    for result in each(_answer, tasks, jobs):
        results.append(result)
        if progress is not None:
            progress(len(results), len(tasks))
    return Sweep(zip(settings, results, strict=True))


def _answer(task: tuple[str, Scenario]) -> Result:
    result: Result = getattr(solve, task[0])(task[1])
    return result


def each(function: Callable[[Any], Any], tasks: Sequence[Any], jobs: int) -> Any:
    """The function's values in the order of the tasks, made by `jobs` processes, as they are there.

    Processes are forked where that can be done, so that a script needs no `if __name__ == "__main__"`; they hold no
    locks (a kernel runs in one thread), and end with the caller, at Ctrl-C too.
    """
    if min(jobs, len(tasks)) <= 1:
        yield from map(function, tasks)
        return
    context = get_context("fork" if "fork" in get_all_start_methods() else "spawn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 on: threads beside a fork
        pool = context.Pool(min(jobs, len(tasks)), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    with pool:  # which ends all its processes
        yield from pool.imap(function, tasks)
