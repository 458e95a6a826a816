"""One small job that looks at a node: asked for, waited for, given back whatever happens.

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
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from jupyter_hpc.connect.job.endings import cancel_for_sure
from jupyter_hpc.connect.job.launch import StepRunner
from jupyter_hpc.connect.job.opening import node_names
from jupyter_hpc.connect.job.remote import first, read_fields, script_argv
from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
from jupyter_hpc.connect.ssh.runner import Marker, command_line, script_for
from jupyter_hpc.errors import HpcError, SlurmUnavailable, SubmitRejected
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.units import parse_walltime
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: What a slow environment may need, and no more: the job ends by itself after it.
_JOB_MINUTES = 10

#: How long a command waits for such a job unless it was told otherwise.
WAIT_SECONDS = 120.0

#: Between two looks at the queue: at first, and later.
_POLL_SECONDS = (0.5, 3.0)

#: How long the command on the login host may take to clean up.
_CLEAN_SECONDS = 20.0


class LoginHost(Protocol):
    """The login host, over a connection of our own or that of a session."""

    @property
    def runner(self) -> Runner: ...

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess: ...


@dataclass(frozen=True)
class Wanted:
    """What is asked for: the first of `requests` that the site takes.

    `why` goes on the sentence "Job 7 was asked for, …"; `wait_seconds` may be long, `patience`
    says what to do when they were not enough. Files of the job go to a folder below `state`.
    """

    requests: Sequence[Request]
    why: str
    patience: str
    wait_seconds: float = WAIT_SECONDS
    state: str = ""


@dataclass(frozen=True)
class ShortJob:
    """The job while it runs; `steps` runs commands on its node; it was `waited` seconds for.

    What is written for it goes to `folder`, which is removed with it.
    """

    job_id: str
    node: str
    folder: str
    steps: Runner
    waited: float


@dataclass(frozen=True)
class GivenBack:
    """What became of the job: `unheard` says why it is not known to be cancelled.

    `guarded`: the login host cancels it when our connection ends. `removed`: its files are, or
    None where there were none.
    """

    job_id: str
    unheard: str = ""
    guarded: bool = True
    removed: bool | None = True

    @property
    def text(self) -> str:
        if self.unheard:
            return f"Whether job {self.job_id} is cancelled could not be heard: {self.unheard}"
        if self.removed is None:
            return f"Job {self.job_id} is cancelled."
        if self.removed:
            return f"Job {self.job_id} is cancelled, and its files are removed."
        return (
            f"Job {self.job_id} is cancelled; files of it may be left in jobs/{self.job_id} below "
            "~/.local/state/jupyter-hpc on the cluster."
        )

    @property
    def advice(self) -> str:
        if not self.unheard:
            return ""
        # The guard hears of a closed connection at once, of a silent one when the host gives up.
        soon = "at once or " if self.guarded else ""
        return (
            f"It ends by itself, {soon}within {_JOB_MINUTES} min. To look: jupyter-hpc status --all"
        )

    @property
    def sentence(self) -> str:
        return f"{self.text} {self.advice}".strip()


class JobNeverRan(HpcError):
    """The job was not taken, did not start in time, or ended at once."""


def small_requests(request: Request, shortest: str | None = None) -> tuple[Request, ...]:
    """One task and nothing else; then, for sites that take no such job, with the GPUs as asked.

    `shortest` is the least time that the site takes.
    """
    least = (parse_walltime(shortest) if shortest else None) or 0
    minutes = max(_JOB_MINUTES, (least + 59) // 60)
    whole = replace(request, time=str(minutes), nodes=1, tasks=1, tasks_per_node=None)
    small = replace(whole, gpus=None, gpu_type=None, cpus=None, memory=None)
    return (small,) if small == whole else (small, whole)


@contextlib.asynccontextmanager
async def short_job(
    host: LoginHost,
    wanted: Wanted,
    tell: Callable[[str], None],
    ended: Callable[[GivenBack], None],
) -> AsyncIterator[ShortJob]:
    """A running job of one task. Raises JobNeverRan; `ended` hears what became of the job."""
    runner = host.runner
    slurm = SlurmClient(runner)
    mark = f"jupyter-hpc {secrets.token_hex(8)}"
    guard: _Guard | None = None
    job_id = ""
    try:
        job_id = await _asked_for(slurm, wanted, mark)
        folder = f"{wanted.state}/jobs/{job_id}" if wanted.state else ""
        limit = parse_walltime(wanted.requests[0].time or "") or 0
        tell(
            f"Job {job_id} was asked for, {wanted.why}: one task, {duration(limit)} at most. "
            "It is given back at the end."
        )
        guard = await _Guard.start(host, job_id, folder)
        began = time.monotonic()
        job = await _running(slurm, job_id, wanted, tell)
        waited = time.monotonic() - began
        node = node_names(job)[0]
        yield ShortJob(job_id, node, folder, StepRunner(runner, job_id, node), waited)
    finally:
        job_id = job_id or await _find(slurm, wanted, mark)
        if job_id:
            ended(await _give_back(slurm, job_id, guard, has_files=bool(wanted.state)))


async def _asked_for(slurm: SlurmClient, wanted: Wanted, mark: str) -> str:
    """The number of the job, also where the answer was lost. Raises JobNeverRan."""
    *others, last = (replace(request, comment=mark) for request in wanted.requests)
    try:
        for request in others:
            with contextlib.suppress(SubmitRejected):
                return (await slurm.keep_alive(request)).job_id
        return (await slurm.keep_alive(last)).job_id
    except (SlurmUnavailable, SubmitRejected) as error:
        job_id = await _find(slurm, wanted, mark)
        if not job_id:
            raise JobNeverRan(error.message, error.hint) from error
        return job_id


async def _find(slurm: SlurmClient, wanted: Wanted, mark: str) -> str:
    """The number of a job whose answer was lost; "" where there is none, or nobody answers."""
    with contextlib.suppress(HpcError):
        jobs = await slurm.my_jobs(name=wanted.requests[0].name)
        return next((job.job_id for job in jobs if job.comment.endswith(mark)), "")
    return ""


async def _running(
    slurm: SlurmClient, job_id: str, wanted: Wanted, tell: Callable[[str], None]
) -> Job:
    """The job as soon as it runs; what it waits for is told whenever that changes."""
    began = time.monotonic()
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
        reason = explain_reason(job.reason) if job.reason else None
        if reason is not None and reason.never:
            raise JobNeverRan(f"Job {job_id} can never start: {reason.text}", reason.advice)
        if reason is not None and reason.text != why:
            most = "" if why else f" It is waited for {duration(wanted.wait_seconds)} at most."
            why = reason.text
            tell(f"Job {job_id} waits: {why}{_expected(job)}{most}")
        if time.monotonic() - began > wanted.wait_seconds:
            raise JobNeverRan(
                f"Job {job_id} did not start within {duration(wanted.wait_seconds)}. {why}".strip(),
                wanted.patience,
            )
        await asyncio.sleep(pause)
        pause = min(longest, pause * 1.3)


def _expected(job: Job) -> str:
    left = job.estimated_start - time.time() if job.estimated_start else 0
    return f" Slurm expects it to start in {duration(left)}." if left > 0 else ""


async def _give_back(
    slurm: SlurmClient, job_id: str, guard: _Guard | None, *, has_files: bool
) -> GivenBack:
    try:
        await cancel_for_sure(slurm, job_id)
    except HpcError as error:
        _log.info("job %s: %s", job_id, error.message)
        if guard is not None:
            guard.close()
        return GivenBack(job_id, unheard=error.message, guarded=guard is not None, removed=False)
    removed = await guard.clean() if guard is not None else False
    return GivenBack(job_id, guarded=guard is not None, removed=removed if has_files else None)


class _Guard:
    """The command on the login host that cleans up once our connection to it ends."""

    def __init__(self, process: RemoteProcess, marker: Marker) -> None:
        self._process = process
        self._marker = marker
        self._said = bytearray()
        process.set_receiver(self._said.extend, lambda error: None)

    @classmethod
    async def start(cls, host: LoginHost, job_id: str, folder: str) -> _Guard | None:
        """None where it cannot be started; the time limit of the job is left then."""
        marker = Marker(secrets.token_hex(8))
        line = command_line(script_for(script_argv("give_back.sh", job_id, folder), marker))
        try:
            return cls(await host.start(line), marker)
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
