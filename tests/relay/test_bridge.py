"""A local socket and a stream, joined: order, ends, and slowness on either side."""

from __future__ import annotations

import asyncio
import socket

import pytest

from jupyter_hpc.relay.bridge import WRITE_HIGH_BYTES, Bridge, read_buffer
from jupyter_hpc.relay.mux import Limits
from tests.relay.harness import PATIENCE
from tests.relay.wire import World
from tests.waiting import until


async def joined(world: World) -> tuple[Bridge, socket.socket]:
    """A bridge at the proxy's end of a new stream, and the other end of its local socket."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    bridge = Bridge(read_buffer())
    bridge.stream = world.proxy.open(b"", bridge)
    await asyncio.get_running_loop().create_connection(lambda: bridge, sock=ours)
    theirs.settimeout(PATIENCE)
    world.move()
    return bridge, theirs


async def close(bridge: Bridge, theirs: socket.socket) -> None:
    """Leave nothing open behind a test whose stream has not ended."""
    theirs.close()
    assert bridge.transport is not None
    bridge.transport.abort()
    await until(lambda: bridge.transport is None)


async def test_a_local_side_that_left_is_no_error_for_the_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    bridge, theirs = await joined(world)
    transport = bridge.transport
    assert transport is not None
    theirs.close()
    world.relay_ends[1].stream.send_eof()  # type: ignore[union-attr]
    sock = transport.get_extra_info("socket")
    sock.shutdown(socket.SHUT_RDWR) if sock else None
    world.settle()  # would raise what write_eof() raises
    await until(lambda: bridge.stream is not None and bridge.stream.finished)
    assert not [record for record in caplog.records if record.name.startswith("jupyter_hpc")]


async def test_what_comes_before_the_socket_waits_for_it() -> None:
    world = World()
    bridge = Bridge(read_buffer())
    bridge.stream = world.proxy.open(b"", bridge)
    world.move()
    world.relay_ends[1].stream.send(b"early")  # type: ignore[union-attr]
    world.relay_ends[1].stream.send_eof()  # type: ignore[union-attr]
    world.settle()
    ours, theirs = socket.socketpair()
    await asyncio.get_running_loop().create_connection(lambda: bridge, sock=ours)
    theirs.settimeout(PATIENCE)
    assert theirs.recv(100) == b"early" and theirs.recv(100) == b""
    theirs.close()
    await until(lambda: bridge.stream is not None and bridge.stream.finished)
    assert world.proxy.streams == 0


async def test_a_reader_that_stops_stops_the_sender() -> None:
    world = World(Limits())
    bridge, theirs = await joined(world)
    far = world.relay_ends[1]
    assert far.stream is not None
    sent = 0
    for _ in range(400):
        if not far.paused:
            far.stream.send(bytes(65536))
            sent += 65536
        world.move()
        await asyncio.sleep(0)
    assert far.paused and sent < Limits().most_window + WRITE_HIGH_BYTES, "nobody told it to stop"
    got = 0
    while got < sent:
        got += len(await asyncio.to_thread(theirs.recv, 1 << 20))
        for _ in range(3):
            await asyncio.sleep(0)
            world.move()
    assert not far.paused
    await close(bridge, theirs)


async def test_a_paused_stream_stops_reading_its_socket() -> None:
    world = World(Limits())
    bridge, theirs = await joined(world)
    theirs.setblocking(False)
    total = 0

    def full() -> bool:
        nonlocal total
        try:
            total += theirs.send(bytes(65536))
        except BlockingIOError:
            return True
        assert total < 50 * 65536, "the socket was read although the stream was paused"
        return False

    await until(full)
    for _ in range(2000):
        if len(world.relay_ends[1].data) == total:
            break
        world.settle()
        await asyncio.sleep(0)
    assert len(world.relay_ends[1].data) == total
    await close(bridge, theirs)
