"""One job in detail: what is asked again when the list of jobs says otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_hpc.errors import JobNotFound
from jupyter_hpc.node.services import job_details as module
from jupyter_hpc.node.services.job_details import JobDetails
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.slurm.detail import read_details
from jupyter_hpc.slurm.models import JobDetail
from tests.node.worlds import ALICE, FakeSlurm, job


class Slurm(FakeSlurm):
    """With details, which tell the state that a test sets."""

    state = "RUNNING"

    async def job_detail(self, job_id: str) -> JobDetail:
        self._answer("detail")
        (found,) = read_details(
            f"JobId={job_id} JobName=train\n   UserId=alice(1001) GroupId=alice(1001)\n"
            f"   JobState={self.state} Reason=None Dependency=(null)\n"
        )
        return found

    async def usage(self, job_id: str) -> None:
        return None


@pytest.mark.parametrize("left", [False, True])
async def test_the_view_follows_the_list(monkeypatch: pytest.MonkeyPatch, left: bool) -> None:
    monkeypatch.setattr(module, "FLOOR", 0.0)
    slurm = Slurm()
    slurm.now = 4e9  # the list is newer than what was asked before
    slurm.queue = [job("5")]
    jobs = slurm.service()

    async def no_run(job_id: str) -> str:
        raise JobNotFound("", "")

    client: Any = slurm
    details = JobDetails(client, jobs, ALICE, Offload(), find_run=no_run)
    await jobs.read()
    for _ in range(3):
        assert (await details.view("5"))["job"]["state"] == "RUNNING"  # type: ignore[index]
    assert slurm.count("detail") == 1
    slurm.state = "COMPLETING"
    slurm.queue = [] if left else [job("5", state="COMPLETING")]
    slurm.now += 60
    await jobs.read()
    assert (await details.view("5"))["job"]["state"] == "COMPLETING"  # type: ignore[index]
    await details.stop()
