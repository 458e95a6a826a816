"""sacct, read from what a real cluster answered."""

from __future__ import annotations

import pytest

from jupyter_hpc.slurm import accounting
from jupyter_hpc.slurm.fields import SEPARATOR
from jupyter_hpc.slurm.models import FinishedJob, Phase
from jupyter_hpc.slurm.reasons import explain_state
from tests.slurm.runners import recording


@pytest.fixture(scope="module")
def ended() -> list[FinishedJob]:
    return accounting.read_finished(recording("sacct-finished").stdout)


def _explained(job: FinishedJob) -> str:
    return explain_state(
        job.state,
        exit_code=job.exit_code,
        signal=job.signal,
        reason=job.reason,
        cancelled_by=job.cancelled_by,
    ).cause


def test_the_recorded_commands_are_the_ones_we_build(ended: list[FinishedJob]) -> None:
    ids = [job.id for job in ended]
    assert recording("sacct-finished").argv == tuple(accounting.finished_argv(ids))
    assert recording("sacct-history").argv == tuple(accounting.history_argv(86400))


def test_steps_are_folded_into_their_job(ended: list[FinishedJob]) -> None:
    assert len(ended) == 8
    assert all("." not in job.id for job in ended)
    assert all(job.usage is not None for job in ended)


def test_how_each_of_them_ended(ended: list[FinishedJob]) -> None:
    states = [(job.state, job.exit_code, job.signal) for job in ended]
    fine, failed, missing, killed, busy, hungry, cancelled, late = states
    assert fine == ("COMPLETED", 0, 0)
    assert failed == ("FAILED", 3, 0)
    assert missing == ("FAILED", 127, 0)
    assert killed[0] == "FAILED" and 9 in (killed[1], killed[2], (killed[1] or 0) - 128)
    assert busy == ("COMPLETED", 0, 0)
    assert hungry[0] == "OUT_OF_MEMORY"
    assert cancelled[0] == "CANCELLED"
    assert late[0] == "TIMEOUT"
    assert [_explained(job) for job in ended] == [
        *("completed", "failed", "failed", "failed"),
        *("completed", "out_of_memory", "cancelled", "time_limit"),
    ]


def test_who_cancelled_is_told_by_number(ended: list[FinishedJob]) -> None:
    assert [job.cancelled_by for job in ended] == [None] * 6 + ["61001", None]


def test_a_hostile_name_survives_what_the_database_keeps(ended: list[FinishedJob]) -> None:
    # slurmdbd stores '"' as "`" and, in a latin1 database, other letters as "?"
    name = ended[0].name
    assert name.startswith("my job|x,y;'")
    assert "\nnext   UserId=root(0)" in name
    assert ended[0].comment == "a=b c|d, e"
    assert ended[0].work_dir == "/home/alice"
    assert ended[1].name == "end"


def test_times_and_sizes(ended: list[FinishedJob]) -> None:
    late = ended[7]
    assert late.submitted and late.started and late.ended and late.elapsed
    assert late.started + late.elapsed == late.ended
    assert late.time_limit == 60
    assert 60 <= late.elapsed < 200
    assert (late.cpus, late.memory_mb, late.node_count, late.nodes) == (1, 1024, 1, "cpu01")


def test_usage_is_measured(ended: list[FinishedJob]) -> None:
    busy = ended[4].usage
    assert busy and busy.cpu_seconds is not None and busy.max_memory_mb is not None
    assert 0.05 < busy.cpu_seconds < 60
    assert 0 < busy.max_memory_mb < 1024
    assert busy.gpu_utilization is None


def test_history_has_one_row_for_each_job() -> None:
    rows = accounting.read_finished(recording("sacct-history").stdout)
    assert len({job.id for job in rows}) == len(rows) > 15
    assert all(job.usage is None for job in rows)
    assert all(job.phase is Phase.ENDED for job in rows)
    never_ran = [job for job in rows if job.state == "CANCELLED" and job.started is None]
    assert len(never_ran) > 3
    assert {(job.nodes, job.elapsed) for job in never_ran} == {("", 0)}
    assert all(job.started is None for job in rows if not job.nodes)


def test_an_unknown_job_is_no_row() -> None:
    assert accounting.read_finished(recording("sacct-unknown").stdout) == []


def test_older_request_columns_and_gpu_usage() -> None:
    """ReqMem with "c" as before 21.08 (RELEASE_NOTES of SchedMD/slurm 21.08: "sacct: the
    ReqMem field no longer has a suffix"), and GPU usage as gathered since 21.08
    (`gres/gpuutil`, `gres/gpumem` in that release's src/common/slurm_accounting_storage.c)."""
    columns = {
        "JobID": "7", "JobIDRaw": "7", "User": "u", "State": "COMPLETED", "ExitCode": "0:0",
        "NNodes": "2", "NCPUS": "4", "ReqMem": "2Gc", "ElapsedRaw": "400",
    }  # fmt: skip
    step = {
        "JobID": "7.0", "State": "COMPLETED", "TotalCPU": "1-00:00:00", "MaxRSS": "1000K",
        "NTasks": "3", "TRESUsageInAve": "cpu=1,gres/gpumem=2G,gres/gpuutil=81",
        "TRESUsageInTot": "cpu=1,gres/gpumem=4G",
    }  # fmt: skip
    text = "".join(
        "".join(f"{row.get(field.ask, '')}{SEPARATOR}" for field in accounting.RECORDS.fields)
        + "\n"
        for row in (columns, step)
    )
    (job,) = accounting.read_finished(text)
    assert job.memory_mb == 4 * 2048
    assert job.usage and job.usage.cpu_seconds == 86400
    assert job.usage.max_memory_mb == pytest.approx(3000 / 1024)
    assert (job.usage.gpu_utilization, job.usage.gpu_memory_mb) == (81, 4096)
