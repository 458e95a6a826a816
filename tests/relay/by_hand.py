"""By hand: links, hellos and raw pipes to a relay under test."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.relay import frames
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
)


async def linked(node: RelayProcess, owner: str = "laptop") -> Link:
    link = Link(SECRET, owner)
    await link.attach(await node.pipe())
    return link


async def ask(link: Link, data: bytes, target: str = "") -> Collector:
    """Send, say that this is all, and collect the answer."""
    end = Collector()
    end.stream = link.open(target, end)
    end.stream.send(data)
    end.stream.send_eof()
    await end.wait(lambda: end.eof or end.reset is not None)
    return end


def hello(
    session: bytes = b"s" * 16,
    secret: str = SECRET,
    owner: bytes = bytes(16),
    attempt: int = 1,
    received: int = 0,
    established: bool = False,
) -> UnprovenHello:
    number = os.urandom(frames.NUMBER_SIZE)
    return UnprovenHello(
        frames.Hello(session, owner, attempt, received, established, number),
        frames.digest(secret),
    )


class UnprovenHello(NamedTuple):
    """A HELLO that is still to be proven."""

    hello: frames.Hello
    secret: bytes


class Raw:
    """A pipe by hand."""

    def __init__(self, node: RelayProcess) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(node.socket_path)
        self.challenge = b""
        self._asked: tuple[frames.Proofs, frames.Hello] | None = None

    def say(self, data: bytes | UnprovenHello) -> None:
        self.socket.sendall(self.proven(data) if isinstance(data, UnprovenHello) else data)

    def proven(self, hello: UnprovenHello) -> bytes:
        """The HELLO as this pipe has to say it; its first four bytes are on their way then."""
        begins = not self.challenge
        if begins:
            self.say(frames.MAGIC)
            self.read_challenge()
        proofs = frames.Proofs(hello.secret, self.challenge)
        self._asked = proofs, hello.hello
        return proofs.encode_hello(hello.hello)[len(frames.MAGIC) if begins else 0 :]

    def read_challenge(self) -> None:
        data = self.socket.recv(frames.CHALLENGE_SIZE, socket.MSG_WAITALL)
        self.challenge = frames.decode_challenge(data) or b""

    def reply(self) -> frames.Reply:
        if not self.challenge:
            self.read_challenge()
        data = self.socket.recv(frames.REPLY_SIZE, socket.MSG_WAITALL)
        nobody = hello().hello
        proofs, asked = self._asked or (frames.Proofs(b"", b""), nobody)
        return proofs.decode_reply(asked, data)

    def ended(self) -> bool:
        """Whether the relay closes it, after whatever it had to say."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True
