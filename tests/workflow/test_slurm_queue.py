"""Which waiting jobs Slurm will never start, by what squeue says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastiqueue.workflow.slurm_queue import never_starting

NEVER = [
    "PartitionTimeLimit", "PartitionNodeLimit", "PartitionConfig", "BadConstraints", "InvalidAccount", "InvalidQOS",
    "AccountNotAllowed", "QOSMaxWallDurationPerJobLimit", "AssocMaxCpuPerJobLimit", "QOSMaxMemPerJob",
]  # fmt: skip
WAITING = [
    "None", "Priority", "Resources", "Dependency", "JobHeldUser", "BeginTime", "AssocGrpCpuLimit", "PartitionDown",
    "QOSMaxJobsPerUserLimit", "ReqNodeNotAvail, UnavailableNodes:node1", "Nodes required for job are DOWN|DRAINED",
]  # fmt: skip


@pytest.mark.parametrize("reason", NEVER + WAITING)
def test_reasons(reason):
    queue = f"7|{reason}|/home/me/project\n8|{reason}|/home/me/another project\n\n"
    assert never_starting(queue, Path("/home/me/project")) == ({"7": reason} if reason in NEVER else {})
    assert never_starting(queue, Path("/home/me/another project")) == ({"8": reason} if reason in NEVER else {})
