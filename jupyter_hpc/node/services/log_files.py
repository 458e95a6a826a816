"""Reading a log that grows, on a shared file system: by byte offsets, one open per piece.

Opening anew each time is what makes NFS tell the true size. A token names the file and
the first bytes of it, so that a file which was replaced, or emptied and filled again,
is noticed although its length may look right.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import zlib
from dataclasses import dataclass

#: The first look at a log shows so much of its end.
PIECE_BYTES = 1024 * 1024

_HEAD_BYTES = 256


@dataclass(frozen=True)
class Piece:
    """A part of a file; `offset` and `next_offset` are in bytes."""

    file: str
    size: int
    offset: int
    next_offset: int
    text: str
    eof: bool
    restarted: bool


class NotALog(Exception):
    """The path is a device, a pipe or a folder."""


def read_piece(
    path: str, offset: int | None = None, limit: int = PIECE_BYTES, file: str | None = None
) -> Piece:
    """The bytes from `offset` on, or the end of the file without it.

    With `file`, the token of the piece before, a file that is another one now is read
    from its end again and the piece says `restarted`. Raises OSError and NotALog.
    """
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotALog(path)
        head = os.pread(descriptor, _HEAD_BYTES, 0)
        restarted = offset is not None and (
            offset > status.st_size or (file is not None and not _same(file, status, head))
        )
        size = status.st_size
        if offset is None or restarted:
            start = max(0, size - limit)
            data = os.pread(descriptor, limit, start)
            skipped = _skip_partial_line(data) if start else 0
            start, data = start + skipped, data[skipped:]
        else:
            start = offset
            data = os.pread(descriptor, limit, start)
    finally:
        os.close(descriptor)
    data = data[: _whole_characters(data)]
    end = start + len(data)
    return Piece(
        file=_token(status, head),
        size=size,
        offset=start,
        next_offset=end,
        text=data.decode("utf-8", "replace"),
        eof=end >= size or not data,
        restarted=restarted,
    )


def _token(status: os.stat_result, head: bytes) -> str:
    return f"{status.st_dev:x}-{status.st_ino:x}-{len(head)}-{zlib.crc32(head):08x}"


def _same(token: str, status: os.stat_result, head: bytes) -> bool:
    """Whether the token was made of this file when it was as long or shorter."""
    identity, _, rest = token.rpartition("-")
    identity, _, length = identity.rpartition("-")
    if identity != f"{status.st_dev:x}-{status.st_ino:x}" or not re.fullmatch("[0-9]{1,4}", length):
        return False
    return int(length) <= len(head) and f"{zlib.crc32(head[: int(length)]):08x}" == rest


def _skip_partial_line(data: bytes) -> int:
    """How many bytes to leave out so that a piece from the middle starts with a line.

    A file without line breaks, such as one of progress bars, starts where it starts,
    but never inside a character.
    """
    newline = data.find(b"\n", 0, 64 * 1024)
    if newline >= 0:
        return newline + 1
    return next((step for step in range(min(4, len(data))) if data[step] & 0xC0 != 0x80), 0)


def _whole_characters(data: bytes) -> int:
    """The length without a character that has been written only in part."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    tail = data[-4:]
    start = next((step for step in range(len(tail)) if tail[step] & 0xC0 != 0x80), 0)
    decoder.decode(tail[start:])
    return len(data) - len(decoder.getstate()[0])
