"""Opening a session: its job, and the server in it.

All of it takes open connections and gives values, and is called again whenever the
session has to be opened anew.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Priced, Sink, Warned
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.allocation import (
    CONNECT_AGAIN,
    Allocator,
    Launch,
    find_jobs,
    living_jobs,
)
from jupyter_hpc.connect.job.endings import cancel_for_sure, went_with_salloc
from jupyter_hpc.connect.job.existing import Choice, choose, mismatch, shape_of
from jupyter_hpc.connect.job.failures import explain_exit
from jupyter_hpc.connect.job.first_time import FirstTime
from jupyter_hpc.connect.job.launch import Launcher, ServerAddress
from jupyter_hpc.connect.job.remote import Account, prepare_account
from jupyter_hpc.connect.job.request import (
    OwnJobs,
    request_for,
    session_name,
    session_of,
    successor_name,
)
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.sentences import ways_back
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.errors import (
    CommandError,
    HpcError,
    SessionEnded,
    SlurmError,
    SubmitRejected,
    UnreadableAnswer,
)
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm import hostlist
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import job_cost
from jupyter_hpc.slurm.models import Job, Phase, Request
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import together

_log = logging.getLogger(__name__)

_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")


class NodeAccess(Protocol):
    """What it takes to work on the job's node; the session's connections are one.

    The runners are asked for anew each time: after a cut they are others.
    """

    async def approach(self, node: str, job_id: str) -> None:
        """Get as near to the job's node as the site allows; to be called first."""

    @property
    def on_node(self) -> Runner:
        """Runs commands on the node."""

    @property
    def starter(self) -> Runner:
        """Where a detached srun is started: the node, else the login host."""

    @property
    def wants_tcp(self) -> bool:
        """Whether the relay has to listen on a port of the node."""


@dataclass(frozen=True)
class OpenJob:
    """A running job and the account that it runs under."""

    job: Job
    account: Account

    @property
    def node(self) -> str:
        """The node on which Jupyter runs: the first of the job's list."""
        return self.nodes[0]

    @property
    def nodes(self) -> list[str]:
        return node_names(self.job)


def node_names(job: Job) -> list[str]:
    """The nodes of a job.

    They become words of commands, so they have to look like names of hosts.
    """
    nodes = hostlist.expand(job.nodes)
    for node in nodes:
        if not _HOST_NAME.fullmatch(node):
            raise UnreadableAnswer(
                f"Slurm says that job {job.job_id} runs on {printable(node, 80)!r}, which is no "
                "name of a host.",
                "Look at it on the cluster: scontrol show job.",
            )
    return nodes


