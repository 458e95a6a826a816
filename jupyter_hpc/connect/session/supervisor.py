"""Keeps one session: from the first login to the end of its job, through every cut.

    supervisor = Supervisor(context)
    ended = await supervisor.run()
    supervisor.ask(SessionCommand.STOP)     from a signal, the page or another command

Everything may fail, be refused or go away; what can come back by itself does, what
cannot ends in a sentence.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect import sentences
from jupyter_hpc.connect.events import (
    Authenticating,
    Ended,
    JupyterEnded,
    Ready,
    Running,
    Starting,
    Warned,
)
from jupyter_hpc.connect.job.endings import ServerEnd, how_server_ended
from jupyter_hpc.connect.job.give_back import FailedSession, JobEnding, add
from jupyter_hpc.connect.job.launch import ServerAddress
from jupyter_hpc.connect.job.opening import JobOpener, OpenJob, open_server
from jupyter_hpc.connect.session.commands import SessionCommand
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.connect.session.reconnect import LoginReconnect
from jupyter_hpc.connect.session.renew.renewal import Renewal, Renewed
from jupyter_hpc.connect.session.renew.successor import Successor
from jupyter_hpc.connect.session.retry import Restarts, Retry
from jupyter_hpc.connect.session.serving import (
    JobOver,
    ServerGone,
    ServerStart,
    Service,
    unless_over,
    why_ended,
)
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.link_events import LinkEvent
from jupyter_hpc.errors import ConnectError, HpcError, SessionEnded
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.waiting import finish

_log = logging.getLogger(__name__)

_MAY_BE_QUEUED = "A job was being asked for and may be in the queue."


class Supervisor:
    """One job of one session: opens it, keeps it connected, says how it ended.

    The listener hears of all of it; `token`, `address`, `link` are there when they are known.
    """

    def __init__(self, context: SessionContext) -> None:
        self.token = ""
        self.address: ServerAddress | None = None
        self.link: Link | None = None
        self.unended = ""  #: what may go on although it was to end, in a sentence
        self._context = context
        self._options = context.options
        self.connections = context.connections
        self._listener = listener = context.listener
        self._tell = listener.on_event
        self._retry: Retry | None = None  # while, or after, the connection was away
        self._commands: asyncio.Queue[SessionCommand] = asyncio.Queue()
        self._opener: JobOpener | None = None
        self._opened: OpenJob | None = None
        self._service: Service | None = None
        self._successor: Successor | None = None
        self._served = False  # Jupyter has answered
        self._settling = False  # the job is being given back

    @property
    def profile(self) -> Profile:
        """The cluster's profile, with what was answered when the job was asked for."""
        return self._context.profile

    @property
    def shape(self) -> Request | None:
        """What the next job is asked for where the session's job was found; see JobOpener."""
        return self._context.shape

    @cached_property
    def renewal(self) -> Renewal:
        """How the session goes on in another job."""
        return Renewal(self._context)

    @property
    def _logins(self) -> LoginReconnect:
        return LoginReconnect(self.connections, self._retrying)

    def _retrying(self) -> Retry:
        """How what was lost is tried again, and told."""
        if self._retry is None:
            self._retry = Retry(Outage(self._tell), renewed=self.connections.renewed)
        return self._retry

    @property
    def _ending(self) -> JobEnding:
        return JobEnding(self.connections)

    @property
    def job_id(self) -> str:
        """The session's job, "" while there is none."""
        return self._opener.job_id if self._opener is not None else ""

    @property
    def asking(self) -> bool:
        """Whether a job is being asked for that has no number yet."""
        return self._opener is not None and self._opener.asking

    def ask(self, command: SessionCommand) -> None:
        """Leave or stop; carried out as soon as what is under way has been given up."""
        self._commands.put_nowait(command)

    def allow_prompt(self) -> None:
        """A person is there to answer the next login."""
        if self._retry is not None:
            self._retry.allow()

    def try_now(self) -> None:
        """A person does not want to wait for the next attempt to reconnect."""
        self.connections.login_limit.forgive()
        if self._retry is not None:
            self._retry.hurry()

    async def run(self) -> Ended:
        """The session until it is over; raises HpcError if it could not be opened."""
        work = asyncio.create_task(self._session())
        command = asyncio.create_task(self._commands.get())
        try:
            await asyncio.wait((work, command), return_when=asyncio.FIRST_COMPLETED)
            if self._settling:
                await asyncio.wait((work,))  # half a cancel would leave nobody knowing
            if work.done():
                return await work
            await finish(work)
            return await self._obey(command.result())
        finally:
            await finish(work, command)
            await self.renewal.give_back()
            self.connections.close()

    async def _obey(self, command: SessionCommand) -> Ended:
        name = self._listener.name
        unsure = self.asking and not await self._asked_for()
        if command is SessionCommand.STOP and self.job_id:
            await self._cancel(self.job_id)
            also = await self.renewal.give_back(stop=True)
            if self._opener is not None and self._opener.successor_id:
                await self._cancel(also := self._opener.successor_id)
            text = sentences.cancelled_as_asked(self.job_id, also)
            return self._end(Ended("CANCELLED", "requested", text))
        also = sentences.successor_cancelled(await self.renewal.give_back())
        text = sentences.stays(self.job_id, name) + also if self.job_id else "No job was asked for."
        if unsure:
            self.unended = _MAY_BE_QUEUED
            text = f"{_MAY_BE_QUEUED} {sentences.ways_back(name)}"
        return self._end(Ended("RUNNING" if self.job_id else "NONE", "requested", text))

    async def _cancel(self, job_id: str) -> None:
        try:
            await self._ending.cancel(job_id, self._listener.name)
        except ConnectError as error:
            self.unended = error.message
            raise

    async def _asked_for(self) -> str:
        """The job that was being asked for when the work was given up, "" if none is known."""
        try:
            return await self._opener.asked_for() if self._opener is not None else ""
        except HpcError as error:
            _log.info("whether a job was asked for is not known: %s", error.message)
            return ""

    def _end(self, ended: Ended) -> Ended:
        self._tell(ended)
        return ended

    # -- opening ------------------------------------------------------------------------

    async def _session(self) -> Ended:
        """The session, whose job is given back or named where it fails."""
        try:
            return await self._opened_session()
        except HpcError as error:
            await self._settle(error)
            raise
        except Exception as error:
            trouble = HpcError(f"The session has failed: {error!r}.", "Please report this.")
            await self._settle(trouble)
            raise trouble from error

    async def _settle(self, error: HpcError) -> None:
        """The job is given back, or the error names it."""
        asking = self.asking
        job_id = await self._asked_for() if asking else self.job_id
        failed = FailedSession(
            job_id=job_id,
            name=self._listener.name,
            own=self._opener is not None and self._opener.own,
            keep=self._options.keep,
            served=self._served,
        )
        self._settling = True
        self.unended = await self._ending.settle(error, failed, self._uid)
        if asking and not job_id:
            self.unended = _MAY_BE_QUEUED
            add(error, f"{_MAY_BE_QUEUED} {sentences.ways_back(failed.name)}")

    @property
    def _uid(self) -> str:
        return self._opened.account.uid if self._opened else ""

    async def _opened_session(self) -> Ended:
        self._tell(Authenticating(self.profile.login.host[0]))
        await self.connections.log_in(ask=True)
        self._opener = opener = JobOpener(
            self.profile,
            self._options,
            self._context.launch,
            self.connections,
            self._tell,
            self._listener.on_number,
            self.connections.prompter,
            self._context.shape,
        )
        self._opened = opened = await self._logins.through(opener.open)
        self._context.profile = opener.profile  # with what was answered meanwhile
        self._context.shape = opener.shape
        self._tell(Running(opened.job.job_id, opened.node))
        self._note_job(opened.job)
        restarts: Restarts | None = None
        while True:
            try:
                return await self._serve_to_the_end(opened)
            except ServerGone as gone:
                end = await self._how_server_ended(opened)
                restarts = restarts or Restarts()
                restarting = restarts.allow(out_of_memory=end.out_of_memory)
                text = end.text(self.job_id, self._listener.name, restarting=restarting)
                if not restarting:
                    if end.out_of_memory:
                        return self._end(Ended("RUNNING", end.cause, text))
                    cause = gone.__cause__
                    otherwise = cause if isinstance(cause, HpcError) else None
                    raise await why_ended(self._context, self.address, otherwise) from None
                self._tell(JupyterEnded(text, end.cause))
            except (Renewed, JobOver):
                self._successor = self.renewal.ready
                following = self._successor.opened if self._successor else await self._follow()
                if isinstance(following, Ended):
                    return self._end(following)
                self._opened = opened = following
                self._note_job(opened.job)

    async def _serve_to_the_end(self, opened: OpenJob) -> Ended:
        """As `_serve`, through lost logins; JobOver where it fails because the job has ended."""
        try:
            return await self._logins.through(partial(self._serve, opened))
        except HpcError as error:
            if self._served and await self._ending.is_over_after(error, self.job_id):
                _log.info("job %s is over; before that was known: %s", self.job_id, error.message)
                raise JobOver from error
            raise

    async def _follow(self) -> OpenJob | Ended:
        """The job is over: the one that was asked for to go on is waited for, if there is one.

        Nothing is asked for instead of it: whoever has cancelled both wants neither.
        """
        maker, opener = self.renewal.hand_over(), self._opener
        job_id = maker.job_id if maker is not None else opener.successor_id if opener else ""
        ended = await self._ending.why(self.job_id, self._uid)
        if opener is None or (maker is None and not job_id):
            return ended
        which = f"Job {job_id}" if job_id else "A job"
        if job_id and await self._ending.is_over(job_id):
            text = f"{which}, which was to take this session over, has ended as well."
            return replace(ended, text=f"{ended.text} {text}")
        text = f"{which} was asked for before that, and the session goes on in it when it starts."
        self._tell(Warned(f"{ended.text} {text}"))
        opener.follow(job_id, own=maker is not None and maker.own)
        self._served, self._context.ends_at = False, None
        try:
            opened = await self._logins.through(opener.open)
        except SessionEnded as over:
            if job_id:
                return await self._ending.why(self.job_id, self._uid)
            return replace(ended, text=str(over))
        self._context.shape = opener.shape
        self._tell(Running(opened.job.job_id, opened.node))
        return opened

    async def _serve(self, opened: OpenJob) -> Ended:
        """Open the server and keep it; raises ServerGone, JobOver or Renewed."""
        self._retry = None  # an outage before this is part of opening the server
        successor, self._successor = self._successor, None
        if successor is None:
            self._tell(Starting(opened.job.job_id, opened.node))
            opening = open_server(self.profile, self.connections, opened)
            server = await unless_over(self._context, self.job_id, self._note_job, opening)
            link = Link(server.address.secret, self._listener.owner)
        else:
            server, link = successor.server, successor.link
            link.on_event = self._on_link
        self.address, self.token = server.address, server.address.token
        if server.address.warning and not server.found:
            self._tell(Warned(server.address.warning))
        start = ServerStart(self._context, server, opened)
        self.link = link
        keep: asyncio.Task[Any] | None = None
        try:
            if successor is None:
                await link.attach(await start.first_pipe())
                link.on_event = self._on_link
            else:
                await self.renewal.take_over(self._opener)
            keep = asyncio.create_task(start.keep(link, self._retrying))
            if successor is None:
                await start.wait_ready(link, keep)
            self._listener.on_link(link)
            self._served = True
            self._tell(self._ready(opened))
            if self.connections.transport == "direct":
                self._tell(Warned(sentences.DIRECT_WARNING))
            if not await start.extension():
                self._tell(Warned(sentences.plain_warning(server.address.version)))
            self._service = Service(self._context, link, self.token, self.renewal)
            await self._service.last(self.job_id, keep, self._note_job)
            return self._end(await self._ending.release(self.job_id))
        finally:
            if keep is not None:
                await finish(keep)
            self._listener.on_link(self.renewal.following)
            await link.close()
            self.link = None

    def _on_link(self, event: LinkEvent) -> None:
        self._retrying().outage.on_link(event)

    async def _how_server_ended(self, opened: OpenJob) -> ServerEnd:
        service, self._service = self._service, None
        if self.address is None:
            return ServerEnd()
        slurm, kills = SlurmClient(self.connections), service.memory_kills if service else 0
        return await how_server_ended(
            self.connections.on_node, slurm, self.address, opened.job, kills
        )

    def _ready(self, opened: OpenJob) -> Ready:
        port, transport = self._listener.port, self.connections.transport
        return Ready(
            f"http://localhost:{port}/lab", port, opened.job.job_id, opened.node, transport
        )

    def _note_job(self, job: Job) -> None:
        if job.time_left is not None:
            # Counted from now on this laptop: the cluster's clock and zone may differ.
            self._context.ends_at = time.time() + job.time_left
        self._context.longest_limit = max(self._context.longest_limit, job.time_limit or 0)
        self._listener.on_job(job)
