from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from jupyter_hpc.connect.ssh.dial import Addresses, dial
from jupyter_hpc.errors import Unreachable


def listener(backlog: int = 5) -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(backlog)
    return sock


async def test_connects_without_delay_of_small_packets() -> None:
    with listener() as server, await dial("127.0.0.1", server.getsockname()[1], 30) as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_round_trip_is_measured() -> None:
    times: dict[tuple[str, int], float] = {}
    with listener() as server:
        door = "127.0.0.1", server.getsockname()[1]
        began = time.monotonic()
        (await dial(*door, 30, round_trips=times)).close()
        assert 0 < times[door] <= time.monotonic() - began


async def test_refusals_are_said_at_once() -> None:
    server = listener()
    port = server.getsockname()[1]
    server.close()
    began = time.monotonic()
    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1 port {port}: Connection refused"):
        await dial("127.0.0.1", port, 60)
    assert time.monotonic() - began < 20


async def test_unknown_names_are_said() -> None:
    with pytest.raises(Unreachable, match="name is not known"):
        await dial("no-such-host.invalid", 22, 30)


async def test_silence_ends_at_the_deadline_and_leaves_no_task() -> None:
    # A full backlog swallows SYNs, as a black hole does.
    with listener(0) as server, contextlib.ExitStack() as held:
        for _ in range(3):
            filler = held.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(server.getsockname())
        before = len(asyncio.all_tasks())
        began = time.monotonic()
        with pytest.raises(Unreachable, match=r"no answer within 1\.5 s"):
            await dial("127.0.0.1", server.getsockname()[1], 1.5)
        assert 1.2 < time.monotonic() - began < 12
        assert len(asyncio.all_tasks()) == before


async def test_remembered_addresses_do_not_wait_for_the_name_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def never(*args: object, **more: object) -> list[object]:
        await asyncio.Event().wait()
        return []

    with listener() as server:
        port = server.getsockname()[1]
        known: Addresses = {}
        (await dial("localhost", port, 30, family=socket.AF_INET, remembered=known)).close()
        assert list(known) == [("localhost", port)]
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        (await dial("localhost", port, 30, remembered=known)).close()
        with pytest.raises(Unreachable, match="name server does not answer"):
            await dial("localhost", port, 0.5)


async def test_a_remembered_address_that_has_moved_is_looked_up_again() -> None:
    with listener() as server:
        port = server.getsockname()[1]
        known: Addresses = {("localhost", port): (socket.AF_INET, old_address(port))}
        sock = await dial(
            "localhost", port, 30, family=socket.AF_INET, fresh=False, remembered=known
        )
        sock.close()
        assert known["localhost", port][1][0] == "127.0.0.1"


def old_address(port: int) -> tuple[str, int]:
    """Nobody listens there: the listeners of this file are on 127.0.0.1 only."""
    return "127.0.0.2", port
