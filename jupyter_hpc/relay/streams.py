"""One connection inside a session: its windows, its two ends; pure, stdlib only, Python 3.9."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from jupyter_hpc.relay.frames import CREDIT, DATA, EOF, RST, ProtocolError
from jupyter_hpc.relay.outbox import Limits, Outbox


class Endpoint(Protocol):
    """What stands at the local end of a stream; called by the Mux."""

    def on_data(self, data: bytes) -> None:
        """Bytes for the local side; report them with stream.consumed() once they are used."""

    def on_eof(self) -> None:
        """The other end will send nothing more."""

    def on_reset(self, code: int) -> None:
        """The stream is over; nothing can be sent on it any more."""

    def on_pause(self) -> None:
        """Stop reading the local side."""

    def on_resume(self) -> None:
        """Read the local side again."""


class StreamOwner(Protocol):
    """The part of a Mux that its streams use."""

    limits: Limits
    outbox: Outbox

    def wait_for_room(self, stream: Stream) -> None:
        """Flush this stream, after those that wait already, when there is room again."""

    def take_growth(self, count: int) -> bool:
        """Take room for a larger window from the session's budget, if there is some."""
        ...

    def forget(self, stream: Stream) -> None:
        """The stream is over."""


class Stream:
    """One connection, seen from one end."""

    def __init__(self, mux: StreamOwner, number: int, target: bytes) -> None:
        self.number = number
        self.target = target
        self.endpoint: Endpoint | None = None
        self.send_room = mux.limits.first_window
        self.receive_room = mux.limits.first_window
        self.window = mux.limits.first_window
        self.growth = 0
        self.sent_eof = False
        self.received_eof = False
        self.finished = False
        self.paused = False
        self._mux = mux
        self._outbox = mux.outbox
        self._uncredited = 0
        self._held: deque[bytes | memoryview] = deque()
        self._eof_wanted = False

    def send(self, data: bytes | memoryview) -> None:
        """Send bytes to the other end; what cannot go yet is held here, in its order.

        A memoryview need not be valid any longer than this call.
        """
        if not (self.finished or self.sent_eof or self._eof_wanted):
            size = self._outbox.piece_size
            self._held.extend(data[start : start + size] for start in range(0, len(data), size))
            try:
                self.flush()
            finally:
                if self._held and isinstance(data, memoryview):
                    self._held = deque(bytes(piece) for piece in self._held)

    def send_eof(self) -> None:
        """Nothing more will be sent from here; the other direction stays open."""
        self._eof_wanted = True
        self.flush()

    def flush(self) -> None:
        """Send what is held, as far as the window allows (a frame may begin within it)."""
        while self._held and self.send_room > 0 and not (self.finished or self._must_wait()):
            if self._outbox.full:
                self._mux.wait_for_room(self)
                break
            piece = self._held.popleft()
            self.send_room -= len(piece)
            self._outbox.send(DATA, self.number, payload=piece)
        if self._eof_wanted and not (self._held or self.sent_eof or self.finished):
            self.sent_eof = True
            self._outbox.send(EOF, self.number)
            self._forget_if_done()
        self.update_pause()

    def reset(self, code: int = 0) -> None:
        """End the stream in both directions, now."""
        if not self.finished:
            self._outbox.send(RST, self.number, code)
            self._mux.forget(self)

    def consumed(self, count: int) -> None:
        """The local side has used `count` bytes; lets the other end send more."""
        if self.finished or self.received_eof:
            return
        self._uncredited += count
        if self._uncredited * 4 < self.window:
            return
        grant, self._uncredited = self._uncredited, 0
        if self.window * 2 <= self._mux.limits.most_window and self._mux.take_growth(self.window):
            grant += self.window
            self.growth += self.window
            self.window *= 2
        self.receive_room += grant
        self._outbox.send(CREDIT, self.number, grant)

    def take_data(self, data: bytes, before: int) -> None:
        """A piece of a DATA frame has come, `before` bytes of which were here already."""
        if self.received_eof:
            raise ProtocolError("data after the end of a stream")
        if self.receive_room <= 0 and not before:
            raise ProtocolError("more data than the window allows")
        if self.endpoint is not None:
            self.receive_room -= len(data)
            self.tell(self.endpoint.on_data, data)

    def take(self, kind: int, value: int) -> None:
        """A CREDIT or EOF frame has come."""
        if self.endpoint is None:
            return
        if kind == CREDIT:
            self.send_room += value
            self.flush()
            return
        if self.received_eof:
            raise ProtocolError("a stream ended twice")
        self.received_eof = True
        self._forget_if_done()
        self.tell(self.endpoint.on_eof)

    def _forget_if_done(self) -> None:
        if self.sent_eof and self.received_eof and not self.finished:
            self._mux.forget(self)

    def tell(self, call: Callable[..., None], *values: object) -> None:
        """Call the endpoint. Its failure ends this stream, and nothing else of the session."""
        try:
            call(*values)
        except Exception:
            logging.getLogger("jupyter_hpc.relay").exception("stream %d fails", self.number)
            self.reset()

    def _must_wait(self) -> bool:
        """Whether enough of this stream waits for the pipe; to go on, half of it must be gone."""
        backlog = self._mux.limits.backlog
        waiting = self._outbox.waiting.get(self.number, 0)
        return waiting >= (backlog // 2 if self.paused else backlog)

    def update_pause(self) -> None:
        """Tell the endpoint to stop or go on reading, if that has changed."""
        pause = bool(self._held) or self.send_room <= 0 or self._must_wait() or self._outbox.full
        if pause != self.paused and not self.finished and self.endpoint is not None:
            self.paused = pause
            self.tell(self.endpoint.on_pause if pause else self.endpoint.on_resume)
