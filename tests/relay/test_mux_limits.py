"""The mux: flow control, fairness, and what no correct end sends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_hpc.relay import frames
from jupyter_hpc.relay.frames import ProtocolError, encode_frame, encode_payload, encode_wide
from jupyter_hpc.relay.mux import Mux, Stream
from tests.relay.wire import SMALL, End, Wire, World


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
    for end in world.gate_ends.values():
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
    world.gate.detach()
    while not all(end.paused for end in ends):
        for end in ends:
            if not end.paused:
                end.stream.send(bytes(100))  # type: ignore[union-attr]
        rounds += 1
        assert rounds < 100
    assert world.gate.kept_cost < limits.unacked + 4 * 200
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
    assert world.gate.kept_cost < 2 * limits.unacked
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
        world.gate.ping(1)
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
    bad.stream = world.gate.open(b"", bad)
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
    world.gate.bye(frames.LEAVING)
    assert world.gate_ends[1].reset == frames.ENDED
    world.relay.receive(bytes(world.up.bytes))
    assert codes == [frames.LEAVING]
    assert world.relay_ends[1].reset == frames.ENDED and world.relay.ended


def test_pong_brings_the_token_back() -> None:
    tokens: list[int] = []
    world = World()
    world.gate = Mux(on_pong=tokens.append, limits=SMALL)
    world.reconnect()
    world.gate.ping(123456789012345)
    world.move()
    world.move()
    assert tokens == [123456789012345]


BAD_FRAMES = {
    "unknown type": encode_frame(77, 1, 0),
    "type zero": encode_frame(0, 1, 0),
    "too much payload": encode_frame(frames.DATA, 1, frames.MAX_PAYLOAD + 1),
    "empty payload": encode_frame(frames.DATA, 1, 0),
    "a name too long": encode_frame(frames.OPEN, 2, frames.MAX_TARGET + 1),
    "opened twice": encode_payload(frames.OPEN, 1, b""),
    "data for nobody": encode_payload(frames.DATA, 9, b"x"),
    "the end of nobody": encode_frame(frames.EOF, 9),
    "credit for nobody": encode_frame(frames.CREDIT, 9, 1),
    "stream zero": encode_payload(frames.DATA, 0, b"x"),
    "more than the window": encode_payload(frames.DATA, 1, bytes(64))
    + encode_payload(frames.DATA, 1, b"x"),
    "data after the end": encode_frame(frames.EOF, 1) + encode_payload(frames.DATA, 1, b"x"),
    "two ends": encode_frame(frames.EOF, 1) * 2,
    "never sent": encode_wide(frames.ACK, 1),
    "a flood of streams": b"".join(encode_payload(frames.OPEN, 2 + n, b"") for n in range(9)),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_what_no_correct_end_sends_is_refused(name: str) -> None:
    world = World()
    world.relay.receive(encode_payload(frames.OPEN, 1, b""))
    with pytest.raises(ProtocolError):
        world.relay.receive(BAD_FRAMES[name])
    assert world.relay.streams <= SMALL.streams


def test_a_gate_accepts_no_streams() -> None:
    with pytest.raises(ProtocolError):
        World().gate.receive(encode_payload(frames.OPEN, 1, b""))


def test_a_replay_that_differs_from_the_cut_frame_is_refused() -> None:
    for replay in (encode_payload(frames.DATA, 1, b"ab"), encode_frame(frames.EOF, 1)):
        world = World()
        world.relay.receive(encode_payload(frames.OPEN, 1, b""))
        world.relay.receive(encode_payload(frames.DATA, 1, b"abcdef")[:-3])
        world.relay.attach(Wire(), 0)
        with pytest.raises(ProtocolError):
            world.relay.receive(replay)


def test_resuming_with_counts_that_cannot_be_is_refused() -> None:
    world = World()
    world.open().stream.send(b"abc")  # type: ignore[union-attr]
    world.settle()
    acknowledged = world.relay.received
    assert world.gate.can_resume(acknowledged)
    for count in (acknowledged - 1, acknowledged + 1):
        assert not world.gate.can_resume(count)
        with pytest.raises(ProtocolError):
            world.gate.attach(Wire(), count)


def test_answers_that_nobody_takes_are_bounded() -> None:
    """A hostile end opens and ends streams, so that we answer, and never acknowledges."""
    world = World(SMALL._replace(streams=1 << 20))

    def refuse(stream: Stream) -> End:
        stream.reset(1)
        return End()

    world.relay = Mux(accept=refuse, limits=world.relay.limits)
    world.relay.attach(Wire(), 0)
    with pytest.raises(ProtocolError):
        for number in range(1, 100_000):
            world.relay.receive(encode_payload(frames.OPEN, number, b""))
    assert world.relay.kept_cost < 5 * SMALL.unacked


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_noise_never_does_anything_but_raise(noise: bytes, step: int) -> None:
    world = World()
    world.open()
    world.move()
    try:
        for start in range(0, len(noise), step):
            world.relay.receive(noise[start : start + step])
    except ProtocolError:
        pass
    assert world.relay.streams <= SMALL.streams


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**64 - 1), st.booleans())
def test_hello_and_reply_are_read_as_they_were_written(
    session: bytes, count: int, established: bool
) -> None:
    hello = frames.Hello(
        session, frames.digest("s"), frames.owner_id("o"), count, count, established
    )
    data = frames.encode_hello(hello)
    assert len(data) == frames.HELLO_SIZE and data.startswith(frames.MAGIC)
    assert frames.decode_hello(data) == hello
    reply = frames.decode_reply(frames.encode_reply(frames.RESUMED, count))
    assert reply == frames.Reply(frames.RESUMED, count, "source")


def test_a_reply_of_something_else_is_refused() -> None:
    with pytest.raises(ProtocolError):
        frames.decode_reply(b"HTTP/1.1 200 OK".ljust(frames.REPLY_SIZE))


def test_a_secret_is_the_same_with_and_without_its_newline() -> None:
    assert frames.digest("secret\n") == frames.digest(b"secret") != frames.digest("Secret")
