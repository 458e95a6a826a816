"""squeue, read from what a real cluster answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jupyter_hpc.slurm import queue
from jupyter_hpc.slurm.fields import SEPARATOR
from jupyter_hpc.slurm.models import Job, Phase
from tests.slurm.record import HOSTILE
from tests.slurm.runners import recording


@pytest.fixture(scope="module")
def jobs() -> dict[str, Job]:
    """The recorded queue by name; of several rows with one name the first."""
    found: dict[str, Job] = {}
    for job in queue.read_jobs(recording("squeue-mine").stdout):
        found.setdefault(job.name, job)
    return found


def test_the_recorded_commands_are_the_ones_we_build() -> None:
    assert recording("squeue-mine").argv == tuple(queue.jobs_argv())
    assert recording("squeue-named").argv == tuple(queue.jobs_argv(name="array"))
    one = queue.read_jobs(recording("squeue-one").stdout)[0]
    assert recording("squeue-one").argv == tuple(queue.jobs_argv(ids=[one.job_id]))
    start = recording("squeue-start")
    (job_id,) = queue.read_starts(start.stdout)
    assert start.argv == tuple(queue.start_argv([job_id]))


def test_a_name_made_to_break_parsers_survives(jobs: dict[str, Job]) -> None:
    job = jobs[HOSTILE]
    assert job.state == "RUNNING"
    assert job.phase is Phase.RUNNING
    assert job.comment == "a=b c|d, e"
    assert job.user == "alice"
    assert (job.partition, job.nodes, job.node_count) == ("cpu", "cpu01", 1)
    assert job.work_dir == "/home/alice"


def test_times_are_epoch_seconds(jobs: dict[str, Job]) -> None:
    job = jobs[HOSTILE]
    assert job.time_limit == 86340
    assert job.submitted and job.started and job.ends
    assert job.submitted <= job.started
    assert job.ends == job.started + 86340
    assert job.time_used is not None and job.time_left is not None
    assert job.time_used + job.time_left == job.time_limit


def test_gpus_are_seen_however_they_were_asked_for(jobs: dict[str, Job]) -> None:
    assert (jobs["gpus"].gpus, jobs["gpus"].gpu_type) == (2, "p4")
    assert jobs["per-task"].gpus == 2
    assert (jobs["held"].gpus, jobs["held"].gpu_type) == (1, "")
    assert (jobs[HOSTILE].gpus, jobs[HOSTILE].gpu_type) == (0, "")


def test_waiting_jobs_have_reasons_and_no_nodes(jobs: dict[str, Job]) -> None:
    expected = {
        "held": "JobHeldUser",
        "later": "BeginTime",
        "after": "Dependency",
        "long": "PartitionTimeLimit",
        "wide": "PartitionConfig",
        "tiny": "AssocGrpCpuLimit",
        "gpu1": "QOSMaxGRESPerUser",
    }
    assert {name: jobs[name].reason for name in expected} == expected
    for name in expected:
        job = jobs[name]
        assert job.phase is Phase.PENDING
        assert (job.nodes, job.started, job.ends) == ("", None, None)
    assert {"Resources", "Priority", "QOSMaxJobsPerUserLimit"} <= {
        job.reason for job in queue.read_jobs(recording("squeue-mine").stdout)
    }
    wall = queue.read_jobs(recording("squeue-wall").stdout)
    assert [job.reason for job in wall] == ["QOSMaxWallDurationPerJobLimit"]


def test_an_expected_start_is_an_estimate(jobs: dict[str, Job]) -> None:
    later = jobs["later"]
    assert later.estimated_start and later.submitted
    assert later.estimated_start - later.submitted == pytest.approx(3600, abs=5)
    assert jobs["held"].estimated_start is None
    assert jobs["after"].dependency.startswith("afterok:")


def test_parts_of_an_array() -> None:
    rows = queue.read_jobs(recording("squeue-named").stdout)
    assert {job.name for job in rows} == {"array"}
    (rest,) = [job for job in rows if job.phase is Phase.PENDING]
    running = [job for job in rows if job.phase is Phase.RUNNING]
    assert rest.reason == "JobArrayTaskLimit"
    assert rest.array_tasks == "7,9,11%2"
    assert rest.id == f"{rest.array_id}_[7,9,11%2]"
    assert rest.target == f"{rest.array_id}_[7,9,11]"
    assert sorted(job.id for job in running) == [f"{rest.array_id}_1", f"{rest.array_id}_3"]
    assert all(job.target == job.id and job.array_id == rest.array_id for job in running)
    assert len({job.job_id for job in rows}) == 3


def test_every_task_on_its_own_row() -> None:
    rows = queue.read_jobs(recording("squeue-tasks").stdout)
    assert sorted(job.array_tasks or "" for job in rows) == ["1", "11", "3", "7", "9"]


def test_heterogeneous_jobs_name_their_components() -> None:
    rows = [job for job in queue.read_jobs(recording("squeue-mine").stdout) if job.het_id]
    assert sorted(job.het_offset or 0 for job in rows) == [0, 1]
    assert {job.id for job in rows} == {f"{job.het_id}+{job.het_offset}" for job in rows}
    assert all(job.target == job.id for job in rows)


def test_a_job_past_its_limit_has_no_time_left() -> None:
    (late,) = queue.read_jobs(recording("squeue-over-time").stdout)
    assert late.over_time
    assert late.time_left is None
    assert late.time_limit == 60


def test_an_estimate_of_the_scheduler() -> None:
    ((_, estimate),) = queue.read_starts(recording("squeue-start").stdout).items()
    assert estimate.start and estimate.start > 1_700_000_000
    assert estimate.nodes == "gpu01"


def test_a_state_of_a_newer_slurm_is_kept() -> None:
    text = recording("squeue-one").stdout.replace(
        f"RUNNING{SEPARATOR}", f"HIBERNATING{SEPARATOR}", 1
    )
    (job,) = queue.read_jobs(text)
    assert job.state == "HIBERNATING"
    assert job.phase is Phase.UNKNOWN


def test_a_long_list_of_tasks_is_cancelled_with_the_whole_array() -> None:
    # squeue cuts the list at 64 bytes (SLURM_BITSTR_LEN in squeue(1))
    text = recording("squeue-named").stdout.replace("7,9,11%2", "7,9,11,...%2")
    (rest,) = [job for job in queue.read_jobs(text) if job.phase is Phase.PENDING]
    assert rest.target == rest.array_id


def test_a_site_that_does_not_track_gpus_still_shows_them() -> None:
    text = recording("squeue-mine").stdout
    for part in (",gres/gpu=2,gres/gpu:p4=2", ",gres/gpu=2", ",gres/gpu=1"):
        text = text.replace(part, "")
    jobs = {job.name: job for job in queue.read_jobs(text)}
    assert (jobs["gpus"].gpus, jobs["gpus"].gpu_type) == (2, "p4")  # --gpus
    assert jobs["held"].gpus == 1  # --gres
    assert jobs["per-task"].gpus == 2  # --gpus-per-task with two tasks


@pytest.mark.parametrize(
    ("row", "asked", "meant"),
    [
        (("35_3", "36", "35", "3"), "35", True),
        (("35_3", "36", "35", "3"), "35_3", True),
        (("35_3", "36", "35", "3"), "35_4", False),
        (("35_[5-9:2,12%1]", "35", "35", "5-9:2,12%1"), "35_7", True),
        (("35_[5-9:2,12%1]", "35", "35", "5-9:2,12%1"), "35_8", False),
        (("35_[5-9:2,12%1]", "35", "35", "5-9:2,12%1"), "35_12", True),
        (("35_[1-...]", "35", "35", "1,..."), "35_800", True),
        (("35_[5-9]", "35", "35", "5-9"), "35_[6-7]", True),
        (("41", "41", None, None), "41", True),
        (("41", "41", None, None), "41_1", False),
        (("41", "41", None, None), "42", False),
    ],
)
def test_which_rows_an_id_means(
    row: tuple[str, str, str | None, str | None], asked: str, meant: bool, jobs: dict[str, Job]
) -> None:
    id_, job_id, array_id, tasks = row
    known = jobs[HOSTILE]
    shown = replace(known, id=id_, job_id=job_id, array_id=array_id, array_tasks=tasks)
    assert shown.holds(asked) is meant
