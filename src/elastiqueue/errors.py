"""Errors of the user's, answered by one line each; apart from all else, so that they cost nothing to import."""

from __future__ import annotations

import argparse
import re
import sys
from typing import NoReturn


class ConfigError(ValueError):
    """An error that the user can mend; its text is one line: key, value, what is allowed."""


class Parser(argparse.ArgumentParser):
    """A parser of arguments whose errors are one line, too."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"elastiqueue: {printable(message)} ({self.prog} --help lists what is allowed)\n")


def printable(text: object) -> str:
    """A text as one line that a terminal can show."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))


def refuse(error: object) -> NoReturn:
    """End the process: one line on standard error, exit status 2."""
    print(f"elastiqueue: {printable(error)}", file=sys.stderr)
    sys.exit(2)


def check_run(name: str) -> None:
    """Raise ConfigError unless this can be the name of a run; it becomes part of paths."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,59}", name):
        raise ConfigError(f"--run = {name!r}: must be the name of a run, letters, digits and _ only")
