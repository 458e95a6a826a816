"""The second job of a session, with Jupyter in it, ready to take the session over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Event, Pending, Sink, Warned
from jupyter_hpc.connect.job.allocation import Allocator, Launch, find_job
from jupyter_hpc.connect.job.endings import cancel_for_sure
from jupyter_hpc.connect.job.launch import START_SECONDS
from jupyter_hpc.connect.job.opening import OpenJob, OpenServer, open_server
from jupyter_hpc.connect.job.remote import prepare_account
from jupyter_hpc.connect.job.request import (
    OwnJobs,
    request_for,
    session_name,
    successor_name,
)
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.connections import ClusterConnections, CurrentRunner
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.link_events import LinkEvent
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: The longest that giving a job back may take when everything else is over.
_GIVE_BACK_SECONDS = 15.0


@dataclass
class Successor:
    """A job that serves and is not used yet; its link is up."""

    name: str  #: of the session's job, which it gets when it takes over
    opened: OpenJob
    server: OpenServer
    link: Link
    own: bool = True  #: asked for here, and not by another computer
    said: str = ""  #: what could not be moved along, in a sentence
    on_link_event: Callable[[LinkEvent], None] = lambda event: None


class SuccessorMaker:
    """Asks for the job, waits for it, starts Jupyter there; gives it back if any of it fails."""

    def __init__(
        self,
        profile: Profile,
        options: ConnectOptions,
        connections: ClusterConnections,
        launch: Launch,
        tell: Sink,
    ) -> None:
        self._profile = profile
        self._options = options
        self._connections = connections
        self._launch = launch
        self._tell = tell
        self._name = session_name(profile.name, options.number)

    @property
    def request(self) -> Request:
        """A job of the same shape, under the successor's name."""
        allocation = self._profile.allocation_for(self._options.preset, self._options.overrides)
        return request_for(self._profile, allocation, successor_name(self._name))

    async def make(self, owner: str, asked: Callable[[str], None]) -> Successor:
        """A successor whose Jupyter answers; `asked` hears the number of its job."""
        runner = CurrentRunner(self._connections)
        slurm = SlurmClient(runner)
        account = await prepare_account(runner, secrets.token_hex(32))
        if not account.writable:
            raise ConnectError(
                f"The home folder on {account.host} cannot be written, so that the next server "
                "would have another token than the open page.",
                "Make room there, or connect again when the job has ended.",
            )
        own = OwnJobs()
        allocator = Allocator(
            self._profile, account, runner, slurm, self._launch, self._tell_quietly, own
        )
        job = await find_job(slurm, self.request.name or "")
        requested = allocator.adopted(job) if job else await allocator.submit(self.request)
        link: Link | None = None
        try:
            asked(requested.job_id)
            opened = OpenJob(requested.running or await allocator.wait(requested), account)
            beside = self._connections.beside()
            server = await open_server(self._profile, beside, opened)
            successor: Successor | None = None

            def on_link_event(event: LinkEvent) -> None:
                if successor is not None:
                    successor.on_link_event(event)

            link = Link(server.address.secret, owner, on_link_event)
            await link.attach(await beside.open_pipe(server.address))
            await jupyter_api.wait_until_answers(link, START_SECONDS)
            successor = Successor(self._name, opened, server, link, own=requested.job_id in own)
            return successor
        except BaseException:
            if link is not None:
                await link.close()
            await self.give_back(requested.job_id, own=requested.job_id in own)
            raise

    async def give_back(self, job_id: str, *, own: bool) -> None:
        """Cancel the successor's job, which nobody uses; what does not work is said.

        One that another computer asked for stays.
        """
        if not own:
            self._tell(Warned(f"Job {job_id}, which another computer asked for, stays."))
            return
        slurm = SlurmClient(CurrentRunner(self._connections))
        try:
            await within(cancel_for_sure(slurm, job_id), _GIVE_BACK_SECONDS)
            _log.info("the successor, job %s, is given back", job_id)
        except (HpcError, TimeoutError, asyncio.TimeoutError):
            self._tell(
                Warned(
                    f"Job {job_id}, which was to take this session over, could not be cancelled "
                    f"and may go on. On the cluster: scancel {job_id}"
                )
            )

    def _tell_quietly(self, event: Event) -> None:
        """The session itself does not wait: what its successor waits for is not its state."""
        if isinstance(event, Pending):
            _log.info("the successor waits: %s", event.reason_text)
        else:
            self._tell(event)


async def take_over(slurm: SlurmClient, old_id: str, successor: Successor, tell: Sink) -> None:
    """The successor's job gets the session's name, then the old job is cancelled.

    In this order: a connect from elsewhere finds the older one of two that are called the
    same, and never none.
    """
    job_id = successor.opened.job.job_id
    text = f"The session goes on in job {job_id} on {successor.opened.node}. Kernels are new. "
    text += f"{successor.said} " if successor.said else ""
    try:
        await slurm.rename(job_id, successor.name)
        await cancel_for_sure(slurm, old_id)
        tell(Warned(f"{text}Job {old_id} was cancelled."))
    except HpcError as error:
        with contextlib.suppress(HpcError):
            await slurm.cancel([old_id])
        tell(Warned(f"{text}{error.message} On the cluster: scancel {old_id}"))
