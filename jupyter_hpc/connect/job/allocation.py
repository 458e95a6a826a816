"""The job behind a session: adopted if it exists, asked for if not, waited for.

The job carries a deterministic name, so any connect from any machine finds it. The
allocation is made by a detached salloc on the login host: closing the laptop loses
neither a pending place in the queue nor a granted node.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.clusters import Allocation, Profile
from jupyter_hpc.connect.events import Pending, Sink, Warned
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.endings import why_ended
from jupyter_hpc.connect.job.remote import Account
from jupyter_hpc.errors import (
    CommandError,
    CommandTimeout,
    HpcError,
    SessionEnded,
    SlurmError,
    SlurmUnavailable,
    SubmitRejected,
    UnreadableAnswer,
)
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm import allocate, hostlist
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase, Request
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")

#: Phases in which a job of ours is worth adopting.
_ALIVE = (Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.SUSPENDED)

#: How long one look at salloc's log waits on the login host for something new.
_WATCH_SECONDS = 20.0


def session_name(profile_name: str, number: int = 1) -> str:
    """The job name of a session; `--new` counts on from 2."""
    return f"jupyter-hpc-{profile_name}" + (f"-{number}" if number > 1 else "")


def request_for(profile: Profile, allocation: Allocation, name: str) -> Request:
    """The allocation of a profile as a request to Slurm."""
    return Request(
        name=name,
        partition=allocation.partition,
        account=allocation.account,
        qos=allocation.qos,
        constraint=allocation.constraint,
        time=allocation.time,
        nodes=allocation.nodes,
        cpus=allocation.cpus,
        memory=allocation.memory,
        gpus=allocation.gpus,
        gpu_type=allocation.gpu_type,
        gpu_flag=profile.slurm.gpu_flag,
        extra=allocation.extra,
    )


def first_node(job: Job) -> str:
    """The node on which Jupyter runs: the first of the job's list.

    It becomes a word of commands on this computer, so it has to look like a host's name.
    """
    node = hostlist.expand(job.nodes)[0]
    if not _HOST_NAME.fullmatch(node):
        raise UnreadableAnswer(
            f"Slurm says that job {job.job_id} runs on {printable(node, 80)!r}, which is no name "
            "of a host.",
            "Look at it on the cluster: scontrol show job.",
        )
    return node


@dataclass(frozen=True)
class Asked:
    """A job that was just asked for; `log` is salloc's, "" for sbatch.

    `job` is what Slurm said about it, if it was asked already.
    """

    job_id: str
    log: str
    job: Job | None = None

    @property
    def running(self) -> Job | None:
        """The job, if it is known to run on known nodes."""
        runs = self.job is not None and self.job.phase is Phase.RUNNING and self.job.nodes
        return self.job if runs else None


class Launch:
    """How the job is made: as somebody said, or as was learnt about the cluster.

    `remember` keeps what is learnt for later sessions.
    """

    def __init__(
        self, asked: str | None, learnt: str, default: str, remember: Callable[[str, str], None]
    ) -> None:
        self.how = asked or learnt or default
        self.may_change = asked is None
        self.undecided = asked is None and not learnt and default == "salloc"
        self._remember = remember

    def learn(self, how: str, reason: str) -> None:
        self.how, self.undecided = how, False
        _log.info("learnt: jobs are made with %s, because: %s", how, reason)
        self._remember(how, reason)


async def find_job(slurm: SlurmClient, name: str) -> Job | None:
    """The living job of that name: a running one before a waiting one, the oldest first."""
    jobs = [job for job in await slurm.my_jobs(name=name) if job.phase in _ALIVE]
    jobs.sort(key=lambda job: (job.phase is Phase.PENDING, int(job.job_id or 0)))
    return jobs[0] if jobs else None


class Allocator:
    """Finds, makes and waits for the job of one session."""

    def __init__(
        self,
        profile: Profile,
        account: Account,
        login: Runner,
        slurm: SlurmClient,
        launch: Launch,
        sink: Sink,
    ) -> None:
        self._profile = profile
        self._account = account
        self._login = login
        self._slurm = slurm
        self._launch = launch
        self._sink = sink

    async def find(self, name: str) -> Job | None:
        """The session's job, if there is one."""
        return await find_job(self._slurm, name)

    async def free_number(self, number: int) -> int:
        """The first session of this profile, from `number` on, that no living job has."""
        jobs = await self._slurm.my_jobs()
        taken = {job.name for job in jobs if job.phase in _ALIVE}
        while session_name(self._profile.name, number) in taken:
            number += 1
        return number

    async def ask(self, request: Request) -> Asked:
        """Ask for a job and return as soon as it has an id, granted or not.

        When two laptops ask at the same moment, the older job stays and the other
        laptop adopts it.
        """
        if self._launch.undecided:
            await self._decide()
        asked = await (
            self._sbatch(request) if self._launch.how == "sbatch" else self._salloc(request)
        )
        found, log = await asyncio.gather(self.find(request.name), self._keep_log(asked))
        if found is not None and int(found.job_id) < int(asked.job_id):
            await self._slurm.cancel([asked.job_id])
            _log.info("job %s is cancelled, %s is older", asked.job_id, found.job_id)
            self._sink(Warned(f"Job {found.job_id} was asked for at the same moment; using it."))
            return self.adopted(found)
        _log.info("job %s asked for with %s", asked.job_id, self._launch.how)
        own = found if found is not None and found.job_id == asked.job_id else None
        return Asked(asked.job_id, log, own)

    def adopted(self, job: Job) -> Asked:
        """A job that another connect asked for; its salloc writes where ours would."""
        _log.info("job %s adopted, it is %s", job.job_id, job.phase.name)
        return Asked(job.job_id, f"{self._account.job_folder(job.job_id)}/salloc.log", job)

    async def _keep_log(self, asked: Asked) -> str:
        if not asked.log or not self._account.writable:
            return asked.log
        folder = self._account.job_folder(asked.job_id)
        return await remote.keep_log(self._login, asked.log, folder)

    async def _decide(self) -> None:
        """Once per cluster: whether an allocation without a shell can live here."""
        try:
            limit = await self._slurm.inactive_limit()
        except (SlurmError, CommandError) as error:
            _log.info("InactiveLimit is not known, salloc is tried: %s", error.message)
            return  # not told: salloc is tried, and the question stays open
        if limit:
            self.use_sbatch(
                f"This site ends an allocation without a shell after {limit} s (InactiveLimit)"
            )
        else:
            self._launch.learn("salloc", "allocations without a shell can live here")

    def use_sbatch(self, reason: str) -> None:
        """From now on, here and in later sessions, the job is made by sbatch."""
        self._launch.learn("sbatch", reason)
        self._sink(Warned(f"{reason}; the session is started with sbatch instead of salloc."))

    async def _salloc(self, request: Request) -> Asked:
        folder = self._account.state if self._account.writable else "/tmp"  # noqa: S108
        log = f"{folder}/.salloc-{secrets.token_hex(16)}.log"
        argv = allocate.salloc_argv(request)
        text = await remote.start_and_watch(self._login, log, argv, 5.0)
        deadline = time.monotonic() + 120
        while True:
            progress = allocate.read_salloc(text)
            if progress.job_id is not None:
                return Asked(progress.job_id, log)
            if progress.error or remote.EXITED in text:
                return await self._refused(request, progress.error or text)
            if time.monotonic() > deadline:
                raise SlurmUnavailable(
                    f"salloc has not said a word on {self._account.host} for two minutes.",
                    "The controller may be down or limiting requests; try again later.",
                )
            text = await remote.watch_file(self._login, log, len(text.encode()), 10.0)

    async def _refused(self, request: Request, said: str) -> Asked:
        """salloc said no; a site may say no to every salloc, and yes to sbatch."""
        error = await self._slurm.explain_rejection(request, said)
        _log.info("salloc was refused: %s", error.message)
        if not isinstance(error, SubmitRejected) or not self._launch.may_change:
            raise error
        try:
            await self._slurm.test_only(request, allocate.keep_alive_script())
        except HpcError:
            raise error from None
        self.use_sbatch("This site refuses allocations without a batch script")
        return await self._sbatch(request)

    async def _sbatch(self, request: Request) -> Asked:
        return Asked((await self._slurm.keep_alive(request)).job_id, "")

    async def wait(self, asked: Asked) -> Job:
        """The job once it runs; says why it waits, for as long as it takes.

        salloc's log on the login host tells at once when the job starts, without a
        question to the controller; squeue is asked for reasons at the site's pace.
        """
        told: Pending | None = None
        unavailable = False
        next_look = 0.0
        log_size = 0
        while True:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + self._profile.slurm.poll_seconds
                try:
                    job = await self._slurm.job(asked.job_id)
                    unavailable = False
                    if job is None or job.phase in (Phase.ENDING, Phase.ENDED):
                        raise await self.ended(asked.job_id)
                except (SlurmUnavailable, CommandTimeout) as error:
                    if not unavailable:
                        self._sink(Warned(f"{error.message} Still waiting for the job."))
                    unavailable, next_look = True, now + 10
                    job = None
                if job is not None:
                    if job.phase is Phase.RUNNING and job.nodes:
                        _log.info("job %s granted: %s", job.job_id, job.nodes)
                        return job
                    told = self._tell(job, told)
            if asked.log:
                text = await remote.watch_file(self._login, asked.log, log_size, _WATCH_SECONDS)
                if len(text.encode()) > log_size:
                    log_size = len(text.encode())
                    if allocate.read_salloc(text).state != "pending":
                        next_look = 0.0
            else:
                await self._pause(next_look)

    def _tell(self, job: Job, told: Pending | None) -> Pending:
        reason = printable(job.reason)
        estimate = float(job.estimated_start) if job.estimated_start else None
        event = Pending(job.job_id, reason, explain_reason(job.reason).text, estimate)
        if event != told:
            self._sink(event)
        return event

    async def _pause(self, next_look: float) -> None:
        await asyncio.sleep(max(1.0, min(next_look - time.monotonic(), 15.0)))

    async def ended(self, job_id: str) -> SessionEnded:
        """Why a job is gone, as an error."""
        ending = await why_ended(self._slurm, self._login, job_id, self._account.uid)
        return SessionEnded(ending.text, "Connect again to ask for a new one.")
