"""One connection inside a session: its windows, its two ends; pure, stdlib only, Python 3.8."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from jupyter_hpc.relay.frames import (
    CREDIT,
    DATA,
    EOF,
    RST,
    encode_frame,
    encode_payload,
)


class Limits(NamedTuple):
    """How much of everything; both ends must agree on `first_window` and `streams`."""

    first_window: int = 1 << 18  # bytes that may be sent on a new stream without credit
    most_window: int = 4 << 20  # what a window may grow to
    growth: int = 32 << 20  # what all windows of a session may grow by, together
    unacked: int = 8 << 20  # kept for replay; above it no local socket is read
    backlog: int = 1 << 19  # of a stream, waiting for the pipe; above it its socket is not read
    pipe_queue: int = 1 << 19  # handed to the pipe and not yet taken from it
    first_flight: int = 1 << 18  # may be on its way before anything is known of the line
    least_flight: int = 1 << 17  # may always be on its way
    ack_every: int = 1 << 19  # received bytes that are acknowledged at once, at the most
    streams: int = 1024  # open at the same time


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
    congested: bool

    @property
    def piece_size(self) -> int:
        """How large a DATA frame may be."""
        ...

    def enqueue(self, frame: bytes) -> None:
        """Number a frame, keep it, and send it as soon as the pipe has room."""

    def waiting_of(self, stream: Stream) -> int:
        """What of the stream was enqueued and not sent."""
        ...

    def wait_for_room(self, stream: Stream) -> None:
        """Flush this stream, after those that wait already, when there is room again."""

    def take_growth(self, count: int) -> bool:
        """Take room for a larger window from the session's budget, if there is some."""
        ...

    def forget(self, stream: Stream) -> None:
        """The stream is over."""

    def finish_if_done(self, stream: Stream) -> None:
        """Both directions may have ended."""


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
        self._uncredited = 0
        self._held: deque[bytes | memoryview] = deque()
        self._eof_wanted = False

    def send(self, data: bytes | memoryview) -> None:
        """Send bytes to the other end; what cannot go yet is held here, in its order.

        A memoryview need not be valid any longer than this call.
        """
        if not (self.finished or self.sent_eof or self._eof_wanted):
            size = self._mux.piece_size
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
            if self._mux.congested:
                self._mux.wait_for_room(self)
                break
            piece = self._held.popleft()
            self.send_room -= len(piece)
            self._mux.enqueue(encode_payload(DATA, self.number, piece))
        if self._eof_wanted and not (self._held or self.sent_eof or self.finished):
            self.sent_eof = True
            self._mux.enqueue(encode_frame(EOF, self.number))
            self._mux.finish_if_done(self)
        self.update_pause()

    def reset(self, code: int = 0) -> None:
        """End the stream in both directions, now."""
        if not self.finished:
            self._mux.enqueue(encode_frame(RST, self.number, code))
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
        self._mux.enqueue(encode_frame(CREDIT, self.number, grant))

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
        return self._mux.waiting_of(self) >= (backlog // 2 if self.paused else backlog)

    def update_pause(self) -> None:
        """Tell the endpoint to stop or go on reading, if that has changed."""
        pause = bool(self._held) or self.send_room <= 0 or self._must_wait() or self._mux.congested
        if pause != self.paused and not self.finished and self.endpoint is not None:
            self.paused = pause
            self.tell(self.endpoint.on_pause if pause else self.endpoint.on_resume)
