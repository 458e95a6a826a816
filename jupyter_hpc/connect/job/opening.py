"""Opening a session: its job, and the server in it.

Both functions take open connections and give values; they are called again whenever
the session has to be opened anew.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Sink, Warned
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.allocation import (
    Allocator,
    Launch,
    find_job,
    first_node,
    request_for,
    session_name,
)
from jupyter_hpc.connect.job.launch import Launcher, ServerAddress
from jupyter_hpc.connect.job.remote import Account, first, prepare_account
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session.connections import Way
from jupyter_hpc.errors import LaunchFailed
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from jupyter_hpc.text import printable_lines

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenJob:
    """A running job and the account that it runs under."""

    job: Job
    account: Account

    @property
    def node(self) -> str:
        return first_node(self.job)


class JobOpener:
    """Finds or asks for the job of a session; `job_id` is known as soon as there is one.

    `on_number` is told the number of a further session before its job is asked for.
    """

    def __init__(
        self,
        profile: Profile,
        options: ConnectOptions,
        launch: Launch,
        runner: Runner,
        sink: Sink,
        on_number: Callable[[int], Awaitable[None]],
    ) -> None:
        self.job_id = ""
        self._name = ""
        self._profile = profile
        self._options = options
        self._launch = launch
        self._runner = runner
        self._sink = sink
        self._on_number = on_number

    async def open(self) -> OpenJob:
        """The session's job, adopted or asked for, once it runs."""
        slurm = SlurmClient(self._runner)
        first = not self._name
        name = self._name or session_name(self._profile.name, self._options.number)
        numbered = self._options.new and not self._name
        # Side by side: over a long line every question costs two round trips.
        account, job = await asyncio.gather(
            prepare_account(self._runner, secrets.token_hex(32)),
            _nothing() if numbered else find_job(slurm, name),
        )
        if not account.writable:
            self._sink(
                Warned(
                    f"The home folder on {account.host} cannot be written (full or read-only); "
                    "the session's files are kept on the node."
                )
            )
        allocator = Allocator(self._profile, account, self._runner, slurm, self._launch, self._sink)
        if numbered:
            number = await allocator.free_number(self._options.number)
            await self._on_number(number)
            name = session_name(self._profile.name, number)
        self._name = name  # kept: after a cut, what was asked for is found by it
        if job is None and self.job_id and self._launch.may_change:
            # It was waiting when the connection was lost, and is gone without a word.
            allocator.use_sbatch(
                f"The request for job {self.job_id} did not outlive the lost connection (the site "
                "ends processes at logout)"
            )
        if job is None:
            allocation = self._profile.allocation_for(self._options.preset, self._options.overrides)
            request = request_for(self._profile, allocation, name)
            asked = await allocator.ask(request)
        else:
            asked = allocator.adopted(job)
            if first and (self._options.preset or self._options.overrides):
                self._sink(
                    Warned(
                        f"Job {job.job_id} of this session exists already and is used as it is, "
                        "whatever is asked for now. Stop it first, or add --new for another."
                    )
                )
        self.job_id = asked.job_id
        return OpenJob(asked.running or await allocator.wait(asked), account)


async def _nothing() -> None:
    return None


@dataclass(frozen=True)
class OpenServer:
    """A server in the job; `found` says that an earlier connect had started it."""

    address: ServerAddress
    found: bool


async def open_server(profile: Profile, way: Way, opened: OpenJob) -> OpenServer:
    """The server that runs in the job, or a new one."""
    await way.approach(opened.node, opened.job.job_id)
    launcher = _launcher(profile, way, opened)
    address = await launcher.find()
    if address is not None:
        _log.info("Jupyter found in job %s on %s", opened.job.job_id, address.node)
        return OpenServer(address, found=True)
    _log.info("Jupyter is started in job %s on %s", opened.job.job_id, opened.node)
    address = await launcher.start(home_writable=opened.account.writable, tcp=way.wants_tcp)
    return OpenServer(address, found=False)


async def server_lives(profile: Profile, way: Way, opened: OpenJob) -> bool:
    """Whether Jupyter still runs in the job, although its relay was not reached."""
    await way.approach(opened.node, opened.job.job_id)
    return await _launcher(profile, way, opened).find() is not None


def _launcher(profile: Profile, way: Way, opened: OpenJob) -> Launcher:
    return Launcher(
        profile,
        opened.account,
        opened.job.job_id,
        on_node=way.on_node,
        starter=way.starter,
    )


async def why_jupyter_ended(way: Way, address: ServerAddress) -> LaunchFailed:
    """What Jupyter wrote before it ended, as an error."""
    found, fields = await remote.await_file(way.on_node, address.session, ["ended"], 3.0)
    code = first(fields, "code") if found else "unknown"
    output = printable_lines("\n".join(fields.get("output", [])[-8:])).strip()
    return LaunchFailed(
        f"Jupyter ended as soon as it was started, with exit code {code}."
        + (f" It wrote:\n{output}" if output else ""),
        f"The whole log is {address.session}/jupyter.log on the cluster (`jupyter-hpc logs NAME`).",
    )
