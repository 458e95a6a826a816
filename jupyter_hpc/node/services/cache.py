"""One cache for everybody who looks: single flight, polite, and honest about age."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from jupyter_hpc.errors import HpcError
from jupyter_hpc.node.services.unexpected import unexpected

T = TypeVar("T")

#: With older data at hand, a request waits so long for newer.
WAIT_SECONDS = 2.0

#: After failures in a row the pause doubles, up to this.
MAX_PAUSE_SECONDS = 300.0


@dataclass(frozen=True)
class Dated(Generic[T]):
    """A value, when it was true, and why there is no newer one (None: it is the newest)."""

    value: T
    taken_at: float
    problem: HpcError | None = None


class Cached(Generic[T]):
    """Keeps what `fetch` gave for `lifetime` seconds.

    However many ask, one fetch runs at a time, and none starts sooner than `floor`
    seconds after the last one. A failed fetch keeps the old value and says why;
    without an old value the failure itself is raised.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[T]],
        lifetime: float,
        *,
        floor: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lifetime = lifetime
        self.floor = floor
        self._fetch = fetch
        self._clock = clock
        self._value: Dated[T] | None = None
        self._failure: HpcError | None = None
        self._failures = 0
        self._asked_at = float("-inf")
        self._flight: asyncio.Task[None] | None = None

    @property
    def newest(self) -> Dated[T] | None:
        """What is known now, without asking."""
        return self._value

    @property
    def failure(self) -> HpcError | None:
        """Why the last fetch failed, None if it did not."""
        return self._failure

    @property
    def asked_at(self) -> float:
        """When the last fetch was started, whatever became of it."""
        return self._asked_at

    def age(self) -> float:
        """Seconds since the value was true; infinite without one."""
        return self._clock() - self._value.taken_at if self._value else float("inf")

    def next_fetch(self) -> float:
        """Seconds until the next fetch is due; 0 when it is overdue."""
        return max(0.0, self._asked_at + self._pause() - self._clock())

    def floor_left(self) -> float:
        """Seconds until the floor allows a fetch at all."""
        return max(0.0, self._asked_at + self.floor - self._clock())

    def _pause(self) -> float:
        if not self._failures:
            return max(self.lifetime, self.floor)
        backed_off = min(self.lifetime * 2.0 ** (self._failures - 1), MAX_PAUSE_SECONDS)
        return max(backed_off, self.floor)

    async def get(
        self, *, newer_than: float | None = None, first_timeout: float | None = None
    ) -> Dated[T]:
        """The value, fetched again when it is too old and the floor allows it.

        `newer_than` asks for a fetch although the value has not expired; the floor
        holds all the same. Raises the failure when there is no value at all; the very
        first one is waited for as long as it takes, or for `first_timeout` seconds.
        """
        if self._may_fetch(newer_than) and self._flight is None:
            self._asked_at = self._clock()
            self._flight = asyncio.create_task(self._refresh())
        if self._flight is not None:
            # A caller that goes away must not end the fetch for the others.
            timeout = first_timeout if self._value is None else WAIT_SECONDS
            await asyncio.wait({self._flight}, timeout=timeout)
        if self._value is not None:
            return self._value
        raise self._failure or HpcError("There is no data yet.", "Try again in a moment.")

    def _may_fetch(self, newer_than: float | None) -> bool:
        if self.floor_left() > 0.0:
            return False
        if newer_than is not None and (self._value is None or self._value.taken_at < newer_than):
            return True
        return self.next_fetch() == 0.0

    async def _refresh(self) -> None:
        try:
            value = await self._fetch()
        except HpcError as error:
            self._fail(error)
        except Exception as error:
            self._fail(unexpected(error))
        else:
            self._failures = 0
            self._failure = None
            self._value = Dated(value, self._clock())
        finally:
            self._flight = None

    def _fail(self, error: HpcError) -> None:
        self._failures += 1
        self._failure = error
        if self._value is not None:
            self._value = Dated(self._value.value, self._value.taken_at, error)

    async def stop(self) -> None:
        """End a fetch that is under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait({self._flight}, timeout=1.0)
