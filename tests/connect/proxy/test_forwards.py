"""The proxy's forwards, and storms of cuts."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator

import pytest

from jupyter_hpc.connect.proxy.listening import listening
from jupyter_hpc.errors import PortTaken, UsageError
from tests.connect.proxy.helpers import Client, World, fetch, running_world
from tests.connect.proxy.opened import channel
from tests.relay.harness import PATIENCE, echo, unix_server
from tests.waiting import until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running_world() as opened:
        yield opened


# -- forwards -------------------------------------------------------------------------------


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A protocol in which the server speaks first."""
    writer.write(b"220 hello\r\n")
    await echo(reader, writer)


async def test_forwards_carry_any_protocol(world: World) -> None:
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    target = f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}"
    port = await world.proxy.add_forward(0, target)
    assert port != world.port
    async with Client(port) as client:
        assert await asyncio.wait_for(client.reader.readline(), PATIENCE) == b"220 hello\r\n"
        for data in (b"HE", b"LO localhost\r\n"):
            client.writer.write(data)
            assert await asyncio.wait_for(client.reader.readexactly(len(data)), PATIENCE) == data
        binary = os.urandom(1 << 20)
        client.writer.write(binary)
        client.writer.write_eof()
        assert await client.rest() == binary
    async with Client(port) as client:
        client.writer.write(b"QUIT")  # no more comes, and it is no request
        client.writer.write_eof()
        assert await client.rest() == b"220 hello\r\nQUIT"
    await world.proxy.remove_forward(port)
    with pytest.raises(OSError):
        await Client(port).__aenter__()
    server.close()


async def test_a_forward_to_a_unix_socket_survives_a_cut(world: World) -> None:
    path = str(world.node.folder / "tb.sock")
    async with unix_server(path, echo):
        port = await world.proxy.add_forward(0, f"unix:{path}")
        async with Client(port) as client:
            client.writer.write(b"one")
            assert await client.reader.readexactly(3) == b"one"
            await world.cut()
            client.writer.write(b"two")
            await until(lambda: world.link._mux.outbox.kept_cost)
            await world.plug()
            assert await asyncio.wait_for(client.reader.readexactly(3), PATIENCE) == b"two"


async def test_a_forwarded_web_service_refuses_foreign_names_too(world: World) -> None:
    """TensorBoard asks for no password: a rebound name must not get through."""
    port = await world.proxy.add_forward(0, f"unix:{world.node.jupyter}")
    assert "JupyterLab" in (await fetch(port, "/tensorboard")).text
    answer = await fetch(port, "/tensorboard", Host=f"evil.example:{port}")
    assert answer.status == 403 and "JupyterLab" not in answer.text
    async with Client(port) as client:
        for byte in f"GET / HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n".encode():
            client.writer.write(bytes((byte,)))
            await client.writer.drain()
        assert (await client.answer()).status == 403


@pytest.mark.parametrize("method", ["patch", "M-SEARCH", "A" * 20])
async def test_a_method_of_a_pages_own_making_does_not_hide_its_name(
    world: World, method: str
) -> None:
    """A service refuses the method and keeps the connection, which was trusted from then on."""
    port = await world.proxy.add_forward(0, f"unix:{world.node.jupyter}")
    async with Client(port) as client:
        client.send("/", method, Host=f"evil.example:{port}")
        client.send("/tensorboard", Host=f"evil.example:{port}")
        assert (await client.answer()).status == 403
        assert await client.rest() == b""
    async with Client(port) as client:
        client.send("/", method)
        assert (await client.answer()).status == 405


async def test_a_forward_to_a_forbidden_target_closes(world: World) -> None:
    port = await world.proxy.add_forward(0, "tcp:192.0.2.1:80")
    async with Client(port) as client:
        assert await client.rest() == b""
    with pytest.raises(UsageError):
        await world.proxy.add_forward(0, "192.0.2.1:80")
    with pytest.raises(PortTaken, match="This session uses port"):
        await world.proxy.add_forward(world.port, "tcp:127.0.0.1:1")


