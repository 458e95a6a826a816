"""What the job tells its user itself while no laptop does: little time left, an idle GPU.

The settings travel with the session's files. A laptop that is connected tells first; what it has
told is marked in the same folder (telling.py). So each occurrence waits a while here, and is told
if its mark is still ours to make.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.notify import send
from jupyter_hpc.errors import HpcError
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.services.profile import PROFILE_VARIABLE, SiteProfile
from jupyter_hpc.node.services.session import SessionService
from jupyter_hpc.telling import (
    NEAR_MARK_SECONDS,
    NEAR_SECONDS,
    SETTINGS_FILE,
    IdleStretches,
    make_mark,
    time_limit_near,
)

_log = logging.getLogger(__name__)

#: How often is looked; and after how long without a laptop's mark it is told here. A laptop looks
#: at GPUs every five minutes.
LOOK_SECONDS = 30.0
TIME_GRACE_SECONDS = 60.0
IDLE_GRACE_SECONDS = 360.0


_READ_SECONDS = 60.0
#: A command and a webhook take eight seconds each at most.
_TELL_SECONDS = 60.0


@dataclass(frozen=True)
class Occurrence:
    """Something to tell, unless a mark says that a laptop has told it; times are epoch seconds."""

    event: str
    title: str
    text: str
    due_at: float
    mark_seconds: float


class AwayNotices:
    """Looks from `start` to `stop`, if the settings name a way that leads out of the job.

    `ends` is the job's end in epoch seconds; `gpus` what our panel shows of them, None without
    any.
    """

    def __init__(
        self,
        folder: Path,
        cluster: str,
        job_id: str,
        ends: Callable[[], Awaitable[float | None]],
        gpus: Callable[[], Awaitable[Mapping[str, Any]]] | None,
        offload: Offload,
    ) -> None:
        self._folder = folder
        self._where = f"{cluster}, job {job_id}" if cluster else f"Job {job_id}"
        self._job_id = job_id
        self._ends = ends
        self._gpus = gpus
        self._offload = offload
        self._settings: dict[str, Any] = {}
        self._idle: IdleStretches | None = None
        self._near = False
        self._waiting: dict[str, Occurrence] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, where the folder is that of this job."""
        # A job that was submitted from a session inherits the name of that session's file.
        if self._task is None and self._job_id in re.split("[-.]", self._folder.name):
            self._task = asyncio.create_task(self._run())

    async def read_settings(self) -> bool:
        """Read how to tell; False where nothing leads out of the job."""
        path = self._folder / SETTINGS_FILE
        settings = await self._offload(_read, path, timeout=_READ_SECONDS, about=str(path))
        window = settings.get("gpu_idle")
        self._settings = settings
        self._idle = IdleStretches(window) if isinstance(window, int) and window > 0 else None
        return bool(settings.get("command") or settings.get("webhook"))

    async def _run(self) -> None:
        try:
            if not await self.read_settings():
                return
        except HpcError as error:
            _log.warning("how the job is to tell its user could not be read: %s", error.message)
            return
        while True:
            try:
                await self.look(time.time())
            except HpcError as error:
                _log.info("what is to be told could not be looked at: %s", error.message)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, now: float) -> None:
        """Tell what has waited for long enough, and note what is new."""
        await self._look_at_time(now)
        for occurrence in list(self._waiting.values()):
            if now >= occurrence.due_at:
                del self._waiting[occurrence.event]
                about = "What is told to the user"
                await self._offload(self._tell, occurrence, timeout=_TELL_SECONDS, about=about)
        if self._gpus is not None and self._idle is not None:
            self._look_at_gpus(await self._gpus(), self._idle, now)

    async def _look_at_time(self, now: float) -> None:
        ends = await self._ends()
        before, self._near = self._near, ends is not None and 0 < ends - now <= NEAR_SECONDS
        if not self._near:
            self._waiting.pop("time-limit", None)
        elif ends is not None and not before:
            title, text = f"{self._where}: time is short", time_limit_near(ends - now)
            due_at = now + TIME_GRACE_SECONDS
            self._note(Occurrence("time-limit", title, text, due_at, NEAR_MARK_SECONDS))

    def _look_at_gpus(
        self, answer: Mapping[str, Any], stretches: IdleStretches, now: float
    ) -> None:
        found = stretches.look(answer)
        if not stretches.is_idle:
            self._waiting.pop("gpu-idle", None)
        if found is not None:
            title, due_at = f"{self._where}: idle GPU", now + IDLE_GRACE_SECONDS
            # A mark of an earlier stretch is older than this one.
            seconds = found.seconds + IDLE_GRACE_SECONDS
            self._note(Occurrence("gpu-idle", title, found.text, due_at, seconds))

    def _note(self, occurrence: Occurrence) -> None:
        self._waiting[occurrence.event] = occurrence

    def _tell(self, occurrence: Occurrence) -> None:
        """Blocking: the mark is a folder in the home, the way out a command or a web server."""
        if not make_mark(self._folder, occurrence.event, occurrence.mark_seconds):
            _log.info("of %r the laptop has told", occurrence.event)
            return
        fields = {"event": occurrence.event, "title": occurrence.title, "text": occurrence.text}
        send(self._settings, {**fields, "job_id": self._job_id})

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def of_this_job(
    environ: Mapping[str, str],
    profile: SiteProfile,
    session: SessionService,
    gpus: Callable[[], Awaitable[Mapping[str, Any]]] | None,
    offload: Offload,
) -> AwayNotices:
    """What the job around this server tells, by the file beside that of the profile."""

    async def ends() -> float | None:
        job = (await session.read()).job
        return job.ends if job is not None else None

    folder = Path(environ.get(PROFILE_VARIABLE, "")).parent
    job_id = environ.get("SLURM_JOB_ID", "")
    return AwayNotices(folder, profile.name or "", job_id, ends, gpus, offload)


def _read(path: Path) -> dict[str, Any]:
    """The settings; nothing where there is no such file, or one that is none."""
    try:
        settings = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}
