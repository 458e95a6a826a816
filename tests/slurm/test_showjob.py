"""scontrol show job, read from what a real cluster answered."""

from __future__ import annotations

import pytest

from jupyter_hpc.slurm import showjob
from jupyter_hpc.slurm.models import Phase
from tests.slurm.record import HOSTILE
from tests.slurm.runners import recording


def test_one_job_with_a_hostile_name() -> None:
    answer = recording("scontrol-job")
    (job,) = showjob.read_details(answer.stdout)
    assert answer.argv == tuple(showjob.show_job_argv(job.id))
    assert job.name == HOSTILE
    assert (job.user, job.state, job.phase) == ("alice", "RUNNING", Phase.RUNNING)
    assert job.comment.strip() == "a=b c|d, e"
    assert (job.nodes, job.batch_host, job.node_count, job.cpus) == ("cpu01", "cpu01", 1, 1)
    assert (job.memory_mb, job.gpus) == (1024, 0)
    assert job.time_limit == 86340
    assert job.started and job.ends == job.started + 86340
    assert job.work_dir == "/home/alice"
    assert job.stdout == job.stderr == f"/home/alice/slurm-{job.id}.out"
    assert (job.stdin, job.command, job.dependency) == ("/dev/null", "", "")
    assert job.requeue and job.restarts == 0
    assert job.fields["MCS_label"] == "N/A"


def test_an_array_has_a_record_for_each_part() -> None:
    parts = showjob.read_details(recording("scontrol-array").stdout)
    tasks = {part.array_task: part for part in parts}
    assert set(tasks) == {"1", "3", "7,9,11%2"}
    assert tasks["1"].id == f"{tasks['1'].array_id}_1"
    rest = tasks["7,9,11%2"]
    assert rest.id == rest.array_id
    assert (rest.state, rest.reason, rest.started) == ("PENDING", "JobArrayTaskLimit", None)
    (one,) = showjob.read_details(recording("scontrol-task").stdout)
    assert one.id == tasks["1"].id


def test_het_components() -> None:
    parts = showjob.read_details(recording("scontrol-het").stdout)
    assert len(parts) == 2
    assert {part.het_id for part in parts} == {parts[0].id}


def test_newer_keys_for_resources() -> None:
    """23.02 split TRES into ReqTRES and AllocTRES on lines of their own, and 25.11 has
    SLUID after JobId (SchedMD/slurm, src/api/job_info.c and src/scontrol/info_job.c)."""
    text = recording("scontrol-job").stdout.replace(
        "   TRES=cpu=1,mem=1G,node=1,billing=1\n",
        "   ReqTRES=cpu=1,mem=1G,node=1,billing=1,gres/gpu=1\n"
        "   AllocTRES=cpu=2,mem=2G,node=1,billing=1,gres/gpu=1,gres/gpu:h100=1\n",
    )
    text = text.replace(" JobName=", " SLUID=s123ABC JobName=", 1)
    (job,) = showjob.read_details(text)
    assert (job.gpus, job.gpu_type, job.memory_mb) == (1, "h100", 2048)
    assert job.name == HOSTILE


def test_missing_and_unknown_keys_do_no_harm() -> None:
    (job,) = showjob.read_details(
        "JobId=5 JobName=x y=z\n   JobState=WHATEVER Reason=None\n   New=1"
    )
    assert (job.id, job.name, job.state, job.phase) == ("5", "x y=z", "WHATEVER", Phase.UNKNOWN)
    assert (job.nodes, job.time_limit, job.exit_code) == ("", None, None)
    assert job.fields["New"] == "1"


@pytest.mark.parametrize(
    "text",
    [
        "JobId=5 JobName=x\n   UserId=alice(1001) GroupId=alice(1001)\n   UserId=mallory(1002)",
        "JobId=5 JobName=x\n   UserId=mallory(1002)\n   Comment=y\n   UserId=alice(1001)",
    ],
    ids=["name", "comment"],
)
def test_a_name_or_comment_that_claims_another_owner(text: str) -> None:
    (job,) = showjob.read_details(text)
    assert (job.user, job.fields["UserId"]) == ("", "")


def test_words_in_the_place_of_times() -> None:
    text = recording("scontrol-job").stdout
    text = text.replace("TimeLimit=23:59:00", "TimeLimit=Partition_Limit")
    (job,) = showjob.read_details(text)
    assert job.time_limit is None


def test_no_record_for_no_job() -> None:
    assert showjob.read_details("No jobs in the system\n") == []
    assert showjob.read_details(recording("scontrol-unknown").stdout) == []


def test_the_gpus_of_each_node() -> None:
    shown = (
        "JobId=11 JobName=Nodes=n9\n"
        "   JOB_GRES=gpu:a100:3,gpu:p4:0\n"
        "     Nodes=cpu01 CPU_IDs=0 Mem=1024 GRES=gpu:a100:2(IDX:0-1),gpu:p4:1(IDX:2)\n"
        "     Nodes=gpu[01-02] CPU_IDs=0-3 Mem=1024 GRES=gpu:a100:1(IDX:0),gpu:p4:0(IDX:)\n"
        "     Nodes=cpu02 CPU_IDs=0,2 Mem=1024 GRES=\n"
        "   MinCPUsNode=1\n"
    )
    assert showjob.read_node_gpus(shown) == {"cpu01": 3, "gpu01": 1, "gpu02": 1, "cpu02": 0}
    assert showjob.read_node_gpus("slurm_load_jobs error: Invalid job id specified\n") == {}
