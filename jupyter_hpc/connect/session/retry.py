"""How something that fails is tried again: the one policy for logins and for pipes.

    retry = Retry(outage, timing)
    pipe = await retry.until_done(attempt, again=(HpcError, OSError))
    retry.allow()           a person is there: the next attempt may ask

`await attempt(ask)` does it once. Only with ask=True may it do anything that a person has to
answer (a prompt, a push to a phone); else it raises PromptNeeded. Failures are repeated with
growing, jittered pauses. A refused authentication or host key is never repeated unasked: some
sites ban for a day after five failures.

`probe_until_answered` waits for a host that is away. A probe is started every second, several
at a time, because one that began while the network was away retries only after 1, 3, 7 s; it
sends nothing that counts as a login attempt.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.errors import (
    AuthenticationFailed,
    HostKeyRefused,
    HpcError,
    PromptNeeded,
    SessionEnded,
    SessionTaken,
    Unreachable,
)

T = TypeVar("T")

#: A person has to do something before it makes sense to try again.
NEEDS_PERSON = (PromptNeeded, AuthenticationFailed, HostKeyRefused)

#: No attempt can help any more.
POINTLESS = (SessionTaken, SessionEnded)

#: A host or a network that is away; asyncio's own class before Python 3.11.
AWAY = (Unreachable, OSError, TimeoutError, asyncio.TimeoutError)


@dataclass(frozen=True)
class RetryTiming:
    """Seconds, all of them."""

    first_pause: float = 0.5
    longest_pause: float = 30.0
    attempt_limit: float = 15.0  # of an attempt that asks nobody
    probe_every: float = 1.0
    probe_limit: float = 10.0
    patient_after: float = 600.0  # of probing in vain: from then on, probe_patiently
    probe_patiently: float = 5.0


class Retry:
    """Tries until it works, asking a person where only a person can help."""

    def __init__(self, outage: Outage, timing: RetryTiming | None = None) -> None:
        self.timing = timing or RetryTiming()
        self._outage = outage
        self._allowed = asyncio.Event()

    def allow(self) -> None:
        """A person is ready to answer: the next attempt may ask."""
        self._allowed.set()

    async def until_done(
        self,
        attempt: Callable[[bool], Awaitable[T]],
        again: tuple[type[BaseException], ...] = (HpcError, *AWAY),
    ) -> T:
        """The result of the first attempt that works; errors not in `again` are raised."""
        failures = 0
        ask = False
        try:
            while True:
                try:
                    return await attempt(ask)
                except POINTLESS:
                    raise
                except NEEDS_PERSON as error:
                    await self._wait_for_person(error)
                    ask = True
                except again as error:
                    ask = False
                    failures += 1
                    await self.pause(error, failures)
        finally:
            self._allowed.clear()

    async def pause(self, error: BaseException, failures: int) -> None:
        """Wait after the failure number `failures`, longer each time."""
        timing = self.timing
        pause = min(timing.longest_pause, timing.first_pause * 2 ** min(failures - 1, 10))
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - only spreads the load
        self._outage.attempt_failed(error, pause)
        await asyncio.sleep(pause)

    async def _wait_for_person(self, error: HpcError) -> None:
        self._allowed.clear()
        self._outage.person_needed(error)
        await self._allowed.wait()

    async def probe_until_answered(self, probe: Callable[[], Awaitable[T]]) -> T:
        """Start probes at a steady beat; the first that is answered wins, the rest is dropped."""
        timing = self.timing
        began = time.monotonic()
        probes: set[asyncio.Task[T]] = set()
        try:
            while True:
                probes.add(asyncio.create_task(limited(probe(), timing.probe_limit)))
                patient = time.monotonic() - began > timing.patient_after
                beat = timing.probe_patiently if patient else timing.probe_every
                next_probe = time.monotonic() + beat * random.uniform(0.9, 1.0)  # noqa: S311
                while (left := next_probe - time.monotonic()) > 0:
                    if not probes:
                        await asyncio.sleep(left)
                        continue
                    done, probes = await asyncio.wait(
                        probes, timeout=left, return_when=asyncio.FIRST_COMPLETED
                    )
                    for task in done:
                        error = task.exception()
                        if error is None:
                            probes |= done - {task}
                            return task.result()
                        if not isinstance(error, AWAY):
                            raise error
                        self._outage.probe_failed(error)
        finally:
            for task in probes:
                _give_up(task)


async def limited(work: Awaitable[T], limit: float | None) -> T:
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


def _close_result(task: asyncio.Future[Any]) -> None:
    """A connection that came too late to be used."""
    if not task.cancelled() and task.exception() is None:
        close = getattr(task.result(), "close", None)
        if close is not None:
            close()
