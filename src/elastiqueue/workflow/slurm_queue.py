"""Jobs that Slurm will never start are ended, so that a run reports them instead of waiting for ever.

A job may ask for what no node, partition or account gives; Slurm accepts it all the same and keeps it PENDING, with a
reason that `squeue` tells. Jobs that wait for their turn have other reasons and are left alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

NEVER = re.compile(
    r"PartitionTimeLimit|PartitionNodeLimit|PartitionConfig|BadConstraints|Invalid.*|AccountNotAllowed|QOSNotAllowed"
    r"|.*(MaxWallDuration|MaxCpuPerJob|MaxMemPerJob|MaxNodePerJob).*|ReqNodeNotAvail.*Invalid.*"
)
SECONDS = 10  # from one look to the next


def never_starting(queue: str, folder: Path) -> dict[str, str]:
    """Job -> reason of the jobs submitted from a folder that will never start.

    queue : output of `squeue --states=PENDING --format=%A|%r|%Z`.
    """
    lines = [line.split("|", 2) for line in queue.splitlines() if line.count("|") >= 2]
    return {job: reason for job, reason, where in lines if NEVER.fullmatch(reason) and Path(where) == folder}


def end_never_starting_jobs() -> None:
    """Look at the queue every ten seconds, in a thread of its own, for as long as the run lasts."""
    folder = Path.cwd()

    def look() -> None:
        while True:
            command = ["squeue", "--me", "--noheader", "--states=PENDING", "--format=%A|%r|%Z"]
            try:
                queue = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
            except FileNotFoundError:  # another batch system
                return
            except subprocess.TimeoutExpired:
                queue = ""
            for job, reason in never_starting(queue, folder).items():
                print(
                    f"elastiqueue: Slurm job {job} can never start: {reason} (run time: workflow/rules; cores, "
                    "partition: the profile)",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
                subprocess.run(["scancel", job], capture_output=True, check=False)
            time.sleep(SECONDS)

    threading.Thread(target=look, daemon=True).start()
