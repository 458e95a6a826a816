"""The first words on one pipe: both ends show that they know the secret, neither tells it."""

from __future__ import annotations

import asyncio

from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.errors import ConnectError, PipeRefused
from jupyter_hpc.relay import frames
from jupyter_hpc.waiting import within

#: For the relay's answer.
REPLY_SECONDS = 10.0


class Handshake:
    """One pipe until it carries the link, and whatever it brings until then.

    `rest` is what came behind the relay's answer; `closed`: it will bring nothing more.
    """

    def __init__(self, pipe: BytePipe, secret: bytes) -> None:
        self.rest = b""
        self._pipe = pipe
        self._secret = secret
        self._proofs: frames.Proofs | None = None
        self._awaited: asyncio.Future[bytes] | None = None
        self._size = 0
        self.closed = False
        pipe.set_receiver(self._received, self._on_closed)

    async def hello(self, hello: frames.Hello) -> frames.Reply:
        """Ask to attach; may be asked again on the same pipe.

        PipeRefused if the relay, or whoever is in its place, is not to be trusted.
        """
        try:
            return await within(self._ask(hello), REPLY_SECONDS)
        except frames.NotTheRelay as error:
            raise PipeRefused(
                "What answers in the relay's place does not know the secret of this session.",
                "Another program may have its port, and learned nothing; use another way (--via).",
            ) from error
        except frames.ProtocolError as error:
            raise ConnectError(f"Unexpected: {error}.", "Try again.") from error
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise ConnectError(
                f"The relay on the node gave no answer within {REPLY_SECONDS:g} s.",
                "A new connection will be tried.",
            ) from error

    async def _ask(self, hello: frames.Hello) -> frames.Reply:
        if self._proofs is None:
            self._pipe.write(frames.MAGIC)
            challenge = frames.decode_challenge(await self._take(frames.CHALLENGE_SIZE))
            if challenge is None:
                return frames.Reply(frames.UNKNOWN_VERSION, 0, "")
            self._proofs = frames.Proofs(self._secret, challenge)
            self._pipe.write(self._proofs.encode_hello(hello)[len(frames.MAGIC) :])
        else:
            self._pipe.write(self._proofs.encode_hello(hello))
        return self._proofs.decode_reply(hello, await self._take(frames.REPLY_SIZE))

    def _received(self, data: bytes) -> None:
        self.rest += data
        self._settle()

    def _on_closed(self, error: Exception | None) -> None:
        self.closed = True
        self._settle()

    async def _take(self, size: int) -> bytes:
        """The next `size` bytes."""
        self._awaited, self._size = asyncio.get_running_loop().create_future(), size
        self._settle()
        try:
            return await self._awaited
        finally:
            self._awaited = None

    def _settle(self) -> None:
        awaited = self._awaited
        if awaited is None or awaited.done():
            return
        if len(self.rest) >= self._size:
            awaited.set_result(self.rest[: self._size])
            self.rest = self.rest[self._size :]
        elif self.closed:
            awaited.set_exception(closed_early())


def closed_early() -> ConnectError:
    """The error of a pipe that ends within its handshake."""
    return ConnectError("The connection closed before the relay answered.", "Try again.")


def refused(status: int) -> PipeRefused:
    """The error for an answer with which a pipe cannot be used."""
    reason = {
        frames.REFUSED: "refused the secret of this session",
        frames.STALE: "has a newer connection of this session already",
        frames.BUSY: "serves as many sessions as it can",
        frames.UNKNOWN_VERSION: "is of another version and does not understand this one",
    }.get(status, f"gave an unknown answer ({status})")
    return PipeRefused(
        f"The relay on the node {reason}.",
        "Connect again; if that does not help, stop the session and start a new one.",
    )
