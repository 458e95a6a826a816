"""The relay: who may attach, and what becomes of the others."""

from __future__ import annotations

import asyncio
from pathlib import Path

from jupyter_hpc.relay import accept, frames, relay, sessions
from tests.relay.by_hand import Raw, ask, hello, linked
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
    unix_server,
)
from tests.relay.wire import encode_frame, encode_wide
from tests.waiting import until


async def test_a_wrong_secret_is_refused_and_closed(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello(secret="a guess of more than sixteen characters"))
    assert raw.reply().status == frames.REFUSED
    assert raw.ended()


async def test_another_version_is_told_so(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(b"JHR9" + bytes(frames.HELLO_SIZE - 4))
    assert raw.reply().status == frames.UNKNOWN_VERSION
    assert raw.ended()


async def test_an_abandoned_attempt_that_comes_late_is_refused(node: RelayProcess) -> None:
    first = Raw(node)
    first.say(hello(attempt=5))
    assert first.reply().status == frames.NEW
    for attempt in (4, 5):
        late = Raw(node)
        late.say(hello(attempt=attempt))
        assert late.reply().status == frames.STALE
        assert late.ended()
    first.say(encode_wide(frames.PING, 7))
    assert first.socket.recv(9) == encode_wide(frames.PONG, 7), "the live pipe was harmed"
    again = Raw(node)
    again.say(hello(attempt=6))
    assert again.reply().status == frames.RESUMED
    assert first.ended(), "the old pipe was not closed"


async def test_a_session_that_it_does_not_know_is_gone_not_new(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello(established=True, received=10))
    assert raw.reply().status == frames.GONE
    raw.say(hello(session=b"n" * 16))
    assert raw.reply().status == frames.NEW, "the same pipe may begin a new session"


async def test_a_count_that_cannot_be_ends_the_session(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(hello(attempt=1))
    assert raw.reply().status == frames.NEW
    again = Raw(node)
    again.say(hello(attempt=2, received=99, established=True))
    assert again.reply().status == frames.GONE


async def test_a_broken_frame_ends_the_session(node: RelayProcess) -> None:
    raw = Raw(node)
    raw.say(raw.proven(hello()) + encode_frame(99, 1, 1))
    assert raw.reply().status == frames.NEW
    assert raw.ended()
    again = Raw(node)
    again.say(hello(attempt=2, established=True))
    assert again.reply().status == frames.GONE


async def test_hello_in_single_bytes(node: RelayProcess) -> None:
    raw = Raw(node)
    for byte in raw.proven(hello()) + encode_wide(frames.PING, 3):
        raw.say(bytes((byte,)))
    assert raw.reply().status == frames.NEW
    assert raw.socket.recv(9) == encode_wide(frames.PONG, 3)


async def test_no_hello_in_time_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    table = sessions.Sessions(frames.digest(SECRET), "/nowhere")
    table.hello_deadline = 0.2
    accepting = accept.Listener(relay.listen(str(tmp_path)), table)
    try:
        for talk in (b"", b"JH"):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay.sock"))
            writer.write(talk)
            received = await asyncio.wait_for(reader.read(), PATIENCE)
            assert len(received) == (frames.CHALLENGE_SIZE if talk else 0)
            writer.close()
        assert not table.pipes
    finally:
        accepting.close()
        table.close()


async def test_a_flood_of_pipes_does_not_keep_the_proxy_out(node: RelayProcess) -> None:
    before = node.descriptors()
    flood: list[Raw] = []

    def one_more() -> bool:
        try:
            flood.append(Raw(node))
        except BlockingIOError:  # as many as the kernel keeps for it wait already
            return False
        return True

    for number in range(300):
        await until(one_more)
        if number % 2:
            flood[-1].say(b"J")
    link = await linked(node)
    assert bytes((await ask(link, b"in")).data) == b"in"
    assert node.descriptors() <= before + sessions.MAX_PIPES + 64 + 4
    for raw in flood:
        raw.socket.close()
    await link.close()


async def test_a_new_proxy_of_the_same_owner_replaces_the_old_one(node: RelayProcess) -> None:
    reached, closed = asyncio.Event(), asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()
        closed.set()

    watched = str(node.folder / "w.sock")
    async with unix_server(watched, watch):
        old = await linked(node, "my laptop")
        other = await linked(node, "another laptop")
        end = Collector()
        end.stream = old.open(f"unix:{watched}", end)
        await asyncio.wait_for(reached.wait(), PATIENCE)
        session = old._session
        new = await linked(node, "my laptop")
        await asyncio.wait_for(closed.wait(), PATIENCE)
        await end.wait(lambda: end.reset == frames.ENDED)
        assert bytes((await ask(new, b"mine")).data) == b"mine"
        assert bytes((await ask(other, b"other")).data) == b"other"
        late = Raw(node)
        late.say(hello(session=session, attempt=50, established=True))
        assert late.reply().status == frames.SUPERSEDED
        await new.close()
        await other.close()


async def test_at_most_eight_sessions_without_a_pipe_are_kept(node: RelayProcess) -> None:
    guess = Raw(node)
    guess.say(hello(secret="a guess of more than sixteen characters"))
    assert guess.ended(), "the relay is not done with what came before"
    without = node.descriptors()
    for number in range(12):
        raw = Raw(node)
        raw.say(hello(session=bytes([number]) * 16))
        assert raw.reply().status == frames.NEW
        raw.socket.close()
        # The next one must not be lost before the relay has seen that this one is.
        await until(lambda: node.descriptors() <= without)
    kept = []
    for number in range(12):
        raw = Raw(node)
        raw.say(hello(session=bytes([number]) * 16, attempt=2, established=True))
        kept.append(raw.reply().status == frames.RESUMED)
    assert kept == [False] * 4 + [True] * 8
