"""The job behind a session: adopted if it exists, asked for if not, waited for.

The job carries a deterministic name, so any connect from any machine finds it. The
allocation is made by a detached salloc on the login host: closing the laptop loses
neither a pending place in the queue nor a granted node.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Ended, Pending, Sink, Warned
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.endings import why_ended
from jupyter_hpc.connect.job.remote import EXIT_LINE, Account
from jupyter_hpc.connect.job.request import OwnJobs, session_name
from jupyter_hpc.errors import (
    CommandError,
    CommandTimeout,
    HpcError,
    SessionEnded,
    SlurmError,
    SlurmUnavailable,
    SubmitRejected,
)
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm import allocate
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase, Request
from jupyter_hpc.slurm.reasons import explain_reason
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import together

_log = logging.getLogger(__name__)

#: The next step when a job is over.
CONNECT_AGAIN = "Connect again to ask for a new one."

#: Phases in which a job of ours is worth adopting.
_ALIVE = (Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.SUSPENDED)

#: How long one look at salloc's log waits on the login host for something new.
_WATCH_SECONDS = 20.0

#: A reason for which a job can never start counts once it has stood there for so long.
_SURE_SECONDS = 5.0

#: salloc says at once that it waits; one that says nothing has no controller to talk to.
_SALLOC_SILENCE_SECONDS = 120.0


@dataclass(frozen=True)
class RequestedJob:
    """A job that is in the queue, granted or not; `log` is salloc's, "" for sbatch.

    `job` is what squeue said about it, if that was asked already. `found`: somebody else, or an
    earlier connect, has asked for it.
    """

    job_id: str
    log: str
    job: Job | None = None
    found: bool = False

    @property
    def running(self) -> Job | None:
        """The job, if it is known to run on known nodes."""
        runs = self.job is not None and self.job.phase is Phase.RUNNING and self.job.nodes
        return self.job if runs else None


@dataclass
class Launch:
    """Which command makes the job, salloc or sbatch: as somebody said, or as was learnt.

    Some sites end an allocation without a shell, or refuse it; what is learnt about a
    cluster is kept for later sessions by `remember(launch=…, launch_reason=…)`.
    """

    asked: str | None
    learnt: str
    default: str
    remember: Callable[..., object]

    @property
    def method(self) -> str:
        return self.asked or self.learnt or self.default

    @property
    def may_change(self) -> bool:
        """Whether nobody has said which it has to be."""
        return self.asked is None

    @property
    def undecided(self) -> bool:
        """Whether it is only supposed that allocations without a shell can live here."""
        return self.may_change and not self.learnt and self.default == "salloc"

    def learn(self, method: str, reason: str) -> None:
        self.learnt = method
        _log.info("learnt: jobs are made with %s, because: %s", method, reason)
        self.remember(launch=method, launch_reason=reason)


async def find_job(slurm: SlurmClient, name: str) -> Job | None:
    """The living job of that name: a running one before a waiting one, the oldest first."""
    return (await find_jobs(slurm, name))[0]


async def find_jobs(slurm: SlurmClient, *names: str) -> list[Job | None]:
    """The same for several names, in one question."""
    jobs = await living_jobs(slurm, *names)
    jobs.sort(key=lambda job: (job.phase is Phase.PENDING, _age_order(job)))
    return [next((job for job in jobs if job.name == name), None) for name in names]


async def living_jobs(slurm: SlurmClient, *names: str) -> list[Job]:
    """The jobs of these names that wait or run."""
    return [job for job in await slurm.my_jobs(name=names) if job.phase in _ALIVE]


def _age_order(job: Job) -> int:
    """Slurm numbers jobs in the order in which they are asked for."""
    return int(job.job_id or 0)


def _never_starts(job: Job) -> SubmitRejected:
    """Waiting makes no sense: nobody but who asked for the job can change what keeps it."""
    why = explain_reason(job.reason)
    return SubmitRejected(
        f"Job {job.job_id} can never start: {why.text} (Slurm says {printable(job.reason, 60)}.)",
        "Ask for something else; `connect --dry-run` shows the limits.",
    )


class Allocator:
    """Finds the job of one session, asks for it where there is none, and waits for it.

    Its job has a name that every machine knows, so it is never asked for twice. `asked` knows
    the jobs that were asked for here, their numbers as soon as they are known.
    """

    def __init__(
        self,
        profile: Profile,
        account: Account,
        login: Runner,
        slurm: SlurmClient,
        launch: Launch,
        sink: Sink,
        asked: OwnJobs,
    ) -> None:
        self._profile = profile
        self._asked = asked
        self._account = account
        self._login = login
        self._slurm = slurm
        self._launch = launch
        self._sink = sink

    async def free_number(self, number: int) -> int:
        """The first session of this profile, from `number` on, that no living job has."""
        jobs = await self._slurm.my_jobs()
        taken = {job.name for job in jobs if job.phase in _ALIVE}
        while session_name(self._profile.name, number) in taken:
            number += 1
        return number

    async def submit(self, request: Request) -> RequestedJob:
        """Ask for a job and return as soon as it has an id, granted or not.

        When two laptops ask at the same moment, the older job stays and the other
        laptop adopts it.
        """
        if self._launch.undecided:
            await self._decide()
        request = replace(request, comment=self._asked.mark)
        requested = await (
            self._sbatch(request) if self._launch.method == "sbatch" else self._salloc(request)
        )
        oldest, log = await together(self._oldest(request.name), self._keep_log(requested))
        if oldest is not None and _age_order(oldest) < int(requested.job_id):
            await self._slurm.cancel([requested.job_id])
            _log.info("job %s is cancelled, %s is older", requested.job_id, oldest.job_id)
            self._sink(Warned(f"Job {oldest.job_id} was asked for at the same moment; using it."))
            return self.adopted(oldest)
        _log.info("job %s asked for with %s", requested.job_id, self._launch.method)
        own = oldest if oldest is not None and oldest.job_id == requested.job_id else None
        return RequestedJob(requested.job_id, log, own)

    async def _oldest(self, name: str) -> Job | None:
        """The oldest job of that name: in whatever state they are, all laptops choose it."""
        try:
            return min(await living_jobs(self._slurm, name), key=_age_order, default=None)
        except (SlurmUnavailable, CommandTimeout):
            return None  # our own job is in the queue; whoever asks next finds it there

    def adopted(self, job: Job) -> RequestedJob:
        """A job that exists, mostly another connect's; its salloc writes where ours would."""
        found = not self._asked.recognise(job)
        whose = "adopted" if found else "ours"
        _log.info("job %s is %s, and %s", job.job_id, whose, job.phase.name)
        log = f"{self._account.job_folder(job.job_id)}/salloc.log"
        return RequestedJob(job.job_id, log, job, found)

    async def _keep_log(self, requested: RequestedJob) -> str:
        if not requested.log or not self._account.writable:
            return requested.log
        folder = self._account.job_folder(requested.job_id)
        return await remote.keep_log(self._login, requested.log, folder)

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

    async def _salloc(self, request: Request) -> RequestedJob:
        folder = self._account.state if self._account.writable else "/tmp"  # noqa: S108
        log = f"{folder}/.salloc-{secrets.token_hex(16)}.log"
        argv = allocate.salloc_argv(request)
        text = await remote.start_and_watch(self._login, log, argv, 5.0)
        deadline = time.monotonic() + _SALLOC_SILENCE_SECONDS
        while True:
            progress = allocate.read_salloc(text)
            if progress.job_id is not None:
                self._asked.add(progress.job_id)
                return RequestedJob(progress.job_id, log)
            if progress.error or EXIT_LINE in text:
                return await self._refused(request, progress.error or text)
            if time.monotonic() > deadline:
                raise SlurmUnavailable(
                    f"salloc has not said a word on {self._account.host} for "
                    f"{_SALLOC_SILENCE_SECONDS:g} s.",
                    "The controller may be down or limiting requests; try again later. If it gets "
                    "a job after all, the next connect finds and uses it.",
                )
            text = await remote.watch_file(self._login, log, len(text.encode()), 10.0)

    async def _refused(self, request: Request, said: str) -> RequestedJob:
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

    async def _sbatch(self, request: Request) -> RequestedJob:
        job_id = (await self._slurm.keep_alive(request)).job_id
        self._asked.add(job_id)
        return RequestedJob(job_id, "")

    async def wait(self, requested: RequestedJob) -> Job:
        """The job once it runs; says why it waits, for as long as it takes.

        salloc's log on the login host tells at once when the job starts, without a
        question to the controller; squeue is asked for reasons at the site's pace.
        """
        shown: Pending | None = None
        unavailable = False
        next_poll = 0.0
        log_size = 0
        doomed = ""  # the reason for which it can never start, as seen before
        while True:
            now = time.monotonic()
            if now >= next_poll:
                next_poll = now + self._profile.slurm.poll_seconds
                try:
                    job = await self._slurm.job(requested.job_id)
                    unavailable = False
                    if job is None or job.phase in (Phase.ENDING, Phase.ENDED):
                        ended = await self.why_ended(requested.job_id)
                        raise SessionEnded(ended.text, CONNECT_AGAIN)
                except (SlurmUnavailable, CommandTimeout) as error:
                    if not unavailable:
                        self._sink(Warned(f"{error.message} Still waiting for the job."))
                    unavailable, next_poll = True, now + 10
                    job = None
                if job is not None:
                    if job.phase is Phase.RUNNING and job.nodes:
                        _log.info("job %s granted: %s", job.job_id, job.nodes)
                        return job
                    shown = self._show(job, shown)
                    never = explain_reason(job.reason).never
                    if never and doomed == job.reason:
                        raise _never_starts(job)
                    doomed = job.reason if never else ""
                    if never:
                        next_poll = now + _SURE_SECONDS
            if requested.log:
                limit = _SURE_SECONDS if doomed else _WATCH_SECONDS
                text = await remote.watch_file(self._login, requested.log, log_size, limit)
                if len(text.encode()) > log_size:
                    log_size = len(text.encode())
                    if allocate.read_salloc(text).state != "pending":
                        next_poll = 0.0
            else:
                await self._pause(next_poll)

    def _show(self, job: Job, shown: Pending | None) -> Pending:
        reason = printable(job.reason)
        estimate = float(job.estimated_start) if job.estimated_start else None
        why = explain_reason(job.reason)
        event = Pending(job.job_id, reason, why.text, estimate, why.advice, why.stuck)
        if event != shown:
            self._sink(event)
        return event

    async def _pause(self, next_poll: float) -> None:
        await asyncio.sleep(max(1.0, min(next_poll - time.monotonic(), 15.0)))

    async def why_ended(self, job_id: str) -> Ended:
        """Why a job is gone."""
        return await why_ended(self._slurm, self._login, job_id, self._account.uid)
