"""The short way of data packets through asyncssh.

asyncssh takes every packet the same careful way, with some eight copies of its bytes. All but
a few packets of a session are channel data under AES-GCM on a connection that is well; those
are sealed and opened here, with three copies, and the state that asyncssh keeps about them is
brought up to date. Every other packet, and every packet at any other time (key exchange,
another cipher, compression, a fault), goes the long way. So does everything if a release of
asyncssh keeps its state elsewhere: then the session is slower, and still right.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import asyncssh
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Bytes that follow each other; joined once, at the end.
Pieces = tuple["bytes | memoryview", ...]

#: SSH_MSG_CHANNEL_DATA (RFC 4254, section 5.2).
_DATA = 94
_DATA_BYTE = bytes([_DATA])
_TAG = 16
#: In an opened packet: length of the padding, type, channel, length of the data.
_DATA_AT = 10

_USED_STATE = (
    "_auth_complete", "_channels", "_compressor", "_decompressor", "_inpbuf", "_kex_complete",
    "_max_recv_pktlen", "_packet", "_recv_encryption", "_recv_handler", "_recv_packet",
    "_recv_pkthdr", "_recv_seq", "_rekey_bytes", "_rekey_bytes_sent", "_rekey_seconds",
    "_rekey_time", "_reset_keepalive_timer", "_send", "_send_blocksize", "_send_enchdrlen",
    "_send_encryption", "_send_seq", "_transport",
)  # fmt: skip


class Express:
    """The short way through one connection."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        send: Callable[[Pieces], None] | None = None,
    ) -> None:
        """`send` takes sealed packets; without it they go to the connection's own carrier."""
        #: Whether this asyncssh keeps its state where we know it.
        self.works = all(hasattr(connection, name) for name in _USED_STATE)
        #: Packets that went the short way, for tests.
        self.sent = self.received = 0
        self._connection: Any = connection
        self._send = send or _carrier(connection)
        self._receive = connection.data_received
        self._rest = self._padding = b""
        self._sealing = _Keyed()
        self._opening = _Keyed()
        if self.works:
            connection.data_received = self._data_received  # type: ignore[method-assign]

    def join(self, channel: Any) -> bool:
        """Let a channel of this connection send its data the short way, if it can."""
        if not self.works:
            return False
        send, write = channel.send_packet, channel.write

        def send_packet(pkttype: int, *args: bytes) -> None:
            if pkttype != _DATA or not self._seal(channel, args):
                send(pkttype, *args)

        def write_pieces(pieces: Pieces) -> None:
            size = sum(map(len, pieces))
            if (
                channel._send_buf
                or channel._send_state != "open"
                or not 0 < size <= min(channel._send_window, channel._send_pktsize)
                or not self._seal(channel, (size.to_bytes(4, "big"), *pieces))
            ):
                write(b"".join(pieces))
            else:
                channel._send_window -= size

        def write_at_once(data: bytes, datatype: int | None = None) -> None:
            if datatype is None:
                write_pieces((data,))
            else:
                write(data, datatype)

        channel.send_packet, channel.write = send_packet, write_at_once
        channel.write_pieces = write_pieces
        return True

    # -- sending ------------------------------------------------------------------------

    def _seal(self, channel: Any, args: Pieces) -> bool:
        """Send a data packet; False if it has to go the long way."""
        connection = self._connection
        key = self._sealing.of(connection._send_encryption)
        if (
            key is None
            or connection._compressor
            or not (connection._auth_complete and connection._kex_complete)
            or connection._rekey_bytes_sent >= connection._rekey_bytes
            or (connection._rekey_seconds and time.monotonic() >= connection._rekey_time)
            or channel._send_chan is None
        ):
            return False
        size = connection._send_enchdrlen + 5 + sum(map(len, args))
        padding = -size % connection._send_blocksize
        if padding < 4:
            padding += connection._send_blocksize
        number = channel._send_chan.to_bytes(4, "big")
        packet = b"".join((bytes([padding]), _DATA_BYTE, number, *args, self._random(padding)))
        header = len(packet).to_bytes(4, "big")
        self._send((header, key.encrypt(self._sealing.cipher._iv, packet, header)))
        self._sealing.cipher._update_iv()
        connection._send_seq = (connection._send_seq + 1) & 0xFFFFFFFF
        connection._rekey_bytes_sent += len(packet)
        self.sent += 1
        return True

    def _random(self, count: int) -> bytes:
        """Random padding; asking the system for each packet's costs more than the packet's MAC."""
        if len(self._padding) < count:
            self._padding = os.urandom(4096)
        taken, self._padding = self._padding[:count], self._padding[count:]
        return taken

    # -- receiving ----------------------------------------------------------------------

    def _data_received(self, data: bytes, datatype: int | None = None) -> None:
        connection = self._connection
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
            if not self._open(view, at, end):
                self._receive(data[at:end])
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
            and self._opening.of(connection._recv_encryption) is not None
        )

    def _take_back(self) -> bytes:
        """The part of a packet that came the long way and is not complete yet."""
        connection = self._connection
        if not connection._inpbuf and not connection._packet:
            return b""
        if self._opening.of(connection._recv_encryption) is None:
            return b""
        if connection._recv_handler not in (connection._recv_pkthdr, connection._recv_packet):
            return b""  # asyncssh is in the middle of something
        taken: bytes = connection._packet + connection._inpbuf
        connection._packet = connection._inpbuf = b""
        connection._recv_handler = connection._recv_pkthdr
        return taken

    def _open(self, data: memoryview, at: int, end: int) -> bool:
        """Deliver a data packet; False if it has to go the long way."""
        connection = self._connection
        key = self._opening.key
        if key is None or end > len(data):
            return False
        try:
            plain = key.decrypt(self._opening.cipher._iv, data[at + 4 : end], data[at : at + 4])
        except InvalidTag:
            return False
        if len(plain) < _DATA_AT or plain[1] != _DATA:
            return False
        channel = connection._channels.get(int.from_bytes(plain[2:6], "big"))
        size = int.from_bytes(plain[6:10], "big")
        if (
            channel is None
            or channel._recv_state != "open"
            or size > channel._recv_window
            or _DATA_AT + size + plain[0] != len(plain)
        ):
            return False
        self._opening.cipher._update_iv()
        connection._recv_seq = (connection._recv_seq + 1) & 0xFFFFFFFF
        self.received += 1
        try:
            channel._accept_data(plain[_DATA_AT : _DATA_AT + size])
        except Exception:
            connection.internal_error()
        return True


def _carrier(connection: Any) -> Callable[[Pieces], None]:
    """Where the connection's packets go: into a channel of the hop below, or its socket."""
    pieces_taken: Callable[[Pieces], None] | None = getattr(
        getattr(connection, "_transport", None), "write_pieces", None
    )
    return pieces_taken or (lambda pieces: connection._send(b"".join(pieces)))


class _Keyed:
    """The ready-made key of the cipher that is in use; asyncssh makes one for each packet."""

    def __init__(self) -> None:
        self.cipher: Any = None
        self.key: AESGCM | None = None

    def of(self, encryption: Any) -> AESGCM | None:
        """The key, or None if packets are not under AES-GCM."""
        cipher: Any = getattr(encryption, "_cipher", None)
        if cipher is not self.cipher:
            self.cipher = cipher
            is_gcm = type(cipher).__name__ == "GCMCipher" and hasattr(cipher, "_update_iv")
            self.key = AESGCM(cipher._key) if is_gcm else None
        return self.key
