"""Jupyter in the session's job: its pipes, the first answer, and why none can come any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Event
from jupyter_hpc.connect.job.launch import START_SECONDS, ServerAddress, extension_installed
from jupyter_hpc.connect.job.opening import OpenJob, OpenServer, server_lives, why_jupyter_ended
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.notify.memory_kills import MemoryKillWatch
from jupyter_hpc.connect.session.reconnect import PipeReconnect
from jupyter_hpc.connect.session.renew.renewal import Renewal, Renewed
from jupyter_hpc.connect.session.retry import Retry
from jupyter_hpc.connect.session.watch import (
    CredentialWatch,
    IdleRelease,
    JobWatch,
    TimeLimitWarnings,
    idle_seconds,
)
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.ssh.login import Reachable
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import (
    CommandError,
    ConnectError,
    HpcError,
    LaunchFailed,
    PipeRefused,
    RelayGone,
    SessionEnded,
    SlurmError,
    Unreachable,
)
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase
from jupyter_hpc.waiting import finish

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ServerGone(Exception):
    """The job lives, but nothing of Jupyter does: it has to be started again."""


class JobOver(Exception):
    """The job behind the session has ended."""


class PipeSource:
    """Opens pipes for PipeReconnect; raises ServerGone or JobOver when none can come any more."""

    def __init__(
        self,
        profile: Profile,
        connections: ClusterConnections,
        opened: OpenJob,
        address: ServerAddress,
        link: Link,
    ) -> None:
        self._profile = profile
        self._connections = connections
        self._opened = opened
        self._address = address
        self._link = link
        self._failed = False  # the last attempt did

    async def probe(self) -> Reachable | None:
        """No host has to be probed while the login connection itself is trusted.

        After an attempt that failed it is asked first: a node that hangs must not make us
        log in again and again.
        """
        if self._connections.alive and (
            self._link.state == "down" or (self._failed and await self._connections.login_answers())
        ):
            return None
        return await self._connections.probe()

    async def open_pipe(self, reachable: Any, ask: bool) -> BytePipe:
        """A new pipe, over a new login where the host had to be probed for it."""
        self._failed = True
        if reachable is not None or not self._connections.alive:
            await self._connections.log_in(ask=ask, reachable=reachable)
        try:
            pipe = await self._connections.open_pipe(self._address)
            self._failed = False
            return pipe
        except (PipeRefused, RelayGone):
            await self._check_server()
            raise
        except ConnectError:
            # The login connection looked alive and is not; the next attempt makes a new one.
            self._connections.close()
            raise

    async def _check_server(self) -> None:
        """Why the relay could not be reached: the job over, or its Jupyter gone.

        A node that does not answer is neither: CommandError, and the next attempt asks again.
        Slurm takes minutes to notice that a node is lost (SlurmdTimeout, 300 s by default).
        """
        try:
            job = await SlurmClient(self._connections.login.runner).job(self._opened.job.job_id)
        except (SlurmError, CommandError) as error:
            _log.info("whether the job lives is not known: %s", error.message)
            return  # Slurm is away: the next attempt asks again
        if job is None or job.phase in (Phase.ENDING, Phase.ENDED, Phase.PENDING):
            raise JobOver
        if not await server_lives(self._profile, self._connections, self._opened):
            raise ServerGone


class ServerStart:
    """One server of a session until it answers; what is true of Jupyter is what is raised.

    A server that an earlier connect had started and that is gone raises ServerGone: it is
    started again. One that was started just now and has ended does not: the error says why.
    """

    def __init__(self, context: SessionContext, server: OpenServer, opened: OpenJob) -> None:
        self._context = context
        self._server = server
        self._opened = opened

    async def first_pipe(self) -> BytePipe:
        """A pipe to the relay; Unreachable where Jupyter lives and its relay may come back."""
        context = self._context
        try:
            return await context.connections.open_pipe(self._server.address)
        except RelayGone as gone:
            if not self._server.found:
                raise await self._why_ended(gone) from gone
            if await server_lives(context.profile, context.connections, self._opened):
                raise Unreachable(gone.message, "The relay is started again.") from gone
            raise ServerGone from gone

    async def wait_ready(self, link: Link, keep: asyncio.Task[Any]) -> None:
        """Until Jupyter answers; `keep` keeps its link and says when it cannot any more."""
        answers = asyncio.create_task(jupyter_api.wait_until_answers(link, START_SECONDS))
        try:
            await asyncio.wait((answers, keep), return_when=asyncio.FIRST_COMPLETED)
            if keep.done():
                await keep
            await answers
        except ServerGone:
            if self._server.found:
                raise
            raise await self._why_ended(None) from None
        finally:
            await finish(answers)

    async def keep(self, link: Link, retrying: Callable[[], Retry]) -> None:
        """A new pipe whenever the link has lost its own; see PipeReconnect."""
        context, address = self._context, self._server.address
        source = PipeSource(context.profile, context.connections, self._opened, address, link)
        pipes = PipeReconnect(link, source.open_pipe, source.probe, retrying, context.connections)
        await pipes.run()

    async def extension(self) -> bool:
        """Whether our panels are there; asked once, by whoever started the server."""
        on_node = self._context.connections.on_node
        return self._server.found or await extension_installed(on_node, self._server.address)

    async def _why_ended(self, otherwise: HpcError | None) -> HpcError:
        return await why_ended(self._context, self._server.address, otherwise)


class Service:
    """A server that answers, and all that is looked after while it does."""

    def __init__(self, context: SessionContext, link: Link, token: str, renewal: Renewal) -> None:
        self._context = context
        self._link = link
        self._token = token
        self._renewal = renewal
        self._memory = MemoryKillWatch(link, token, context.listener.name, self._tell)

    @property
    def memory_kills(self) -> int:
        """How often the system has ended something for want of memory."""
        return self._memory.count

    async def last(
        self, job_id: str, keep: asyncio.Task[Any], note_job: Callable[[Job], None]
    ) -> None:
        """Until nobody has used the session for as long as was asked for.

        Raises JobOver, Renewed, ServerGone, and what `keep` does.
        """
        context, tell = self._context, self._tell
        profile, slurm = context.profile, context.slurm
        watch = JobWatch(
            job_id, profile.slurm.poll_seconds, slurm.job, note_job, tell, self._is_cut
        )
        job = asyncio.create_task(watch.run())
        renewal = asyncio.create_task(self._renewal.run(job_id, self._link, self._token))
        limit = TimeLimitWarnings(tell).run(lambda: context.ends_at)
        tasks = [keep, job, asyncio.create_task(limit), renewal]
        if profile.login.expiring:
            lasting = CredentialWatch(context.connections, tell)
            tasks.append(asyncio.create_task(lasting.run()))
        tasks.append(asyncio.create_task(self._memory.run()))
        idle = idle_seconds(context.options, profile)
        if idle:
            release = IdleRelease(idle, lambda: self._link, lambda: self._token)
            tasks.append(asyncio.create_task(release.run(lambda: context.listener.browsers)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if renewal in done:
                raise Renewed
            for task in done:
                await task
            if job in done:
                raise JobOver
        except SessionEnded:
            raise JobOver from None
        finally:
            await finish(*tasks)

    def _tell(self, event: Event) -> None:
        self._context.listener.on_event(event)

    def _is_cut(self) -> bool:
        """Whether the connection is away just now."""
        return self._link.state != "up"


async def unless_over(
    context: SessionContext, job_id: str, note_job: Callable[[Job], None], work: Awaitable[T]
) -> T:
    """What `work` gives; JobOver as soon as Slurm says that the job has ended.

    A start on a node that is lost meanwhile would be waited for until its own deadline.
    """
    watch = JobWatch(
        job_id,
        context.profile.slurm.poll_seconds,
        context.slurm.job,
        note_job,
        context.listener.on_event,
    )
    doing, watching = asyncio.ensure_future(work), asyncio.create_task(watch.run())
    try:
        await asyncio.wait((doing, watching), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done() and watching.exception() is None:
            raise JobOver
        return await doing
    finally:
        await finish(doing, watching)


async def why_ended(
    context: SessionContext, address: ServerAddress | None, otherwise: HpcError | None
) -> HpcError:
    """Why Jupyter in the job has ended, as an error; `otherwise` where that is not known."""
    if address is None:
        return otherwise or LaunchFailed("Jupyter could not be found in the job.")
    return await why_jupyter_ended(context.profile, context.connections, address, otherwise)
