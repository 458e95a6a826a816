"""One transfer from its beginning to its end, over as many connections as that takes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from jupyter_hpc.connect.files.channel import Starter, open_agent
from jupyter_hpc.connect.files.frames import Broken, Refused, Wire
from jupyter_hpc.errors import CommandError, CommandFailed, ConnectError, Unreachable

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds before each further attempt after a cut.
_PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)


class Reconnecting(Starter, Protocol):
    """A starter that may have to connect anew."""

    @property
    def needs_person(self) -> bool:
        """Whether a new connection would ask somebody, so that it is not made unasked."""
        ...


class _Opening:
    """Opens the far end, over SFTP where no program of ours can run there."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._only_sftp = False

    @contextlib.asynccontextmanager
    async def far_end(self) -> AsyncIterator[Wire]:
        """Raises ConnectError and CommandError."""
        async with contextlib.AsyncExitStack() as stack:
            if not self._only_sftp:
                try:
                    wire = await stack.enter_async_context(open_agent(self._starter))
                except CommandError as refusal:
                    wire = await self._instead(stack, refusal)
            else:
                wire = await self._sftp(stack)
            yield wire

    async def _instead(self, stack: contextlib.AsyncExitStack, refusal: CommandError) -> Wire:
        try:
            wire = await self._sftp(stack)
        except ConnectError as error:
            raise CommandFailed(f"{refusal.message} {error.message}", refusal.hint) from error
        self._only_sftp = True
        _log.info("files go over SFTP: %s", refusal.message)
        return wire

    async def _sftp(self, stack: contextlib.AsyncExitStack) -> Wire:
        from jupyter_hpc.connect.files.sftp_channel import open_sftp  # late: seldom wanted

        return await stack.enter_async_context(open_sftp(self._starter))


def _worked(work: Callable[[Wire], T], wire: Wire) -> T:
    try:
        return work(wire)
    finally:
        wire.close()


async def transfer(
    starter: Reconnecting, work: Callable[[Wire], T], cut: Callable[[str], None]
) -> T:
    """What `work` returns, which runs in a thread and is begun again after a cut.

    `cut` is told of each. Raises ConnectError, CommandError and UsageError.
    """
    begun = False
    opening = _Opening(starter)
    for pause in (*_PAUSES, None):
        try:
            async with opening.far_end() as wire:
                begun = True
                return await asyncio.to_thread(_worked, work, wire)
        except Refused as error:
            raise CommandFailed(f"{starter.host} says: {error}.", "Check the path.") from error
        except (Broken, Unreachable) as error:
            if not begun and isinstance(error, ConnectError):
                raise
            why = str(error)
            if pause is None or starter.needs_person:
                raise Unreachable(
                    f"The transfer was cut: {why.rstrip('.')}.",
                    "What has arrived is kept. The same command goes on where it stopped.",
                ) from error
            cut(why)
        await asyncio.sleep(pause)
    raise AssertionError("not reached")
