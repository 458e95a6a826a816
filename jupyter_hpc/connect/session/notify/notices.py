"""What of a session is worth a notification, each occurrence once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from jupyter_hpc.clusters.user_settings import NotifySettings
from jupyter_hpc.connect.events import Event, GpuIdle, OutOfMemory, Ready, Sink, TimeLimitNear
from jupyter_hpc.connect.sentences import sentence
from jupyter_hpc.connect.session.notify.batch_jobs import BatchJobWatch
from jupyter_hpc.connect.session.notify.gpu_idle import GpuIdleWatch
from jupyter_hpc.connect.session.notify.sending import Message, can_tell, send
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.runner import Runner
from jupyter_hpc.waiting import finish

#: The step of the time limit's warnings that is told.
_NOTIFIED_STEP_MINUTES = 10

#: Messages that are still on their way when the session ends may take so long.
_LAST_SECONDS = 10.0


class Notices:
    """Hears a session's events and tells the user what asks for attention.

    While a link is up it also looks, at a slow pace, for GPUs that idle and for batch jobs
    whose end somebody wants to be told of.
    """

    def __init__(self, settings: NotifySettings, name: Callable[[], str], sink: Sink) -> None:
        self._settings = settings
        self._name = name
        self._sink = sink
        self._ready: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._looking: list[asyncio.Task[None]] = []

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
                self.tell(Message("time-limit", f"{name}: time is short", sentence(event)))
        elif isinstance(event, GpuIdle):
            self.tell(Message("gpu-idle", f"{name}: idle GPU", sentence(event)))
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

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Look no more; what is on its way gets a moment."""
        await finish(*self._looking)
        if self._sending:
            await asyncio.wait(self._sending, timeout=_LAST_SECONDS)
        await finish(*self._sending)
