"""Why a session's job is over, or its Jupyter while the job goes on; asked of the cluster."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from jupyter_hpc.connect.events import Ended
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.launch import STEP_NAME, ServerAddress
from jupyter_hpc.connect.job.remote import first
from jupyter_hpc.connect.sentences import memory_full, more_memory, stays
from jupyter_hpc.errors import CommandError, HpcError, JobNotFound, SlurmError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.allocate import read_salloc
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.endings import explain_state
from jupyter_hpc.slurm.models import FinishedJob, Job, JobDetail, Phase
from jupyter_hpc.slurm.states import phase_of
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: How long to wait for a job's final state; nodes that do not answer delay it.
_FINAL_STATE_SECONDS = 15.0

#: How long to wait until Slurm says of a cancelled job that it is over.
_CANCEL_SECONDS = 30.0

_POLL_SECONDS = 0.5

#: launch.sh writes its last word as soon as Jupyter is gone, unless it is gone as well.
_LAST_WORD_SECONDS = 2.0

#: The accounting hears of the end of a step a moment later.
_RECORD_LOOKS = 3
_RECORD_SECONDS = 1.0

#: The exit code of a shell's child that was killed.
_KILLED = "137"


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
    """Only the database knows who cancelled a job, jobs of some minutes ago, and how a job has
    ended whose node does not say that all of it is gone.
    """
    return detail is None or detail.state == "CANCELLED" or detail.phase is Phase.ENDING


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


async def went_with_salloc(runner: Runner, ended: Ended, log: str) -> bool:
    """Whether the job has ended because a signal ended its salloc, as that one's `log` says.

    Only the log knows: Slurm says of both that the job was cancelled, and by whose account.
    """
    if not log or not (ended.cause == "cancelled" or ended.state == "UNKNOWN"):
        return False
    said = read_salloc(await remote.read_file(runner, log))
    return said.interrupted and said.state == "failed"


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


# -- Jupyter ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ServerEnd:
    """What is known of it; `limit` in bytes, None where the node had no memory left."""

    out_of_memory: bool = False
    limit: int | None = None
    code: str = ""

    @property
    def cause(self) -> str:
        """The word for it in events.CAUSES."""
        return "out_of_memory" if self.out_of_memory else "failed"

    def text(self, job_id: str, name: str, *, restarting: bool) -> str:
        """It in words, with what becomes of the job and what helps."""
        then = "It is being started again in the same job." if restarting else stays(job_id, name)
        if self.out_of_memory:
            return (
                f"JupyterLab was ended, and its kernels with it: {memory_full(self.limit)} {then} "
                f"{more_memory(self.limit, name)}"
            )
        return f"Jupyter ended{f' with exit code {self.code}' if self.code else ''}. {then}"


async def how_server_ended(
    on_node: Runner, slurm: SlurmClient, address: ServerAddress, job: Job, known_kills: int
) -> ServerEnd:
    """Asks launch.sh, and where it has ended without a word, Slurm.

    `known_kills` is how much the system had ended for want of memory when Jupyter was last
    heard of: only what came after that can be the cause.
    """
    try:
        found, fields = await remote.await_file(
            on_node, address.session, ["ended"], _LAST_WORD_SECONDS
        )
        if not found:
            limit = (job.memory_mb or 0) // max(1, job.node_count or 1) * 2**20
            return ServerEnd(await _step_out_of_memory(slurm, job.job_id), limit or None)
    except HpcError as error:
        _log.info("how Jupyter ended could not be asked: %s", error.message)
        return ServerEnd()
    code, kills, most = (first(fields, name) for name in ("code", "killed", "limit"))
    counted = int(kills) if kills.isdecimal() else 0
    return ServerEnd(
        code == _KILLED and counted > known_kills, int(most) if most.isdecimal() else None, code
    )


async def _step_out_of_memory(slurm: SlurmClient, job_id: str) -> bool:
    """Whether Slurm says so of the newest step with a Jupyter in it."""
    for look in range(_RECORD_LOOKS):
        if look:
            await asyncio.sleep(_RECORD_SECONDS)
        ours = [step.state for step in await slurm.steps(job_id) if step.name == STEP_NAME]
        if ours and phase_of(ours[-1]) is Phase.ENDED:
            return ours[-1] == "OUT_OF_MEMORY"
    return False
