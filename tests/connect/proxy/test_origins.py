"""Pages of other sites, and the services behind forwarded ports."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_hpc.connect.proxy.http import Head, page_allowed
from tests.connect.proxy.helpers import Client, World, fetch, running_world
from tests.relay.harness import PATIENCE, echo, unix_server

EVIL = "https://evil.example"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as opened:
        yield opened


@pytest.fixture
async def port(world: World) -> int:
    """A forward to a service that asks for no password."""
    return await world.proxy.add_forward(0, f"unix:{world.node.jupyter}")


async def test_a_foreign_page_can_send_nothing_to_a_service(port: int) -> None:
    own = await fetch(port, "/api/hash", "POST", b"x", Origin=f"http://localhost:{port}")
    assert own.status == 200
    refused = await fetch(port, "/api/hash", "POST", b"x" * 200_000, Origin=EVIL)
    assert refused.status == 403
    assert "other sites' pages" in refused.text
    hidden = await fetch(port, "/api/hash", "POST", b"x", Origin="null")
    assert hidden.status == 403


async def test_a_foreign_page_opens_no_websocket(world: World, port: int) -> None:
    address = f"ws://localhost:{port}/api/kernels/x/channels"
    with pytest.raises(HTTPClientError) as refused:
        await websocket_connect(HTTPRequest(address, headers={"Origin": EVIL}))
    assert refused.value.code == 403
    asked: dict[str, Any] = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Version": "13",
    }
    answer = await fetch(port, "/api/kernels/x/channels", Origin=EVIL, **asked)
    assert "other sites' pages" in answer.text  # said here, not by the service
    socket = await websocket_connect(address)
    # After the upgrade the bytes are no requests, even if they look like some.
    for text in ("hello", f"POST / HTTP/1.1\r\nHost: evil\r\nOrigin: {EVIL}\r\n\r\n"):
        await socket.write_message(text)
        assert await asyncio.wait_for(socket.read_message(), PATIENCE) == text
    socket.close()


async def test_each_request_of_a_kept_connection_is_judged(port: int) -> None:
    """A browser may send the request of a foreign page on a connection that it has kept."""
    async with Client(port) as client:
        for size in (0, 3, 300_000):
            client.send("/api/hash", "POST", b"x" * size, Origin=f"http://localhost:{port}")
            assert (await client.answer()).status == 200
        client.send("/api/hash", "POST", b"x", Origin=EVIL)
        assert (await client.answer()).status == 403
        assert await client.rest() == b""


async def test_requests_that_come_together_are_judged_one_by_one(port: int) -> None:
    async with Client(port) as client:
        client.send("/api/hash", "POST", b"abc")
        client.send("/tensorboard")
        assert (await client.answer()).status == 200
        assert "JupyterLab" in (await client.answer()).text
        client.send("/api/hash", "POST", b"abc", Origin=EVIL)
        assert (await client.answer()).status == 403


async def test_a_head_too_long_to_be_judged_is_refused(port: int) -> None:
    async with Client(port) as client:
        client.writer.write(f"POST /api/hash HTTP/1.1\r\nHost: localhost:{port}\r\n".encode())
        client.writer.write(b"Cookie: " + b"x" * 70_000)
        assert (await client.answer()).status == 403


async def test_the_sessions_own_jupyterlab_may_ask(world: World, port: int) -> None:
    """A figure in a notebook has a server of its own on the node, and opens a WebSocket to it."""
    for name in ("localhost", "127.0.0.1"):
        lab = f"http://{name}:{world.port}"
        assert (await fetch(port, "/api/hash", "POST", b"x", Origin=lab)).status == 200
    other = await fetch(port, "/api/hash", "POST", b"x", Origin="http://localhost:1")
    assert other.status == 403


async def test_what_is_no_http_passes_byte_by_byte(world: World) -> None:
    path = str(world.node.folder / "echo.sock")
    foreign = f"POST / HTTP/1.1\r\nHost: x\r\nOrigin: {EVIL}\r\n\r\n".encode()
    async with unix_server(path, echo):
        port = await world.proxy.add_forward(0, f"unix:{path}")
        for first in (b"\x16\x03\x01", b"SSH-2.0-x\r\n", b"\r\n", b"\0"):
            sent = first + foreign + os.urandom(400_000) + foreign
            async with Client(port) as client:
                client.writer.write(sent)
                client.writer.write_eof()
                assert await client.rest() == sent
        # Nor is an allowed request changed, nor what follows an upgrade or comes in chunks.
        for header in ("Upgrade: x", "Transfer-Encoding: chunked", "Content-Length: 5"):
            sent = f"POST / HTTP/1.1\r\nHost: localhost:{port}\r\n{header}\r\n\r\n".encode()
            sent += b"5\r\nab" if "Length" in header else os.urandom(9) + foreign
            async with Client(port) as client:
                for start in range(0, len(sent), 7):
                    client.writer.write(sent[start : start + 7])
                    await asyncio.sleep(0)
                client.writer.write_eof()
                assert await client.rest() == sent


OWN = "http://localhost:6006"


@pytest.mark.parametrize(
    ("method", "headers", "allowed"),
    [
        ("GET", {}, True),  # a program
        ("POST", {}, True),
        ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, True),  # typed
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True),  # a link
        (
            "GET",
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
            True,
        ),  # %tensorboard
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, True),  # <img>
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, False),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, False),
        ("OPTIONS", {"origin": EVIL}, False),
        ("GET", {"origin": EVIL}, False),
        ("POST", {"origin": "null"}, False),
        ("POST", {"origin": "null", "sec-fetch-site": "same-origin"}, True),  # no-referrer
        ("POST", {"origin": OWN}, True),
        ("POST", {"origin": "http://127.0.0.1:6006"}, True),
        ("POST", {"origin": OWN + ".evil.example"}, False),
        ("POST", {"origin": "https://localhost:6006"}, False),
        ("POST", {"origin": "http://localhost:8888"}, True),
        ("POST", {"origin": "http://localhost:8889"}, False),
        ("POST", {"origin": "http://localhost"}, False),
    ],
)
def test_which_pages_may_ask(method: str, headers: dict[str, Any], allowed: bool) -> None:
    assert page_allowed(Head(method, "/", headers), (6006, 8888)) is allowed


def test_port_80_is_not_named_in_an_origin() -> None:
    assert page_allowed(Head("POST", "/", {"origin": "http://localhost"}), (80, 8888))
