"""Why a session's job is over, asked of the cluster."""

from __future__ import annotations

import asyncio

from jupyter_hpc.connect.events import Ended
from jupyter_hpc.errors import CommandError, HpcError, JobNotFound, SlurmError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.endings import explain_state
from jupyter_hpc.slurm.models import FinishedJob, JobDetail, Phase
from jupyter_hpc.text import printable

#: How long to wait for a job's final state; nodes that do not answer delay it.
_FINAL_STATE_SECONDS = 15.0

#: How long to wait until Slurm says of a cancelled job that it is over.
_CANCEL_SECONDS = 30.0

_POLL_SECONDS = 0.5


async def why_ended(slurm: SlurmClient, runner: Runner, job_id: str, uid: str) -> Ended:
    """The end of a job with its cause; says so honestly when nobody knows any more.

    The controller forgets a job some minutes after its end, and the accounting
    database may be late or not kept at all, so both are asked.
    """
    detail = await _final_detail(slurm, job_id)
    record = await _record(slurm, job_id) if _record_helps(detail) else None
    source = record if record is not None and record.phase is Phase.ENDED else detail or record
    if source is None:
        return Ended("UNKNOWN", "failed", f"Job {job_id} is gone, and Slurm has no record of why.")
    by = await _canceller(runner, record, uid)
    ending = explain_state(
        source.state,
        exit_code=source.exit_code,
        signal=source.signal,
        reason=source.reason,
        cancelled_by=by,
    )
    # A session's job has no program of its own: completing means that it was let go.
    cause = "cancelled" if ending.cause == "completed" else ending.cause
    return Ended(printable(source.state, 60), cause, f"{ending.text} {ending.advice}".strip())


async def _final_detail(slurm: SlurmClient, job_id: str) -> JobDetail | None:
    """The controller's last word; a job that is just being ended has not got one yet."""
    for _ in range(round(_FINAL_STATE_SECONDS / _POLL_SECONDS)):
        detail = await _detail(slurm, job_id)
        if detail is None or detail.phase is Phase.ENDED:
            return detail
        await asyncio.sleep(_POLL_SECONDS)
    return detail


async def _detail(slurm: SlurmClient, job_id: str) -> JobDetail | None:
    try:
        return await slurm.job_detail(job_id)
    except JobNotFound:
        return None


def _record_helps(detail: JobDetail | None) -> bool:
    """Only the database knows who cancelled a job, and jobs of some minutes ago."""
    return detail is None or detail.state == "CANCELLED"


async def _record(slurm: SlurmClient, job_id: str) -> FinishedJob | None:
    try:
        records = await slurm.finished([job_id])
    except HpcError:
        return None  # no accounting here, or it does not answer: the controller's word stands
    return next((record for record in records if record.job_id == job_id), None)


async def _canceller(runner: Runner, record: FinishedJob | None, uid: str) -> str | None:
    """Who cancelled the job, as a name: "you", or another user's."""
    if record is None or not record.cancelled_by:
        return None
    if record.cancelled_by == uid:
        return "you"
    try:
        named = await runner.run(["id", "-un", "--", record.cancelled_by])
    except CommandError:
        return f"user {record.cancelled_by}"
    return named.stdout.strip() if named.ok else f"user {record.cancelled_by}"


async def is_over(slurm: SlurmClient, job_id: str) -> bool:
    """Whether Slurm says that the job has ended, or does not know it any more."""
    job = await slurm.job(job_id)
    return job is None or job.phase in (Phase.ENDING, Phase.ENDED)


async def cancel_for_sure(slurm: SlurmClient, job_id: str) -> None:
    """Cancel a job and wait until Slurm itself says that it is over; half a minute at most."""
    await slurm.cancel([job_id])
    for _ in range(round(_CANCEL_SECONDS / _POLL_SECONDS)):
        if await is_over(slurm, job_id):
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise SlurmError(
        f"Job {job_id} was cancelled, but Slurm still lists it.",
        f"Look at it with: squeue -j {job_id}",
    )
