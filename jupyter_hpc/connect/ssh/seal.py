"""Seals data packets of an SSH connection under AES-GCM, several at a time.

What has to be looked at for a packet (keys, state, time) is looked at once for all of them: in
an upload that, and not the encryption, is where the laptop's processor time would go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Packets or their contents: each is bytes that follow each other, joined once, at the end.
Packets = Sequence[tuple["bytes | memoryview", ...]]

#: SSH_MSG_CHANNEL_DATA (RFC 4254, section 5.2).
DATA = 94
#: Before the data: length of the padding, type, channel, length of the data.
DATA_AT = 10

#: A GCM nonce is a fixed field and the number of the packet (RFC 5647, section 7.1).
_FIXED = 4
_NUMBERS = 1 << 64


class Keyed:
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


class Sealer:
    """The sending half of one connection."""

    def __init__(self, connection: Any, send: Callable[[Packets], None]) -> None:
        """`send` takes sealed packets."""
        self.count = 0
        self._connection = connection
        self._send = send
        self._keyed = Keyed()
        self._padding = b""

    def seal(self, channel: Any, contents: Packets) -> bool:
        """Send a data packet for each of the contents; False if they have to go the long way."""
        connection = self._connection
        key = self._keyed.of(connection._send_encryption)
        if (
            key is None
            or connection._transport is None
            or connection._compressor
            or not (connection._auth_complete and connection._kex_complete)
            or connection._rekey_bytes_sent >= connection._rekey_bytes
            or (connection._rekey_seconds and time.monotonic() >= connection._rekey_time)
            or channel._send_chan is None
        ):
            return False
        nonce = self._keyed.cipher._iv
        fixed, number = nonce[:_FIXED], int.from_bytes(nonce[_FIXED:], "big")
        block = connection._send_blocksize
        unpadded = connection._send_enchdrlen + DATA_AT - 1
        start = bytes([DATA]) + channel._send_chan.to_bytes(4, "big")
        sealed, sealed_bytes, size_before = [], 0, -1
        for content in contents:
            size = sum(map(len, content))
            if size != size_before:  # all but the last are of one size
                size_before = size
                padding = -(unpadded + size) % block
                if padding < 4:
                    padding += block
                length = DATA_AT + size + padding
                header = length.to_bytes(4, "big")
                head = b"".join((bytes([padding]), start, size.to_bytes(4, "big")))
            packet = b"".join((head, *content, self._random(padding)))
            nonce = fixed + number.to_bytes(8, "big")
            sealed.append((header, key.encrypt(nonce, packet, header)))
            number = (number + 1) % _NUMBERS
            sealed_bytes += length
        self._keyed.cipher._iv = fixed + number.to_bytes(8, "big")
        connection._send_seq = (connection._send_seq + len(sealed)) & 0xFFFFFFFF
        connection._rekey_bytes_sent += sealed_bytes
        self.count += len(sealed)
        self._send(sealed)
        return True

    def _random(self, count: int) -> bytes:
        """Random padding; asking the system for each packet's costs more than the packet's MAC."""
        if len(self._padding) < count:
            self._padding = os.urandom(4096)
        taken, self._padding = self._padding[:count], self._padding[count:]
        return taken
