"""One session on this laptop: the local port, its record, its supervisor, its actions.

The port answers from the first moment, before anything is known of the cluster, and
stays while jobs come and go behind it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from jupyter_hpc.clusters.user_settings import notify_settings
from jupyter_hpc.connect.events import Answered, Asked, Ended, Event, PersonNeeded, Warned
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.job.request import wanted_profile
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.proxy.ports import PortChoice, choose_port, open_port
from jupyter_hpc.connect.proxy.server import LocalProxy
from jupyter_hpc.connect.sentences import as_json
from jupyter_hpc.connect.session.actions import SessionActions
from jupyter_hpc.connect.session.commands import Questions, SessionCommand
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.notify.notices import Notices, claim
from jupyter_hpc.connect.session.status import SessionStatus
from jupyter_hpc.connect.session.store import OwnRecord, Records
from jupyter_hpc.connect.session.supervisor import Supervisor
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import HpcError
from jupyter_hpc.slurm.models import Job
from jupyter_hpc.waiting import finish, within

_log = logging.getLogger(__name__)

#: The states in which there is a session that can go on in another job.
_SERVED = ("ready", "reconnecting")


class Manager:
    """One session as its user sees it; the listener of the supervisor that keeps its job.

    `show` gets every event as `--json` prints it. `keep_page` seconds the page stays after the
    job's end.
    """

    def __init__(
        self,
        options: ConnectOptions,
        prompter: Prompter,
        show: Callable[[dict[str, Any]], None],
        records: Records,
        *,
        keep_page: float = 0.0,
    ) -> None:
        self.profile, number = wanted_profile(options)
        self.options = dataclasses.replace(options, number=number)
        self.name = self._session_name(records)
        self.port = 0
        self._prompter = prompter
        self._show = show
        self._records = records
        self._keep_page = keep_page
        self._secret = secrets.token_urlsafe(32)
        self.supervisor: Supervisor | None = None
        self._status = self._new_status()
        self._record: OwnRecord | None = None
        self.proxy: LocalProxy | None = None
        self._notify_settings = notify_settings()
        self._notices: Notices | None = None  # before it is ready, nothing is worth one
        self._link: Link | None = None
        self._leaving = False
        self._again = asyncio.Event()
        self._questions: Questions | None = None  # before there is one to ask
        self._ended: asyncio.Future[Ended] | None = None
        records.on_trouble = lambda text: self.on_event(Warned(text))

    def _session_name(self, records: Records) -> str:
        """The name of the session on this laptop; `--new` takes the next free number."""
        if self.options.new:
            name = self.profile.name
            free = (n for n in itertools.count(2) if records.session(f"{name}-{n}") is None)
            self.options = dataclasses.replace(self.options, number=next(free))
        return self._numbered()

    def _numbered(self) -> str:
        number = self.options.number
        return self.profile.name + (f"-{number}" if number > 1 else "")

    @property
    def job_id(self) -> str:
        return self.supervisor.job_id if self.supervisor is not None else ""

    def ask(self, command: SessionCommand, question: str = "", where: str = "command") -> None:
        """From a signal, the terminal or an action.

        `question` is the one that it answers, `where` the place (events.ANSWERED_WHERE).
        Raises ConnectError if the question has been answered by somebody else.
        """
        if command is SessionCommand.TRY:
            if self.supervisor is not None:
                self.supervisor.try_now()
            return
        self._asking().answer(command, question, where)
        if command is SessionCommand.LOGIN:
            self.allow_prompt()
            return
        self._again.set()
        if command is SessionCommand.AGAIN:
            self._status = self._new_status()  # at once: from now on nobody sees an ended session
            return
        self._leaving = True
        if self.supervisor is not None:
            self.supervisor.ask(command)

    def _asking(self) -> Questions:
        """The open questions of this session."""
        if self._questions is None:
            self._questions = Questions(self.on_event)
        return self._questions

    def allow_prompt(self) -> None:
        """A person is there to answer the next login."""
        self._status.needs_person = ""
        if self.supervisor is not None:
            self.supervisor.allow_prompt()

    async def run(self) -> Ended:
        """Open the port and keep the session; HpcError if it cannot be opened."""
        try:
            await self._open_proxy()
            while True:
                ended = await self._one_job()
                if self._leaving or not await self._wait_again():
                    if ended.cause != "requested":
                        await self._tell_tabs()
                    return ended
                self._again.clear()
        except HpcError as error:
            _log.error("the session could not go on: %s", error)
            await self._tell_tabs()
            raise
        finally:
            if self._notices is not None:
                await self._notices.close()
            await self._close_proxy(self.supervisor.unended if self.supervisor else "")

    async def _one_job(self) -> Ended:
        shape = None
        if self.supervisor is not None:
            self.profile = self.supervisor.profile  # with what was answered meanwhile
            shape = self.supervisor.shape
        memory = self._records.memory(self.profile.name)
        settings = self.profile.jupyter
        wanted = self.options.via or settings.transport
        connections = ClusterConnections(self.profile, wanted, memory.transport, self._prompter)
        remember = partial(self._records.remember, self.profile.name)
        launch = Launch(self.options.launch, memory.launch, settings.launch, remember)
        context = SessionContext(self.profile, self.options, connections, launch, self, shape=shape)
        self.supervisor = Supervisor(context)
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        try:
            ended = await self.supervisor.run()
            self._ended.set_result(ended)
        except HpcError as error:
            ended = Ended("FAILED", "failed", str(error))
            self._ended.set_result(ended)
            self._status.take(ended)
            raise
        finally:
            if not self._ended.done():
                self._ended.cancel()
            if connections.transport:
                remember(transport=connections.transport, transport_reason=connections.reason)
        return ended

    async def _wait_again(self) -> bool:
        """Whether somebody wants a new job while the page still offers one."""
        if not self._keep_page:
            return False
        self._asking().open("again")
        try:
            await within(self._again.wait(), self._keep_page)
        except (TimeoutError, asyncio.TimeoutError):
            return False
        finally:
            self._asking().withdraw("again")
        return not self._leaving

    async def _tell_tabs(self) -> None:
        """The open tabs hear why it ended before the port goes, unless somebody is in a hurry."""
        if self.proxy is not None:
            self._again.clear()
            telling = asyncio.create_task(self.proxy.last_word(self._snapshot()["text"]))
            hurry = asyncio.create_task(self._again.wait())
            await asyncio.wait((telling, hurry), return_when=asyncio.FIRST_COMPLETED)
            await finish(telling, hurry)

    # -- the local port -----------------------------------------------------------------

    async def _open_proxy(self) -> None:
        choice = self._port()
        make = partial(
            LocalProxy,
            status=self._snapshot,
            actions=lambda: SessionActions(self).table(),
            secret=self._secret,
            on_crowd=lambda text: self.on_event(Warned(text)),
        )
        self.proxy, instead = await open_port(
            choice, make, is_open_here=lambda: self._records.session(self.name) is not None
        )
        self.port = self.proxy.port
        self._status = self._new_status()
        if choice.whose != "remembered":
            self._records.remember(self.name, port=self.port)
        names = (self.name, self.profile.name)
        self._record = OwnRecord(self._records, *names, self.port, self._secret)
        if instead:
            self.on_event(Warned(instead))

    async def _close_proxy(self, unended: str = "") -> None:
        """`unended` is what may go on although it was to end: then the record stays."""
        if self._record is not None and unended:
            self._record.leave(self.job_id, unended)
        elif self._record is not None:
            self._record.remove()
        if self.proxy is not None:
            await self.proxy.close()

    async def on_number(self, number: int) -> None:
        """The cluster has sessions that this laptop does not: move to the name of our own.

        Else another connect with our name would find somebody else's job, and nobody ours.
        """
        if number != self.options.number:
            await self._close_proxy()
            self.options = dataclasses.replace(self.options, number=number)
            self.name = self._numbered()
            await self._open_proxy()

    def _port(self) -> PortChoice:
        profiled = self.profile.jupyter.port if self.options.number == 1 else None
        remembered = self._records.memory(self.name).port
        sure = self.profile.is_sure("jupyter.port")
        return choose_port(self.name, self.options.port, profiled, remembered, sure=sure)

    @property
    def owner(self) -> str:
        """Who we are to the relay: one per session and laptop, the same after a restart."""
        return f"{socket.gethostname()}:{self._records.folder}:{self.name}"

    # -- for SessionActions ------------------------------------------------------------

    @property
    def state(self) -> str:
        """The session's state, by the newest event."""
        return self._status.state

    @property
    def over(self) -> bool:
        """Whether the job has ended and only the page is still here."""
        return self.state == "ended"

    @property
    def needs_person(self) -> str:
        """What a person has to do before the connection can come back, or ""."""
        return self._status.needs_person

    async def finish(
        self, command: SessionCommand, question: str = "", where: str = "command"
    ) -> Ended | None:
        """Ask for the end of the session and wait for it; otherwise like `ask`."""
        self.ask(command, question, where)
        return await asyncio.shield(self._ended) if self._ended is not None else None

    # -- what is shown ------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        fields = as_json(event, self.name, time.time())
        level = logging.WARNING if isinstance(event, Warned) else logging.INFO
        _log.log(level, "event %s: %s", event.name, fields["text"])
        self._status.take(event)
        if self._record is not None:
            self._record.follow(self._status)
        self._show(fields)
        if self._notices is None and event.name == "ready":
            self._notices = Notices(
                self._notify_settings, lambda: self.name, self.on_event, self._claim
            )
            self.on_link(self._link)
        if self._notices is not None:
            self._notices.on_event(event)
        if isinstance(event, PersonNeeded):
            self._asking().open("login")
        elif isinstance(event, (Asked, Answered)) or self._status.needs_person:
            pass
        elif self._questions is not None:
            self._questions.withdraw("login")

    async def _claim(self, event: str, seconds: float) -> bool | None:
        """Whether something is ours to tell, or its job has told it; see Notices."""
        job = self.supervisor
        if job is None or job.address is None:
            return True
        if not job.connections.alive:
            return None
        return await claim(job.connections.on_node, job.address.session, event, seconds)

    def on_link(self, link: Link | None) -> None:
        self._link = link
        if self._notices is not None:
            job = self.supervisor
            token, connections = (job.token, job.connections) if job else ("", None)
            self._notices.on_link(link, connections, token, self.profile.slurm.poll_seconds)
        if self.proxy is None:
            return
        if link is None:
            self.proxy.disconnect()
        else:
            self.proxy.connect(link)

    def on_job(self, job: Job) -> None:
        if job.time_left is not None:
            self._status.ends_at = time.time() + job.time_left
            if self._record is not None:
                self._record.follow(self._status)

    @property
    def browsers(self) -> int:
        return self.proxy.browsers if self.proxy is not None else 0

    def _new_status(self) -> SessionStatus:
        return SessionStatus(self.name, self.profile.title or self.name, self.port)

    def _snapshot(self) -> dict[str, Any]:
        served = self.supervisor if self.state in _SERVED else None
        return {**self._status.snapshot(), "renewal": served.renewal.offer if served else ""}

    @property
    def browser_url(self) -> str:
        """The address to open in the browser now; it may hold the token."""
        token = self.supervisor.token if self.supervisor is not None else ""
        ready = self._status.state == "ready"
        query = f"?token={token}" if token and ready else ""
        return f"http://localhost:{self.port}/lab{query}"
