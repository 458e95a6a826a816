"""A link that is watched, and pipes that misbehave."""

from __future__ import annotations

import asyncio

from jupyter_hpc.connect.link import Link
from jupyter_hpc.connect.link_events import (
    LinkEvent,
)
from jupyter_hpc.relay.frames import MAGIC
from tests.relay.harness import PATIENCE, SECRET, Collector, RelayProcess, SocketPipe
from tests.waiting import until


class Watched:
    """A link and what it told."""

    def __init__(self, owner: str = "laptop", secret: str = SECRET) -> None:
        self.events: list[LinkEvent] = []
        self.link = Link(secret, owner, self.events.append)

    def kinds(self) -> list[type[LinkEvent]]:
        return [type(event) for event in self.events]

    async def told(self, kind: type[LinkEvent], timeout: float = PATIENCE) -> None:
        await until(
            lambda: kind in self.kinds(),
            lambda: f"no {kind.__name__} in {self.events}",
            seconds=timeout,
        )


async def heard(link: Link) -> None:
    """Wait for the next word of the relay: silence is counted from there."""
    last = link._heard
    await until(lambda: link._heard > last)


def opened(link: Link, target: str = "") -> Collector:
    end = Collector()
    end.stream = link.open(target, end)
    return end


class MutePipe(SocketPipe):
    """A pipe that can become a black hole: nothing passes, nothing closes."""

    mute = False
    swallowed = b""

    def write(self, data: bytes) -> None:
        if not self.mute:
            super().write(data)
        else:
            self.swallowed += data

    def speak(self) -> None:
        """What was swallowed arrives, as TCP brings it after a hole."""
        self.mute = False
        swallowed, self.swallowed = self.swallowed, b""
        self.write(swallowed)
        self.resume_reading()

    def fall_silent(self) -> None:
        self.mute = True
        self.pause_reading()


async def mute_pipe(node: RelayProcess) -> MutePipe:
    loop = asyncio.get_running_loop()
    _, pipe = await loop.create_unix_connection(MutePipe, node.socket_path)
    return pipe


class ForgedPipe(SocketPipe):
    """A pipe to a relay that answers each HELLO with the same pieces, and may close then.

    With `at_once`, all that comes within write(), before anybody could wait for it.
    """

    def __init__(self, *answer: bytes, closes: bool = False, at_once: bool = False) -> None:
        super().__init__()
        self._answer = answer
        self._closes = closes
        self._at_once = at_once

    def write(self, data: bytes) -> None:
        if not data.startswith(MAGIC):
            return
        if self._at_once:
            self._reply()
        else:
            asyncio.get_running_loop().call_soon(self._reply)

    def _reply(self) -> None:
        for piece in self._answer:
            self.data_received(piece)
        if self._closes:
            self.connection_lost(None)
