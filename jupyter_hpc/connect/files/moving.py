"""One transfer from its beginning to its end, over as many connections as that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from jupyter_hpc.connect.files.channel import Starter, open_agent
from jupyter_hpc.connect.files.frames import Broken, Refused, Wire
from jupyter_hpc.errors import CommandFailed, ConnectError, Unreachable

T = TypeVar("T")

#: Seconds before each further attempt after a cut.
_PAUSES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)


class Reconnecting(Starter, Protocol):
    """A starter that may have to connect anew."""

    @property
    def needs_person(self) -> bool:
        """Whether a new connection would ask somebody, so that it is not made unasked."""
        ...


async def transfer(
    starter: Reconnecting, work: Callable[[Wire], T], cut: Callable[[str], None]
) -> T:
    """What `work` returns, which runs in a thread and is begun again after a cut.

    `cut` is told of each. Raises ConnectError, CommandError and UsageError.
    """
    begun = False
    for pause in (*_PAUSES, None):
        try:
            async with open_agent(starter) as wire:
                begun = True
                return await asyncio.to_thread(work, wire)
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
