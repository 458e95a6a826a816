"""A link that is watched, and pipes that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.connect.tunnel.link_events import (
    LinkEvent,
)
from jupyter_hpc.relay import frames
from tests.relay.harness import PATIENCE, SECRET, Collector, RelayProcess, SocketPipe
from tests.waiting import until


class Watched:
    """A link and the events it reported."""

    def __init__(self, owner: str = "laptop", secret: str = SECRET) -> None:
        self.events: list[LinkEvent] = []
        self.link = Link(secret, owner, self.events.append)

    def kinds(self) -> list[type[LinkEvent]]:
        return [type(event) for event in self.events]

    async def saw(self, kind: type[LinkEvent], timeout: float = PATIENCE) -> None:
        await until(
            lambda: kind in self.kinds(),
            lambda: f"no {kind.__name__} in {self.events}",
            seconds=timeout,
        )


async def next_word(link: Link) -> None:
    """Wait for the next word of the relay: silence is counted from there."""
    last = link._last_received
    await until(lambda: link._last_received > last)


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


class Forger:
    """The relay's side of a handshake, which knows the secret and answers what it is told to."""

    def __init__(self, status: int, received: int = 0) -> None:
        self._status, self._received = status, received
        self._proofs = frames.Proofs(frames.digest(SECRET), bytes(frames.NUMBER_SIZE))
        self._written = b""

    def answer(self, data: bytes) -> bytes:
        """What a laptop gets that has written this."""
        self._written += data
        if data == frames.MAGIC:
            return frames.encode_challenge(bytes(frames.NUMBER_SIZE))
        written, self._written = self._written, b""
        hello = self._proofs.decode_hello(written) if len(written) == frames.HELLO_SIZE else None
        return self._proofs.encode_reply(hello, self._status, self._received) if hello else b""


class ForgedPipe(SocketPipe):
    """A pipe to a relay that answers each HELLO in the same way, and may close then.

    `behind` follows the answer. Both come in pieces that end at `cuts`, with `at_once` within
    write(), before anybody could wait for them; of the answer, at most `length` bytes come.
    """

    def __init__(
        self,
        status: int,
        received: int = 0,
        *,
        behind: bytes = b"",
        cuts: Sequence[int] = (),
        length: int | None = None,
        closes: bool = False,
        at_once: bool = False,
    ) -> None:
        super().__init__()
        self._forger = Forger(status, received)
        self._behind = behind
        self._cuts = cuts
        self._length = length
        self._closes = closes
        self._at_once = at_once

    def write(self, data: bytes) -> None:
        answer = self._forger.answer(data)
        if data != frames.MAGIC and answer:
            answer = (answer + self._behind)[: self._length]
        if not answer:
            return
        last = data != frames.MAGIC
        if self._at_once:
            self._reply(answer, last)
        else:
            asyncio.get_running_loop().call_soon(self._reply, answer, last)

    def _reply(self, answer: bytes, last: bool) -> None:
        for start, end in zip((0, *self._cuts), (*self._cuts, None), strict=True):
            self.data_received(answer[start:end])
        if last and self._closes:
            self.connection_lost(None)
