"""Bytes of a pipe to frames; pure, stdlib only, Python 3.9.

Payload of DATA is handed on as it arrives. `received` counts the whole numbered frames of all
pipes, and `part` the bytes of the unfinished one that were handed on already: its replay over
the next pipe skips them.
"""

from __future__ import annotations

from collections.abc import Iterator

from jupyter_hpc.relay.frames import (
    DATA,
    HEADER,
    MAX_PAYLOAD_BYTES,
    MAX_TARGET_BYTES,
    NUMBERED,
    OPEN,
    ProtocolError,
)


class Inbox:
    """Cuts frames out of bytes that come in pieces of any size, and says when what has come is
    worth an acknowledgement: what comes in 20 ms, at least `least` bytes and at most `most`."""

    def __init__(self, least: int, most: int) -> None:
        self.received = 0
        self.part = 0
        self.unreported = 0
        self.threshold = least
        self._least = least
        self._most = most
        self._since = 0.0
        self._bytes = 0
        self.new_pipe()

    def new_pipe(self) -> None:
        """Forget the beginning of a frame: it will come again, whole."""
        self._head = b""
        self._kind = 0
        self._number = 0
        self._left = 0
        self._skip = 0
        self._target = b""

    def frames(self, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        """Take bytes of the current pipe: kind, stream, value and payload of each frame in them.

        A DATA frame comes in the pieces that are there, each byte of it once; its value is how
        many bytes of it came before. Signals (not in NUMBERED) have one number and no stream.
        """
        at, size = 0, len(data)
        while at < size:
            if self._left:
                taken = min(self._left, size - at)
                yield from self._payload(data[at : at + taken])
                at += taken
                continue
            if not self._head and size - at >= HEADER.size:
                kind, number, value = HEADER.unpack_from(data, at)
                at += HEADER.size
            else:
                taken = min(HEADER.size - len(self._head), size - at)
                self._head += data[at : at + taken]
                at += taken
                if len(self._head) < HEADER.size:
                    return
                kind, number, value = HEADER.unpack(self._head)
                self._head = b""
            if kind not in NUMBERED:
                yield kind, 0, number << 32 | value, b""
            elif self._begin(kind, number, value):
                yield kind, number, value, b""

    def is_report_due(self, count: int, now: float) -> bool:
        """So many bytes have come: is it worth an acknowledgement?"""
        self._bytes += count
        passed = now - self._since
        if passed >= 0.05:
            rate = self._bytes / passed
            self.threshold = max(self._least, min(self._most, int(rate * 0.02)))
            self._since, self._bytes = now, 0
        return self.unreported >= self.threshold

    def _begin(self, kind: int, number: int, value: int) -> bool:
        """The head of a numbered frame has come; whether that is all of it."""
        if self.part and (kind != DATA or value <= self.part):
            raise ProtocolError("a replayed frame is not the one that was cut")
        if kind == DATA:
            if not 0 < value <= MAX_PAYLOAD_BYTES:
                raise ProtocolError(f"a DATA frame of {value} bytes")
            self._skip = self.part
        elif kind == OPEN and value > MAX_TARGET_BYTES:
            raise ProtocolError(f"the name of a target has {value} bytes")
        if value and kind in (DATA, OPEN):
            self._kind, self._number, self._left = kind, number, value
            return False
        self._count()
        return True

    def _payload(self, piece: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        self._left -= len(piece)
        self.unreported += len(piece)
        if self._kind == OPEN:
            self._target += piece
            if not self._left:
                target, self._target = self._target, b""
                self._count()
                yield OPEN, self._number, len(target), target
            return
        if self._skip:
            known = min(self._skip, len(piece))
            self._skip -= known
            piece = piece[known:]
        before = self.part
        if self._left:
            self.part += len(piece)
        else:
            self.part = 0
            self._count()
        if piece:
            yield DATA, self._number, before, piece

    def _count(self) -> None:
        self.received += 1
        self.unreported += HEADER.size
