"""The mux: nothing is lost, doubled or mixed up, wherever the wire is cut."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.relay.wire import SMALL, End, World


def test_a_stream_carries_both_directions_and_both_ends() -> None:
    world = World()
    end = world.open(b"tcp:127.0.0.1:80")
    assert end.stream is not None
    end.stream.send(b"question")
    end.stream.send_eof()
    world.settle()
    other = world.relay_ends[1]
    assert other.stream is not None and other.stream.target == b"tcp:127.0.0.1:80"
    assert bytes(other.data) == b"question" and other.eof and not end.eof
    other.stream.send(b"answer")
    other.stream.send_eof()
    world.settle()
    assert bytes(end.data) == b"answer" and end.eof
    assert world.proxy.streams == world.relay.streams == 0
    assert world.proxy.outbox.kept_cost == world.relay.outbox.kept_cost == 0


def _conversation(world: World) -> None:
    for number in range(3):
        end = world.open(b"t%d" % number)
        assert end.stream is not None
        end.stream.send(bytes(range(number, number + 40)))
    world.proxy_ends[2].stream.send_eof()  # type: ignore[union-attr]
    world.proxy_ends[3].stream.reset(7)  # type: ignore[union-attr]


def test_a_cut_at_every_byte_of_both_directions() -> None:
    """The same conversation, cut once at each byte that ever passes, in either direction."""
    for direction in ("up", "down"):
        for cut in range(400):
            world = World()
            _conversation(world)
            answered = False
            left = cut
            while True:
                size = min(left, 1)
                moved = world.move(
                    up=size if direction == "up" else 1 << 30,
                    down=size if direction == "down" else 1 << 30,
                )
                left -= size
                if not answered and 1 in world.relay_ends:
                    answered = True
                    world.relay_ends[1].stream.send(b"answer of the relay" * 3)  # type: ignore[union-attr]
                if not left or not moved:
                    break
            world.reconnect()
            if not answered:
                world.settle()
                world.relay_ends[1].stream.send(b"answer of the relay" * 3)  # type: ignore[union-attr]
            world.settle()
            one, two, three = (world.relay_ends[number] for number in (1, 2, 3))
            assert bytes(one.data) == bytes(range(40)), (direction, cut)
            assert bytes(two.data) == bytes(range(1, 41)) and two.eof, (direction, cut)
            assert bytes(range(2, 42)).startswith(bytes(three.data)) and three.reset == 7
            assert bytes(world.proxy_ends[1].data) == b"answer of the relay" * 3, (direction, cut)


def test_two_cuts_inside_one_frame() -> None:
    payload = bytes(range(60))
    for first in range(1, 80):
        for second in range(1, 80, 7):
            world = World()
            end = world.open()
            assert end.stream is not None
            end.stream.send(payload)
            world.move(up=first)
            world.reconnect()
            world.move(up=second)
            world.reconnect()
            world.settle()
            assert bytes(world.relay_ends[1].data) == payload


def test_a_frame_that_filled_the_window_may_be_replayed() -> None:
    payload = bytes(range(200))  # begins within the window of 64 and ends beyond it
    world = World()
    end = world.open()
    assert end.stream is not None
    end.stream.send(payload)
    world.move(up=9 + 9 + 150)
    assert len(world.relay_ends[1].data) == 150
    world.reconnect()
    world.settle()
    assert bytes(world.relay_ends[1].data) == payload


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["open", "eof", "answer_eof", "reset", "consume", "cut", "ping"]
            + 2 * ["send", "answer", "move"]
        ),
        st.integers(0, 200),
        st.integers(0, 200),
    ),
    max_size=120,
)


@settings(max_examples=400, deadline=None)
@given(ACTIONS, st.integers(0, 1 << 32))
def test_any_interleaving_of_streams_and_cuts(
    actions: list[tuple[str, int, int]], seed: int
) -> None:
    """Whatever happens between them, each end gets a prefix, and at rest the whole."""
    dice = random.Random(seed)
    world = World()
    sent: dict[tuple[str, int], bytearray] = {}
    for name, first, second in actions:
        proxy_ends = [e for e in world.proxy_ends.values() if not e.stream.finished]  # type: ignore[union-attr]
        relay_ends = [e for e in world.relay_ends.values() if not e.stream.finished]  # type: ignore[union-attr]
        if name == "open" and world.proxy.can_open():
            world.open(b"x" * (first % 20))
        elif name in ("send", "eof", "reset") and proxy_ends:
            _act(name, proxy_ends[first % len(proxy_ends)], "up", second, dice, sent)
        elif name in ("answer", "answer_eof") and relay_ends:
            action = "send" if name == "answer" else "eof"
            _act(action, relay_ends[first % len(relay_ends)], "down", second, dice, sent)
        elif name == "move":
            world.move(first, second)
        elif name == "consume":
            for end in [*world.proxy_ends.values(), *world.relay_ends.values()]:
                end.consume()
        elif name == "cut":
            world.move(first, second)
            world.reconnect()
        elif name == "ping":
            world.proxy.ping()
        for number, end in world.relay_ends.items():
            assert sent.get(("up", number), bytearray()).startswith(end.data)
        for number, end in world.proxy_ends.items():
            assert sent.get(("down", number), bytearray()).startswith(end.data)
    world.settle()
    for number, end in world.relay_ends.items():
        if ("reset", number) not in sent:
            assert end.reset is None and world.proxy_ends[number].reset is None
            assert end.data == sent.get(("up", number), bytearray())
            assert world.proxy_ends[number].data == sent.get(("down", number), bytearray())
            assert end.eof == (("eof-up", number) in sent)
            assert world.proxy_ends[number].eof == (("eof-down", number) in sent)
    assert world.proxy.streams == world.relay.streams
    # A paused sender may still add what it had in hand: one piece for each stream.
    assert world.most_kept <= SMALL.unacked + SMALL.streams * 400


def _act(
    name: str,
    end: End,
    way: str,
    size: int,
    dice: random.Random,
    sent: dict[tuple[str, int], bytearray],
) -> None:
    stream = end.stream
    assert stream is not None
    ended = (f"eof-{way}", stream.number) in sent
    if name == "send" and not end.paused and not ended:
        data = dice.randbytes(size)
        sent.setdefault((way, stream.number), bytearray()).extend(data)
        stream.send(data)
    elif name == "eof" and not ended:
        sent[(f"eof-{way}", stream.number)] = bytearray()
        stream.send_eof()
    elif name == "reset":
        sent[("reset", stream.number)] = bytearray()
        stream.reset(3)
