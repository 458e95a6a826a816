"""The proxy while JupyterLab is there, and while it is not."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator

import pytest

from tests.connect.proxy.helpers import Client, World, fetch, running_world
from tests.connect.proxy.opened import HTML, WAITING, arrived, channel
from tests.relay.harness import PATIENCE, echo, unix_server
from tests.waiting import stays, until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as opened:
        yield opened


# -- open -----------------------------------------------------------------------------------


async def test_the_same_address_is_jupyterlab_once_it_is_there() -> None:
    async with running_world(opened=False) as world:
        assert WAITING in (await fetch(world.port, "/lab", **HTML)).text
        await world.open()
        assert "JupyterLab" in (await fetch(world.port, "/lab", **HTML)).text
        assert b'"open": true' in (await fetch(world.port, "/_jupyter-hpc/status")).body
        world.proxy.disconnect()
        assert WAITING in (await fetch(world.port, "/lab", **HTML)).text


async def test_bytes_pass_untouched_in_both_directions(world: World) -> None:
    blob = await fetch(world.port, "/api/blob/30000000", Connection="close")
    async with Client(world.port) as client:
        client.send("/api/blob/30000000", Connection="close")
        raw = await client.rest(60)
    assert blob.status == 200 and len(raw) > 30_000_000
    body = os.urandom(20_000_000)
    answer = await fetch(world.port, "/api/hash", "POST", body)
    assert answer.text == hashlib.sha256(body).hexdigest()


async def test_a_foreign_name_never_reaches_jupyter(world: World) -> None:
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{world.port}"}):
        answer = await fetch(world.port, "/lab", **headers)  # type: ignore[arg-type]
        assert answer.status == 403 and "JupyterLab" not in answer.text


async def test_a_foreign_name_on_a_kept_connection_neither(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/lab")
        assert (await client.answer()).status == 200
        client.send("/lab", Host="evil.example")
        assert (await client.answer()).status == 403


async def test_kept_connections_serve_many_requests(world: World) -> None:
    async with Client(world.port) as client:
        for number in range(20):
            client.send(f"/lab/{number}")
            assert f"lab /lab/{number}" in (await client.answer()).text
        assert world.proxy.browsers == 1
    await until(lambda: world.proxy.browsers == 0)


async def test_our_pages_are_ours_on_a_kept_connection_too(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/lab")
        await client.answer()
        client.send("/_jupyter-hpc/status")
        answer = await client.answer()
    assert answer.status == 200 and '"open": true' in answer.text


async def test_a_head_in_pieces_on_a_kept_connection(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/lab")
        await client.answer()
        client.writer.write(b"GET /lab/two HTTP/1.1\r\nHost: loc")
        await arrived(world, b"Host: loc")
        client.writer.write(f"alhost:{world.port}\r\n\r\n".encode())
        assert "lab /lab/two" in (await client.answer()).text


async def test_websockets_echo_text_and_binary(world: World) -> None:
    socket = await channel(world)
    big = os.urandom(1 << 20)
    await socket.write_message("text")
    await socket.write_message(big, binary=True)
    assert await socket.read_message() == "text"
    assert await socket.read_message() == big
    # Bytes inside a WebSocket that look like a request are only bytes.
    await socket.write_message(b"GET /_jupyter-hpc/status HTTP/1.1\r\n\r\n", binary=True)
    assert await socket.read_message() == b"GET /_jupyter-hpc/status HTTP/1.1\r\n\r\n"
    socket.close()


async def test_after_an_upgrade_bytes_are_only_bytes() -> None:
    async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        await echo(reader, writer)

    async with running_world() as world:
        os.unlink(world.node.jupyter)
        async with unix_server(world.node.jupyter, upgrade), Client(world.port) as client:
            client.send("/api/x", Upgrade="raw", Connection="Upgrade")
            assert (await client.answer()).status == 101
            client.send("/_jupyter-hpc/status", Host="evil.example")
            client.writer.write_eof()
            assert (await client.rest()).startswith(b"GET /_jupyter-hpc/status")


async def test_two_hundred_browsers_at_once(world: World) -> None:
    answers = await asyncio.gather(
        *(fetch(world.port, "/api/hash", "POST", b"%d" % n + bytes(65536)) for n in range(200))
    )
    for number, answer in enumerate(answers):
        assert answer.text == hashlib.sha256(b"%d" % number + bytes(65536)).hexdigest()
    await until(lambda: world.link.streams == 0 and world.proxy.browsers == 0)


async def test_a_slow_reader_costs_no_memory_and_gets_everything(world: World) -> None:
    import psutil

    async with Client(world.port) as client:
        client.reader._limit = 1 << 16  # type: ignore[attr-defined]
        before = psutil.Process().memory_info().rss
        relay_before = world.node.memory()
        client.send("/api/blob/200000000", Connection="close")
        await until(lambda: world.link.streams == 1)
        await stays(
            lambda: (
                psutil.Process().memory_info().rss - before < 20_000_000
                and world.node.memory() - relay_before < 10_000
            ),
            seconds=1.3,
        )
        other = await fetch(world.port, "/lab")
        assert other.status == 200, "one slow reader held up the others"


async def test_a_client_that_leaves_ends_its_request(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/api/slow/60")
        await until(lambda: world.link.streams == 1)
    await until(lambda: world.link.streams == 0)


# -- Jupyter is away ------------------------------------------------------------------------


async def test_a_jupyter_that_does_not_listen_is_the_status_page() -> None:
    async with running_world() as world:
        os.rename(world.node.jupyter, world.node.jupyter + ".away")
        assert WAITING in (await fetch(world.port, "/lab", **HTML)).text
        assert (await fetch(world.port, "/api/kernels")).status == 503
        os.rename(world.node.jupyter + ".away", world.node.jupyter)
        assert "JupyterLab" in (await fetch(world.port, "/lab", **HTML)).text


async def test_a_restarted_relay_answers_what_was_asked(world: World) -> None:
    socket = await channel(world)
    async with Client(world.port) as client:
        client.send("/api/slow/60")
        await until(lambda: world.link.streams == 2)
        assert world.node.process is not None
        world.node.process.kill()
        world.node.process.wait()
        await world.node.start()
        await world.plug()
        assert (await client.answer()).status == 503
    assert await socket.read_message() is None, "the WebSocket was not closed"
    assert "JupyterLab" in (await fetch(world.port, "/lab", **HTML)).text


async def test_too_many_streams_are_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(world.link), "can_open", lambda self: False)
    assert (await fetch(world.port, "/api/kernels")).status == 503


async def test_closing_the_proxy_closes_everything(world: World) -> None:
    socket = await channel(world)
    await world.proxy.close()
    assert await asyncio.wait_for(socket.read_message(), PATIENCE) is None
    with pytest.raises(OSError):
        await fetch(world.port, "/lab")
