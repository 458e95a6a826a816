"""What one end of a session has sent, or wants to send; pure, stdlib only, Python 3.8.

Numbered frames stay here until they are acknowledged, and are sent again over a new pipe. The
number of a frame is its place in the order of sending, so that small frames may overtake large
ones of other streams until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from jupyter_hpc.relay.congestion import Congestion
from jupyter_hpc.relay.frames import BYE, CREDIT, HEADER, PING, ProtocolError, encode_wide

#: What keeping one frame costs beside its bytes.
FRAME_OVERHEAD_BYTES = 64

#: A frame up to this size overtakes larger ones, while not more than this waits in that lane.
SMALL_FRAME_BYTES = 4096 + HEADER.size
SMALL_LANE_BYTES = 1 << 16


class Carrier(Protocol):
    """The part of a pipe that is used for sending."""

    def write(self, data: bytes) -> None: ...

    def queued(self) -> int:
        """Bytes that were written and have not left this process yet."""
        ...


class Outbox:
    """Keeps every frame until the other end has it, so that a new pipe can go on where a cut one
    ended, and lets small frames pass large ones.

    Acknowledged frames are gone; then come those that are on their way (`sent`), those that
    were on their way in a lost pipe (`replay`), and those that were never sent."""

    def __init__(
        self,
        pipe_queue: int,
        congestion: Congestion,
        clock: Callable[[], float],
        on_less: Callable[[int], None],
    ) -> None:
        """`on_less(stream)` is called whenever less of that stream waits to be sent."""
        self.pipe: Carrier | None = None
        self.congestion = congestion
        self._on_less = on_less
        self.kept_cost = 0
        self.waiting_cost = 0
        self._pipe_queue = pipe_queue
        self._clock = clock
        self._flight = 0
        self._sent: deque[bytes] = deque()
        self._replay: deque[bytes] = deque()
        self._small: deque[bytes] = deque()
        self._large: deque[bytes] = deque()
        self._small_bytes = 0
        self._in_large: dict[int, int] = {}  # stream -> what its frames there cost
        self._acknowledged = 0
        self._given = 0  # frames after those that the other end may have
        self._asked = False  # since the last acknowledgement

    # -- sending ------------------------------------------------------------------------

    def add(self, frame: bytes) -> None:
        """Keep a frame, and send it as soon as the pipe has room."""
        cost = len(frame) + FRAME_OVERHEAD_BYTES
        self.kept_cost += cost
        self.waiting_cost += cost
        kind, stream, _ = HEADER.unpack_from(frame)
        # Frames of one stream keep their order; credit has none to keep.
        overtakes = stream not in self._in_large and len(frame) <= SMALL_FRAME_BYTES and kind != BYE
        if kind == CREDIT or (overtakes and self._small_bytes < SMALL_LANE_BYTES):
            self._small.append(frame)
            self._small_bytes += len(frame)
        else:
            self._large.append(frame)
            self._in_large[stream] = self._in_large.get(stream, 0) + cost
        self.pump()

    def waiting_of(self, stream: int) -> int:
        """What of that stream waits to be sent, apart from small frames."""
        return self._in_large.get(stream, 0)

    def pump(self) -> None:
        """Hand waiting frames to the pipe while it and the line have room."""
        pipe = self.pipe
        while pipe is not None and pipe.queued() < self._pipe_queue:
            line_is_free = self._flight < self.congestion.limit
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
                self._in_large[stream] -= len(frame) + FRAME_OVERHEAD_BYTES
                if not self._in_large[stream]:
                    del self._in_large[stream]
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
            self.send_unnumbered(encode_wide(PING, 0))

    def _hand_over(self, pipe: Carrier, frame: bytes) -> None:
        self._sent.append(frame)
        self._given = len(self._sent)
        self._flight += len(frame)
        self.waiting_cost -= len(frame) + FRAME_OVERHEAD_BYTES
        self.congestion.sent(len(frame), self._clock())
        pipe.write(frame)

    def send_unnumbered(self, frame: bytes) -> None:
        """Send a frame that is not kept; between whole frames any place is right.

        A pipe that takes nothing for a long time gets no more of them.
        """
        if self.pipe is not None and self.pipe.queued() < 2 * self._pipe_queue:
            self.pipe.write(frame)

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
            self.congestion.acknowledged(
                before - self._flight, self._clock(), bool(self.waiting_cost)
            )
        self.pump()

    def attach(self, pipe: Carrier, peer_received: int) -> None:
        """Go on over `pipe`, from the first frame that the other end does not have."""
        if not self.can_resume(peer_received):
            raise ProtocolError("the other end claims frames that were never sent to it")
        self.detach()
        before = self.kept_cost
        self._forget(self._replay, peer_received)
        self.waiting_cost -= before - self.kept_cost
        self.congestion.new_pipe(self._clock())
        self.pipe = pipe
        self.pump()

    def detach(self) -> None:
        """The pipe is gone; whatever it may have swallowed waits for the next one."""
        self.pipe = None
        self._flight = 0
        self._asked = False
        while self._sent:
            frame = self._sent.pop()
            self._replay.appendleft(frame)
            self.waiting_cost += len(frame) + FRAME_OVERHEAD_BYTES

    def clear(self) -> None:
        """Keep nothing any more."""
        self.pipe = None
        for frames in (self._sent, self._replay, self._small, self._large):
            frames.clear()
        self._in_large.clear()
        self.kept_cost = self.waiting_cost = self._small_bytes = self._flight = 0

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
