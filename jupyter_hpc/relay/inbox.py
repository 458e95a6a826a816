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

#: Kind, stream, value and payload.
Frame = tuple[int, int, int, bytes]


class Inbox:
    """Cuts frames out of bytes that come in pieces of any size, and says when what has come is
    worth an acknowledgement: `threshold` bytes, which is what comes in 20 ms, at least `least` and
    at most `most`."""

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

    def frames(self, data: bytes, now: float) -> Iterator[Frame]:
        """Take bytes of the current pipe: kind, stream, value and payload of each frame in them.

        A DATA frame comes in the pieces that are there, each byte of it once; its value is how
        many bytes of it came before. Signals (not in NUMBERED) have one number and no stream.
        """
        self._bytes += len(data)
        passed = now - self._since
        if passed >= 0.05:
            rate = self._bytes / passed
            self.threshold = max(self._least, min(self._most, int(rate * 0.02)))
            self._since, self._bytes = now, 0
        at, size = 0, len(data)
        while at < size:
            if self._left:
                taken = min(self._left, size - at)
                frame = self._payload(data[at : at + taken])
                at += taken
            elif not self._head and size - at >= HEADER.size:
                frame = self._begin(*HEADER.unpack_from(data, at))
                at += HEADER.size
            else:
                taken = min(HEADER.size - len(self._head), size - at)
                self._head += data[at : at + taken]
                at += taken
                if len(self._head) < HEADER.size:
                    return
                head, self._head = self._head, b""
                frame = self._begin(*HEADER.unpack(head))
            if frame is not None:
                yield frame

    def _begin(self, kind: int, number: int, value: int) -> Frame | None:
        """The head of a frame has come; the frame, where that is all of it."""
        if kind not in NUMBERED:
            return kind, 0, number << 32 | value, b""
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
            return None
        self.received += 1
        self.unreported += HEADER.size
        return kind, number, value, b""

    def _payload(self, piece: bytes) -> Frame | None:
        """What is new of a DATA frame; an OPEN frame once it is whole."""
        self._left -= len(piece)
        self.unreported += len(piece)
        if not self._left:
            self.received += 1
            self.unreported += HEADER.size
        if self._kind == OPEN:
            self._target += piece
            if self._left:
                return None
            target, self._target = self._target, b""
            return OPEN, self._number, len(target), target
        if self._skip:
            known = min(self._skip, len(piece))
            self._skip -= known
            piece = piece[known:]
        before = self.part
        self.part = before + len(piece) if self._left else 0
        return (DATA, self._number, before, piece) if piece else None
