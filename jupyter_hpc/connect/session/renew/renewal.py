"""How a session goes on in another job; see docs/users/renewing.md.

Nothing here harms the session that runs: a successor that fails is given back and said, and
the session goes on to its time limit. One that still waits then goes on being the session's
(`hand_over`).
"""

from __future__ import annotations

import asyncio
import logging

from jupyter_hpc.connect.events import Warned
from jupyter_hpc.connect.job.opening import JobOpener
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.renew.moving import CarryLimits, move_workbench
from jupyter_hpc.connect.session.renew.schedule import RenewalSchedule
from jupyter_hpc.connect.session.renew.successor import Successor, SuccessorMaker
from jupyter_hpc.connect.session.renew.takeover import TakeOver
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, HpcError
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import within

_log = logging.getLogger(__name__)

#: While a kernel works the change waits, until so long before the time limit; longer where
#: variables have to be written and read first.
_LAST_MOMENT_SECONDS = 120.0
_LAST_MOMENT_WITH_VARIABLES_SECONDS = 300.0
_BUSY_SECONDS = 3.0
#: Between two attempts to give the old job back, at most.
_MAX_PAUSE_SECONDS = 60.0


class Renewed(Exception):
    """The successor serves the session from now on; see Renewal.ready."""


class Renewal:
    """Makes the successor of a session when it is time to, or when somebody asks for it."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._tell = context.listener.on_event
        self._automatic = context.options.renew
        self._with_variables = context.options.carry_variables
        self._schedule = RenewalSchedule(context)
        self._asked = asyncio.Event()
        self._maker = SuccessorMaker(context)
        self._ready: Successor | None = None
        self._changing = False
        self._unfinished: TakeOver | None = None  # two jobs are charged, as long as it is one
        self._name_refused = ""
        self._job_id = ""
        self._link: Link | None = None
        self._token = ""

    @property
    def ready(self) -> Successor | None:
        """A successor that serves and has not taken over yet."""
        return self._ready

    @property
    def following(self) -> Link | None:
        """Where the session goes on, from the moment of the change until it is taken over."""
        return self._ready.link if self._ready is not None and self._changing else None

    @property
    def offer(self) -> str:
        """What a renewal would cost, for whoever may ask for one; "" while none can be had."""
        if self._unfinished is not None or self._name_refused:
            return ""
        if self._asked.is_set() or self._maker.job_id or self._schedule.left is None:
            return ""
        return self._schedule.cost(self._maker.request)

    def ask(self, *, variables: bool = False) -> None:
        """Somebody wants it now; ConnectError where it is under way already."""
        if self._maker.job_id:
            raise ConnectError(
                f"Job {self._maker.job_id} was asked for already, to take this session over.",
                "The session changes to it by itself.",
            )
        self._with_variables = self._with_variables or variables
        self._asked.set()

    async def take_over(self, opener: JobOpener | None) -> None:
        """The successor serves: it gets the session's name, and the old job is given back."""
        successor, self._ready, self._changing = self._ready, None, False
        self._maker = SuccessorMaker(self._context)
        if successor is None or opener is None:
            return
        job_id = successor.opened.job.job_id
        old, opener.job_id = opener.job_id, job_id
        self._schedule.start_over()
        text = f"The session goes on in job {job_id} on {successor.opened.node}. Kernels are new. "
        change = TakeOver(self._context, old, job_id, successor.name)
        self._unfinished = change
        if await change.begin(f"{text}{successor.said}".rstrip()):
            self._finished(change)
        await self._context.connections.approach(successor.opened.node, job_id)

    def hand_over(self) -> SuccessorMaker | None:
        """Whoever has asked for a job that does not serve yet; from now on it is the caller's."""
        maker, self._maker = self._maker, SuccessorMaker(self._context)
        self._schedule.start_over()
        return maker if maker.asked else None

    async def give_back(self, *, stop: bool = False) -> str:
        """The session is over, or the successor of no use: it is cancelled. Returns its number.

        With `stop`, whoever has asked for it: somebody wants nothing of the session to go on.
        """
        ready, self._ready, self._changing = self._ready, None, False
        maker, self._maker = self._maker, SuccessorMaker(self._context)
        unfinished, self._unfinished = self._unfinished, None
        if ready is not None:
            await ready.link.close()
        if unfinished is not None:
            await unfinished.give_up()
        return await maker.give_back(stop=stop)

    async def run(self, job_id: str, link: Link | None, token: str) -> None:
        """Returns once there is a successor, and the session can change to it.

        Given up, it leaves the successor's job as it is, for `give_back` or `hand_over`.
        """
        self._job_id, self._link, self._token = job_id, link, token
        while True:
            try:
                await self._finish()
                await self._wait_due()
                self._ready = await self._make()
                self._asked.clear()
                _log.info("the successor answers: job %s", self._maker.job_id)
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
                self._asked.clear()
                self._tell(
                    Warned(
                        f"The session could not be taken over by another job: {why} "
                        "It goes on until its time limit."
                    )
                )

    async def _finish(self) -> None:
        """The change before this one, if something of it is left to do; no third job till then."""
        pause = _BUSY_SECONDS
        while self._unfinished is not None:
            if self._link is not None and self._link.state != "up":
                await self._link.wait_up(_BUSY_SECONDS)
                pause = _BUSY_SECONDS
            elif await self._unfinished.go_on():
                self._finished(self._unfinished)
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _finished(self, change: TakeOver) -> None:
        self._unfinished, self._name_refused = None, change.refused

    async def _make(self) -> Successor:
        """The successor; while the connection is away nothing is asked, and nothing given up."""
        if self._name_refused:
            # It would be found by the name that the session's own job has kept.
            raise ConnectError(f"Job {self._job_id} keeps the name of one: {self._name_refused}")
        while True:
            try:
                if self._link is not None and self._link.state != "up":
                    await self._link.wait_up(_BUSY_SECONDS)
                    continue
                return await self._maker.make(self._tell_asked)
            except ConnectError as error:
                if self._link is None or (self._link.state == "up" and not error.transient):
                    raise
                _log.info("the successor is asked for again: %s", error.message)
                await asyncio.sleep(_BUSY_SECONDS)

    async def _move(self, successor: Successor) -> str:
        if self._link is None:
            return ""
        browsers = self._context.listener.browsers > 0
        limits = CarryLimits.of(self._context.profile.jupyter) if self._with_variables else None
        old, new = self._link, successor.link
        return await move_workbench(old, new, self._token, browsers=browsers, carry=limits)

    def _tell_asked(self, job_id: str) -> None:
        left = self._schedule.left
        ends = f" ends in {duration(left)}" if left is not None else " ends"
        cost = self._schedule.cost(self._maker.request)
        text = f"Job {job_id} was asked for, to go on when job {self._job_id}{ends}. {cost}"
        self._tell(Warned(text))

    async def _wait_due(self) -> None:
        while not self._asked.is_set():
            if self._automatic and await self._schedule.due(self._maker.request):
                return
            try:
                await within(self._asked.wait(), 5.0)
            except (TimeoutError, asyncio.TimeoutError):
                continue

    async def _wait_idle(self) -> None:
        """Until no kernel works, or the time limit is near."""
        waits = False
        last = _LAST_MOMENT_WITH_VARIABLES_SECONDS if self._with_variables else _LAST_MOMENT_SECONDS
        while self._link is not None:
            if self._schedule.left is not None and self._schedule.left <= last:
                return
            try:
                if not await jupyter_api.busy(self._link, self._token, ("busy",)):
                    return
                if not waits:
                    waits = True
                    self._tell(
                        Warned(
                            "The next job is ready. A kernel works, so the session changes to it "
                            f"when it has finished, or {last / 60:g} minutes before the time limit."
                        )
                    )
            except ConnectError as error:
                _log.info("whether a kernel works is not known: %s", error.message)
            await asyncio.sleep(_BUSY_SECONDS)
