"""Lines of all kinds, simulated to the millisecond: full use, and no waiting behind bulk."""

from __future__ import annotations

import statistics
import struct
from collections import deque

import pytest

from jupyter_hpc.relay.congestion import QUICK_BYTES, Congestion
from jupyter_hpc.relay.frames import DATA, PING
from jupyter_hpc.relay.inbox import Inbox
from jupyter_hpc.relay.mux import Endpoint, Mux, Stream
from jupyter_hpc.relay.outbox import Limits, Outbox
from tests.relay.wire import encode_payload, encode_wide

STEP = 0.002

#: What kernels and SSH servers on the way would take without sending it.
DEEP = 6 << 20


class Line:
    """One direction: so many bytes a second, a delay, and deep buffers before it."""

    def __init__(self, world: World, rate: float, delay: float) -> None:
        self._world = world
        self.rate = rate
        self.delay = delay
        self._waiting: deque[bytes] = deque()
        self.backlog = 0
        self._credit = 0.0
        self._under_way: deque[tuple[float, bytes]] = deque()

    def write(self, data: bytes) -> None:
        self._waiting.append(data)
        self.backlog += len(data)

    def queued(self) -> int:
        return max(0, self.backlog - DEEP)

    def arrivals(self) -> bytes:
        self._credit = min(self._credit + self.rate * STEP, max(self.rate * STEP, 65536))
        while self._waiting and self._credit >= 1:
            data = self._waiting.popleft()
            part = data[: int(self._credit)]
            if len(part) < len(data):
                self._waiting.appendleft(data[len(part) :])
            self._credit -= len(part)
            self.backlog -= len(part)
            self._under_way.append((self._world.now + self.delay, part))
        came = b""
        while self._under_way and self._under_way[0][0] <= self._world.now:
            came += self._under_way.popleft()[1]
        return came


