"""The mux: flow control and fairness."""

from __future__ import annotations

import random

import pytest

from jupyter_hpc.relay import frames
from jupyter_hpc.relay.mux import Mux
from tests.relay.wire import SMALL, End, World


def send_pieces(end: End, size: int) -> None:
    """So many bytes in small frames, as reads of a local socket would give them."""
    assert end.stream is not None
    for _ in range(0, size, 50):
        end.stream.send(bytes(50))


def test_what_the_window_does_not_allow_is_held_and_comes_in_order() -> None:
    world = World()
    end = world.open()
    assert end.stream is not None
    data = random.Random(1).randbytes(20_000)
    buffer = bytearray(50)  # one for all reads, as in a Bridge
    for start in range(0, len(data), 50):
        buffer[:] = data[start : start + 50]
        end.stream.send(memoryview(buffer))
    end.stream.send_eof()
    assert end.paused
    world.move()
    assert len(world.relay_ends[1].data) < SMALL.first_window + 50, "the window was not kept"
    world.settle()
    assert bytes(world.relay_ends[1].data) == data and world.relay_ends[1].eof


def test_a_window_grows_for_a_quick_reader_within_the_common_budget() -> None:
    world = World()
    for _ in range(4):
        send_pieces(world.open(), 5000)
    world.settle()
    windows = [end.stream.window for end in world.relay_ends.values()]  # type: ignore[union-attr]
    assert max(windows) == SMALL.most_window
    assert sum(windows) <= 4 * SMALL.first_window + SMALL.growth
    for end in world.proxy_ends.values():
        end.stream.reset()  # type: ignore[union-attr]
    world.settle()
    send_pieces(world.open(), 5000)
    world.settle()
    assert world.relay_ends[5].stream.window == SMALL.most_window, "the budget was not given back"  # type: ignore[union-attr]


def test_reading_stops_while_nothing_is_acknowledged() -> None:
    limits = SMALL._replace(first_window=1 << 20)
    world = World(limits)
    ends = [world.open() for _ in range(4)]
    rounds = 0
    world.proxy.detach()
    while not all(end.paused for end in ends):
        for end in ends:
            if not end.paused:
                end.stream.send(bytes(100))  # type: ignore[union-attr]
        rounds += 1
        assert rounds < 100
    assert world.proxy.outbox.kept_cost < limits.unacked + 4 * 200
    world.reconnect()
    world.settle()
    assert not any(end.paused for end in ends)
    assert sum(len(end.data) for end in world.relay_ends.values()) > 0


def test_reading_stops_while_the_pipe_takes_nothing() -> None:
    limits = SMALL._replace(first_window=1 << 20, unacked=1 << 20, backlog=20_000)
    world = World(limits)
    end, other = world.open(), world.open()
    assert end.stream is not None
    sent = 0
    while not end.paused:
        end.stream.send(bytes(5000))
        sent += 5000
        assert sent < 100_000
    assert sent > limits.pipe_queue + limits.backlog - 5000, "it stopped although there was room"
    assert not other.paused, "one stream fills the pipe, another one is stopped"
    world.settle()
    assert not end.paused and len(world.relay_ends[1].data) == sent


def test_small_frames_overtake_large_ones_of_other_streams_only() -> None:
    world = World(SMALL._replace(first_window=1 << 20, unacked=1 << 20, backlog=1 << 20))
    bulk, typist = world.open(), world.open()
    assert bulk.stream is not None and typist.stream is not None
    for _ in range(10):
        bulk.stream.send(bytes(5000))
    bulk.stream.send(b"the end")
    bulk.stream.send_eof()
    typist.stream.send(b"key")
    arrived = 0
    while not world.relay_ends.get(2) or not world.relay_ends[2].data:
        arrived += world.move(up=500)
    assert arrived < 7000, "the key waited behind the bulk"
    world.settle()
    assert bytes(world.relay_ends[1].data) == bytes(50_000) + b"the end"
    assert world.relay_ends[1].eof


