"""My jobs, behind one polite cache, and what can be done to them.

Slurm is asked only while somebody looks: every minute at rest, every 20 seconds for
two minutes after an own action, and never more often than the site's floor.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_hpc.errors import PermissionRefused, UsageError
from jupyter_hpc.node.services.cache import Cached, Dated
from jupyter_hpc.node.services.identity import Identity
from jupyter_hpc.node.services.job_actions import ActionResult, Verb, attempt, summed_up
from jupyter_hpc.node.services.job_history import JobHistory
from jupyter_hpc.node.services.job_rows import Rows, next_rows
from jupyter_hpc.node.services.signal import Signal
from jupyter_hpc.node.settings import NodeSettings
from jupyter_hpc.node.values import Encoded, problem_of
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.slurm.client import SlurmClient
    from jupyter_hpc.slurm.models import Job

#: How long the shorter pause holds after an own action.
ATTENTIVE_SECONDS = 120.0

#: Slurm needs a moment until an action shows in the queue.
ACTION_SHOWS_SECONDS = 1.0

ACTIONS = ("cancel", "hold", "release", "requeue")

#: At most so many jobs in one request.
MAX_JOBS_AT_ONCE = 100

_ID = re.compile(r"[0-9]{1,10}(_([0-9]{1,10}|\[[0-9,:-]{1,200}\])|\+[0-9]{1,5})?")


@dataclass(frozen=True)
class Queue:
    """The jobs of one moment, as values and as encoded rows."""

    jobs: tuple[Job, ...]
    rows: Rows


def parse_id(text: str) -> str:
    """One job id as Slurm writes it; UsageError for anything else."""
    if not _ID.fullmatch(text):
        raise UsageError(
            f"{printable(text, 60)!r} is not a job id.",
            "A job id looks like 123, an array task like 123_4, a het component like 123+1.",
        )
    return text


def parse_ids(text: str) -> list[str]:
    """Several ids separated by commas; commas inside brackets belong to their id."""
    ids = [parse_id(part) for part in re.split(r",(?![^\[]*\])", text)]
    if len(ids) > MAX_JOBS_AT_ONCE:
        raise UsageError(
            f"{len(ids)} jobs are too many at once.", f"Name at most {MAX_JOBS_AT_ONCE}."
        )
    return ids


class JobsService:
    """The user's jobs. `on_cancel` is told about each job that was cancelled."""

    def __init__(
        self,
        client: SlurmClient,
        settings: NodeSettings,
        identity: Identity,
        *,
        poll_seconds: float | None = None,
        on_cancel: Callable[[str], None] = lambda job_id: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._rest = max(poll_seconds or 0.0, settings.poll_seconds)
        self._on_cancel = on_cancel
        self._clock = clock
        self._acted_at = float("-inf")
        #: When somebody asked for news; as soon as the floor allows, they get them.
        self._wished_at = float("-inf")
        self._rows = Rows()
        self._queue: Cached[Queue] = Cached(
            self._fetch, self._rest, floor=settings.poll_floor, clock=clock
        )
        #: Rings when there may be something new to see.
        self.changed = Signal()
        self.history = JobHistory(
            client, identity, settings.history_days, clock=clock, on_news=self.changed.ring
        )

    async def read(self, refresh: bool = False) -> dict[str, object]:
        """All of it: the queue and the finished jobs, with their ages."""
        queue = await self._look(refresh)
        finished = await self.history.read(refresh)
        return {
            **self._head(queue),
            "jobs": Encoded(queue.value.rows.all()),
            "finished": finished.described(self._clock()),
        }

    async def changes(self, seen: Seen) -> dict[str, object] | None:
        """What a stream needs that has seen `seen`, which is brought up to date.

        The first message is complete. None when nothing is new, not even the age.
        """
        queue = await self._look(False)
        finished = await self.history.read()
        rows = queue.value.rows
        state = (rows.version, queue.taken_at, str(queue.problem), finished.state())
        if seen.state == state:
            return None
        complete = seen.version is None
        message = self._head(queue)
        if complete or (rows.version != seen.version and rows.base != seen.version):
            message["jobs"] = Encoded(rows.all())
        elif rows.version != seen.version:
            message |= {
                "base": rows.base,
                "changed": Encoded(rows.difference()),
                "removed": rows.removed,
            }
        if complete or seen.finished != finished.state():
            message["finished"] = finished.described(self._clock())
        else:
            message["finished_age"] = finished.age(self._clock())
        seen.state, seen.version, seen.finished = state, rows.version, finished.state()
        return message

    @property
    def newest(self) -> Dated[Queue] | None:
        """The newest list, if there is one; nothing is asked."""
        return self._queue.newest

    def known(self, job_id: str) -> Dated[Job] | None:
        """A job of the newest list, if it is there; nothing is asked."""
        newest = self._queue.newest
        if newest is None:
            return None
        for job in newest.value.jobs:
            if job_id in (job.id, job.job_id):
                return Dated(job, newest.taken_at, newest.problem)
        return None

    def state_of(self, job_id: str) -> Dated[str | None] | None:
        """The state that the newest list gives, None in it for a job that has left the queue."""
        known = self.known(job_id)
        if known is not None:
            return Dated(known.value.state, known.taken_at)
        newest = self._queue.newest
        return Dated(None, newest.taken_at) if newest else None

    def due(self) -> float:
        """Seconds until it makes sense to look again."""
        self._queue.lifetime = self._pause()
        wait = self._queue.next_fetch()
        if self._action_unseen():
            soon = self._acted_at + ACTION_SHOWS_SECONDS - self._clock()
            wait = min(wait, max(soon, self._queue.floor_left(), 0.1))
        if self._wish_unseen():
            wait = min(wait, max(self._queue.floor_left(), 0.1))
        return wait

    async def act(self, action: str, text: str) -> ActionResult:
        """Do `action` to the jobs that `text` names, each for itself.

        A single refusal is raised as it is; among several it is one of the outcomes.
        """
        if not self._settings.job_actions_enabled:
            raise PermissionRefused(
                "This site has switched off changing jobs from JupyterLab.",
                "Use scancel or scontrol in a terminal.",
            )
        ids = parse_ids(text)
        verb = self._verb(action)
        outcomes = await attempt(action, verb, ids)
        self.note_action()
        if action == "cancel":
            for outcome in outcomes:
                if outcome.ok:
                    self._on_cancel(outcome.id)
        return summed_up(outcomes)

    def note_action(self) -> None:
        """Something was done that shows in the queue soon, so look at it soon."""
        self._acted_at = self._clock()
        self.changed.ring()

    def _verb(self, action: str) -> Verb:
        verbs: dict[str, Verb] = {
            "cancel": self._client.cancel,
            "hold": self._client.hold,
            "release": self._client.release,
            "requeue": self._client.requeue,
        }
        return verbs[action]

    async def _look(self, refresh: bool) -> Dated[Queue]:
        if not self._settings.jobs_enabled:
            raise PermissionRefused("This site has switched off the list of jobs.", "")
        self._queue.lifetime = self._pause()
        newer_than = None
        if refresh:
            self._wished_at = newer_than = self._clock()
            self.changed.ring()
        elif self._wish_unseen():
            newer_than = self._wished_at
        elif self._action_unseen() and self._clock() >= self._acted_at + ACTION_SHOWS_SECONDS:
            newer_than = self._acted_at + ACTION_SHOWS_SECONDS
        return await self._queue.get(newer_than=newer_than)

    async def _fetch(self) -> Queue:
        jobs = await self._client.my_jobs()
        before = self._queue.newest
        self._rows = await next_rows(self._rows, jobs)
        self.history.note_queue(before.value.jobs if before else (), jobs)
        return Queue(tuple(jobs), self._rows)

    def _pause(self) -> float:
        attentive = self._clock() - self._acted_at < ATTENTIVE_SECONDS
        # A site that asks for long pauses is not asked much more often after an action either.
        soon = max(self._settings.poll_seconds_after_action, self._rest / 3)
        return min(soon, self._rest) if attentive else self._rest

    def _action_unseen(self) -> bool:
        # one question answers it: a controller that is down is not asked more often for it
        return self._queue.asked_at < self._acted_at + ACTION_SHOWS_SECONDS

    def _wish_unseen(self) -> bool:
        return self._queue.asked_at < self._wished_at

    def _head(self, queue: Dated[Queue]) -> dict[str, object]:
        return {
            "version": queue.value.rows.version,
            "taken_at": queue.taken_at,
            "age": max(0.0, self._clock() - queue.taken_at),
            "problem": problem_of(queue.problem),
            "next_poll": self.due(),
        }

    async def stop(self) -> None:
        """End what is under way."""
        await asyncio.gather(self._queue.stop(), self.history.stop())


@dataclass
class Seen:
    """What one stream has been sent so far."""

    version: int | None = None
    finished: object = None
    state: object = None
