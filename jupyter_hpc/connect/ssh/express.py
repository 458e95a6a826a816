"""The short way of data packets through asyncssh.

asyncssh takes every packet the same careful way, with some eight copies of its bytes. All but
a few packets of a session are channel data under AES-GCM, and the windows for it, on a
connection that is well; those are sealed (ssh_seal.py) and opened (ssh_open.py) here, with
three copies, and the state that asyncssh keeps about them is brought up to date. Every other
packet, and every packet at any other time (key exchange, another cipher, compression, a fault),
goes the long way. So does everything if a release of asyncssh keeps its state elsewhere: then
the session is slower, and still right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.open import Opener
from jupyter_hpc.connect.ssh.seal import DATA, Packets, Sealer

_USED_STATE = (
    "_auth_complete", "_channels", "_compressor", "_decompressor", "_inpbuf", "_kex_complete",
    "_max_recv_pktlen", "_packet", "_recv_encryption", "_recv_handler", "_recv_packet",
    "_recv_pkthdr", "_recv_seq", "_rekey_bytes", "_rekey_bytes_sent", "_rekey_seconds",
    "_rekey_time", "_reset_keepalive_timer", "_send", "_send_blocksize", "_send_enchdrlen",
    "_send_encryption", "_send_seq", "_transport",
)  # fmt: skip
_USED_OF_CHANNELS = (
    "_accept_data", "_flush_send_buf", "_recv_state", "_recv_window", "_send_buf", "_send_chan",
    "_send_pktsize", "_send_state", "_send_window",
)  # fmt: skip


class Express:
    """The short way through one connection."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        send: Callable[[Packets], None] | None = None,
    ) -> None:
        """`send` takes sealed packets; without it they go to the connection's own carrier."""
        #: Whether this asyncssh keeps its state where we know it.
        self.works = all(hasattr(connection, name) for name in _USED_STATE)
        self._sealer = Sealer(connection, send or _carrier(connection))
        self._opener = Opener(connection, connection.data_received)
        if self.works:
            connection.data_received = self._opener.data_received  # type: ignore[method-assign]

    @property
    def sent(self) -> int:
        """How many packets went the short way."""
        return self._sealer.count

    @property
    def received(self) -> int:
        """How many packets came the short way."""
        return self._opener.count

    def join(self, channel: Any) -> Callable[[Packets], None] | None:
        """Let a channel of this connection use the short way; returns what sends packets on it.

        None if this channel cannot.
        """
        if not self.works or not all(hasattr(channel, name) for name in _USED_OF_CHANNELS):
            return None
        send, write, seal = channel.send_packet, channel.write, self._sealer.seal

        def send_packet(pkttype: int, *args: bytes) -> None:
            if pkttype != DATA or not seal(channel, [(args[0][4:], *args[1:])]):
                send(pkttype, *args)

        def write_packets(packets: Packets) -> None:
            sizes = [sum(map(len, packet)) for packet in packets]
            total = sum(sizes)
            if (
                not channel._send_buf
                and channel._send_state == "open"
                and 0 < total <= channel._send_window
                and max(sizes) <= channel._send_pktsize
                and seal(channel, packets)
            ):
                channel._send_window -= total
            elif len(packets) == 1:
                write(b"".join(packets[0]))
            else:
                for packet in packets:
                    write_packets([packet])

        def write_at_once(data: bytes, datatype: int | None = None) -> None:
            if datatype is None:
                write_packets([(data,)])
            else:
                write(data, datatype)

        channel.send_packet, channel.write = send_packet, write_at_once
        channel.write_packets = write_packets
        return write_packets


def _carrier(connection: Any) -> Callable[[Packets], None]:
    """Where the connection's packets go: into a channel of the hop below, or its socket."""
    packets_taken: Callable[[Packets], None] | None = getattr(
        getattr(connection, "_transport", None), "write_packets", None
    )
    return packets_taken or (
        lambda packets: connection._send(b"".join(piece for one in packets for piece in one))
    )
