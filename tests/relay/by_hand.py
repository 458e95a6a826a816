"""By hand: links, hellos and raw pipes to a relay under test."""

from __future__ import annotations

import socket

from jupyter_hpc.connect.link import Link
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
) -> bytes:
    return frames.encode_hello(
        frames.Hello(session, frames.digest(secret), owner, attempt, received, established)
    )


class Raw:
    """A pipe by hand."""

    def __init__(self, node: RelayProcess) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(node.socket_path)

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> frames.Reply:
        return frames.decode_reply(self.socket.recv(frames.REPLY_SIZE, socket.MSG_WAITALL))

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
