"""What one sees of a run while it goes on: a logger of Snakemake, which the profile chooses (`logger: elastiqueue`).

On a terminal a bar per rule, the steps that are done, and the time left; elsewhere one line per step. What a step says
is shown when it has ended, failures in full at the end. Snakemake's own log file holds everything in any case.

The time left is a guess. Each step that is to come is taken to last as long as the latest ones of its rule (of any
rule, where none has ended), and as many go on at a time as ever did; the longest steps of a rule begin first.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections import defaultdict, deque
from pathlib import Path
from statistics import fmean
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

NOISE = (
    "None", "Select jobs", "Execute ", "Using shell", "Assuming unrestricted", "host: ", "Building DAG",
    "Workflow defines that rule", "RuleException:\nCalledProcessError",  # a failure is shown at the end
)  # fmt: skip
LATEST = 5  # steps of a rule from which the next ones are guessed
WIDTH, INTERVAL = 30, 0.1  # characters of a bar, seconds between two pictures


class LogHandler(LogHandlerBase):
    """Shows the records of a run; a dry run is shown as Snakemake itself shows it."""

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self.bars = self.stream.isatty()
        self.drawn, self.drawn_at = 0, 0.0  # lines of the present picture, and its time
        self.wanted: dict[str, int] = {}  # rule -> steps, of which so many are done:
        self.ended: dict[str, int] = defaultdict(int)
        self.latest: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=LATEST))  # seconds
        self.jobs: dict[int, Any] = {}  # what Snakemake told of those that go on
        self.begun: dict[int, float] = {}
        self.at_a_time = 1
        self.done = self.total = 0
        self.failures: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record in, and show what there is to show."""
        event = getattr(record, "event", None)
        facts: Any = record.__dict__
        if self.common_settings.dryrun:
            self.stream.write(self.format(record) + "\n")
        elif event == LogEvent.RUN_INFO:
            self.wanted = {rule: count for rule, count in facts["stats"].items() if rule != "total"}
            self.total = sum(self.wanted.values())
            self._say(record.getMessage())
        elif event == LogEvent.JOB_INFO:
            self.jobs[facts["jobid"]], self.begun[facts["jobid"]] = facts, time.monotonic()
            self.at_a_time = max(self.at_a_time, len(self.jobs))
        elif event == LogEvent.JOB_FINISHED:
            self._finished(facts["job_id"])
        elif event == LogEvent.PROGRESS:
            self.done, self.total = facts["done"], facts["total"]
        elif event in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            self.failures.append(self.format(record))
            job = self.jobs.pop(facts.get("jobid", -1), None)
            self._say(f"failed: {_name(job)}" if job else "failed: a group of steps")
        elif record.levelno >= logging.WARNING or event in (None, LogEvent.ERROR):
            text = self.format(record)
            self._say("" if text.startswith(NOISE) else text)
        self._draw()

    def close(self) -> None:
        """Wipe the bars, and show the failures."""
        if self.failures:
            self._say("\n".join(["", *self.failures]))
            self.failures = []
        self._wipe()
        super().close()

    def _finished(self, number: int) -> None:
        job = self.jobs.pop(number, None)
        if job is None:
            return
        rule, seconds = job["rule_name"], time.monotonic() - self.begun[number]
        self.ended[rule] += 1
        self.latest[rule].append(seconds)
        said = "\n".join(filter(None, map(_content, job["log"] or [])))
        if not self.bars:
            count = f"{sum(self.ended.values()):{len(str(self.total))}} of {self.total}"
            self._say(f"{count}  {_name(job)}  {seconds:.1f} s  {_clock(self.seconds_left())} left")
        self._say(said)

    def seconds_left(self) -> float:
        """A guess of the time until all steps are done."""
        now = time.monotonic()
        known = [seconds for latest in self.latest.values() for seconds in latest]
        typical = {rule: fmean(self.latest[rule] or known or [1.0]) for rule in self.wanted}
        running = [
            max(0.0, typical.get(job["rule_name"], 0.0) - (now - self.begun[number]))
            for number, job in self.jobs.items()
        ]
        waiting = {rule: count - self.ended[rule] for rule, count in self.wanted.items()}
        for job in self.jobs.values():
            waiting[job["rule_name"]] = waiting.get(job["rule_name"], 1) - 1
        work = sum(running) + sum(max(count, 0) * typical.get(rule, 0.0) for rule, count in waiting.items())
        return max([work / self.at_a_time, *running])

    def _say(self, text: str) -> None:
        if text.strip():
            self._wipe()
            self.stream.write(text.rstrip("\n") + "\n")
            self.stream.flush()

    def _draw(self) -> None:
        if not (self.bars and self.jobs) or (self.drawn and time.monotonic() < self.drawn_at + INTERVAL):
            return
        width, height = shutil.get_terminal_size()
        rows = [(rule, self.ended[rule], count) for rule, count in self.wanted.items()]
        lines = [f"{rule:<10} {_bar(done, count)} {done} of {count}" for rule, done, count in rows]
        if len(lines) + 2 > height:
            lines = []
        done = sum(self.ended.values())
        failed = f", {len(self.failures)} failed" * bool(self.failures)
        going = ", ".join(sorted({_name(job) for job in self.jobs.values()}))
        lines.append(f"{done} of {self.total} steps{failed}, {_clock(self.seconds_left())} left; now {going}")
        self._wipe()
        self.stream.write("".join(line[: width - 1] + "\n" for line in lines))
        self.stream.flush()
        self.drawn, self.drawn_at = len(lines), time.monotonic()

    def _wipe(self) -> None:
        if self.drawn:
            self.stream.write(f"\033[{self.drawn}A\033[J")
            self.stream.flush()
            self.drawn = 0


def _name(job: Any) -> str:
    """The rule of a job and what it is about: its first wildcard."""
    return " ".join([job["rule_name"], *list((job.get("wildcards") or {}).values())[:1]])


def _content(log: str) -> str:
    try:
        return Path(log).read_text(encoding="utf-8", errors="replace").strip("\n")
    except OSError:
        return ""


def _bar(done: int, count: int) -> str:
    full = WIDTH * done // max(count, 1)
    return "█" * full + "░" * (WIDTH - full)


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