def test_a_flood_of_small_frames_does_not_starve_large_ones() -> None:
    world = World(SMALL._replace(first_window=1 << 20, unacked=1 << 20, backlog=1 << 20))
    chatter, bulk = world.open(), world.open()
    assert bulk.stream is not None and chatter.stream is not None
    bulk.stream.send(bytes(5000))
    for _ in range(300):
        for _ in range(20):
            if not chatter.paused:
                chatter.stream.send(bytes(1000))
        world.move(up=10_000)
        if len(world.relay_ends[2].data) == 5000:
            break
    assert len(world.relay_ends[2].data) == 5000


def test_more_than_the_limit_at_once_is_held_and_shared_fairly() -> None:
    """Streams that begin together get on together, whatever the first of them has to send."""
    limits = SMALL._replace(first_window=1 << 20, most_window=1 << 20, streams=100)
    world = World(limits)
    dice = random.Random(2)
    ends = [world.open() for _ in range(10)]
    sent = [dice.randbytes(6000) for _ in ends]
    for end, data in zip(ends, sent, strict=True):
        for start in range(0, len(data), 100):
            end.stream.send(data[start : start + 100])  # type: ignore[union-attr]
    assert world.proxy.outbox.kept_cost < 2 * limits.unacked
    while min((len(end.data) for end in world.relay_ends.values()), default=0) < 1000:
        assert world.move(), "a stream starves"
        most = max((len(end.data) for end in world.relay_ends.values()), default=0)
        assert most < 6000, "one stream goes first"
    world.settle()
    for end, data in zip(world.relay_ends.values(), sent, strict=True):
        assert bytes(end.data) == data


def test_pings_do_not_pile_up_in_a_pipe_that_takes_nothing() -> None:
    world = World()
    for _ in range(1000):
        world.proxy.ping()
    assert world.up.queued() < 3 * SMALL.pipe_queue


def test_a_slow_reader_holds_back_only_its_own_stream() -> None:
    world = World()
    slow, quick = world.open(), world.open()
    send_pieces(slow, 500)
    world.move()
    send_pieces(quick, 300)
    for _ in range(20):
        world.move()
        world.relay_ends[2].consume()
    assert len(world.relay_ends[2].data) == 300
    assert len(world.relay_ends[1].data) < 500 and slow.paused and not quick.paused


def test_an_endpoint_that_fails_harms_only_its_own_stream() -> None:
    class Failing(End):
        def on_data(self, data: bytes) -> None:
            raise OSError(107, "Transport endpoint is not connected")

    world = World()
    bad, good = Failing(), world.open()
    bad.stream = world.proxy.open(b"", bad)
    world.move()
    for number in (1, 2):
        world.relay_ends[number].stream.send(b"to both")  # type: ignore[union-attr]
        world.relay_ends[number].stream.send_eof()  # type: ignore[union-attr]
    world.settle()
    assert bytes(good.data) == b"to both" and good.eof
    assert bad.stream.finished and world.relay_ends[2].reset == 0


def test_bye_ends_all_streams_at_the_other_end() -> None:
    codes: list[int] = []
    world = World()
    world.relay = Mux(accept=world._accept, on_bye=codes.append, limits=SMALL)
    world.reconnect()
    world.open()
    world.move()
    world.proxy.bye(frames.LEAVING)
    assert world.proxy_ends[1].reset == frames.ENDED
    world.relay.receive(bytes(world.up.bytes))
    assert codes == [frames.LEAVING]
    assert world.relay_ends[1].reset == frames.ENDED and world.relay.ended


def test_the_answer_to_a_ping_tells_the_round_trip() -> None:
    now = [100.0]
    world = World()
    world.proxy = Mux(limits=SMALL, clock=lambda: now[0])
    world.reconnect()
    world.proxy.ping()
    now[0] += 0.25
    world.move()
    world.move()
    assert world.proxy.round_trip == pytest.approx(0.25)
