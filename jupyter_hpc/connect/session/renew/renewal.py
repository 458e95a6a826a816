"""When a session goes on in another job, and the way there; see docs/users/renewing.md.

Nothing here harms the session that runs: a successor that fails is given back and said, and
the session goes on to its time limit.
"""

from __future__ import annotations

import asyncio
import logging
import time

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.events import Warned
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.job.opening import JobOpener
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.connections import ClusterConnections, CurrentRunner
from jupyter_hpc.connect.session.listener import SessionListener
from jupyter_hpc.connect.session.renew.moving import move_workbench
from jupyter_hpc.connect.session.renew.successor import Successor, SuccessorMaker, take_over
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.slurm import allocate
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: The successor is to start so long before it is needed, as far as the queue can be foreseen.
_LEAD_SECONDS = 600.0
#: At the latest it is asked for so long before the time limit.
_LATEST_SECONDS = 900.0
#: Waits that are longer than this are not foreseen; Slurm is asked no earlier.
_HORIZON_SECONDS = 6 * 3600.0
#: Between two questions to Slurm how long a job like this would wait.
_ESTIMATE_SECONDS = 600.0
#: While a kernel works the change waits, until so long before the time limit.
_LAST_MOMENT_SECONDS = 120.0
_BUSY_SECONDS = 3.0


_WAITS = (
    "The next job is ready. A kernel works, so the session changes to it when it has finished, "
    f"or {_LAST_MOMENT_SECONDS / 60:g} minutes before the time limit."
)


class Renewed(Exception):
    """The successor serves the session from now on; see Renewal.ready."""


class Renewal:
    """Makes the successor of a session when it is time to, or when somebody asks for it."""

    def __init__(
        self,
        profile: Profile,
        options: ConnectOptions,
        connections: ClusterConnections,
        launch: Launch,
        listener: SessionListener,
    ) -> None:
        self._automatic = options.renew
        self._connections = connections
        self._listener = listener
        self.profile, self._options, self._launch = profile, options, launch
        self._asked = asyncio.Event()
        self._ready: Successor | None = None
        self._changing = False
        self._job_id = ""
        self._link: Link | None = None
        self._token = ""
        self._ends_at: float | None = None
        self._limit = 0.0  # seconds; the largest that a job of the session had
        self._estimated_at = -_ESTIMATE_SECONDS
        self._wait_seconds: float | None = None

    @property
    def ready(self) -> Successor | None:
        """A successor that serves and has not taken over yet."""
        return self._ready

    @property
    def following(self) -> Link | None:
        """Where the session goes on, from the moment of the change until it is taken over."""
        return self._ready.link if self._ready is not None and self._changing else None

    def ask(self) -> None:
        """Somebody wants it now."""
        self._asked.set()

    def note(self, job: Job, ends_at: float | None) -> None:
        """Slurm has said how the session's job stands."""
        self._ends_at = ends_at
        self._limit = max(self._limit, float(job.time_limit or 0))

    @property
    def _left(self) -> float | None:
        """Seconds until the time limit."""
        return None if self._ends_at is None else self._ends_at - time.time()

    async def take_over(self, opener: JobOpener | None) -> None:
        """The successor serves: it gets the session's name, and the old job is given back."""
        successor, self._ready, self._changing = self._ready, None, False
        if successor is None or opener is None:
            return
        job_id = successor.opened.job.job_id
        old, opener.job_id = opener.job_id, job_id
        self._estimated_at = -_ESTIMATE_SECONDS
        slurm = SlurmClient(CurrentRunner(self._connections))
        await take_over(slurm, old, successor, self._listener.on_event)
        await self._connections.approach(successor.opened.node, job_id)

    async def give_back(self) -> None:
        """The session is over: a successor that was not used is cancelled."""
        ready, self._ready, self._changing = self._ready, None, False
        if ready is not None:
            await ready.link.close()
            await self._maker().give_back(ready.opened.job.job_id, own=ready.own)

    async def run(self, job_id: str, link: Link | None, token: str) -> None:
        """Returns once there is a successor, and the session can change to it."""
        self._job_id, self._link, self._token = job_id, link, token
        while True:
            try:
                await self._wait_due()
                self._asked.clear()
                self._ready = await self._maker().make(self._listener.owner, self._tell_asked)
                await self._wait_idle()
                self._ready.said = await self._move(self._ready)
                self._changing = True
                return
            except Exception as error:
                # Whatever it is, the session that runs goes on.
                _log.info("no successor: %r", error)
                why = error.message if isinstance(error, HpcError) else f"{error!r}."
                await self.give_back()
                self._automatic = False  # the same failure again and again helps nobody
                self._listener.on_event(
                    Warned(
                        f"The session could not be taken over by another job: {why} "
                        "It goes on until its time limit."
                    )
                )

    async def _move(self, successor: Successor) -> str:
        if self._link is None:
            return ""
        browsers = self._listener.browsers > 0
        return await move_workbench(self._link, successor.link, self._token, browsers=browsers)

    def _maker(self) -> SuccessorMaker:
        return SuccessorMaker(
            self.profile,
            self._options,
            self._connections,
            self._launch,
            self._listener.on_event,
        )

    def _tell_asked(self, job_id: str) -> None:
        left = f" ends in {duration(self._left)}" if self._left is not None else " ends"
        self._listener.on_event(
            Warned(
                f"Job {job_id} was asked for, to go on when job {self._job_id}{left}. "
                "While both run, both are charged."
            )
        )

    # -- when ---------------------------------------------------------------------------

    async def _wait_due(self) -> None:
        while not self._asked.is_set():
            if self._automatic and await self._due():
                return
            try:
                await within(self._asked.wait(), 5.0)
            except (TimeoutError, asyncio.TimeoutError):
                continue

    async def _due(self) -> bool:
        # A short job has at least half of its time before the next one is asked for. The
        # largest limit counts: one that was shortened says nothing of the next job's.
        limit = self._limit or _HORIZON_SECONDS
        left = self._left
        if left is None or left > _HORIZON_SECONDS:
            return False
        if left <= min(_LATEST_SECONDS, limit / 2):
            return True
        if left > limit / 2:
            return False
        wait = await self._estimate()
        return wait is not None and left - wait <= _LEAD_SECONDS

    async def _estimate(self) -> float | None:
        """How long such a job would wait now, in seconds; asked now and then."""
        if time.monotonic() - self._estimated_at >= _ESTIMATE_SECONDS:
            self._estimated_at = time.monotonic()
            slurm = SlurmClient(CurrentRunner(self._connections))
            try:
                request = self._maker().request
                found = await slurm.test_only(request, allocate.keep_alive_script())
                self._wait_seconds = None
                if found.start is not None:
                    self._wait_seconds = max(0.0, found.start - time.time())
            except HpcError as error:
                _log.info("how long a successor would wait is not known: %s", error.message)
                self._wait_seconds = None
        return self._wait_seconds

    async def _wait_idle(self) -> None:
        """Until no kernel works, or the time limit is near."""
        waits = False
        while self._link is not None:
            if self._left is not None and self._left <= _LAST_MOMENT_SECONDS:
                return
            try:
                if not await jupyter_api.busy(self._link, self._token, ("busy",)):
                    return
                if not waits:
                    waits = True
                    self._listener.on_event(Warned(_WAITS))
            except ConnectError as error:
                _log.info("whether a kernel works is not known: %s", error.message)
            await asyncio.sleep(_BUSY_SECONDS)
