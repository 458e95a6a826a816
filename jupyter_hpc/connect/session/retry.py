"""How something that fails is tried again: the one policy for logins and for pipes.

    retry = Retry(outage, timing)
    pipe = await retry.until_done(attempt, again=(HpcError, OSError))
    retry.allow()           a person is there: the next attempt may ask
    retry.hurry()           a person does not want to wait for the next one

`await attempt(ask)` does it once. Only with ask=True may it do anything that a person has to
answer (a prompt, a push to a phone); else it raises PromptNeeded. Failures are repeated with
growing, jittered pauses, short ones where a network is away. A refused authentication or host
key is never repeated unasked: some sites ban for a day after five failures. A certificate or
ticket that is new since then (`renewed` returns) is another thing, and is tried once.

`probe_until_answered` waits for a host that is away. Probes are started at a steady beat, several
at a time, because one that began while the network was away retries only after 1, 3, 7 s; they
send nothing that counts as a login attempt.

`LoginLimit` keeps logins that nobody asked for within what a site takes for a person's;
`Restarts` says whether a Jupyter that has ended is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.errors import (
    AuthenticationFailed,
    CommandError,
    HostKeyRefused,
    HpcError,
    LoginsPaused,
    PipeRefused,
    PromptNeeded,
    RelayGone,
    SessionEnded,
    SessionTaken,
    SlurmError,
    Unreachable,
)
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import finish, within

T = TypeVar("T")

#: A person has to do something before it makes sense to try again.
NEEDS_PERSON = (PromptNeeded, AuthenticationFailed, HostKeyRefused)

#: No attempt can help any more.
POINTLESS = (SessionTaken, SessionEnded)

#: A Jupyter that keeps dying is not started for ever: so often within so many seconds.
_MAX_RESTARTS = 3
_RESTART_SPAN_SECONDS = 600.0

#: A host or a network that is away; asyncio's own class before Python 3.11.
AWAY = (Unreachable, OSError, TimeoutError, asyncio.TimeoutError)


#: Something answers, and what it says will not be another thing in a second.
_SAYS_NO = (PipeRefused, RelayGone, SlurmError, CommandError)


@dataclass(frozen=True)
class RetryTiming:
    """Seconds, all of them."""

    first_pause: float = 0.1
    away_pause: float = 2.0  # the longest after a network that is away
    longest_pause: float = 30.0  # and after a host that says no
    attempt_limit: float = 45.0  # of an attempt that asks nobody
    probe_every: float = 0.5
    probe_limit: float = 20.0
    patient_after: float = 600.0  # of probing in vain: from then on, probe_patiently
    probe_patiently: float = 5.0


#: So many logins may come at once, and one more for every so many seconds; in a longer run so
#: many, and one more for every so many seconds. In an hour these are fewer than 200.
_AT_ONCE, _BRISK_SECONDS = 10, 3.0
_IN_ALL, _SLOW_SECONDS = 60, 30.0

#: So long a connection has to serve to make up for its login; a good minute makes up for all.
_FORGIVEN_SECONDS = 6.0
_GOOD_SECONDS = 60.0


class _Bucket:
    """So many may be taken at once, and one more for every `seconds` that pass."""

    def __init__(self, size: int, seconds: float, now: float) -> None:
        self.size = size
        self.seconds = seconds
        self._level, self._at = float(size), now

    def level(self, now: float) -> float:
        return min(self.size, self._level + (now - self._at) / self.seconds)

    def take(self, count: float, now: float) -> None:
        """Never below nothing; a negative count puts back, and never more than fits."""
        self._level, self._at = max(0.0, min(self.size, self.level(now) - count)), now

    def wait(self, now: float) -> float:
        """Seconds until there is a whole one; who has waited that long need not wait a rest."""
        left = max(0.0, 1.0 - self.level(now)) * self.seconds
        return left if left > 1e-3 else 0.0


class Restarts:
    """How often a Jupyter that keeps ending is started again in its job: not for ever."""

    def __init__(self) -> None:
        self._last: list[float] = []
        self._last_full = float("-inf")

    def allow(self, *, out_of_memory: bool, now: float | None = None) -> bool:
        """Whether once more; what has filled the memory twice would do so again."""
        now = time.monotonic() if now is None else now
        self._last = [at for at in self._last if now - at < _RESTART_SPAN_SECONDS] + [now]
        if not out_of_memory:
            return len(self._last) <= _MAX_RESTARTS
        before, self._last_full = self._last_full, now
        return now - before >= _RESTART_SPAN_SECONDS


class LoginLimit:
    """How soon a login may come that nobody asked for.

    A host that ends each connection as soon as it is made would else be logged in to for ever,
    which sites take for an attack. Only completed authentications count: neither a network
    that is away nor a cut in the middle of a login uses anything up.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._brisk = _Bucket(_AT_ONCE, _BRISK_SECONDS, clock())
        self._slow = _Bucket(_IN_ALL, _SLOW_SECONDS, clock())
        self._count, self._first = 0, clock()

    def completed(self) -> None:
        """A login that nobody asked for was accepted."""
        now = self._clock()
        if self._slow.level(now) == self._slow.size:
            self._count, self._first = 0, now
        self._count += 1
        self._brisk.take(1, now)
        self._slow.take(1, now)

    def served(self, seconds: float) -> None:
        """The connection was good for so long."""
        if seconds >= _GOOD_SECONDS:
            self.forgive()
        else:
            self._slow.take(-seconds / _FORGIVEN_SECONDS, self._clock())

    def forgive(self) -> None:
        """A person wants the next login now, and will want the one after."""
        for bucket in (self._brisk, self._slow):
            bucket.take(-bucket.size, self._clock())

    def check(self, host: str) -> None:
        """LoginsPaused if the next login has to wait."""
        now = self._clock()
        left = max(self._brisk.wait(now), self._slow.wait(now))
        if left > 0:
            raise LoginsPaused(
                f"{host} has accepted {self._count} logins in {duration(now - self._first)}, and "
                f"none of the connections lasted; so the next login waits {max(1, round(left))} s, "
                "lest the site takes them for an attack.",
                "See what ends them, with ssh to that host; or try now.",
                left,
            )


