"""Forwarded ports: every protocol passes at once, and a foreign page's request never does."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Iterable

import pytest

from jupyter_hpc.connect.proxy import forward
from tests.connect.proxy.fake_upstream import MemoryForward, trust_everybody
from tests.connect.proxy.helpers import Client, World, running_world
from tests.relay.harness import PATIENCE, echo, unix_server
from tests.waiting import until

#: What a client says first, and then waits for the server.
FIRST_WORDS = {
    "a word": b"HELLO",
    "two words": b"HELLO there",
    "a path": b"GET /",
    "an unfinished request line": b"GET /x HTTP/1.",
    "smtp": b"EHLO laptop\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "redis": b"PING\r\n",
    "redis array": b"*1\r\n$4\r\nPING\r\n",
    "memcached": b"get key\r\n",
    "inline get": b"GET key\r\n",
    "inline get of a path": b"GET /key\r\n",
    "postgres": b"\0\0\0\x23\0\x03\0\0user\0alice\0database\0x\0\0",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "rtsp": b"OPTIONS rtsp://localhost/x RTSP/1.0\r\nCSeq: 1\r\n\r\n",
    "a request that no browser writes": b"GET / HTTP/1.0\n\n",
    "an empty line": b"\r\n",
    "base64 without an end": base64.b64encode(bytes(range(256)) * 900),
    "a path without an end": b"GET /" + b"x" * 200_000,
}

#: Requests that must not reach a service.
FOREIGN = {
    "post": b"POST /launch HTTP/1.1\r\nHost: localhost:6006\r\nOrigin: https://evil.example\r\n"
    b"Content-Length: 4\r\n\r\nevil",
    "image": b"GET /launch HTTP/1.1\r\nHost: localhost:6006\r\nSec-Fetch-Site: cross-site\r\n"
    b"Sec-Fetch-Mode: no-cors\r\n\r\n",
    "rebound name": b"GET / HTTP/1.1\r\nHost: evil.example:6006\r\n\r\n",
    "method of its own": b"launch /x HTTP/1.1\r\nHost: evil.example:6006\r\n\r\n",
    "only a line": b"GET /launch HTTP/1.1\r\n\r\n",
}
OWN = b"POST /launch HTTP/1.1\r\nHost: localhost:6006\r\nContent-Length: 4\r\n\r\nours"


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    trust_everybody(monkeypatch)


def in_pieces(data: bytes) -> Iterable[tuple[bytes, ...]]:
    """In one piece, in two with every cut, and byte by byte."""
    yield (data,)
    yield from ((data[:cut], data[cut:]) for cut in range(1, len(data), 1 + len(data) // 300))
    if len(data) < 1000:
        yield tuple(data[at : at + 1] for at in range(len(data)))


# -- in memory: the same moment ---------------------------------------------------------------


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("words", FIRST_WORDS.values(), ids=FIRST_WORDS)
async def test_what_is_no_request_passes_in_the_same_moment(words: bytes) -> None:
    for pieces in in_pieces(words):
        forwarded, said = MemoryForward(), b""
        for piece in pieces:
            forwarded.say(piece)
            said += piece
            assert forwarded.sent == said, "bytes wait for others"
        # It goes on, whatever it says now.
        more = b"more\r\n" + os.urandom(300) + b"\r\n\r\n"
        forwarded.say(more)
        assert forwarded.sent == said + more
        assert forwarded.transport.written == b""


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("request_", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("before", [b"", OWN], ids=["first", "on a kept connection"])
async def test_a_foreign_request_never_reaches_the_service(before: bytes, request_: bytes) -> None:
    for pieces in in_pieces(request_):
        forwarded = MemoryForward()
        forwarded.say(before)
        for piece in pieces:
            forwarded.say(piece)
        assert forwarded.refused, pieces
        line = forwarded.sent.removeprefix(before)
        assert request_.startswith(line) and b"\n" not in line, "the service saw a whole line"
        forwarded.say(b"GET / HTTP/1.1\r\nHost: localhost:6006\r\n\r\n")
        assert forwarded.sent == before + line, "something followed the refusal"


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("method", [b"POST", b"A" * 90_000], ids=["post", "a long method"])
@pytest.mark.parametrize("path", [b"/", b"/" + b"x" * 90_000], ids=["short", "a long path"])
async def test_a_long_line_hides_no_foreign_request(method: bytes, path: bytes) -> None:
    """It comes in many segments; the first of them have gone when the line turns out to be one."""
    for size in (4096, 16_384, 65_483):
        forwarded = MemoryForward()
        text = method + b" " + path + b" HTTP/1.1\r\nHost: evil.example:6006\r\n\r\n"
        for start in range(0, len(text), size):
            forwarded.say(text[start : start + size])
        assert forwarded.refused and b"\n" not in forwarded.sent


@pytest.mark.usefixtures("trusting")
async def test_an_allowed_request_passes_unchanged_in_any_pieces() -> None:
    text = OWN + OWN.replace(b"Content-Length: 4", b"X: y")[:-4] + OWN
    for pieces in in_pieces(text):
        forwarded = MemoryForward()
        for piece in pieces:
            forwarded.say(piece)
        assert forwarded.sent == text and not forwarded.refused


@pytest.mark.usefixtures("trusting")
async def test_a_body_that_looks_like_a_foreign_request_passes() -> None:
    body = FOREIGN["post"]
    head = b"POST /hash HTTP/1.1\r\nHost: localhost:6006\r\nContent-Length: %d\r\n\r\n"
    text = head % len(body) + body
    for pieces in in_pieces(text):
        forwarded = MemoryForward()
        for piece in pieces:
            forwarded.say(piece)
        assert forwarded.sent == text and not forwarded.refused
        forwarded.say(FOREIGN["post"])
        assert forwarded.sent == text and forwarded.refused, "what followed was not looked at"


@pytest.mark.usefixtures("trusting")
async def test_a_long_path_of_our_own_page_passes() -> None:
    forwarded = MemoryForward()
    text = b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost:6006\r\n\r\n"
    for start in range(0, len(text), 65_483):
        forwarded.say(text[start : start + 65_483])
    assert forwarded.sent == text and not forwarded.refused


@pytest.mark.usefixtures("trusting")
async def test_a_head_that_does_not_end_is_refused_and_does_not_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forward, "MAX_HEAD_SECONDS", 0.05)
    forwarded = MemoryForward()
    forwarded.say(b"POST /launch HTTP/1.1\r\nHost: localhost:6006\r\n")
    assert forwarded.sent == b""
    await until(lambda: forwarded.refused)
    assert forwarded.transport.written.startswith(b"HTTP/1.1 408 ")
    forwarded.say(b"Origin: https://evil.example\r\n\r\n")
    assert forwarded.sent == b""


# -- with a relay: both directions ------------------------------------------------------------


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Whatever is held is held for longer than any test waits."""
    monkeypatch.setattr(forward, "MAX_HEAD_SECONDS", 10 * PATIENCE)
    async with running_world() as opened:
        yield opened


