"""Finished jobs: a bounded listing, cached for minutes, and the ones that just left the queue."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_hpc.errors import HpcError, SlurmUnavailable
from jupyter_hpc.node.services.cache import WAIT_SECONDS, Cached
from jupyter_hpc.node.services.identity import Identity
from jupyter_hpc.node.services.job_rows import Rows, next_rows
from jupyter_hpc.node.values import Encoded, problem_of
from jupyter_hpc.slurm.models import FinishedJob, Job, Phase
from jupyter_hpc.slurm.queue import left_queue, unseen_tasks
from jupyter_hpc.waiting import finish

if TYPE_CHECKING:
    from jupyter_hpc.slurm.client import SlurmClient

LISTING_LIFETIME_SECONDS = 300.0
LISTING_FLOOR_SECONDS = 30.0

#: The database lags behind the queue by seconds: so often, and so far apart, it is
#: asked for a job that has just ended.
TRIES = 5
TRY_SECONDS = 5.0

#: The newest so many are kept.
MAX_FINISHED_JOBS = 5000

DAY_SECONDS = 86400


@dataclass(frozen=True)
class Finished:
    """The finished jobs that are known, since when, and why there may be more."""

    rows: Rows
    since: float
    taken_at: float | None
    problem: HpcError | None

    def state(self) -> tuple[object, ...]:
        """Compares equal when there is nothing new to show."""
        return (self.rows.version, str(self.problem))

    def described(self, now: float) -> dict[str, object]:
        """The JSON form."""
        return {
            "jobs": Encoded(self.rows.all()),
            "since": self.since,
            "taken_at": self.taken_at,
            "age": self.age(now),
            "problem": problem_of(self.problem),
        }

    def age(self, now: float) -> float | None:
        """Seconds since the database was asked; None before it has answered."""
        return None if self.taken_at is None else max(0.0, now - self.taken_at)


def silent_database() -> HpcError:
    """What is said while the first listing is awaited."""
    return SlurmUnavailable(
        "Slurm's database has not answered yet.", "Finished jobs are shown as soon as it does."
    )


class JobHistory:
    """Keeps finished jobs. The database is asked only while somebody looks.

    Whoever looks wants the queue above all and waits only a moment for the database;
    `on_news` is called when it has answered.
    """

    def __init__(
        self,
        client: SlurmClient,
        identity: Identity,
        days: float,
        *,
        clock: Callable[[], float] = time.time,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._identity = identity
        self._days = days
        self._clock = clock
        self._on_news = on_news
        self._jobs: dict[str, FinishedJob] = {}
        self._left: dict[str, int] = {}
        self._last_seen: dict[str, FinishedJob] = {}  # of those that the database lacks
        self._names: dict[str, str] = {}
        self._asked_left_at = float("-inf")
        self._asking_left: asyncio.Task[None] | None = None
        self._rows = Rows()
        self._changed = False
        self._listing: Cached[list[FinishedJob]] = Cached(
            self._fetch, LISTING_LIFETIME_SECONDS, floor=LISTING_FLOOR_SECONDS, clock=clock
        )

    def note_queue(self, before: Sequence[Job], now: Sequence[Job]) -> None:
        """Jobs that are no longer in the queue: how they ended is wanted soon.

        Until that is known, those that were seen to run are shown as they were last seen, and
        the tasks of an array that came and went between two looks are not shown. Names are kept:
        many databases know Latin letters only and give back question marks for all others.
        """
        here = {job.id for job in now}
        for job in before:
            if job.id not in here and "[" not in job.id:
                self._note_left(job)
                self._last_seen[job.id] = left_queue(job, int(self._clock()))
                self._changed = True
        for task in unseen_tasks(before, now):
            if task.id not in self._last_seen:
                self._note_left(task)
        for job_id in self._last_seen.keys() & here:  # it was requeued
            del self._last_seen[job_id]
            self._left.pop(job_id, None)
            self._changed = True

    def _note_left(self, job: Job) -> None:
        self._names[job.id] = job.name
        if (known := self._jobs.get(job.id)) is not None:
            self.remember(known)
        self._left[job.id] = 0

    async def read(self, refresh: bool = False) -> Finished:
        """What is known now; never raises, a missing database is a `problem`.

        `refresh` asks for a new listing before its time, as far as the floor allows.
        """
        since = self._clock() - self._days * DAY_SECONDS
        taken_at, problem = None, None
        try:
            newer_than = self._clock() if refresh else None
            listing = await self._listing.get(newer_than=newer_than, first_timeout=WAIT_SECONDS)
        except HpcError as error:
            problem = error if self._listing.failure else silent_database()
        else:
            taken_at, problem = listing.taken_at, listing.problem
        await self._ask_left()
        self._forget(since)
        if self._changed:
            self._changed = False
            known = {**self._last_seen, **self._jobs}
            newest_first = sorted(known.values(), key=lambda job: -(job.ended or 0))
            self._rows = await next_rows(self._rows, newest_first[:MAX_FINISHED_JOBS])
        return Finished(self._rows, since, taken_at, problem)

    def known(self, job_id: str) -> FinishedJob | None:
        """A finished job that has been seen."""
        return self._jobs.get(job_id)

    def remember(self, job: FinishedJob) -> None:
        """Keep a finished job that was asked for in another way."""
        if job.phase in (Phase.ENDED, Phase.UNKNOWN) and self._identity.owns(job.user):
            before = self._jobs.get(job.id)
            job = replace(job, name=self._names.get(job.id, job.name))
            if before is not None and before.usage is not None and job.usage is None:
                job = replace(job, usage=before.usage)
            if job != before:
                self._jobs[job.id] = job
                self._changed = True
            self._left.pop(job.id, None)
            self._last_seen.pop(job.id, None)

    async def _fetch(self) -> list[FinishedJob]:
        try:
            found = await self._client.history(int(self._days * DAY_SECONDS))
            for job in found:
                self.remember(job)
        finally:
            self._on_news()
        return found

    async def _ask_left(self) -> None:
        """Ask for the jobs that left the queue; the database may need some seconds."""
        now = self._clock()
        due = self._left and now - self._asked_left_at >= TRY_SECONDS
        if due and self._asking_left is None:
            self._asked_left_at = now
            self._asking_left = asyncio.create_task(self._find(list(self._left)[:200]))
        if self._asking_left is not None:
            await asyncio.wait({self._asking_left}, timeout=WAIT_SECONDS)

    async def _find(self, wanted: list[str]) -> None:
        try:
            await self._ask_controller(wanted)
            found = await self._client.finished(wanted)
        except HpcError:
            found = []
        finally:
            self._asking_left = None
            self._on_news()
        for job in found:
            self.remember(job)
        for job_id in wanted:
            if job_id in self._left:
                self._left[job_id] += 1
                if self._left[job_id] >= TRIES:
                    del self._left[job_id]

    async def _ask_controller(self, wanted: list[str]) -> None:
        """How jobs ended that the controller still remembers, ahead of the database."""
        unclear = {
            job_id
            for job_id in wanted
            if job_id not in self._last_seen or self._last_seen[job_id].phase is not Phase.ENDED
        }
        if not unclear:
            return
        with contextlib.suppress(HpcError):
            for job in await self._client.recent_jobs():
                if job.id in unclear & self._left.keys() and job.phase is Phase.ENDED:
                    self._last_seen[job.id] = left_queue(job)
                    self._changed = True

    def _forget(self, since: float) -> None:
        for kept in (self._jobs, self._last_seen):
            old = [job_id for job_id, job in kept.items() if (job.ended or since) < since]
            for job_id in old:
                del kept[job_id]
                self._names.pop(job_id, None)
                self._changed = True

    async def stop(self) -> None:
        """End what is under way."""
        await self._listing.stop()
        if self._asking_left is not None:
            await finish(self._asking_left)
