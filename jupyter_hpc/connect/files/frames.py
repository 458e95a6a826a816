"""Frames between the two ends of a transfer, over blocking byte streams.

A frame is one letter, four bytes of length, and so many bytes. This module, like all
that bundle.py names, needs nothing but Python's standard library (3.9 or newer): joined into
one file it is the end that runs on the cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import sys
from typing import Any, Protocol, Union

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

#: What is read of a descriptor at once while frames are small.
READ_BYTES = 1 << 15

#: So much may wait in a pipe, where that can be set (Linux, to which the number belongs): the
#: 64 kB that it has otherwise are two packets of SSH, and each time it is full or empty is a turn.
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031

_HEAD = struct.Struct("!cI")
INDEX = struct.Struct("!I")
OFFSET = struct.Struct("!IQ")


#: In the words of Python 3.9.
Data = Union[bytes, memoryview]  # noqa: UP007


class Reader(Protocol):
    """Where frames come from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer only at the end."""
        ...

    def readinto(self, room: memoryview, /) -> int:
        """Fill `room`; how much of it was filled, which is less only at the end."""
        ...


class Writer(Protocol):
    """Where frames go. What was given to `write` is the caller's again when it returns."""

    def write(self, data: Data, /) -> Any: ...

    def flush(self) -> Any: ...


class Broken(Exception):
    """The other end is gone, or says what no program of ours says."""


class Refused(Exception):
    """The other end cannot do what it was asked for; its own words."""


def widen(fd: int) -> None:
    """Let more wait in a pipe; whatever else it may be stays as it is."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)


class Descriptor:
    """A Writer to a descriptor, without a buffer between."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: Data) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def copy(self, fd: int, size: int) -> int:
        """Write the `size` bytes of a file that were read last, as far as the kernel does it alone.

        It lends the reader the pages of the file, which saves two copies. They may be others than
        were read, if the file is written to meanwhile: the sum at the end says so.
        """
        done = 0
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                start = os.lseek(fd, 0, os.SEEK_CUR) - size
                while done < size:
                    taken = os.sendfile(self._fd, fd, start + done, size - done)
                    if not taken:
                        break
                    done += taken
        return done

    def flush(self) -> None:
        """Nothing waits here."""


class Wire:
    """Frames in both directions; one thread may send while another receives."""

    def __init__(self, reader: Reader, writer: Writer, close: Any = None) -> None:
        """`close` is called by close()."""
        self._reader = reader
        self._writer = writer
        self._close = close
        self._waiting: list[bytes] = []
        self._size = 0
        self._sent = memoryview(b"")
        #: In turns, so that a block can still be summed while the next one comes.
        self._received = [memoryview(b""), memoryview(b"")]

    def close(self) -> None:
        """The thread that used it is done with it."""
        if self._close is not None:
            self._close()

    def send(self, kind: bytes, *parts: bytes) -> None:
        """Queue a frame; it leaves with the next large one, or with flush()."""
        length = sum(map(len, parts))
        self._waiting.append(_HEAD.pack(kind, length))
        self._waiting.extend(parts)
        self._size += length
        if self._size >= BLOCK_BYTES:
            self._write_waiting()

    def _write_waiting(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            self._write(b"".join(waiting))

    def _write(self, data: Data) -> None:
        try:
            self._writer.write(data)
        except (OSError, ValueError) as error:
            raise Broken("the other end is gone") from error

    def room(self) -> memoryview:
        """Where the content of the next data frame is read to; for send_room."""
        if not self._sent:
            self._sent = memoryview(bytearray(_HEAD.size + BLOCK_BYTES))
        return self._sent[_HEAD.size :]

    def send_room(self, size: int, fd: int) -> None:
        """Send the first bytes of room(), just read from `fd`, as a data frame, at once."""
        self._write_waiting()
        _HEAD.pack_into(self._sent, 0, DATA, size)
        begin, end = 0, _HEAD.size + size
        if isinstance(self._writer, Descriptor):
            self._write(self._sent[: _HEAD.size])
            begin = _HEAD.size + self._writer.copy(fd, size)
        if begin < end:
            self._write(self._sent[begin:end])

    def flush(self) -> None:
        self._write_waiting()
        try:
            self._writer.flush()
        except (OSError, ValueError) as error:
            raise Broken("the other end is gone") from error

    def receive(self) -> tuple[bytes, Data]:
        """The next frame; the content of a data frame is valid until the next but one.

        Raises Broken.
        """
        kind, length = _HEAD.unpack(self._exactly(_HEAD.size))
        if length > (BLOCK_BYTES if kind == DATA else MAX_FRAME_BYTES):
            raise Broken("a frame is too long")
        if kind != DATA:
            return kind, self._exactly(length)
        self._received.reverse()
        if not self._received[0]:
            self._received[0] = memoryview(bytearray(BLOCK_BYTES))
        room = self._received[0][:length]
        if length and self._reader.readinto(room) != length:
            raise Broken("the connection has ended")
        return kind, room

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
            value = json.loads(bytes(payload))
        except ValueError as error:
            raise Broken("an answer cannot be read") from error
        if isinstance(value, dict) and "refused" in value:
            raise Refused(str(value["refused"]))
        return value
