"""A mux at each end of a wire that can be cut."""

from __future__ import annotations

from jupyter_hpc.relay.frames import HEADER, WIDE_HEADER
from jupyter_hpc.relay.mux import Limits, Mux, Stream

SMALL = Limits(
    first_window=64,
    most_window=512,
    growth=1024,
    unacked=4096,
    backlog=2048,
    pipe_queue=256,
    ack_every=128,
    streams=8,
)


def encode_frame(kind: int, stream: int = 0, value: int = 0) -> bytes:
    """A frame without payload."""
    return HEADER.pack(kind, stream, value)


def encode_payload(kind: int, stream: int, payload: bytes) -> bytes:
    """An OPEN or DATA frame."""
    return HEADER.pack(kind, stream, len(payload)) + payload


def encode_wide(kind: int, number: int) -> bytes:
    """An ACK, PING or PONG frame."""
    return WIDE_HEADER.pack(kind, number)


class End:
    """An endpoint that keeps everything, and consumes only when it is told to."""

    def __init__(self) -> None:
        self.stream: Stream | None = None
        self.data = bytearray()
        self.unconsumed = 0
        self.eof = False
        self.reset: int | None = None
        self.paused = False

    def on_data(self, data: bytes) -> None:
        assert data
        assert not self.eof, "data after the end"
        self.data += data
        self.unconsumed += len(data)

    def consume(self) -> None:
        count, self.unconsumed = self.unconsumed, 0
        assert self.stream is not None
        self.stream.consumed(count)

    def on_eof(self) -> None:
        assert not self.eof, "two ends"
        self.eof = True

    def on_reset(self, code: int) -> None:
        assert self.reset is None, "two resets"
        self.reset = code

    def on_pause(self) -> None:
        assert not self.paused
        self.paused = True

    def on_resume(self) -> None:
        assert self.paused
        self.paused = False


class Wire:
    """One direction of a pipe: bytes that were written and have not arrived."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def write(self, data: bytes) -> None:
        self.bytes += data

    def queued(self) -> int:
        return len(self.bytes)


class World:
    """A proxy, a relay, and the pipe of the moment between them."""

    def __init__(self, limits: Limits = SMALL) -> None:
        self.relay_ends: dict[int, End] = {}
        self.proxy = Mux(limits=limits)
        self.relay = Mux(accept=self._accept, limits=limits)
        self.proxy_ends: dict[int, End] = {}
        self.most_kept = 0
        self.reconnect()

    def _accept(self, stream: Stream) -> End:
        end = End()
        end.stream = stream
        self.relay_ends[stream.number] = end
        return end

    def open(self, target: bytes = b"") -> End:
        end = End()
        end.stream = self.proxy.open(target, end)
        self.proxy_ends[end.stream.number] = end
        return end

    def _kept(self) -> tuple[int, int]:
        return self.proxy.outbox.kept_cost, self.relay.outbox.kept_cost

    def reconnect(self) -> None:
        """The old pipe with all that was on its way is gone; a new one resumes."""
        self.up, self.down = Wire(), Wire()
        proxy_has, relay_has = self.proxy.inbox.received, self.relay.inbox.received
        self.relay.attach(self.down, proxy_has)
        self.proxy.attach(self.up, relay_has)

    def move(self, up: int = 1 << 30, down: int = 1 << 30) -> int:
        """Bring at most so many bytes to the other ends."""
        data, self.up.bytes = bytes(self.up.bytes[:up]), self.up.bytes[up:]
        back, self.down.bytes = bytes(self.down.bytes[:down]), self.down.bytes[down:]
        self.relay.receive(data)
        self.proxy.receive(back)
        self.proxy.pump()
        self.relay.pump()
        self.most_kept = max(
            self.most_kept, self.proxy.outbox.kept_cost, self.relay.outbox.kept_cost
        )
        return len(data) + len(back)

    def settle(self) -> None:
        """Until nothing moves: everybody consumes, both sides acknowledge."""
        for _ in range(10_000):
            moved = self.move()
            for end in [*self.proxy_ends.values(), *self.relay_ends.values()]:
                if end.unconsumed:
                    end.consume()
                    moved += 1
            if not moved:
                self.proxy.ping()
                if not self.up.bytes or (
                    not self.proxy.outbox.kept_cost and not self.relay.outbox.kept_cost
                ):
                    return
        raise AssertionError("it never settles")
