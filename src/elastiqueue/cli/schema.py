"""Print the JSON schema of run configurations and scenarios, the manual of their keys.

Example:
  elastiqueue schema > schema.json
"""

from __future__ import annotations

import argparse
import sys


def arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""
    return


def run(options: argparse.Namespace) -> None:
    """Print it."""
    from elastiqueue.workflow.experiments import schema_text

    sys.stdout.write(schema_text())
