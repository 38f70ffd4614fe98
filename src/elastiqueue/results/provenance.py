"""Where a result comes from: scenarios, sources, versions, machine, time and memory, beside every result."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any


def cpu_model() -> str:
    """Name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Stopwatch:
    """Wall time, CPU time and peak memory of a job, and the provenance record made of them."""

    def __init__(self) -> None:
        self.started = time.time()
        self.wall = time.perf_counter()
        self.cpu = time.process_time()

    def provenance(self, **facts: Any) -> dict[str, Any]:
        """What made a result: versions, machine, time; `facts` are added."""
        packages = ("elastiqueue", "numpy", "scipy", "numba", "pandas", "matplotlib")
        scale = 1 if sys.platform == "darwin" else 1024
        return {
            "python": platform.python_version(),
            "versions": {name: version(name) for name in packages},
            "platform": platform.platform(),
            "cpu": cpu_model(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
            "wall_seconds": round(time.perf_counter() - self.wall, 3),
            "cpu_seconds": round(time.process_time() - self.cpu, 3),
            "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6, 1),
            **facts,
        }