class JobOpener:
    """Finds the job of a session or asks for it, and does so again after a cut.

    What was asked for is remembered by its name, so that no second job is asked for.
    `job_id` is known as soon as there is one; `on_number` is told the number of a
    further session before its job is asked for. `prompter` asks what to do with a job that
    exists and is not what was asked for, and what the profile cannot know: UsageError where it
    cannot. `profile` is the one with the answers. `asking` is true while
    a job is being asked for and has no number yet. `shape` is that of a job that was found, and
    of the next one; None where the profile and the command line say it.
    """

    def __init__(
        self,
        profile: Profile,
        options: ConnectOptions,
        launch: Launch,
        runner: Runner,
        sink: Sink,
        on_number: Callable[[int], Awaitable[None]],
        prompter: Prompter,
        shape: Request | None = None,
    ) -> None:
        self.job_id = ""
        self.shape = shape
        self.asking = False
        self.successor_id = ""  #: of a job that an earlier connect asked for, to go on in
        self._asked = OwnJobs()
        self._name = ""
        self._log = ""  # of the salloc that has asked for the job
        self._follows = False  # the job is one that another has handed the session over to
        self.profile = profile
        self._options = options
        self._launch = launch
        self._runner = runner
        self._sink = sink
        self._on_number = on_number
        self._prompter = prompter

    @property
    def own(self) -> bool:
        """Whether the job was asked for here, and not by an earlier connect or another laptop."""
        return self.job_id in self._asked

    def follow(self, job_id: str, *, own: bool) -> None:
        """The session goes on in its successor, which `open` finds by its name.

        It is not asked for again if it is gone: it was there, so somebody wanted none.
        """
        self.job_id, self.successor_id, self._follows = job_id, "", True
        if own:
            self._asked.add(job_id)

    async def asked_for(self) -> str:
        """The number of a job that may have been asked for when the work was given up; or ""."""
        jobs = await living_jobs(SlurmClient(self._runner), self._name)
        ours = next((job.job_id for job in jobs if self._asked.recognise(job)), "")
        if ours:
            self.job_id, self.asking = ours, False
        return ours

    async def open(self) -> OpenJob:
        """The session's job, adopted or asked for, once it runs."""
        slurm = SlurmClient(self._runner)
        first, unsure = not self._name, self.asking
        name = self._name or session_name(self.profile.name, self._options.number)
        numbered = self._options.new and not self._name
        # Side by side: over a long line every question costs two round trips.
        account, (job, successor) = await together(
            prepare_account(self._runner, secrets.token_hex(32)),
            _no_jobs() if numbered else find_jobs(slurm, name, successor_name(name)),
        )
        if not account.writable:
            self._sink(
                Warned(
                    f"The home folder on {account.host} cannot be written (full or read-only); "
                    "the session's files are kept on the node."
                )
            )
        allocator = Allocator(
            self.profile, account, self._runner, slurm, self._launch, self._sink, self._asked
        )
        if successor is not None:
            job = await self._with_successor(slurm, name, job, successor)
        if first and job is not None:
            choice = await self._choose(slurm, name, job)
            if choice is not Choice.USE:
                self.shape = None  # what is asked for is what the command line says
            if choice is Choice.REPLACE:
                await cancel_for_sure(slurm, job.job_id)
                self._sink(Warned(f"Job {job.job_id} was cancelled; another one is asked for."))
            numbered = choice is Choice.FURTHER
            job = job if choice is Choice.USE else None
        if numbered:
            number = await allocator.free_number(self._options.number)
            await self._on_number(number)
            name = session_name(self.profile.name, number)
        self._name = name  # kept: after a cut, what was asked for is found by it
        if job is None:
            if self.job_id or self._follows:
                await self._explain_loss(allocator)
            if self.shape is not None:
                request = replace(self.shape, name=name)
            else:
                if self.profile.leaves_open:
                    questions = FirstTime(self.profile, self._options, self._runner, self._prompter)
                    self.profile = await questions.settled(self._sink)
                options = self._options
                allocation = self.profile.allocation_for(options.preset, options.overrides)
                request = request_for(self.profile, allocation, name)
            partitions = await slurm.check_limits(request)
            budget = self.profile.budget
            if budget.rates:
                cost = job_cost(request, budget.rates, budget.unit, partitions=partitions)
                if cost:
                    self._sink(Priced(str(cost)))
            self.asking = True
            try:
                requested = await allocator.submit(request)
            except SubmitRejected:
                self.asking = False
                raise
        else:
            requested = allocator.adopted(job)
        self.job_id, self.asking = requested.job_id, False
        self._log = requested.log
        opened = OpenJob(requested.running or await allocator.wait(requested), account)
        if unsure:
            await self._cancel_doubles(slurm)
        if requested.found:
            await self._learn_shape(slurm, opened.job)
        return opened

    async def _learn_shape(self, slurm: SlurmClient, job: Job) -> None:
        try:
            self.shape = await shape_of(slurm, self.profile, self._options, job)
        except (SlurmError, CommandError) as error:
            text = (
                f"What job {job.job_id} was asked for could not be read, so a job after it is "
                f"asked for as the profile says: {error.message}"
            )
            self._sink(Warned(text))

    async def _cancel_doubles(self, slurm: SlurmClient) -> None:
        """A salloc whose answer was lost may have got its job after another was asked for."""
        jobs = await living_jobs(slurm, self._name)
        doubles = [job.job_id for job in jobs if self._asked.has_mark(job)]
        doubles = [job_id for job_id in doubles if job_id != self.job_id]
        if doubles:
            await slurm.cancel(doubles)
            _log.info("asked for twice because of a cut, and cancelled: %s", ", ".join(doubles))

    async def _with_successor(
        self, slurm: SlurmClient, name: str, job: Job | None, successor: Job
    ) -> Job:
        """The session's job where a successor is in the queue: it takes over once it is alone."""
        job_id = successor.job_id
        if job is not None:
            waits = "waits" if successor.phase is Phase.PENDING else "runs, and is charged as well"
            text = (
                f"Job {job_id}, which was asked for to take this session over (--renew), {waits}. "
                f"The session goes on in it when job {job.job_id} ends. To end it: "
                f"jupyter-hpc cancel {job_id} --on {self.profile.name}"
            )
            if self.successor_id != job_id and self.job_id != job_id:
                self._sink(Warned(text))
            self.successor_id = job_id
            return job
        self._sink(Warned(f"Job {job_id} was asked for to take this session over; it is used."))
        try:
            await slurm.rename(job_id, name)
        except (SlurmError, CommandError) as error:
            text = f"Job {job_id} keeps the name of a successor: {error.message}"
            self._sink(Warned(text))
        self.job_id, self.successor_id = job_id, ""
        return successor

    async def _choose(self, slurm: SlurmClient, name: str, job: Job) -> Choice:
        """What to do with a job that exists; it is used where it is what was asked for.

        Nothing is given up for a request that cannot be had.
        """
        found = mismatch(self.profile, self._options, session_of(name), job)
        if found is None:
            return Choice.USE
        await slurm.check_limits(found.request)
        choice = await choose(found, self._prompter)
        _log.info("%s The choice: %s", found.text, choice.name)
        return choice

    async def _explain_loss(self, allocator: Allocator) -> None:
        """The job that waited when the connection was lost is gone: SessionEnded says why.

        Where it was only given up with its salloc, it is asked for again, by sbatch. One that
        somebody has cancelled is not.
        """
        if not self.job_id:
            raise SessionEnded(
                "The job that was asked for to take this session over is not in the queue.",
                f"It may still come. {ways_back(session_of(self._name))}",
            )
        ended = await allocator.why_ended(self.job_id)
        may_ask = not self._follows and self._launch.may_change and self._launch.method == "salloc"
        if not (may_ask and await went_with_salloc(self._runner, ended, self._log)):
            raise SessionEnded(ended.text, CONNECT_AGAIN)
        allocator.use_sbatch(
            f"The request for job {self.job_id} did not outlive the lost connection (the site "
            "ends processes at logout)"
        )