async def test_a_client_gets_the_answer_to_its_first_words(world: World) -> None:
    path = str(world.node.folder / "echo.sock")
    async with unix_server(path, echo):
        port = await world.proxy.add_forward(0, f"unix:{path}")
        for words in FIRST_WORDS.values():
            async with Client(port) as client:
                client.writer.write(words)
                answer = client.reader.readexactly(len(words))
                assert await asyncio.wait_for(answer, PATIENCE) == words
                client.writer.write(b"GET / and so on\n")
                line = client.reader.readexactly(16)
                assert await asyncio.wait_for(line, PATIENCE) == b"GET / and so on\n"


@pytest.mark.parametrize("said", [b"", b"HELLO", b"GET / HTTP/1.1\r\n"], ids=["-", "word", "line"])
async def test_what_the_server_says_first_waits_for_nobody(world: World, said: bytes) -> None:
    path = str(world.node.folder / "smtp.sock")
    async with unix_server(path, speaks_first(b"220 mail\r\n")):
        port = await world.proxy.add_forward(0, f"unix:{path}")
        async with Client(port) as client:
            client.writer.write(said)
            assert await asyncio.wait_for(client.reader.readline(), PATIENCE) == b"220 mail\r\n"


def speaks_first(
    banner: bytes,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(banner)
        await echo(reader, writer)

    return serve
