"""When and how often a new pipe is dialled; knows nothing of SSH.

    redial = Redial(link, dial, knock=knock, on_event=...)
    await redial.run()      until cancelled, or until dialling makes no sense any more
    redial.allow()          a person is there: dial once with ask=True

`await dial(knocked, ask) -> BytePipe` makes a pipe. Only with ask=True may it do anything that
a person has to answer (a prompt, a push to a phone); else it raises PromptNeeded.
`await knock()` is optional: it returns once the login host answers on the network (a connected
socket, say, which is passed on to dial), and sends nothing that counts as a login attempt.

The rules. A closed pipe is dialled for at once. A silent one is kept: while it is silent, a
knock is started every second, several at a time, because one that began while the network was
away retries only after 1, 3, 7 s; the first answer starts the only handshake. If the old pipe
speaks meanwhile, the dial is given up. Failed handshakes are repeated with growing, jittered
pauses, and so are pipes that close again and again as soon as they are open. Where a person is
needed, the old pipe is waited for, and the need is told; a refused authentication or host key is
never repeated unasked.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.link import Link, session_taken
from jupyter_hpc.errors import (
    AuthenticationFailed,
    ConnectError,
    HostKeyRefused,
    HpcError,
    PromptNeeded,
    SessionEnded,
    SessionTaken,
    Unreachable,
)
from jupyter_hpc.waiting import finish


@dataclass(frozen=True)
class DialFailed:
    """An attempt failed; the next one comes after `pause` seconds."""

    error: Exception
    pause: float


@dataclass(frozen=True)
class PersonNeeded:
    """Nothing more is tried by itself until allow() is called or the old pipe speaks."""

    error: HpcError


@dataclass(frozen=True)
class Woke:
    """The computer slept, or this process was stopped, for about so many seconds."""

    seconds: float


RedialEvent = DialFailed | PersonNeeded | Woke


@dataclass(frozen=True)
class Timing:
    """Seconds, all of them."""

    tick: float = 0.5
    knock_every: float = 1.0
    knock_limit: float = 10.0
    patient_after: float = 600.0  # of knocking in vain: from then on, knock_patiently
    knock_patiently: float = 5.0
    handshake_limit: float = 15.0
    first_pause: float = 0.5
    longest_pause: float = 30.0
    short_life: float = 0.5  # of a pipe; after so many short lives in a row,
    short_lives: int = 5  # a pause comes before the next one
    sleep_jump: float = 5.0


class Dial(Protocol):
    """Makes a new pipe to the relay; see the module's text for `ask`."""

    def __call__(self, knocked: Any, ask: bool) -> Awaitable[BytePipe]: ...