async def _no_jobs() -> list[Job | None]:
    return [None, None]


@dataclass(frozen=True)
class OpenServer:
    """A server in the job; `found` says that an earlier connect had started it."""

    address: ServerAddress
    found: bool


async def open_server(profile: Profile, access: NodeAccess, opened: OpenJob) -> OpenServer:
    """The server that runs in the job, or a new one."""
    await access.approach(opened.node, opened.job.job_id)
    launcher = _launcher(profile, access, opened)
    address = await launcher.find()
    if address is not None:
        _log.info("Jupyter found in job %s on %s", opened.job.job_id, address.node)
        return OpenServer(address, found=True)
    _log.info("Jupyter is started in job %s on %s", opened.job.job_id, opened.node)
    writable = opened.account.writable and not profile.home_read_only
    address = await launcher.start(home_writable=writable, tcp=access.wants_tcp)
    return OpenServer(address, found=False)


async def server_lives(profile: Profile, access: NodeAccess, opened: OpenJob) -> bool:
    """Whether Jupyter still runs in the job, although its relay was not reached."""
    await access.approach(opened.node, opened.job.job_id)
    return await _launcher(profile, access, opened).find() is not None


def _launcher(profile: Profile, access: NodeAccess, opened: OpenJob) -> Launcher:
    return Launcher(
        profile,
        opened.account,
        opened.job.job_id,
        opened.nodes,
        on_node=access.on_node,
        starter=access.starter,
    )


async def why_jupyter_ended(
    profile: Profile,
    access: NodeAccess,
    address: ServerAddress,
    otherwise: HpcError | None = None,
) -> HpcError:
    """What Jupyter wrote before it ended, as an error; `otherwise` if it has not ended."""
    found, fields = await remote.await_file(access.on_node, address.session, ["ended"], 3.0)
    if not found and otherwise is not None:
        return otherwise
    return explain_exit(address.session, fields if found else {}, profile)