class Retry:
    """Tries until it works, asking a person where only a person can help."""

    def __init__(
        self,
        outage: Outage,
        timing: RetryTiming | None = None,
        renewed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.timing = timing or RetryTiming()
        self.outage = outage
        self._renewed = renewed
        self._allowed = asyncio.Event()
        self._hurried = asyncio.Event()

    def hurry(self) -> None:
        """End the pause before the next attempt, if there is one."""
        self._hurried.set()

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
                    ask = await self._wait_for_person(error)
                except LoginsPaused as error:
                    ask = False
                    self.outage.logins_paused(error)
                    await self._sleep(error.seconds)
                except again as error:
                    ask = False
                    failures += 1
                    await self.pause(error, failures)
        finally:
            self._allowed.clear()

    async def pause(self, error: BaseException, failures: int) -> None:
        """Wait after the failure number `failures`, longer each time."""
        timing = self.timing
        longest = timing.longest_pause if isinstance(error, _SAYS_NO) else timing.away_pause
        pause = min(longest, timing.first_pause * 2 ** min(failures - 1, 10))
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - only spreads the load
        self.outage.attempt_failed(error, pause)
        await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        self._hurried.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._hurried.wait(), seconds)

    async def _wait_for_person(self, error: HpcError) -> bool:
        """Whether somebody is there to answer; False if they have renewed what was refused."""
        self._allowed.clear()
        self.outage.person_needed(error)
        allowed = asyncio.ensure_future(self._allowed.wait())
        waited: list[asyncio.Future[Any]] = [allowed]
        if self._renewed is not None and isinstance(error, AuthenticationFailed):
            waited.append(asyncio.ensure_future(self._renewed()))
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not allowed.done():
                await waited[1]
                self.outage.renewed()
            return allowed.done()
        finally:
            await finish(*waited)

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
                        self.outage.probe_failed(error)
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