class SleepWatch:
    """Notices that time has passed in which this process did not run.

    time.monotonic() stands still during a suspend on Linux, time.time() does not; a process
    that was stopped sees both jump.
    """

    def __init__(
        self,
        jump: float,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jump = jump
        self._clocks = (wall, steady)
        self._last = (wall(), steady())

    def slept(self) -> float:
        """Seconds since the last call, if they are many; else 0."""
        now = (self._clocks[0](), self._clocks[1]())
        gap = max(now[0] - self._last[0], now[1] - self._last[1])
        self._last = now
        return gap if gap >= self._jump else 0.0


class Redial:
    """Keeps one link supplied with pipes."""

    def __init__(
        self,
        link: Link,
        dial: Dial,
        *,
        knock: Callable[[], Awaitable[Any]] | None = None,
        on_event: Callable[[RedialEvent], None] | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.needs_person: HpcError | None = None
        self._link = link
        self._dial = dial
        self._knock = knock
        self._on_event = on_event or (lambda event: None)
        self._timing = timing or Timing()
        self._allowed = asyncio.Event()
        self._attaching = False
        self._attached_at = float("-inf")
        self._short_lives = 0

    def allow(self) -> None:
        """A person is ready to answer: the next dial may ask."""
        self._allowed.set()

    async def run(self) -> None:
        """Recover the link whenever it is in trouble.

        Raises what makes further dialling pointless: SessionTaken, SessionEnded, and
        PipeRefused from a relay that does not want this session.
        """
        watcher = asyncio.create_task(self._watch_sleep())
        try:
            while True:
                await self._link.wait_trouble()
                if self._link.taken:
                    raise session_taken()
                await self._pause_after_short_lives()
                await self._recover()
        finally:
            await finish(watcher)

    async def _pause_after_short_lives(self) -> None:
        """Something at the other end closes each pipe: a step that is killed, a broken relay."""
        short = time.monotonic() - self._attached_at < self._timing.short_life
        self._short_lives = self._short_lives + 1 if short else 0
        too_many = self._short_lives - self._timing.short_lives
        if too_many > 0:
            error = ConnectError(
                "The pipe to the node closes as soon as it is open.",
                "Something on the cluster may be ending it; it is tried again.",
            )
            await self._pause(error, too_many)

    async def _watch_sleep(self) -> None:
        watch = SleepWatch(self._timing.sleep_jump)
        while True:
            await asyncio.sleep(self._timing.tick)
            seconds = watch.slept()
            if seconds:
                self._on_event(Woke(seconds))
                self._link.doubt()

    async def _recover(self) -> None:
        """Dial until the link is up, by a new pipe or because the old one speaks again."""
        dialling = asyncio.create_task(self._dial_until_attached())
        up = asyncio.create_task(self._link.wait_up())
        try:
            while not dialling.done():
                await asyncio.wait((dialling, up), return_when=asyncio.FIRST_COMPLETED)
                if up.done() and not self._attaching:
                    break
                if up.done():
                    await asyncio.wait((dialling,))
            if dialling.done():
                await dialling
        finally:
            self.needs_person = None
            self._allowed.clear()
            await finish(dialling, up)

    async def _dial_until_attached(self) -> None:
        failures = 0
        ask = False
        while True:
            try:
                pipe = await self._dial_once(ask)
                self._attaching = True
                try:
                    await self._link.attach(pipe)
                finally:
                    self._attaching = False
                self._attached_at = time.monotonic()
                return
            except (SessionTaken, SessionEnded):
                raise
            except (PromptNeeded, AuthenticationFailed, HostKeyRefused) as error:
                ask = await self._wait_for_person(error)
            except (HpcError, OSError, asyncio.TimeoutError, TimeoutError) as error:
                ask = False
                failures += 1
                await self._pause(error, failures)

    async def _dial_once(self, ask: bool) -> BytePipe:
        knocked = None
        if self._knock is not None:
            knocked = await self._knock_until_answered(self._knock)
        # A person may take all the time that the prompt leaves.
        limit = None if ask else self._timing.handshake_limit
        pipe: BytePipe = await _limited(self._dial(knocked, ask), limit)
        return pipe

    async def _wait_for_person(self, error: HpcError) -> bool:
        self._allowed.clear()
        self.needs_person = error
        self._on_event(PersonNeeded(error))
        await self._allowed.wait()
        self.needs_person = None
        return True

    async def _pause(self, error: Exception, failures: int) -> None:
        timing = self._timing
        pause = min(timing.longest_pause, timing.first_pause * 2 ** min(failures - 1, 10))
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - only spreads the load
        self._on_event(DialFailed(error, pause))
        await asyncio.sleep(pause)

    async def _knock_until_answered(self, knock: Callable[[], Awaitable[Any]]) -> Any:
        """Start knocks at a steady beat; the first that is answered wins, the rest is dropped."""
        timing = self._timing
        began = time.monotonic()
        knocks: set[asyncio.Task[Any]] = set()
        told = False
        try:
            while True:
                knocks.add(asyncio.create_task(_limited(knock(), timing.knock_limit)))
                patient = time.monotonic() - began > timing.patient_after
                beat = timing.knock_patiently if patient else timing.knock_every
                next_knock = time.monotonic() + beat * random.uniform(0.9, 1.0)  # noqa: S311
                while (left := next_knock - time.monotonic()) > 0:
                    if not knocks:
                        await asyncio.sleep(left)
                        continue
                    done, knocks = await asyncio.wait(
                        knocks, timeout=left, return_when=asyncio.FIRST_COMPLETED
                    )
                    for task in done:
                        error = task.exception()
                        if error is None:
                            knocks |= done - {task}
                            return task.result()
                        if not isinstance(error, (OSError, asyncio.TimeoutError, Unreachable)):
                            raise error
                        if not told:
                            told = True
                            self._on_event(DialFailed(_as_exception(error), beat))
        finally:
            for task in knocks:
                _give_up(task)


async def _limited(work: Awaitable[Any], limit: float | None) -> Any:
    """The result within `limit` seconds; one that comes after nobody waits any more is closed.

    asyncio.wait_for would lose such a result, or the cancellation.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=limit)
    except BaseException:
        _give_up(task)
        raise
    if not task.done():
        _give_up(task)
        raise asyncio.TimeoutError(f"no answer within {limit:g} s")
    return task.result()


def _give_up(task: asyncio.Future[Any]) -> None:
    """End an attempt; if it has succeeded meanwhile, what it made is closed."""
    task.cancel()
    task.add_done_callback(_close_result)


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(str(error))


def _close_result(task: asyncio.Future[Any]) -> None:
    """A connection that came too late to be used."""
    if not task.cancelled() and task.exception() is None:
        close = getattr(task.result(), "close", None)
        if close is not None:
            close()
