"""What of a session is worth a notification, each occurrence once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.connect.events import Event, GpuIdle, OutOfMemory, Ready, Sink, TimeLimitNear
from jupyter_hpc.connect.sentences import sentence
from jupyter_hpc.connect.session.notify.batch_jobs import BatchJobWatch
from jupyter_hpc.connect.session.notify.gpu_idle import GpuIdleWatch
from jupyter_hpc.connect.session.notify.sending import Message, can_tell, send
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.telling import MARK_SCRIPT, MARKED_BY_ANOTHER, NEAR_MARK_SECONDS
from jupyter_hpc.waiting import finish

#: The step of the time limit's warnings that is told.
_NOTIFIED_STEP_MINUTES = 10

#: Messages that are still on their way when the session ends may take so long.
_LAST_SECONDS = 10.0


#: How often the job is asked whether it has told of something, where it cannot be asked at once.
_CLAIMS = 30
_CLAIM_SECONDS = 20.0
_LAST_CLAIM_SECONDS = 1.0

#: Of an event, and how old a mark of the same occurrence can be in seconds: whether it is ours to
#: tell, None if that cannot be known now.
Claim = Callable[[str, float], Awaitable["bool | None"]]


async def _no_job_tells(event: str, seconds: float) -> bool | None:
    return True


async def claim(runner: Runner, folder: str, event: str, seconds: float) -> bool | None:
    """A Claim: the mark in the session's folder on the cluster; see telling.py."""
    argv = ["sh", "-c", MARK_SCRIPT, "sh", folder, event, str(int(seconds / 60))]
    try:
        done = await runner.run(argv)
    except HpcError:
        return None
    return done.returncode != MARKED_BY_ANOTHER


class Notices:
    """Hears a session's events and tells the user what asks for attention.

    While a link is up it also looks, at a slow pace, for GPUs that idle and for batch jobs
    whose end somebody wants to be told of.
    """

    def __init__(
        self,
        settings: NotifySettings,
        name: Callable[[], str],
        sink: Sink,
        claim: Claim = _no_job_tells,
    ) -> None:
        self._settings = settings
        self._claim = claim
        self._name = name
        self._sink = sink
        self._ready: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._looking: list[asyncio.Task[None]] = []
        self._claiming: set[asyncio.Task[None]] = set()

    def on_event(self, event: Event) -> None:
        """Tell of it, if it is one to tell of."""
        name = self._name()
        if isinstance(event, Ready):
            if event.job_id not in self._ready:
                self._ready.add(event.job_id)
                where = f"{name}: job {event.job_id} on {event.node}"
                self.tell(Message("ready", "JupyterLab is ready", where, event.job_id))
        elif isinstance(event, TimeLimitNear):
            if event.step == _NOTIFIED_STEP_MINUTES:
                message = Message("time-limit", f"{name}: time is short", sentence(event))
                self._tell_once(message, NEAR_MARK_SECONDS)
        elif isinstance(event, GpuIdle):
            message = Message("gpu-idle", f"{name}: idle GPU", sentence(event))
            self._tell_once(message, event.idle_seconds)
        elif isinstance(event, OutOfMemory):
            self.tell(Message("out-of-memory", f"{name}: out of memory", sentence(event)))

    def on_link(
        self, link: Link | None, runner: Runner | None, token: str, poll_seconds: float
    ) -> None:
        """Look through this link from now on; None: there is none any more."""
        for task in self._looking:
            task.cancel()
        self._looking = []
        if link is None or not can_tell(self._settings):
            return
        if self._settings.gpu_idle_seconds:
            idle = GpuIdleWatch(self._settings.gpu_idle_seconds, link, token, self._sink)
            self._looking.append(asyncio.create_task(idle.run()))
        if runner is not None:
            jobs = BatchJobWatch(runner, poll_seconds, self.tell)
            self._looking.append(asyncio.create_task(jobs.run()))

    def tell(self, message: Message) -> None:
        """Send a message; nobody waits for it."""
        self._start(send(self._settings, message))

    def _tell_once(self, message: Message, seconds: float) -> None:
        """Send a message that the job itself sends while no laptop does."""
        if not can_tell(self._settings):
            return  # whoever can is not to be kept from it
        self._start(self._tell_if_ours(message, seconds), self._claiming)

    async def _tell_if_ours(self, message: Message, seconds: float) -> None:
        """While the job cannot be asked only the desktop is told: the job has its own ways out."""
        shown = False
        for _ in range(_CLAIMS):
            ours = await self._claim(message.event, seconds)
            if ours is not None:
                break
            if not shown:
                shown = True
                self._start(send(replace(self._settings, command=(), webhook=""), message))
            await asyncio.sleep(_CLAIM_SECONDS)
        if ours:
            left = replace(self._settings, desktop=False) if shown else self._settings
            self._start(send(left, message))

    def _start(
        self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]] | None = None
    ) -> None:
        kept = self._sending if tasks is None else tasks
        task = asyncio.create_task(work)
        kept.add(task)
        task.add_done_callback(kept.discard)

    async def close(self) -> None:
        """Look no more; what is on its way gets a moment."""
        await finish(*self._looking)
        if self._claiming:
            await asyncio.wait(self._claiming, timeout=_LAST_CLAIM_SECONDS)
        await finish(*self._claiming)
        if self._sending:
            await asyncio.wait(self._sending, timeout=_LAST_SECONDS)
        await finish(*self._sending)
