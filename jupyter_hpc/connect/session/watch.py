"""What is looked at while a session runs: its job, its remaining time, its idleness."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.values import duration_seconds
from jupyter_hpc.connect.events import Sink, TimeLimitMoved, TimeLimitNear, Warned
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.ssh.expiring.credential import Credential
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import CommandError, ConnectError, SlurmError
from jupyter_hpc.slurm.models import Job, Phase
from jupyter_hpc.telling import time_limit_near
from jupyter_hpc.text import duration

#: Minutes before the time limit at which the user is warned.
WARNING_MINUTES = (30, 10, 3)

#: Minutes before the end of a certificate or ticket at which the user is told, and at its end.
CREDENTIAL_MINUTES = (30, 5, 0)
_CREDENTIAL_TICK = 60.0

#: Slurm counts in minutes, and its answer takes time: less is no change of the limit.
_CHANGED_SECONDS = 90.0

#: How often idleness is looked at; a release is late by no more than this.
_IDLE_TICK = 30.0


class TimeLimitWarnings:
    """Says each warning once, and only those that lie ahead when the session begins."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._left: list[int] | None = None
        self._ends_at: float | None = None

    async def run(self, ends_at: Callable[[], float | None]) -> None:
        """Warn until cancelled; the end may move."""
        while True:
            pause = self.look(ends_at(), time.time())
            await asyncio.sleep(min(5.0, pause))

    def look(self, ends_at: float | None, now: float) -> float:
        """Warn if it is time to; returns the seconds until the next look makes sense."""
        if ends_at is None:
            return 60.0
        minutes = (ends_at - now) / 60
        before, self._ends_at = self._ends_at, ends_at
        if before is not None and abs(ends_at - before) >= _CHANGED_SECONDS:
            self._left = None if ends_at < before else [s for s in WARNING_MINUTES if s < minutes]
            word = "shortened" if ends_at < before else "extended"
            self._sink(
                TimeLimitMoved(
                    f"The job's time limit was {word}: it ends in {duration(ends_at - now)}."
                )
            )
        if self._left is None:
            # A session that begins with 8 minutes left is told so once, by the 10-minute step.
            late = [step for step in WARNING_MINUTES if step >= minutes]
            self._left = [step for step in WARNING_MINUTES if step < minutes] + late[-1:]
            self._left.sort(reverse=True)
        due = [step for step in self._left if minutes <= step]
        if due:
            self._left = [step for step in self._left if step not in due]
            self._sink(TimeLimitNear(time_limit_near(ends_at - now), min(due)))
        ahead = [minutes - step for step in self._left]
        return max(1.0, min([60.0, *(gap * 60 for gap in ahead)]))


class CredentialSource(Protocol):
    """Whoever knows the certificate or ticket of this moment; ClusterConnections does."""

    async def credential(self) -> Credential | None: ...

    def renew_hint(self) -> str: ...


class CredentialWatch:
    """Says once when the certificate or ticket of the login ends soon, and when it has ended.

    An open connection outlives it; the next one needs a new one.
    """

    def __init__(self, source: CredentialSource, sink: Sink) -> None:
        self._source = source
        self._sink = sink
        self._said: set[tuple[str, int]] = set()

    async def run(self) -> None:
        """Look until cancelled; returns never."""
        while True:
            found = await self._source.credential()
            pause = self.look(found, time.time()) if found is not None else _CREDENTIAL_TICK
            await asyncio.sleep(min(_CREDENTIAL_TICK, pause))

    def look(self, found: Credential, now: float) -> float:
        """Warn if it is time to; returns the seconds until the next look makes sense."""
        if found.expires is None:
            return _CREDENTIAL_TICK
        left = found.expires - now
        due = [step for step in CREDENTIAL_MINUTES if left <= step * 60]
        if due and (found.identity, due[-1]) not in self._said:
            self._said.update((found.identity, step) for step in due)
            self._sink(
                Warned(
                    f"{found.text} The session goes on; after a cut it cannot come back without "
                    f"a new one. {self._source.renew_hint()}".strip()
                )
            )
        ahead = [left - step * 60 for step in CREDENTIAL_MINUTES if left > step * 60]
        return max(1.0, min([_CREDENTIAL_TICK, *ahead]))


class JobWatch:
    """Asks Slurm about the session's job at the site's pace."""

    def __init__(
        self,
        job_id: str,
        poll_seconds: float,
        ask: Callable[[str], Awaitable[Job | None]],
        on_job: Callable[[Job], None],
        sink: Sink,
        cut: Callable[[], bool] = lambda: False,
    ) -> None:
        """`cut` says whether the connection is away just now: then Slurm is not to blame."""
        self._cut = cut
        self._suspended = False
        self._job_id = job_id
        self._poll_seconds = poll_seconds
        self._ask = ask
        self._on_job = on_job
        self._sink = sink

    async def run(self) -> None:
        """Returns when Slurm says that the job is over; a Slurm that is away is waited for."""
        warned = False
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                job = await self._ask(self._job_id)
            except (SlurmError, CommandError) as error:
                if not warned and not self._cut():
                    self._sink(Warned(f"{error.message} The session itself goes on."))
                    warned = True
                continue
            except ConnectError:
                continue  # the pipe is away as well, and it is being made again
            warned = False
            if job is None or job.phase is Phase.ENDED:
                return
            self._look_suspended(job)
            self._on_job(job)

    def _look_suspended(self, job: Job) -> None:
        suspended = job.phase is Phase.SUSPENDED
        if suspended != self._suspended:
            self._suspended = suspended
            self._sink(
                Warned(
                    f"Slurm has suspended job {self._job_id}: nothing in it runs, and nothing is "
                    "lost, until it is resumed."
                    if suspended
                    else f"Job {self._job_id} was resumed; it goes on where it stood."
                )
            )


def idle_seconds(options: ConnectOptions, profile: Profile) -> int | None:
    """After how long a session that nobody uses is let go; None: never."""
    asked = options.idle_release
    return duration_seconds(asked) if asked else profile.jupyter.idle_release_seconds


class IdleRelease:
    """Lets a job go that nobody uses: no browser, no busy kernel, for so many seconds."""

    def __init__(
        self, seconds: float, link: Callable[[], Link | None], token: Callable[[], str]
    ) -> None:
        self._seconds = seconds
        self._link = link
        self._token = token
        self._used = time.monotonic()

    async def run(self, browsers: Callable[[], int]) -> None:
        """Returns when the session has been idle for the whole time."""
        while True:
            await asyncio.sleep(min(_IDLE_TICK, self._seconds / 4))
            link = self._link()
            if link is None or link.state != "up" or browsers():
                self._used = time.monotonic()
                continue
            try:
                if await jupyter_api.busy(link, self._token()):
                    self._used = time.monotonic()
            except ConnectError:
                self._used = time.monotonic()  # unknown counts as used
            if time.monotonic() - self._used >= self._seconds:
                return
