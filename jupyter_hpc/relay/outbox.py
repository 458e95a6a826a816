"""What one end of a session has sent, or wants to send; pure, stdlib only, Python 3.9.

Numbered frames stay here until they are acknowledged, and are sent again over a new pipe. The
number of a frame is its place in the order of sending, so that small frames may overtake large
ones of other streams until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from jupyter_hpc.relay.congestion import QUICK_BYTES, Congestion
from jupyter_hpc.relay.frames import (
    BYE,
    CREDIT,
    HEADER,
    MAX_PAYLOAD_BYTES,
    PING,
    WIDE_HEADER,
    ProtocolError,
)

#: What keeping one frame costs beside its bytes.
FRAME_OVERHEAD_BYTES = 64

#: A frame up to this size overtakes larger ones, while not more than this waits in that lane.
SMALL_FRAME_BYTES = 4096 + HEADER.size
SMALL_LANE_BYTES = 1 << 16

#: The payload of a frame on a slow line, so that it does not hold up the others.
SLOW_PAYLOAD_BYTES = 1 << 15


class Carrier(Protocol):
    """The part of a pipe that is used for sending."""

    def write(self, data: bytes) -> None: ...

    def queued(self) -> int:
        """Bytes that were written and have not left this process yet."""
        ...


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


class Outbox:
    """Keeps every frame until the other end has it, so that a new pipe can go on where a cut one
    ended, and lets small frames pass large ones.

    Acknowledged frames are gone; then come those that are on their way (`sent`), those that
    were on their way in a lost pipe (`replay`), and those that were never sent."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        on_less: Callable[[int], None],
        on_full: Callable[[], None],
    ) -> None:
        """`on_less(stream)` is called whenever less of that stream waits to be sent, and
        `on_full()` whenever `full` has changed."""
        self.pipe: Carrier | None = None
        self.kept_cost = 0
        self.full = False  # so much is kept that no local socket is to be read
        self.waiting: dict[int, int] = {}  # stream -> what of it waits, apart from small frames
        self.piece_size = SLOW_PAYLOAD_BYTES  # how large the payload of a DATA frame may be
        self._on_less = on_less
        self._on_full = on_full
        self._waiting_cost = 0
        self._unacked = limits.unacked
        self._pipe_queue = limits.pipe_queue
        self._clock = clock
        self._congestion = Congestion(limits.least_flight, limits.first_flight, limits.unacked)
        self._flight = 0
        self._sent: deque[bytes] = deque()
        self._replay: deque[bytes] = deque()
        self._small: deque[bytes] = deque()
        self._large: deque[bytes] = deque()
        self._small_bytes = 0
        self._acknowledged = 0
        self._given = 0  # frames after those that the other end may have
        self._asked = False  # since the last acknowledgement

    # -- sending ------------------------------------------------------------------------

    def send(
        self, kind: int, stream: int, value: int = 0, payload: bytes | memoryview = b""
    ) -> None:
        """Number a frame, keep it, and send it as soon as the pipe has room."""
        frame = HEADER.pack(kind, stream, len(payload) or value) + payload
        cost = len(frame) + FRAME_OVERHEAD_BYTES
        self.kept_cost += cost
        self._waiting_cost += cost
        # Frames of one stream keep their order; credit has none to keep.
        overtakes = stream not in self.waiting and len(frame) <= SMALL_FRAME_BYTES and kind != BYE
        if kind == CREDIT or (overtakes and self._small_bytes < SMALL_LANE_BYTES):
            self._small.append(frame)
            self._small_bytes += len(frame)
        else:
            self._large.append(frame)
            self.waiting[stream] = self.waiting.get(stream, 0) + cost
        self.pump()
        self._update_full()

    def pump(self) -> None:
        """Hand waiting frames to the pipe while it and the line have room."""
        pipe = self.pipe
        while self._waiting_cost and pipe is not None and pipe.queued() < self._pipe_queue:
            line_is_free = self._flight < self._congestion.limit
            if self._replay:
                if not line_is_free:
                    self._ask_for_news()
                    return
                self._hand_over(pipe, self._replay.popleft())
            elif self._small:
                frame = self._small.popleft()
                self._small_bytes -= len(frame)
                self._hand_over(pipe, frame)
            elif self._large and line_is_free:
                frame = self._large.popleft()
                stream = HEADER.unpack_from(frame)[1]
                self.waiting[stream] -= len(frame) + FRAME_OVERHEAD_BYTES
                if not self.waiting[stream]:
                    del self.waiting[stream]
                self._hand_over(pipe, frame)
                self._on_less(stream)
            else:
                if self._large:
                    self._ask_for_news()
                return

    def _ask_for_news(self) -> None:
        """The line is full: what of it has arrived? The other end may not find it worth a word."""
        if not self._asked:
            self._asked = True
            self.signal((PING, 0))

    def _hand_over(self, pipe: Carrier, frame: bytes) -> None:
        self._sent.append(frame)
        self._given = len(self._sent)
        self._flight += len(frame)
        self._waiting_cost -= len(frame) + FRAME_OVERHEAD_BYTES
        self._congestion.sent(len(frame), self._clock())
        pipe.write(frame)

    def signal(self, *signals: tuple[int, int]) -> None:
        """Send kinds and numbers that are not kept; between whole frames any place is right.

        A pipe that takes nothing for a long time gets no more of them.
        """
        if self.pipe is not None and self.pipe.queued() < 2 * self._pipe_queue:
            self.pipe.write(b"".join([WIDE_HEADER.pack(*signal) for signal in signals]))

    # -- acknowledging ------------------------------------------------------------------

    def can_resume(self, peer_received: int) -> bool:
        """Whether the other end may have that many frames, of those that were ever sent."""
        return self._acknowledged <= peer_received <= self._acknowledged + self._given

    def acknowledge(self, count: int) -> None:
        """The other end has the first `count` frames."""
        if not self.can_resume(count) or count - self._acknowledged > len(self._sent):
            raise ProtocolError("the other end claims frames that were never sent to it")
        before = self._flight
        self._flight -= self._forget(self._sent, count)
        if before != self._flight:
            self._asked = False
            self._congestion.acknowledged(
                before - self._flight, self._clock(), bool(self._waiting_cost)
            )
            self._update_piece_size()
        self.pump()
        self._update_full()

    def attach(self, pipe: Carrier, peer_received: int) -> None:
        """Go on over `pipe`, from the first frame that the other end does not have."""
        if not self.can_resume(peer_received):
            raise ProtocolError("the other end claims frames that were never sent to it")
        self.detach()
        before = self.kept_cost
        self._forget(self._replay, peer_received)
        self._waiting_cost -= before - self.kept_cost
        self._congestion.new_pipe(self._clock())
        self._update_piece_size()
        self.pipe = pipe
        self.pump()
        self._update_full()

    def detach(self) -> None:
        """The pipe is gone; whatever it may have swallowed waits for the next one."""
        self.pipe = None
        self._flight = 0
        self._asked = False
        while self._sent:
            frame = self._sent.pop()
            self._replay.appendleft(frame)
            self._waiting_cost += len(frame) + FRAME_OVERHEAD_BYTES

    def clear(self) -> None:
        """Keep nothing any more."""
        self.pipe = None
        for frames in (self._sent, self._replay, self._small, self._large):
            frames.clear()
        self.waiting.clear()
        self.kept_cost = self._waiting_cost = self._small_bytes = self._flight = 0

    def _update_piece_size(self) -> None:
        is_slow = self._congestion.limit < QUICK_BYTES
        self.piece_size = SLOW_PAYLOAD_BYTES if is_slow else MAX_PAYLOAD_BYTES

    def _update_full(self) -> None:
        """Full at the limit, and no more at half of it, so that it does not flap."""
        full = self.kept_cost >= (self._unacked // 2 if self.full else self._unacked)
        if full != self.full:
            self.full = full
            self._on_full()

    def _forget(self, frames: deque[bytes], count: int) -> int:
        """Drop the frames before number `count`; returns their bytes."""
        dropped = 0
        while self._acknowledged < count:
            size = len(frames.popleft())
            dropped += size
            self.kept_cost -= size + FRAME_OVERHEAD_BYTES
            self._acknowledged += 1
            self._given -= 1
        return dropped
