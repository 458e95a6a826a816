"""What asyncssh does for each packet and nobody needs: left out, since every byte pays for it.

A session's bytes pass through two SSH connections in this process, and on a laptop that is
where the time goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.express import Express
from jupyter_hpc.connect.ssh.seal import Packets

#: The SSH message that means nothing (RFC 4253, section 11.2).
_MSG_IGNORE = 2


def lean(connection: asyncssh.SSHClientConnection, *, over_socket: bool) -> Express:
    """Make an authenticated connection cheaper; what it sends still means the same."""
    _omit_ignored_packets(connection)
    _unlogged(connection)
    return Express(connection, _Gathering(connection).write if over_socket else None)


def lean_channel(channel: Any, express: Express | None) -> Callable[[Packets], object]:
    """Make a channel cheaper that carries many bytes; returns what writes packets of them."""
    _unlogged(channel)
    joined = express.join(channel) if express is not None else None
    return joined or (lambda packets: [channel.write(b"".join(packet)) for packet in packets])


def _unlogged(handler: Any) -> None:
    """Do not describe each packet of a connection or channel for a log that is not kept."""
    handler.log_received_packet = _nothing
    handler.log_sent_packet = _nothing


def _omit_ignored_packets(connection: asyncssh.SSHClientConnection) -> None:
    """Leave out the empty packet that asyncssh puts before every other.

    It protects ciphers in CBC mode and nobody else, and over two hops it makes four
    packets of one: a third of the processor time of an upload.
    """
    if "cbc" in str(connection.get_extra_info("send_cipher")):
        return
    send = connection.send_packet

    def send_packet(pkttype: int, *args: bytes, **more: Any) -> None:
        if pkttype != _MSG_IGNORE:
            send(pkttype, *args, **more)

    connection.send_packet = send_packet  # type: ignore[method-assign]


class _Gathering:
    """Hands the first packets of a turn of the loop to the socket at once, the others together."""

    def __init__(self, connection: Any) -> None:
        self._send = connection._send
        self._gathered: list[bytes | memoryview] | None = None  # None: none in this turn yet
        connection._send = lambda data: self.write([(data,)])

    def write(self, packets: Packets) -> None:
        pieces = [piece for packet in packets for piece in packet]
        if self._gathered is not None:
            self._gathered.extend(pieces)
            return
        self._gathered = []
        asyncio.get_running_loop().call_soon(self._flush)
        self._send(b"".join(pieces))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._send(b"".join(gathered))


def _nothing(*_: object, **__: object) -> None:
    """In place of a log line."""