class Sink:
    """Consumes everything at once; notes when small messages come."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.stream: Stream | None = None
        self.bytes = 0
        self.paused = False
        self.waits: list[float] = []
        self._rest = b""

    def on_data(self, data: bytes) -> None:
        self.bytes += len(data)
        if len(data) < 4096:  # keys carry the time at which they were pressed
            self._rest += data
            while len(self._rest) >= 8:
                pressed = struct.unpack("d", self._rest[:8])[0]
                self._rest = self._rest[8:]
                self.waits.append(self._world.now - pressed)
        assert self.stream is not None
        self.stream.consumed(len(data))

    def on_eof(self) -> None: ...

    def on_reset(self, code: int) -> None:
        raise AssertionError("reset")

    def on_pause(self) -> None:
        self.paused = True

    def on_resume(self) -> None:
        self.paused = False


class World:
    """A proxy that uploads over a line, while somebody types."""

    def __init__(self, rate: float, round_trip: float) -> None:
        self.now = 100.0
        self.proxy = Mux(clock=lambda: self.now)
        self.relay = Mux(accept=self._accept, clock=lambda: self.now)
        self.far: dict[int, Sink] = {}
        self.up = Line(self, rate, round_trip / 2)
        self.down = Line(self, rate, round_trip / 2)
        self.relay.attach(self.down, 0)
        self.proxy.attach(self.up, 0)
        self._last_ping = 0.0
        self.longest_silence = 0.0
        self._received_at = self.now

    def _accept(self, stream: Stream) -> Endpoint:
        sink = Sink(self)
        sink.stream = stream
        self.far[stream.number] = sink
        return sink

    def open(self) -> Sink:
        sink = Sink(self)
        sink.stream = self.proxy.open(b"", sink)
        return sink

    def step(self) -> None:
        self.now += STEP
        if self.now - self._last_ping >= 0.5:
            self._last_ping = self.now
            self.proxy.ping()
        came = self.up.arrivals()
        if came:
            self.relay.receive(came)
        back = self.down.arrivals()
        if back:
            self.longest_silence = max(self.longest_silence, self.now - self._received_at)
            self._received_at = self.now
            self.proxy.receive(back)
        self.proxy.pump()
        self.relay.pump()

    def run(self, seconds: float, bulk: Sink | None = None, typist: Sink | None = None) -> None:
        until, next_key = self.now + seconds, self.now
        while self.now < until:
            if bulk is not None and not bulk.paused:
                assert bulk.stream is not None
                bulk.stream.send(bytes(1 << 18))
            if typist is not None and self.now >= next_key:
                assert typist.stream is not None
                typist.stream.send(struct.pack("d", self.now))
                next_key = self.now + 0.13
            self.step()

    def waits(self, seconds: float, bulk: Sink | None, typist: Sink) -> list[float]:
        """Let time pass; the seconds that each key needed to the other end."""
        self.far[2].waits.clear()
        self.run(seconds, bulk, typist)
        return self.far[2].waits


LINES = {
    "modem": (64e3, 0.08),
    "mobile": (250e3, 0.1),
    "dsl": (1e6, 0.05),
    "home": (6e6, 0.03),
    "campus": (100e6, 0.002),
    "ocean": (20e6, 0.15),
    "satellite": (5e6, 0.6),
}


@pytest.mark.parametrize("name", LINES)
def test_an_upload_fills_the_line_and_typing_does_not_wait_behind_it(name: str) -> None:
    rate, round_trip = LINES[name]
    world = World(rate, round_trip)
    bulk, typist = world.open(), world.open()
    world.run(6, bulk, typist)  # the line is learnt
    before = world.far[1].bytes
    world.longest_silence = 0.0
    waits = world.waits(6, bulk, typist)
    used = (world.far[1].bytes - before) / 6 / rate
    assert used > 0.85, f"only {used:.0%} of the line is used"
    # What cannot be avoided: the least that is on its way, and the way itself.
    allowed = round_trip / 2 + max(0.45, 1.5 * (1 << 17) / rate)
    assert min(waits) >= round_trip / 2 and statistics.median(waits) < allowed
    # Else the link would suspect its own upload, and dial again and again.
    assert world.longest_silence < max(1.2, round_trip + 0.6)


def test_on_a_fast_line_not_more_waits_than_a_megabyte() -> None:
    rate, round_trip = LINES["campus"]
    world = World(rate, round_trip)
    bulk, typist = world.open(), world.open()
    world.run(2, bulk, typist)
    assert statistics.median(world.waits(3, bulk, typist)) < 0.02


def test_a_line_that_holds_bytes_up_now_and_then_is_used() -> None:
    rate, round_trip = 50e6, 0.004
    world = World(rate, round_trip)
    bulk = world.open()
    world.run(2, bulk)
    before = world.far[1].bytes
    for number in range(30):
        world.up.delay = round_trip / 2 + (number % 3) * 0.015
        world.run(0.1, bulk)
    assert (world.far[1].bytes - before) / 3 > 0.75 * rate


def test_without_bulk_nothing_waits() -> None:
    world = World(1e6, 0.05)
    world.open()
    typist = world.open()
    world.run(1, None, typist)
    assert max(world.waits(3, None, typist)) < 0.05


def test_a_line_that_becomes_slow_and_quick_again_is_followed() -> None:
    world = World(20e6, 0.02)
    bulk, typist = world.open(), world.open()
    world.run(4, bulk, typist)
    for line in (world.up, world.down):
        line.rate = 0.5e6
    world.run(22, bulk, typist)  # what was on its way then has to arrive first
    assert statistics.median(world.waits(4, bulk, typist)) < 0.6
    for line in (world.up, world.down):
        line.rate = 20e6
    world.run(4, bulk, typist)
    before = world.far[1].bytes
    world.run(3, bulk, typist)
    assert (world.far[1].bytes - before) / 3 > 0.85 * 20e6, "it stays slow for ever"


def test_a_pause_does_not_make_a_quick_line_slow() -> None:
    congestion = Congestion(1 << 17, 1 << 18, 8 << 20)
    now = 0.0
    for _ in range(100):
        now += 0.01
        congestion.sent(1 << 20, now)
        congestion.acknowledged(1 << 20, now + 0.005, limited=True)
    quick = congestion.limit
    assert quick > QUICK_BYTES
    for _ in range(100):  # a key now and then
        now += 0.5
        congestion.sent(10, now)
        congestion.acknowledged(10, now + 0.005, limited=False)
    assert congestion.limit == quick
    congestion.new_pipe(now)
    assert congestion.limit == 1 << 18


def test_a_quick_line_is_acknowledged_seldom_and_a_slow_one_often() -> None:
    for rate, expected in ((300e6, 1 << 19), (4e6, 80_000), (50e3, 1 << 15)):
        inbox = Inbox(1 << 15, 1 << 19)
        most, rest = divmod(int(rate / 1000), 30_000)
        came = encode_payload(DATA, 1, bytes(30_000)) * most
        came += encode_payload(DATA, 1, bytes(rest)) if rest else b""
        for number in range(1000):
            list(inbox.frames(came, number / 1000))
        assert inbox.threshold == pytest.approx(expected, rel=0.1)


class Written:
    """A pipe that keeps what it is given."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.frames.append(data)

    def queued(self) -> int:
        return 0


def test_a_full_line_asks_what_has_arrived() -> None:
    """Else both ends would wait for the next tick: one for room, one for more to report."""
    pipe = Written()
    limits = Limits(pipe_queue=1 << 20, least_flight=10_000, first_flight=10_000, unacked=10_000)
    outbox = Outbox(limits, lambda: 0.0, lambda stream: None, lambda: None)
    outbox.attach(pipe, 0)
    frames = [encode_payload(DATA, 1, bytes(8_000)) for _ in range(6)]
    for _ in frames:
        outbox.send(DATA, 1, payload=bytes(8_000))
    question = encode_wide(PING, 0)
    assert pipe.frames == [*frames[:2], question]
    outbox.acknowledge(2)
    assert pipe.frames[3:] == [*frames[2:4], question]
    outbox.acknowledge(4)
    assert pipe.frames[6:] == frames[4:], "nothing waits any more, so there is nothing to ask"
