"""Arrival rates from files: traces of rates, and logs of requests that are counted into rates.

A trace is a CSV file whose header names the columns `time` and `rate`, in any order and among others. Cells are
separated by commas, semicolons (then numbers may have decimal commas) or tabs. Times are numbers that begin with 0, or
time stamps by ISO 8601, of which the first one is time 0.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from elastiqueue.sampling.arrival_rate import ArrivalRate

SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}
TIMES = ("time", "t", "timestamp", "datetime", "date")
RATES = ("rate", "r", "lambda", "rate_per_second")
MAX_LINES = 1_000_000
MAX_STEPS = 100  # of a line between two rates, each of which then changes by no more than a hundredth of the largest


def read_trace(
    path: str | Path,
    time_unit: str = "service",
    rate_unit: str = "service",
    service_time: float | None = None,
    linear: bool = False,
    share: float = 1.0,
) -> ArrivalRate:
    """The arrival rate that a file holds; the file is read once, and again if it has changed.

    Parameters
    ----------
    time_unit, rate_unit : of the times, and in which the rates count tasks: service (mean service times), second,
        minute or hour; time stamps are taken to seconds.
    service_time : mean service time in seconds, wanted where a unit is not service.
    linear : whether rates lie on lines between those of the file; each line becomes steps that hold its mean over them.
    share : factor of all rates, 1/N where they are those of the whole system.

    Raises
    ------
    ValueError : one line that names the file and the number of the line, or the key.
    """
    path = Path(path)
    try:
        stat = path.stat()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"arrival_rate.trace = {path}: must be a CSV file with columns time, rate: {why}") from None
    times, rates, stamps = _columns(path, stat.st_mtime_ns, stat.st_size)
    if stamps and time_unit != "second":
        raise ValueError(f"arrival_rate.time_unit = {time_unit}: must be second, since {path} has time stamps")
    per_time, per_rate = (
        _services("time_unit", time_unit, service_time),
        _services("rate_unit", rate_unit, service_time),
    )
    times = tuple(time * per_time for time in times)
    rates = tuple(rate / per_rate * share for rate in rates)
    return ArrivalRate(*(_on_lines(times, rates) if linear else (times, rates)))


def _services(key: str, unit: str, service_time: float | None) -> float:
    """Mean service times in a unit of time."""
    if unit == "service":
        return 1.0
    if service_time is None:
        raise ValueError(f"arrival_rate.service_time: is missing; {key} = {unit} needs it, in seconds")
    return SECONDS[unit] / service_time


@lru_cache(maxsize=64)
def _columns(path: Path, changed: int, size: int) -> tuple[tuple[float, ...], tuple[float, ...], bool]:
    rows, name = _rows(path), f"arrival_rate.trace = {path}"
    line, header = next(rows, (1, []))
    names = [cell.strip().lower() for cell in header]
    try:
        time, rate = (next(names.index(word) for word in words if word in names) for words in (TIMES, RATES))
    except (StopIteration, RuntimeError):
        what = "is empty" if not header else f"line {line}, {_shown(header)}"
        raise ValueError(f"{name}: {what}: must begin with a header that names the columns time and rate") from None
    times: list[float] = []
    rates: list[float] = []
    stamp: Callable[[str], float] | None = None
    for line, cells in rows:
        try:
            if len(cells) != len(header):
                raise ValueError(f"must have {len(header)} cells (numbers with decimal commas: ; between the cells)")
            stamp = stamp or (_number if _is_number(cells[time]) else _stamp)
            times.append(stamp(cells[time]))
            rates.append(_number(cells[rate]))
            if len(times) > 1 and times[-1] <= times[-2]:
                raise ValueError("times must increase (the trace is unsorted or repeats a time)")
            if rates[-1] < 0:
                raise ValueError("a rate must be >= 0")
            if len(times) > MAX_LINES:
                raise ValueError(f"at most {MAX_LINES:,} are allowed")
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}: line {line}, {_shown(cells)}: {error}") from None
    if not times:
        raise ValueError(f"{name}: is empty; must hold at least one line after its header")
    if stamp is _stamp:
        times = [value - times[0] for value in times]
    elif times[0] != 0:
        raise ValueError(f"{name}: begins at time {times[0]:g}: must be 0")
    return tuple(times), tuple(rates), stamp is _stamp


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each line that is not empty; decimal commas become points where semicolons part the cells."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            mark = max(",;\t", key=first.count)
            file.seek(0)
            table = csv.reader(file, delimiter=mark)
            for cells in table:
                if any(cell.strip() for cell in cells):
                    yield table.line_num, [cell.replace(",", ".") for cell in cells] if mark == ";" else cells
    except (OSError, UnicodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"arrival_rate.trace = {path}: must be a CSV file in UTF-8: {why}") from None


def _shown(cells: Sequence[str]) -> str:
    text = ", ".join(cell.strip() for cell in cells)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _number(text: str) -> float:
    if not _is_number(text):
        raise ValueError(f"{text.strip()[:40]!r} must be a finite number")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def _stamp(text: str) -> float:
    """Seconds of a time stamp."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text.strip()[:40]!r} must be a number or a time stamp such as 2024-05-01T12:00:00"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _on_lines(times: Sequence[float], rates: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Steps in place of the lines between the points; each holds the mean of its line, so that no task is lost."""
    largest = max(rates) or 1.0
    starts: list[float] = []
    heights: list[float] = []
    for i in range(len(times) - 1):
        change, length = rates[i + 1] - rates[i], times[i + 1] - times[i]
        count = min(MAX_STEPS, max(1, math.ceil(100 * abs(change) / largest)))
        starts += [times[i] + length * k / count for k in range(count)]
        heights += [rates[i] + change * (k + 0.5) / count for k in range(count)]
    return (*starts, times[-1]), (*heights, rates[-1])


def rates_of_log(path: str | Path, every: float) -> list[tuple[float, float]]:
    """Requests per second in each whole interval of a log with one time stamp per request, in any order.

    Parameters
    ----------
    path : CSV file with a column of time stamps (ISO 8601, or seconds), the one that its header names time, timestamp
        or the like, else the first one; lines may hold other columns. Without a header, too.
    every : length of an interval in seconds; the first one begins with the first request.

    Returns
    -------
    (start in seconds, requests per second) per interval; the last one, which the log ends within, is left out.

    Raises
    ------
    ValueError : one line that names the file and the number of the line.
    """
    moments: list[float] = []
    stamp: Callable[[str], float] | None = None
    column = 0
    for k, (line, cells) in enumerate(_rows(Path(path))):
        names = [cell.strip().lower() for cell in cells]
        if k == 0 and any(word in names for word in TIMES):
            column = next(names.index(word) for word in TIMES if word in names)
            continue
        try:
            if len(cells) <= column:
                raise ValueError("has no time stamp")
            stamp = stamp or (_number if _is_number(cells[column]) else _stamp)
            moments.append(stamp(cells[column]))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: line {line}, {_shown(cells)}: {error}") from None
    first, last = (min(moments), max(moments)) if moments else (0.0, 0.0)
    count = math.floor((last - first) / every)
    if not 1 <= count <= MAX_LINES:
        raise ValueError(f"--every = {every:g}: must part the {last - first:g} s of {path} into 1 to {MAX_LINES:,}")
    requests = Counter(math.floor((moment - first) / every) for moment in moments)
    return [(k * every, requests[k] / every) for k in range(count)]
