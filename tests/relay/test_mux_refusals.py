"""The mux: what no correct end sends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_hpc.relay import frames
from jupyter_hpc.relay.frames import ProtocolError
from jupyter_hpc.relay.mux import Mux, Stream
from tests.relay.wire import SMALL, End, Wire, World, encode_frame, encode_payload, encode_wide

BAD_FRAMES = {
    "unknown type": encode_frame(77, 1, 0),
    "type zero": encode_frame(0, 1, 0),
    "too much payload": encode_frame(frames.DATA, 1, frames.MAX_PAYLOAD_BYTES + 1),
    "empty payload": encode_frame(frames.DATA, 1, 0),
    "a name too long": encode_frame(frames.OPEN, 2, frames.MAX_TARGET_BYTES + 1),
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


def test_a_proxy_accepts_no_streams() -> None:
    with pytest.raises(ProtocolError):
        World().proxy.receive(encode_payload(frames.OPEN, 1, b""))


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
    acknowledged = world.relay.inbox.received
    assert world.proxy.can_resume(acknowledged)
    for count in (acknowledged - 1, acknowledged + 1):
        assert not world.proxy.can_resume(count)
        with pytest.raises(ProtocolError):
            world.proxy.attach(Wire(), count)


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
    assert world.relay.outbox.kept_cost < 5 * SMALL.unacked


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
    number = session + bytes(8)
    hello = frames.Hello(session, frames.owner_id("o"), count, count, established, number)
    proofs = frames.Proofs(frames.digest("s"), number)
    data = proofs.encode_hello(hello)
    assert len(data) == frames.HELLO_SIZE and data.startswith(frames.MAGIC)
    assert proofs.decode_hello(data) == hello
    answer = proofs.encode_reply(hello, frames.RESUMED, count)
    assert proofs.decode_reply(hello, answer) == frames.Reply(frames.RESUMED, count, "source")
    assert frames.decode_challenge(frames.encode_challenge(number)) == number


def test_a_reply_of_something_else_is_refused() -> None:
    with pytest.raises(ProtocolError):
        frames.decode_challenge(b"HTTP/1.1 200 OK".ljust(frames.CHALLENGE_SIZE))


def test_a_secret_is_the_same_with_and_without_its_newline() -> None:
    assert frames.digest("secret\n") == frames.digest(b"secret") != frames.digest("Secret")
