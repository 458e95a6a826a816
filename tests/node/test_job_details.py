"""One job in detail: what is asked again when the list of jobs says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.errors import JobNotFound
from jupyter_hpc.node.services import job_details as module
from jupyter_hpc.node.services.job_details import JobDetails
from jupyter_hpc.node.services.job_files import JobFiles
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.slurm.models import JobDetail
from jupyter_hpc.slurm.showjob import read_details
from tests.node.worlds import ALICE, FakeSlurm, job


class Slurm(FakeSlurm):
    """With details, which tell the state that a test sets."""

    state = "RUNNING"

    async def job_detail(self, job_id: str) -> JobDetail:
        self._answer("detail")
        (found,) = read_details(
            f"JobId={job_id} JobName=train\n   UserId=alice(1001) GroupId=alice(1001)\n"
            f"   JobState={self.state} Reason=None Dependency=(null)\n"
            "   RunTime=00:01:00 TimeLimit=00:10:00 StartTime=1767261600\n"
        )
        return found

    async def usage(self, job_id: str) -> None:
        return None


async def no_run(job_id: str) -> str:
    raise JobNotFound("", "")


async def nothing_left(job_id: str) -> None:
    return None


async def test_an_ended_job_that_the_database_does_not_have_yet() -> None:
    slurm = Slurm()
    slurm.state = "FAILED"
    client: Any = slurm
    details = JobDetails(
        client, slurm.service(), ALICE, Offload(), find_run=no_run, left_by=nothing_left
    )
    view: dict[str, Any] = await details.view("5")
    assert view["finished"] and slurm.count("finished") == 1
    assert view["efficiency"].time.used == "00:01:00"
    assert view["efficiency"].time.requested == "00:10:00"
    await details.stop()


@pytest.mark.parametrize("left", [False, True])
async def test_the_view_follows_the_list(monkeypatch: pytest.MonkeyPatch, left: bool) -> None:
    monkeypatch.setattr(module, "FLOOR_SECONDS", 0.0)
    slurm = Slurm()
    slurm.now = 4e9  # the list is newer than what was asked before
    slurm.queue = [job("5")]
    jobs = slurm.service()
    client: Any = slurm
    details = JobDetails(client, jobs, ALICE, Offload(), find_run=no_run, left_by=nothing_left)
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


@pytest.mark.parametrize(
    "command", ["run.sh", "run.sh a b c", "my run.sh", "my run.sh --lr 0.1", "my run.sh a  b"]
)
def test_the_script_of_a_command_with_arguments(tmp_path: Path, command: str) -> None:
    """Before 24.11 Slurm names the script and its arguments in one line."""
    script = tmp_path / ("my run.sh" if command.startswith("my ") else "run.sh")
    script.write_text("#!/bin/sh\necho hello\n")
    files = JobFiles("1", None, None, None, script=f"{tmp_path}/{command}")
    assert module._read_script(files) == "#!/bin/sh\necho hello\n"


def test_a_command_that_is_no_file(tmp_path: Path) -> None:
    assert module._read_script(JobFiles("1", None, None, None, script="/no/such a")) is None
