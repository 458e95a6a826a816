"""Logging in again after the login connection was lost before the session was open.

Once it is open, redial.py keeps the pipe; until then, commands run over the login
connection, and whatever was under way is done again over the next one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from jupyter_hpc.connect.events import Reconnected, Reconnecting, Sink, Warned
from jupyter_hpc.connect.session.connections import Way
from jupyter_hpc.errors import (
    AuthenticationFailed,
    HostKeyRefused,
    HpcError,
    PromptNeeded,
    Unreachable,
)

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Pauses between attempts grow to this; knocking itself is patient, too.
_LONGEST_PAUSE = 15.0

#: A lost second hop, with the login alive, is tried again so often.
_MOST_RETRIES = 5


class Comeback:
    """Does things that need the login connection, through its loss."""

    def __init__(self, way: Way, sink: Sink, on_person: Callable[[str], None]) -> None:
        self._way = way
        self._sink = sink
        self._on_person = on_person
        self._allowed = asyncio.Event()

    def allow(self) -> None:
        """A person is there: the next login may ask."""
        self._allowed.set()

    async def through(self, operation: Callable[[], Awaitable[_T]]) -> _T:
        """The result of `operation`, begun again each time the connection is lost."""
        retries = 0
        while True:
            try:
                return await operation()
            except Unreachable as error:
                if self._way.alive:
                    retries += 1
                    _log.info("retry %d: %s", retries, error.message)
                    if retries > _MOST_RETRIES:
                        raise
                    await asyncio.sleep(0.5 * retries)
                else:
                    await self._log_in(error)

    async def _log_in(self, lost: HpcError) -> None:
        began = time.monotonic()
        self._sink(Reconnecting(f"{lost.message} Logging in again."))
        pause = 0.5
        ask = False
        while True:
            try:
                await self._way.log_in(ask=ask, knocked=await self._way.knock())
                break
            except (PromptNeeded, AuthenticationFailed, HostKeyRefused) as error:
                await self._wait_for_person(error)
                ask = True
            except (Unreachable, OSError) as error:
                _log.info("login failed, next in %.1f s: %s", pause, error)
                await asyncio.sleep(pause * random.uniform(0.7, 1.0))  # noqa: S311 (spreads load)
                pause = min(pause * 2, _LONGEST_PAUSE)
                ask = False
        self._sink(Reconnected(round(time.monotonic() - began, 2)))

    async def _wait_for_person(self, error: HpcError) -> None:
        self._allowed.clear()
        self._on_person(str(error))
        self._sink(Warned(str(error)))
        await self._allowed.wait()
        self._on_person("")
