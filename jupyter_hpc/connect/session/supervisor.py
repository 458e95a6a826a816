"""Keeps one session: from the first login to the end of its job, through every cut.

    supervisor = Supervisor(profile, options, way, sink, …)
    ended = await supervisor.run()
    supervisor.ask("leave" | "stop")        from a signal, the page or another command

Everything may fail, be refused or go away; what can come back by itself does, what
cannot ends in a sentence.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.values import duration_seconds
from jupyter_hpc.connect.events import (
    Authenticating,
    Ended,
    Ready,
    Running,
    Sink,
    Starting,
    Warned,
)
from jupyter_hpc.connect.job import remote
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.job.endings import cancel_for_sure, why_ended
from jupyter_hpc.connect.job.launch import START_SECONDS, ServerAddress, extension_installed
from jupyter_hpc.connect.job.opening import (
    JobOpener,
    OpenJob,
    OpenServer,
    open_server,
    why_jupyter_ended,
)
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.away import unless_away
from jupyter_hpc.connect.session.comeback import Comeback
from jupyter_hpc.connect.session.connections import CurrentRunner, Way
from jupyter_hpc.connect.session.dialling import Dialler, JobOver, ServerGone
from jupyter_hpc.connect.session.interruptions import Interruptions
from jupyter_hpc.connect.session.reconnect import Redial
from jupyter_hpc.connect.session.watch import IdleRelease, JobWatch, TimeLimitWarnings
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import (
    CommandError,
    ConnectError,
    HpcError,
    SessionEnded,
    SlurmUnavailable,
)
from jupyter_hpc.runner import Completed
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from jupyter_hpc.waiting import finish

_log = logging.getLogger(__name__)

#: A Jupyter that keeps dying is not started for ever: so often within so many seconds.
_MOST_RESTARTS = 3
_RESTART_SPAN = 600.0


class Supervisor:
    """One session of one profile; see the module's text.

    `on_link` is called with every new link (a new one is made when Jupyter was started
    again), `on_person` with the need for an answer, "" when there is none any more, and
    `on_number` with the number of a further session, which may change port and owner.
    """

    def __init__(
        self,
        profile: Profile,
        options: ConnectOptions,
        way: Way,
        sink: Sink,
        *,
        launch: Launch,
        port: Callable[[], int],
        owner: Callable[[], str],
        on_number: Callable[[int], Awaitable[None]],
        on_link: Callable[[Link | None], None],
        on_person: Callable[[str], None],
        on_job: Callable[[Job], None],
        browsers: Callable[[], int],
    ) -> None:
        self.token = ""
        self.address: ServerAddress | None = None
        self.link: Link | None = None
        self._profile = profile
        self._options = options
        self._way = way
        self._sink = sink
        self._launch = launch
        self._port = port
        self._owner = owner
        self._on_number = on_number
        self._on_link = on_link
        self._on_person = on_person
        self._on_job = on_job
        self._browsers = browsers
        self._comeback = Comeback(way, sink, on_person)
        self._words: asyncio.Queue[str] = asyncio.Queue()
        self._opener: JobOpener | None = None
        self._opened: OpenJob | None = None
        self._redial: Redial | None = None
        self._ends_at: float | None = None

    def ask(self, word: str) -> None:
        """leave: the job stays; stop: it is cancelled."""
        self._words.put_nowait(word)

    def allow_prompt(self) -> None:
        """A person is there to answer the next login."""
        self._comeback.allow()
        if self._redial is not None:
            self._redial.allow()

    async def read_log(self, offset: int) -> tuple[str, int]:
        """What Jupyter wrote from byte `offset` on (-1: the end of it), and the next offset.

        Unreachable as soon as the connection is known to be away.
        """
        if self.address is None:
            return "", 0
        log = f"{self.address.session}/jupyter.log"
        reading = remote.read_from(self._way.on_node, log, offset)
        text, size = await unless_away(reading, self.link)
        # Nothing at all was read where something has been: where it stopped is still true.
        return (text, size) if text or size else ("", max(0, offset))

    async def run_command(
        self, argv: Sequence[str], stdin: bytes | None, timeout: float
    ) -> Completed:
        """One command on the login host, over the session's own connection."""
        return await self._way.login.runner.run(argv, stdin=stdin, timeout=timeout)

    async def run(self) -> Ended:
        """The session until it is over; raises HpcError if it could not be opened."""
        work = asyncio.create_task(self._session())
        word = asyncio.create_task(self._words.get())
        try:
            await asyncio.wait((work, word), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return await work
            await finish(work)
            return await self._obey(word.result())
        finally:
            await finish(work, word)
            self._way.close()

    async def _obey(self, word: str) -> Ended:
        if word == "stop" and self.job_id:
            await self._cancel()
            text = f"Job {self.job_id} was cancelled, as asked."
            return self._end(Ended("CANCELLED", "requested", text))
        text = f"Job {self.job_id} stays." if self.job_id else "No job was asked for."
        return self._end(Ended("RUNNING" if self.job_id else "NONE", "requested", text))

    async def _cancel(self) -> None:
        try:
            if not self._way.alive:
                await self._way.log_in(ask=True)
            await cancel_for_sure(SlurmClient(self._way.login.runner), self.job_id)
        except (ConnectError, CommandError, SlurmUnavailable) as error:
            raise ConnectError(
                f"Job {self.job_id} could not be cancelled and may go on. {error.message}",
                f"{error.hint} Then connect again, and stop it.".lstrip(),
            ) from error

    def _end(self, ended: Ended) -> Ended:
        self._sink(ended)
        return ended

    # -- opening ------------------------------------------------------------------------

    async def _session(self) -> Ended:
        self._sink(Authenticating(self._profile.login.host[0]))
        await self._way.log_in(ask=True)
        self._opener = opener = JobOpener(
            self._profile,
            self._options,
            self._launch,
            CurrentRunner(self._way),
            self._sink,
            self._on_number,
        )
        self._opened = opened = await self._comeback.through(opener.open)
        self._sink(Running(opened.job.job_id, opened.node))
        self._note_job(opened.job)
        restarts: list[float] = []
        while True:
            try:
                return await self._comeback.through(lambda: self._serve(opened))
            except ServerGone:
                restarts = [at for at in restarts if time.monotonic() - at < _RESTART_SPAN]
                restarts.append(time.monotonic())
                _log.info("Jupyter is gone, start %d within %g s", len(restarts), _RESTART_SPAN)
                if self.address is not None and len(restarts) > _MOST_RESTARTS:
                    raise await why_jupyter_ended(self._way, self.address) from None
                self._sink(Warned("Jupyter ended; it is being started again in the same job."))
            except JobOver:
                return self._end(await self._why())

    async def _serve(self, opened: OpenJob) -> Ended:
        """Open the server and keep it; raises ServerGone or JobOver."""
        self._sink(Starting(opened.job.job_id, opened.node))
        server = await open_server(self._profile, self._way, opened)
        self.address, self.token = server.address, server.address.token
        heard = Interruptions(self._sink, self._on_person)
        self.link = link = Link(server.address.secret, self._owner(), heard.on_link)
        dialler = Dialler(self._profile, self._way, opened, server.address, link)
        self._redial = Redial(link, dialler.dial, knock=dialler.knock, on_event=heard.on_redial)
        keep: asyncio.Task[Any] | None = None
        try:
            await link.attach(await self._way.open_pipe(server.address))
            keep = asyncio.create_task(self._redial.run())
            await self._wait_ready(link, keep, server)
            self._on_link(link)
            port = self._port()
            url = f"http://localhost:{port}/lab"
            ready = Ready(url, port, opened.job.job_id, opened.node, self._way.rung)
            self._sink(ready)
            if self._way.rung == "direct":
                self._sink(
                    Warned(
                        "The relay listens on a TCP port of the node, as asked for: others on the "
                        "cluster can reach it, and only its secret keeps them out."
                    )
                )
            await self._check_extension(server)
            return await self._stay(keep)
        finally:
            self._redial = None
            if keep is not None:
                await finish(keep)
            self._on_link(None)
            await link.close()
            self.link = None

    async def _wait_ready(self, link: Link, keep: asyncio.Task[Any], server: OpenServer) -> None:
        """Until Jupyter answers; a Jupyter that ends before is an error, not restarted."""
        answers = asyncio.create_task(jupyter_api.wait_until_answers(link, START_SECONDS))
        try:
            await asyncio.wait((answers, keep), return_when=asyncio.FIRST_COMPLETED)
            if keep.done():
                await keep
            await answers
        except ServerGone:
            if server.found:
                raise
            raise await why_jupyter_ended(self._way, server.address) from None
        finally:
            await finish(answers)

    async def _check_extension(self, server: OpenServer) -> None:
        if not server.found and not await extension_installed(self._way.on_node, server.address):
            self._sink(
                Warned(
                    "jupyter-hpc is not installed in the cluster's environment: plain JupyterLab "
                    "is open, without its panels. To add them there: pip install jupyter-hpc"
                )
            )

    @property
    def job_id(self) -> str:
        """The session's job, "" while there is none."""
        return self._opener.job_id if self._opener is not None else ""

    # -- staying ------------------------------------------------------------------------

    async def _stay(self, keep: asyncio.Task[Any]) -> Ended:
        """Until the job is over or nothing more can be done; raises ServerGone, JobOver."""
        slurm = SlurmClient(CurrentRunner(self._way))
        watch = JobWatch(
            self.job_id, self._profile.slurm.poll_seconds, slurm.job, self._note_job, self._sink
        )
        job = asyncio.create_task(watch.run())
        warn = asyncio.create_task(self._warn())
        tasks = [keep, job, warn]
        idle = self._idle_seconds()
        if idle:
            release = IdleRelease(idle, lambda: self.link, lambda: self.token)
            tasks.append(asyncio.create_task(release.run(self._browsers)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
            if job in done:
                raise JobOver
            return await self._release()
        except SessionEnded:
            raise JobOver from None
        finally:
            await finish(*tasks)

    def _idle_seconds(self) -> int | None:
        asked = self._options.idle_release
        return duration_seconds(asked) if asked else self._profile.jupyter.idle_release_seconds

    async def _release(self) -> Ended:
        """Nobody used the session for the agreed time: its job is let go."""
        await cancel_for_sure(SlurmClient(self._way.login.runner), self.job_id)
        text = (
            f"Job {self.job_id} was released: no kernel was busy and no browser open for the "
            "agreed time. Notebooks are as they were last saved."
        )
        return self._end(Ended("CANCELLED", "requested", text))

    async def _warn(self) -> None:
        warnings = TimeLimitWarnings(self._sink)
        while True:
            pause = warnings.look(self._ends_at, time.time())
            await asyncio.sleep(min(5.0, pause))

    def _note_job(self, job: Job) -> None:
        if job.time_left is not None:
            # Counted from now on this laptop: the cluster's clock and zone may differ.
            self._ends_at = time.time() + job.time_left
        self._on_job(job)

    async def _why(self) -> Ended:
        """Why the job is over; asked over a new login if that needs nobody."""
        uid = self._opened.account.uid if self._opened else ""
        try:
            if not self._way.alive:
                await self._way.log_in(ask=False)
            runner = self._way.login.runner
            return await why_ended(SlurmClient(runner), runner, self.job_id, uid)
        except HpcError as error:
            text = f"Job {self.job_id} is over; why could not be asked: {error.message}"
            return Ended("UNKNOWN", "failed", text)
