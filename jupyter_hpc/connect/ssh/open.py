"""Opens data packets, and the windows for them, of an SSH connection under AES-GCM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag

from jupyter_hpc.connect.ssh.seal import DATA, DATA_AT, Keyed

#: SSH_MSG_CHANNEL_WINDOW_ADJUST (RFC 4254, section 5.2): one comes for every three packets sent.
_WINDOW_ADJUST = 93
_TAG = 16


class Opener:
    """The receiving half of one connection."""

    def __init__(self, connection: Any, receive: Callable[[bytes], None]) -> None:
        """`receive` takes bytes the long way."""
        self.count = 0
        self._connection = connection
        self._receive = receive
        self._rest = b""
        self._keyed = Keyed()

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Take bytes of the connection."""
        connection = self._connection
        if connection._transport is None:
            return  # there was a fault: nothing that follows it counts
        data = self._rest + self._take_back() + data
        self._rest = b""
        if not self._ready():
            self._receive(data)
            return
        connection._reset_keepalive_timer()
        at, size, view = 0, len(data), memoryview(data)
        while size - at >= 4 and connection._transport is not None:
            length = int.from_bytes(data[at : at + 4], "big")
            end = at + 4 + length + _TAG
            if end > size and length <= connection._max_recv_pktlen:
                break
            if length > connection._max_recv_pktlen or not self._open(view, at, end):
                self._receive(data[at:end])
                if connection._transport is None:
                    # asyncssh counts a packet that it refused: one that was taken out before it
                    # must not make those after it right.
                    return
                if connection._inpbuf or not self._ready():
                    self._receive(data[end:])
                    return
            at = end
        self._rest = data[at:]

    def _ready(self) -> bool:
        """Whether the next bytes begin a packet that could go the short way."""
        connection = self._connection
        return bool(
            connection._recv_handler == connection._recv_pkthdr
            and not connection._decompressor
            and connection._auth_complete
            and self._keyed.of(connection._recv_encryption) is not None
        )

    def _take_back(self) -> bytes:
        """The part of a packet that came the long way and is not complete yet."""
        connection = self._connection
        if not connection._inpbuf and not connection._packet:
            return b""
        if self._keyed.of(connection._recv_encryption) is None:
            return b""
        if connection._recv_handler not in (connection._recv_pkthdr, connection._recv_packet):
            return b""  # asyncssh is in the middle of something
        taken: bytes = connection._packet + connection._inpbuf
        connection._packet = connection._inpbuf = b""
        connection._recv_handler = connection._recv_pkthdr
        return taken

    def _open(self, data: memoryview, at: int, end: int) -> bool:
        """Deliver a packet; False if it has to go the long way."""
        connection = self._connection
        key = self._keyed.key
        if key is None or end > len(data):
            return False
        try:
            plain = key.decrypt(self._keyed.cipher._iv, data[at + 4 : end], data[at : at + 4])
        except InvalidTag:
            return False
        if len(plain) < DATA_AT or not plain[0] or plain[1] not in (DATA, _WINDOW_ADJUST):
            return False
        channel = connection._channels.get(int.from_bytes(plain[2:6], "big"))
        number = int.from_bytes(plain[6:10], "big")
        size = number if plain[1] == DATA else 0
        if (
            channel is None
            or getattr(channel, "_recv_state", "") != "open"
            or size > channel._recv_window
            or DATA_AT + size + plain[0] != len(plain)
        ):
            return False
        self._keyed.cipher._update_iv()
        connection._recv_seq = (connection._recv_seq + 1) & 0xFFFFFFFF
        self.count += 1
        try:
            if plain[1] == DATA:
                channel._accept_data(plain[DATA_AT : DATA_AT + size])
            else:
                channel._send_window += number
                channel._flush_send_buf()
        except Exception:
            connection.internal_error()
        return True