async def test_a_forward_that_is_there_is_given_again(world: World) -> None:
    port = await world.proxy.add_forward(0, "tcp:127.0.0.1:6006")
    assert await world.proxy.add_forward(port, "tcp:127.0.0.1:6006") == port
    with pytest.raises(PortTaken) as taken:
        await world.proxy.add_forward(port, "tcp:127.0.0.1:6007")
    assert "End that program" not in taken.value.hint
    await world.proxy.remove_forward(port)
    assert await world.proxy.add_forward(port, "tcp:127.0.0.1:6007") == port


async def test_a_forward_closes_while_nothing_is_there() -> None:
    async with running_world(opened=False) as world:
        port = await world.proxy.add_forward(0, "tcp:127.0.0.1:1")
        async with Client(port) as client:
            assert await client.rest() == b""


async def test_a_forward_that_is_ended_hangs_up(world: World) -> None:
    path = str(world.node.folder / "tb.sock")
    async with unix_server(path, echo):
        port = await world.proxy.add_forward(0, f"unix:{path}")
        assert world.proxy.forwards == {port: f"unix:{path}"}
        async with Client(port) as client:
            client.writer.write(b"one")
            assert await client.reader.readexactly(3) == b"one"
            await world.proxy.remove_forward(port)
            assert await asyncio.wait_for(client.rest(), PATIENCE) == b""
    assert world.proxy.forwards == {}


async def test_whether_anything_listens_is_found_out(world: World) -> None:
    path = str(world.node.folder / "tb.sock")
    assert await listening(world.link, f"unix:{path}") == "nothing"
    async with unix_server(path, echo):
        assert await listening(world.link, f"unix:{path}") == "yes"
    assert await listening(world.link, "unix:/etc/passwd") == "other"
    await world.cut()
    assert await listening(world.link, f"unix:{path}") == "unknown"
    assert await listening(None, f"unix:{path}") == "unknown"


# -- storms ---------------------------------------------------------------------------------


async def storm(world: World, seconds: float, least: int) -> None:
    """Downloads, uploads and a chatting WebSocket, while the pipe is cut again and again.

    So many seconds, and until `least` of them went through.
    """
    deadline = time.monotonic() + seconds
    rounds = 0

    def goes_on() -> bool:
        return time.monotonic() < deadline or rounds < least

    async def download() -> None:
        nonlocal rounds
        expected = (bytes(range(256)) * 1024 * 4)[:1_000_000]
        while goes_on():
            async with Client(world.port) as client:
                client.send("/api/blob/1000000")
                head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), PATIENCE)
                if b" 503 " in head:
                    continue
                body = b""
                while size := int(await asyncio.wait_for(client.reader.readline(), PATIENCE), 16):
                    piece = client.reader.readexactly(size + 2)
                    body += (await asyncio.wait_for(piece, PATIENCE))[:-2]
                assert body == expected
                rounds += 1

    async def upload() -> None:
        nonlocal rounds
        while goes_on():
            body = os.urandom(500_000)
            answer = await fetch(world.port, "/api/hash", "POST", body)
            assert answer.status == 503 or answer.text == hashlib.sha256(body).hexdigest()
            rounds += 1

    async def chat() -> None:
        socket = await channel(world)
        number = 0
        while goes_on():
            await socket.write_message(f"{number}")
            assert await asyncio.wait_for(socket.read_message(), PATIENCE) == f"{number}"
            number += 1
        socket.close()

    async def cutter() -> None:
        while goes_on():
            await asyncio.sleep(0.12)  # sleep: how often it is cut
            if rounds % 2:
                await world.cut()
            await world.plug()

    await asyncio.gather(download(), download(), upload(), chat(), cutter())


async def test_a_storm_of_cuts_harms_no_request(world: World) -> None:
    await storm(world, 4, least=6)


@pytest.mark.faults
@pytest.mark.timeout(300)
async def test_a_long_storm_of_cuts(world: World) -> None:
    await storm(world, 120, least=100)
    assert world.node.memory() < 80_000
