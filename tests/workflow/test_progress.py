"""What is shown of a run while it goes on: lines in a pipe, bars on a terminal, failures at the end, the time left."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest

from elastiqueue.workflow import progress
from elastiqueue.workflow.progress import LogHandler


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def handler(monkeypatch, stream: io.StringIO) -> LogHandler:
    monkeypatch.setattr(progress.sys, "stderr", stream)
    return LogHandler(SimpleNamespace(stdout=False, dryrun=False), None)


def tell(handler: LogHandler, event: str | None, text: str = "", level: int = logging.INFO, **facts) -> None:
    record = logging.LogRecord("snakemake", level, "", 0, text, None, None)
    record.__dict__.update(event=event, **facts)
    handler.handle(record)


def begin(handler: LogHandler, number: int, rule: str, about: str, log=()) -> None:
    tell(handler, "job_info", jobid=number, rule_name=rule, wildcards={"experiment": about}, log=list(log))


def test_a_pipe_gets_a_line_per_step_and_the_failures_at_the_end(monkeypatch, tmp_path):
    pipe, said = io.StringIO(), tmp_path / "step.log"
    said.write_text("a warning\n")
    shown = handler(monkeypatch, pipe)
    tell(shown, "run_info", "the plan", stats={"simulate": 2, "draw": 1, "total": 3})
    tell(shown, None, "Select jobs to execute...")
    begin(shown, 1, "simulate", "sweep", [str(said)])
    begin(shown, 2, "simulate", "grid")
    tell(shown, "job_finished", job_id=1)
    tell(shown, "progress", done=1, total=3)
    tell(shown, "job_error", "all about the failure", logging.ERROR, jobid=2)
    tell(shown, "error", "a mistake in a rule", logging.ERROR)
    assert "all about the failure" not in pipe.getvalue()
    shown.close()
    assert pipe.getvalue().splitlines() == [
        "the plan", "1 of 3  simulate sweep  0.0 s  0:00 left", "a warning", "failed: simulate grid",
        "a mistake in a rule", "", "all about the failure",
    ]  # fmt: skip


def test_a_terminal_shows_a_bar_per_rule_and_nothing_of_it_stays(monkeypatch):
    terminal = Terminal()
    shown = handler(monkeypatch, terminal)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    tell(shown, "run_info", "the plan", stats={"simulate": 2, "draw": 1, "total": 3})
    begin(shown, 1, "simulate", "sweep")
    begin(shown, 2, "simulate", "grid")
    tell(shown, "job_finished", job_id=1)
    picture = terminal.getvalue().rpartition("\033[J")[2].splitlines()
    half = progress.WIDTH // 2
    assert picture == [
        f"simulate   {'█' * half}{'░' * half} 1 of 2", f"draw       {'░' * 2 * half} 0 of 1",
        "1 of 3 steps, 0:00 left; now simulate grid",
    ]  # fmt: skip
    shown.close()
    assert terminal.getvalue().endswith("\033[3A\033[J")


def test_the_time_left_is_that_of_the_steps_to_come_at_as_many_at_a_time(monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    shown = handler(monkeypatch, io.StringIO())
    tell(shown, "run_info", stats={"simulate": 6, "draw": 2, "total": 8})
    begin(shown, 1, "simulate", "a")
    begin(shown, 2, "simulate", "b")
    clock.now = 10.0
    tell(shown, "job_finished", job_id=1)
    begin(shown, 3, "simulate", "c")
    clock.now = 14.0
    # b has outlived the guess of 10, c has 6 to go; three simulations and two drawings of 10 each are to come
    assert shown.seconds_left() == pytest.approx((0.0 + 6.0 + 3 * 10.0 + 2 * 10.0) / 2)
    tell(shown, "job_finished", job_id=2)
    assert shown.seconds_left() == pytest.approx((8.0 + 5 * 12.0) / 2)
