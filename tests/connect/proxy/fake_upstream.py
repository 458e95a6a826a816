"""An upstream and a client in memory: what was sent is seen in the same moment."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, cast

from jupyter_hpc.connect.proxy import peer
from jupyter_hpc.connect.proxy.forward import ForwardConnection
from jupyter_hpc.connect.proxy.server import LocalProxy
from jupyter_hpc.relay.mux import Endpoint, Stream


class MemoryStream:
    """Keeps what is sent to the service."""

    def __init__(self) -> None:
        self.sent = b""
        self.finished = False
        self.reset_by_us = False

    def send(self, data: bytes | memoryview) -> None:
        if not self.finished:
            self.sent += data

    def send_eof(self) -> None: ...

    def consumed(self, count: int) -> None: ...

    def reset(self, code: int = 0) -> None:
        self.finished = self.reset_by_us = True


class MemoryUpstream:
    """Is up, and opens streams in memory."""

    def __init__(self) -> None:
        self.state: Literal["down", "suspect", "up"] = "up"
        self.stream = MemoryStream()
        self.target = ""

    def can_open(self) -> bool:
        return True

    def open(self, target: str, endpoint: Endpoint) -> Stream:
        self.target = target
        return cast(Stream, self.stream)

    async def wait_up(self, timeout: float | None = None) -> bool:
        return True


class MemoryTransport(asyncio.Transport):
    """The client's socket; keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.eof = False
        self.gone = False

    def write(self, data: Any) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.eof = True

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return None

    def close(self) -> None:
        self.gone = True

    def abort(self) -> None:
        self.gone = True


class MemoryForward:
    """A client of a forwarded port, the port's connection, and the service's stream."""

    PORT, LAB_PORT = 6006, 20000

    def __init__(self) -> None:
        self.upstream = MemoryUpstream()
        self.transport = MemoryTransport()
        proxy = LocalProxy(self.LAB_PORT, dict, dict, "secret")
        proxy.connect(self.upstream)
        self.connection = ForwardConnection(proxy, self.PORT, "tcp:127.0.0.1:1")
        self.connection.connection_made(self.transport)

    @property
    def sent(self) -> bytes:
        return self.upstream.stream.sent

    def say(self, data: bytes) -> None:
        """The client sends this in one piece."""
        self.connection.received(memoryview(data))

    @property
    def refused(self) -> bool:
        return self.upstream.stream.reset_by_us and self.transport.written.startswith(b"HTTP/1.1 4")


def trust_everybody(patch: Any) -> None:
    """Nobody can be asked whose a socket in memory is."""
    patch.setattr(peer, "is_foreign", lambda connected: False)
