"""Bytes of a pipe to frames; pure, stdlib only, Python 3.8.

Payload of DATA is handed on as it arrives. `received` counts the whole numbered frames of all
pipes, and `part` the bytes of the unfinished one that were handed on already: its replay over
the next pipe skips them.
"""

from __future__ import annotations

from typing import Protocol

from jupyter_hpc.relay.frames import (
    DATA,
    HEADER,
    MAX_PAYLOAD_BYTES,
    MAX_TARGET_BYTES,
    NUMBERED,
    OPEN,
    ProtocolError,
)


class FrameHandler(Protocol):
    """Whoever acts on frames; any method may raise ProtocolError."""

    def check_data(self, number: int, replayed: bool) -> None:
        """A DATA frame begins; `replayed` if part of it was handed on over another pipe."""

    def take_data(self, number: int, data: bytes) -> None:
        """Some payload of a DATA frame, each byte once."""

    def take_frame(self, kind: int, number: int, value: int, payload: bytes) -> None:
        """A whole numbered frame other than DATA."""

    def take_signal(self, kind: int, number: int) -> None:
        """A frame that is not numbered."""

    def active(self) -> bool:
        """False once the session was ended, which may happen in the middle of the bytes."""
        ...


class Inbox:
    """Cuts frames out of bytes that come in pieces of any size."""

    def __init__(self, handler: FrameHandler) -> None:
        self.received = 0
        self.part = 0
        self.unreported = 0
        self._handler = handler
        self.new_pipe()

    def new_pipe(self) -> None:
        """Forget the beginning of a frame: it will come again, whole."""
        self._head = b""
        self._kind = 0
        self._number = 0
        self._left = 0
        self._skip = 0
        self._target = b""

    def feed(self, data: bytes) -> None:
        """Take bytes of the current pipe."""
        at, size = 0, len(data)
        while at < size and self._handler.active():
            if self._left:
                taken = min(self._left, size - at)
                self._payload(data[at : at + taken])
                at += taken
            elif not self._head and size - at >= HEADER.size:
                self._header(*HEADER.unpack_from(data, at))
                at += HEADER.size
            else:
                taken = min(HEADER.size - len(self._head), size - at)
                self._head += data[at : at + taken]
                at += taken
                if len(self._head) == HEADER.size:
                    head, self._head = self._head, b""
                    self._header(*HEADER.unpack(head))

    def _header(self, kind: int, number: int, value: int) -> None:
        if kind not in NUMBERED:
            self._handler.take_signal(kind, number << 32 | value)
            return
        if self.part and (kind != DATA or value <= self.part):
            raise ProtocolError("a replayed frame is not the one that was cut")
        if kind == DATA:
            if not 0 < value <= MAX_PAYLOAD_BYTES:
                raise ProtocolError(f"a DATA frame of {value} bytes")
            self._handler.check_data(number, bool(self.part))
            self._skip = self.part
        elif kind == OPEN and value > MAX_TARGET_BYTES:
            raise ProtocolError(f"the name of a target has {value} bytes")
        if value and kind in (DATA, OPEN):
            self._kind, self._number, self._left = kind, number, value
        else:
            self._count()
            self._handler.take_frame(kind, number, value, b"")

    def _payload(self, piece: bytes) -> None:
        self._left -= len(piece)
        self.unreported += len(piece)
        if self._kind == OPEN:
            self._target += piece
            if not self._left:
                target, self._target = self._target, b""
                self._count()
                self._handler.take_frame(OPEN, self._number, len(target), target)
            return
        if self._skip:
            known = min(self._skip, len(piece))
            self._skip -= known
            piece = piece[known:]
        if self._left:
            self.part += len(piece)
        else:
            self.part = 0
            self._count()
        if piece:
            self._handler.take_data(self._number, piece)

    def _count(self) -> None:
        self.received += 1
        self.unreported += HEADER.size
