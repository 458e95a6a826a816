"""Frames between the two ends of a transfer, over blocking byte streams.

A frame is one letter, four bytes of length, and so many bytes. This module, like all
that bundle.py names, needs nothing but Python's standard library (3.8 or newer): joined into
one file it is the end that runs on the cluster.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol

#: The program on the cluster says this once it runs; what came before is noise of a login shell.
READY = b"\x01jhpc-files\x02"

VALUE = b"J"  #: JSON
SMALL = b"S"  #: a whole small file: index, digest, content
BEGIN = b"B"  #: a file begins: index, offset
DATA = b"D"  #: its next bytes
END = b"E"  #: its digest
FAULT = b"X"  #: a file that cannot be sent: index, reason
SAME = b"K"  #: a file that is there already, seen by its content: index
WOULD = b"W"  #: a file that would be sent, in a dry run: index
LAST = b"Z"  #: no more files

#: Bytes of one data frame: with its head it fills sixteen packets of SSH, and leaves no small
#: one behind, which would cost as much as a full one (connect/ssh/pipe.py, PIECE_BYTES).
BLOCK_BYTES = 16 * 32576 - 5
#: Files up to this size travel in one frame.
SMALL_BYTES = 1 << 16
#: No frame of ours is longer; the list of a million files is.
MAX_FRAME_BYTES = 1 << 28

_HEAD = struct.Struct("!cI")
INDEX = struct.Struct("!I")
OFFSET = struct.Struct("!IQ")


class Reader(Protocol):
    """Where frames come from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer only at the end."""
        ...


class Writer(Protocol):
    """Where frames go."""

    def write(self, data: bytes, /) -> Any: ...

    def flush(self) -> Any: ...


class Broken(Exception):
    """The other end is gone, or says what no program of ours says."""


class Refused(Exception):
    """The other end cannot do what it was asked for; its own words."""


class Wire:
    """Frames in both directions; one thread may send while another receives."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: list[bytes] = []
        self._size = 0

    def send(self, kind: bytes, *parts: bytes) -> None:
        """Queue a frame; it leaves with the next large one, or with flush()."""
        length = sum(map(len, parts))
        self._waiting.append(_HEAD.pack(kind, length))
        self._waiting.extend(parts)
        self._size += length
        if self._size >= BLOCK_BYTES:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        try:
            self._writer.write(b"".join(waiting))
        except (OSError, ValueError) as error:
            raise Broken("the other end is gone") from error

    def flush(self) -> None:
        self._write()
        try:
            self._writer.flush()
        except (OSError, ValueError) as error:
            raise Broken("the other end is gone") from error

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame. Raises Broken."""
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > MAX_FRAME_BYTES:
            raise Broken("a frame is too long")
        return kind, self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size) if size else b""
        if len(data) != size:
            raise Broken("the connection has ended")
        return data

    def send_value(self, value: Any) -> None:
        """Send a JSON value at once."""
        # Names that are not UTF-8 are lone surrogates here, which JSON carries as escapes.
        self.send(VALUE, json.dumps(value).encode("ascii"))
        self.flush()

    def receive_value(self) -> Any:
        """The next JSON value. Raises Broken, and Refused where it is {"refused": words}."""
        kind, payload = self.receive()
        if kind != VALUE:
            raise Broken("an answer was expected")
        try:
            value = json.loads(payload)
        except ValueError as error:
            raise Broken("an answer cannot be read") from error
        if isinstance(value, dict) and "refused" in value:
            raise Refused(str(value["refused"]))
        return value
