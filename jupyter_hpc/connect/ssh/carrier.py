"""What carries an SSH connection: a socket, or a channel of the hop below; writes are gathered.

asyncssh hands each packet to its transport by itself, and puts an empty one before it. On a
socket that is a system call for each, and over two hops it makes four packets of one. Here
everything that is written in one turn of the event loop goes out together.

asyncssh takes a carrier as the `tunnel` of asyncssh.connect, of which it uses
`create_connection`, the method of an SSHClientConnection. What is carried is an
asyncio.Protocol. No other name of asyncssh is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from typing import Any, Protocol

import asyncssh

#: Receive window and packet size of every channel, also of the one that carries a hop.
WINDOW_BYTES = 8 * 1024 * 1024
MAX_PACKET_BYTES = 64 * 1024

#: One read of the socket. asyncssh copies what is left of it once for each packet in it: four
#: times as much at once took the same processor time.
READ_BYTES = 64 * 1024

#: Gathered bytes above this do not wait for the end of the turn.
MAX_GATHERED_BYTES = 1024 * 1024

#: Asked of a connection, answered by its carrier: None once the connection has given it up.
_CARRIED = "jupyter_hpc_carrier"


class _Below(Protocol):
    """What asyncio's sockets and asyncssh's channels have in common."""

    def write(self, data: bytes) -> None: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Carrier(asyncio.Transport):
    """The transport of one SSH connection."""

    def __init__(self, hop_below: Tunnel | None) -> None:
        super().__init__()
        self.connection: Any = None
        self._hop_below = hop_below
        self._below: _Below | None = None
        self._gathered: list[bytes] = []
        self.gathered_bytes = 0
        self.received = 0

    def open(self, below: _Below) -> None:
        """Begin to carry."""
        self._below = below
        self.connection.connection_made(self)

    def deliver(self, data: bytes) -> None:
        """Hand bytes to the connection, unless it has given up.

        One that found a packet wrong or missing closes its transport only in the next turn of
        the loop, and would until then take what follows.
        """
        self.received += 1
        if self.connection.get_extra_info(_CARRIED) is not None:
            self.connection.data_received(data)

    # What the connection asks of its transport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.flush)
        self._gathered.append(bytes(data))
        self.gathered_bytes += len(data)
        if self.gathered_bytes > MAX_GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered."""
        if not self._gathered or self._below is None:
            return
        gathered, self._gathered, self.gathered_bytes = self._gathered, [], 0
        if not self._below.is_closing():
            self._below.write(b"".join(gathered))
        if self._hop_below is not None:
            self._hop_below.flush()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == _CARRIED:
            return self
        return default if self._below is None else self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._below is None or self._below.is_closing()

    def close(self) -> None:
        self.flush()
        if self._below is not None:
            self._below.close()

    def abort(self) -> None:
        self.flush()
        if self._below is not None:
            self._below.abort()


class Tunnel(ABC):
    """What asyncssh.connect takes as its `tunnel`: makes a connection and carries it."""

    def __init__(self, below: Tunnel | None = None) -> None:
        """`below` carries the hop whose channel this one uses."""
        self._carrier = Carrier(below)

    @property
    def received(self) -> int:
        """How often bytes have come: whoever looks twice knows whether the host is silent."""
        return self._carrier.received

    async def create_connection(self, factory: Any, host: str, port: int) -> Any:
        """Called by asyncssh: the transport, and the connection that `factory` makes."""
        self._carrier.connection = factory()
        await self._open(host, port)
        return self._carrier, self._carrier.connection

    @abstractmethod
    async def _open(self, host: str, port: int) -> None:
        """Open what carries the connection, and hand it to connection_made."""

    def flush(self) -> None:
        """Send at once what was gathered, here and below."""
        self._carrier.flush()

    def close(self) -> None:
        """Give up what carries the connection."""
        self._carrier.abort()

    # Called by asyncio and asyncssh.

    def connection_made(self, transport: Any) -> None:
        self._carrier.open(transport)

    def eof_received(self) -> bool:
        self._carrier.connection.eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._carrier.connection.connection_lost(exc)


class SocketCarrier(Tunnel, asyncio.BufferedProtocol):
    """Carries the first hop over a TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        self._buffer = memoryview(bytearray(READ_BYTES))

    async def _open(self, host: str, port: int) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, sock=self._sock)

    def close(self) -> None:
        super().close()
        with contextlib.suppress(OSError):
            self._sock.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._carrier.deliver(bytes(self._buffer[:nbytes]))


class ChannelCarrier(Tunnel, asyncssh.SSHTCPSession[bytes]):
    """Carries the next hop over a channel of the hop below."""

    def __init__(self, hop: asyncssh.SSHClientConnection, below: Tunnel | None) -> None:
        super().__init__(below)
        self._hop = hop

    async def _open(self, host: str, port: int) -> None:
        await self._hop.create_connection(
            lambda: self, host, port, window=WINDOW_BYTES, max_pktsize=MAX_PACKET_BYTES
        )

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._carrier.deliver(data)
