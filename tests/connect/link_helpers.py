"""A link that is watched, and pipes that misbehave."""

from __future__ import annotations

import asyncio
import time

from jupyter_hpc.connect.link import Link
from jupyter_hpc.connect.link_events import (
    LinkEvent,
)
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
    SocketPipe,
    until,
)


class Watched:
    """A link and what it told."""

    def __init__(self, owner: str = "laptop", secret: str = SECRET) -> None:
        self.events: list[LinkEvent] = []
        self.link = Link(secret, owner, self.events.append)

    def kinds(self) -> list[type[LinkEvent]]:
        return [type(event) for event in self.events]

    async def told(self, kind: type[LinkEvent], timeout: float = PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while kind not in self.kinds():
            assert time.monotonic() < deadline, f"no {kind.__name__} in {self.events}"
            await asyncio.sleep(0.01)


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

    def write(self, data: bytes) -> None:
        if not self.mute:
            super().write(data)
        else:
            self.swallowed = getattr(self, "swallowed", b"") + data

    def speak(self) -> None:
        """What was swallowed arrives, as TCP brings it after a hole."""
        self.mute = False
        swallowed, self.swallowed = getattr(self, "swallowed", b""), b""
        self.write(swallowed)
        self.resume_reading()

    def fall_silent(self) -> None:
        self.mute = True
        self.pause_reading()


async def mute_pipe(node: RelayProcess) -> MutePipe:
    loop = asyncio.get_running_loop()
    _, pipe = await loop.create_unix_connection(MutePipe, node.socket_path)
    return pipe
