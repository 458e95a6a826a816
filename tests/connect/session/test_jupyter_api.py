"""Questions to a Jupyter that answers what no Jupyter answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError
from tests.relay.harness import SECRET, RelayProcess, running_relay, unix_server

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def node() -> AsyncIterator[RelayProcess]:
    async with running_relay() as process:
        yield process


async def ask(node: RelayProcess, answer: bytes) -> tuple[int, object]:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with unix_server(node.jupyter, say):
        link = Link(SECRET, "laptop")
        await link.attach(await node.pipe())
        try:
            return await jupyter_api.request(link, "GET", "/api")
        finally:
            await link.close()


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (HEAD + b'\r\n{"a": 1}', {"a": 1}),
        (CHUNKED + b'3\r\n{"a\r\n5;x=y\r\n": 1}\r\n0\r\n\r\n', {"a": 1}),
        (CHUNKED + b"x\r\n[]\r\n", None),
        (CHUNKED + b"-1\r\n[]\r\n", None),
        (HEAD + b"\r\n" + b"[" * 200_000, None),
    ],
    ids=["plain", "chunked", "no number", "negative", "deep"],
)
async def test_an_answer_is_read_or_passed_over(
    node: RelayProcess, answer: bytes, value: object
) -> None:
    assert await ask(node, answer) == (200, value)


async def test_a_status_that_is_none_counts_as_no_answer(node: RelayProcess) -> None:
    assert await ask(node, b"HTTP/1.1 " + b"9" * 5000 + b" OK\r\n\r\n") == (0, None)


async def test_many_small_chunks_do_not_stop_everything_else(node: RelayProcess) -> None:
    began = time.monotonic()
    await ask(node, CHUNKED + b"1\r\n1\r\n" * 500_000 + b"0\r\n\r\n")
    assert time.monotonic() - began < 20


async def test_kernels_that_are_none_are_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def request(*_: object) -> tuple[int, object]:
        return answer

    monkeypatch.setattr(jupyter_api, "request", request)
    link = Link(SECRET, "laptop")
    answer: tuple[int, object] = 200, [1, None, {"execution_state": "idle"}]
    assert not await jupyter_api.busy(link, "")
    answer = 200, [1, {"execution_state": "busy"}]
    assert await jupyter_api.busy(link, "")
    answer = 200, {}
    with pytest.raises(ConnectError):
        await jupyter_api.busy(link, "")
