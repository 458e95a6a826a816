"""Numbered, acknowledged, flow-controlled streams over a byte pipe that may be replaced.

Pure: no sockets, no threads, no clock but the one that is given; stdlib only, Python 3.9. Both
ends use the same class.

    mux = Mux(accept)                   relay: accept(stream) -> Endpoint for each OPEN
    stream = mux.open(target, end)      proxy: a new stream; data may follow at once
    mux.attach(pipe, peer_received)     a pipe is there: replay what the other end misses
    mux.receive(data)                   bytes that the pipe brought (ProtocolError: end it)
    mux.pump()                          the pipe has room again
    mux.detach()                        the pipe is gone; nothing is lost
    stream.send(data) .send_eof() .reset(code) .consumed(count)

Two ideas keep it small. Frames are numbered, not stream bytes: the sender keeps each numbered
frame until it is acknowledged, and resuming is "I have n whole frames" (outbox.py). And payload
is handed on as it arrives, with the part of an unfinished frame remembered over pipes, so that
its replay skips it (inbox.py). So nothing is lost, doubled or delayed.

Memory is bounded on both sides. What is kept for replay stays near `Limits.unacked`, since
local sockets are not read above it; what is received and not consumed stays within the
windows, which start small and grow while the consumer keeps up, from one common budget. And
on a slow line only so much is on its way that small frames are not held up (congestion.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jupyter_hpc.relay.frames import (
    ACK,
    BYE,
    DATA,
    ENDED,
    MAX_TARGET_BYTES,
    NUMBERED,
    OPEN,
    PING,
    PONG,
    RST,
    ProtocolError,
)
from jupyter_hpc.relay.frames import RELAY_READY as RELAY_READY
from jupyter_hpc.relay.inbox import Inbox
from jupyter_hpc.relay.outbox import Carrier, Outbox
from jupyter_hpc.relay.outbox import Limits as Limits
from jupyter_hpc.relay.streams import Endpoint as Endpoint
from jupyter_hpc.relay.streams import Stream as Stream


class Mux:
    """One end of one session; it outlives the pipes that carry it."""

    def __init__(
        self,
        accept: Callable[[Stream], Endpoint] | None = None,
        on_bye: Callable[[int], None] | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        self._clock = clock
        self.ended = False
        self._accept = accept
        self._on_bye = on_bye
        self.round_trip = 0.0  # seconds, of the last ping that was answered
        self.inbox = Inbox(min(1 << 15, self.limits.ack_every), self.limits.ack_every)
        self.outbox = Outbox(self.limits, clock, self._on_less, self._on_full)
        self._streams: dict[int, Stream] = {}
        self._blocked: dict[Stream, None] = {}  # hold data until there is room, in their order
        self._last_stream = 0
        self._growth_left = self.limits.growth

    # -- the pipe ---------------------------------------------------------------------

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def can_resume(self, peer_received: int) -> bool:
        """Whether the other end, having that many frames, still fits to what is kept."""
        return not self.ended and self.outbox.can_resume(peer_received)

    def attach(self, pipe: Carrier, peer_received: int) -> None:
        """Go on over `pipe`, from the first frame that the other end does not have.

        The old pipe must not be read any more when the other end is told `inbox.received`.
        """
        self.inbox.new_pipe()
        self.outbox.attach(pipe, peer_received)

    def detach(self) -> None:
        """The pipe is gone; keep everything for the next one."""
        self.inbox.new_pipe()
        self.outbox.detach()

    def pump(self) -> None:
        """Hand waiting frames to the pipe while it has room."""
        self.outbox.pump()

    def ping(self) -> None:
        """Ask for a sign of life, acknowledge, and go on; the answer tells the round trip."""
        self.outbox.signal((PING, int(self._clock() * 1e6)), self._acknowledgement())
        self.outbox.pump()

    def receive(self, data: bytes) -> None:
        """Take bytes from the attached pipe, in pieces of any size."""
        for kind, number, value, payload in self.inbox.frames(data, self._clock()):
            if kind == DATA:
                stream = self._find(number)
                if stream is not None:
                    stream.take_data(payload, value)
            elif kind in NUMBERED:
                self._take(kind, number, value, payload)
            else:
                self._take_signal(kind, value)
            if self.ended:
                return  # which may happen in the middle of the bytes
        if self.inbox.unreported >= self.inbox.threshold:
            self.outbox.signal(self._acknowledgement())
        if self.outbox.kept_cost > 4 * self.limits.unacked:
            raise ProtocolError("the other end causes answers that it does not acknowledge")

    def _take(self, kind: int, number: int, value: int, payload: bytes) -> None:
        if kind == OPEN:
            self._accept_stream(number, payload)
        elif kind == BYE:
            self.end()
            if self._on_bye is not None:
                self._on_bye(value)
        else:
            stream = self._find(number)
            if stream is None or stream.endpoint is None:
                return
            if kind == RST:
                self.forget(stream)
                stream.tell(stream.endpoint.on_reset, value)
            else:
                stream.take(kind, value)

    def _take_signal(self, kind: int, number: int) -> None:
        if kind == ACK:
            self.outbox.acknowledge(number)
        elif kind == PING:
            self.outbox.signal((PONG, number), self._acknowledgement())
        elif kind == PONG:
            if number:  # else the outbox has asked, for news of the line
                self.round_trip = max(0.0, self._clock() - number / 1e6)
        else:
            raise ProtocolError(f"a frame of unknown type {kind}")

    def _acknowledgement(self) -> tuple[int, int]:
        self.inbox.unreported = 0
        return ACK, self.inbox.received

    # -- streams ----------------------------------------------------------------------

    def can_open(self) -> bool:
        """Whether one more stream is within the limits."""
        return (
            not self.ended
            and len(self._streams) < self.limits.streams
            and self.outbox.kept_cost < 2 * self.limits.unacked
        )

    def open(self, target: bytes, endpoint: Endpoint) -> Stream:
        """Open a stream to `target`. It is not answered: send at once (proxy only)."""
        if not self.can_open():
            raise RuntimeError("no more streams can be opened; ask can_open() first")
        if len(target) > MAX_TARGET_BYTES:
            raise ValueError("the name of the target is too long")
        self._last_stream += 1
        stream = Stream(self, self._last_stream, target)
        stream.endpoint = endpoint
        self._streams[stream.number] = stream
        self.outbox.send(OPEN, stream.number, payload=target)
        stream.update_pause()
        return stream

    def bye(self, code: int) -> None:
        """Tell the other end that the session is over, if a pipe takes it, and end it here."""
        if not self.ended:
            self.outbox.send(BYE, 0, code)
            self.end()

    def end(self) -> None:
        """The session is over: all streams are reset, nothing is kept."""
        self.ended = True
        streams = list(self._streams.values())
        for stream in streams:
            self.forget(stream)
        self.outbox.clear()
        for stream in streams:
            if stream.endpoint is not None:
                stream.tell(stream.endpoint.on_reset, ENDED)

    # -- for Stream -------------------------------------------------------------------

    def wait_for_room(self, stream: Stream) -> None:
        """Flush this stream, after those that wait already, when there is room again."""
        self._blocked[stream] = None

    def take_growth(self, count: int) -> bool:
        """Take room for a larger window from the session's budget, if there is some."""
        if self._growth_left < count:
            return False
        self._growth_left -= count
        return True

    def forget(self, stream: Stream) -> None:
        stream.finished = True
        self._growth_left += stream.growth
        stream.growth = 0
        self._streams.pop(stream.number, None)
        self._blocked.pop(stream, None)

    # -- for the pipe's frames, and for Outbox -------------------------------------------

    def _accept_stream(self, number: int, target: bytes) -> None:
        if self._accept is None:
            raise ProtocolError("this end opens the streams")
        if number <= self._last_stream:
            raise ProtocolError("a stream is opened twice")
        if len(self._streams) >= self.limits.streams:
            raise ProtocolError("too many streams are opened")
        self._last_stream = number
        stream = Stream(self, number, target)
        self._streams[number] = stream
        stream.endpoint = self._accept(stream)
        stream.update_pause()

    def _find(self, number: int) -> Stream | None:
        """The stream, or None if it was reset here; ProtocolError if it never was."""
        if not 0 < number <= self._last_stream:
            raise ProtocolError("a frame for a stream that was never opened")
        return self._streams.get(number)

    def _on_less(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is not None and stream.paused:
            stream.flush()

    def _on_full(self) -> None:
        """Stop or restart all local readers."""
        while self._blocked and not self.outbox.full:
            stream = next(iter(self._blocked))
            del self._blocked[stream]
            stream.flush()
        for stream in list(self._streams.values()):
            stream.update_pause()
