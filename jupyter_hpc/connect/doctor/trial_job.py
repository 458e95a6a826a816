"""The one small job of a check-up: asked for, waited for, and given back whatever happens.

Three things end it: this program, at its end and on every way out; a command on the login host
that waits for the end of our connection to it, for when this program was killed or the line cut;
and the job's own short time limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.doctor.checks import Report
from jupyter_hpc.connect.doctor.request import Asked
from jupyter_hpc.connect.job.endings import cancel_for_sure
from jupyter_hpc.connect.job.opening import node_names
from jupyter_hpc.connect.job.remote import first, read_fields, script_argv
from jupyter_hpc.connect.ssh.interfaces import LoginConnection, RemoteProcess
from jupyter_hpc.connect.ssh.runner import Marker, command_line, script_for
from jupyter_hpc.errors import HpcError, SlurmUnavailable, SubmitRejected
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.units import parse_walltime
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: What a slow environment may need, and no more: the job ends by itself after it.
_JOB_MINUTES = 10

#: Between two looks at the queue: at first, and later.
_POLL_SECONDS = (0.5, 3.0)

#: How long the command on the login host may take to clean up.
_CLEAN_SECONDS = 20.0


@dataclass(frozen=True)
class TrialJob:
    """The job while it runs; what is written for it goes to `folder`."""

    job: Job
    node: str
    folder: str


class JobNeverRan(HpcError):
    """The job was not taken, did not start in time, or ended at once."""


@contextlib.asynccontextmanager
async def trial_job(
    login: LoginConnection,
    asked: Asked,
    state: str,
    report: Report,
    tell: Callable[[str], None],
    wait_seconds: float,
) -> AsyncIterator[TrialJob]:
    """A running job of one task; its folder is below `state`. Raises JobNeverRan."""
    slurm = SlurmClient(login.runner)
    mark = f"jupyter-hpc {secrets.token_hex(8)}"
    name = asked.request.name
    guard: _Guard | None = None
    job_id = ""
    try:
        try:
            job_id = await _submit(slurm, asked, mark)
        except (SlurmUnavailable, SubmitRejected) as error:
            job_id = await _find(slurm, name, mark)
            if not job_id:
                raise JobNeverRan(error.message, error.hint) from error
        folder = f"{state}/jobs/{job_id}"
        tell(
            f"Job {job_id} was asked for, to look at a node: one task, "
            f"{duration(_minutes(asked.profile) * 60)} at most. It is given back at the end."
        )
        guard = await _Guard.start(login, job_id, folder)
        began = time.monotonic()
        job = await _running(slurm, job_id, began + wait_seconds, wait_seconds, tell)
        node = node_names(job)[0]
        waited = duration(time.monotonic() - began)
        report.ok("job", f"Job {job_id} runs on {node}, after {waited} in the queue.")
        yield TrialJob(job, node, folder)
    finally:
        await _give_back(slurm, name, mark, job_id, guard, report)


async def _submit(slurm: SlurmClient, asked: Asked, mark: str) -> str:
    """One task and nothing else; where the site takes no such job, with the profile's GPUs."""
    whole = replace(
        asked.request, time=str(_minutes(asked.profile)), nodes=1, tasks=1, comment=mark
    )
    small = replace(whole, gpus=None, gpu_type=None, cpus=None, memory=None)
    try:
        return (await slurm.keep_alive(small)).job_id
    except SubmitRejected:
        return (await slurm.keep_alive(whole)).job_id


def _minutes(profile: Profile) -> int:
    shortest = parse_walltime(profile.limits.min_time) if profile.limits.min_time else 0
    return max(_JOB_MINUTES, ((shortest or 0) + 59) // 60)


async def _find(slurm: SlurmClient, name: str, mark: str) -> str:
    """The number of a job whose answer was lost."""
    with contextlib.suppress(HpcError):
        jobs = await slurm.my_jobs(name=name)
        return next((job.job_id for job in jobs if job.comment.endswith(mark)), "")
    return ""


async def _running(
    slurm: SlurmClient,
    job_id: str,
    deadline: float,
    wait_seconds: float,
    tell: Callable[[str], None],
) -> Job:
    pause, longest = _POLL_SECONDS
    why = ""
    while True:
        job = await slurm.job(job_id)
        if job is not None and job.phase is Phase.RUNNING and job.nodes:
            return job
        if job is None or job.phase in (Phase.ENDING, Phase.ENDED):
            state = f" as {job.state}" if job is not None else ""
            raise JobNeverRan(
                f"Job {job_id} ended{state} before its node could be looked at.",
                "Try it by hand on the cluster: srun --ntasks=1 --time=5 hostname",
            )
        reason = explain_reason(job.reason).text if job.reason else ""
        if reason and reason != why:
            why = reason
            tell(f"Job {job_id} waits: {reason}")
        if time.monotonic() > deadline:
            raise JobNeverRan(
                f"Job {job_id} did not start within {duration(wait_seconds)}. {why}".strip(),
                "The queue is no fault: wait longer (--wait 1h), or look without a job (--no-job).",
            )
        await asyncio.sleep(pause)
        pause = min(longest, pause * 1.3)


async def _give_back(
    slurm: SlurmClient, name: str, mark: str, job_id: str, guard: _Guard | None, report: Report
) -> None:
    job_id = job_id or await _find(slurm, name, mark)
    if not job_id:
        return
    try:
        await cancel_for_sure(slurm, job_id)
    except HpcError as error:
        _log.info("job %s: %s", job_id, error.message)
        # The guard hears of a closed connection at once, of a silent one when the host gives up.
        soon = "" if guard is None else "at once or "
        report.failed(
            "given-back",
            f"Whether job {job_id} is cancelled could not be heard: {error.message}",
            f"It ends by itself, {soon}within {_JOB_MINUTES} min. To look: jupyter-hpc status "
            "--all",
        )
        if guard is not None:
            guard.close()
        return
    removed = await guard.clean() if guard is not None else False
    if removed:
        report.ok("given-back", f"Job {job_id} is cancelled, and its files are removed.")
    else:
        report.note(
            "given-back",
            f"Job {job_id} is cancelled; files of it may be left in jobs/{job_id} below "
            "~/.local/state/jupyter-hpc on the cluster.",
        )


class _Guard:
    """The command on the login host that cleans up once our connection to it ends."""

    def __init__(self, process: RemoteProcess, marker: Marker) -> None:
        self._process = process
        self._marker = marker
        self._said = bytearray()
        process.set_receiver(self._said.extend, lambda error: None)

    @classmethod
    async def start(cls, login: LoginConnection, job_id: str, folder: str) -> _Guard | None:
        """None where it cannot be started; the time limit of the job is left then."""
        marker = Marker(secrets.token_hex(8))
        line = command_line(script_for(script_argv("give_back.sh", job_id, folder), marker))
        try:
            return cls(await login.start(line), marker)
        except HpcError as error:
            _log.info("no guard for job %s: %s", job_id, error.message)
            return None

    async def clean(self) -> bool:
        """Have the files removed; whether it says that they are."""
        self._process.write_eof()
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await within(self._process.wait_ended(), _CLEAN_SECONDS)
        text = self._marker.after_last(bytes(self._said)).decode("utf-8", "replace")
        self._process.close()
        return first(read_fields(text), "removed") == "yes"

    def close(self) -> None:
        """Let it do its work without us."""
        self._process.write_eof()
