"""Whose a connection to a local port is, on each system.

macOS and Windows are played: the one lists the connections of one's own processes, the other names
the process of every connection. Neither was at hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psutil
import pytest

from jupyter_hpc.connect.proxy import peer as proxy_peer
from jupyter_hpc.connect.proxy.peer import (
    Peers,
    owner_among_processes,
    owner_in_system_table,
    peer_owner,
)
from tests.connect.proxy.fake_upstream import MemoryForward
from tests.connect.proxy.helpers import HTML, Client, World, fetch, waiting_proxy
from tests.relay.harness import PATIENCE, echo, unix_server
from tests.waiting import stays, until

PEER, LOCAL = ("127.0.0.1", 50123), ("127.0.0.1", 20000)


class Row(NamedTuple):
    """One connection, as psutil shows it."""

    laddr: tuple[str, int]
    raddr: tuple[str, int]
    pid: int | None = None


@dataclass
class Played:
    """A process of another system: whose it is, and what it is connected to."""

    pid: int
    name: str = "me"
    rows: list[Row] = field(default_factory=list)
    asked: int = 0

    @property
    def info(self) -> dict[str, str]:
        return {"username": self.name}

    def username(self) -> str:
        if self.name == "denied":
            raise psutil.AccessDenied(self.pid)
        return self.name

    def net_connections(self, kind: str) -> list[Row]:
        self.asked += 1
        if self.name != "me":
            raise psutil.AccessDenied(self.pid)
        return self.rows


OURS = Row(LOCAL, PEER, os.getpid())
THEIRS = Row(PEER, LOCAL, 7)


def play(
    monkeypatch: pytest.MonkeyPatch, processes: Iterable[Played], table: list[Row] | None = None
) -> None:
    known = {process.pid: process for process in processes}

    def process(pid: int | None = None) -> Played:
        if (pid or os.getpid()) not in known:
            raise psutil.NoSuchProcess(pid or 0)
        return known[pid or os.getpid()]

    monkeypatch.setattr(psutil, "Process", process)
    monkeypatch.setattr(psutil, "process_iter", lambda attrs: list(known.values()))
    monkeypatch.setattr(psutil, "net_connections", lambda kind: table)


# -- macOS ----------------------------------------------------------------------------------


def me(rows: list[Row]) -> Played:
    return Played(os.getpid(), rows=rows)


@pytest.mark.parametrize(
    ("others", "owner"),
    [
        ([Played(7, rows=[THEIRS])], "me"),
        ([Played(7, "mallory", [THEIRS])], "other"),
        ([Played(7, rows=[Row(PEER, ("127.0.0.1", 20001))])], "other"),
        ([], "other"),
    ],
)
def test_macos_shows_what_my_processes_have(
    monkeypatch: pytest.MonkeyPatch, others: list[Played], owner: str
) -> None:
    play(monkeypatch, [me([OURS]), *others])
    assert owner_among_processes(PEER, LOCAL) == owner


def test_macos_that_shows_not_even_our_end_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, [me([]), Played(7, rows=[])])
    assert owner_among_processes(PEER, LOCAL) == "unknown"


def test_a_browser_that_connects_again_is_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    browser, idle = Played(7, rows=[THEIRS]), [Played(pid) for pid in (2, 3, 4)]
    play(monkeypatch, [me([OURS]), *idle, browser])
    likely: deque[int] = deque(maxlen=8)
    assert owner_among_processes(PEER, LOCAL, likely) == "me" and list(likely) == [7]
    assert owner_among_processes(PEER, LOCAL, likely) == "me"
    assert [each.asked for each in idle] == [1, 1, 1]
    # Its number may be another's by now, and what it had does not count for the next one.
    browser.name = "mallory"
    assert owner_among_processes(PEER, LOCAL, likely) == "other"
    play(monkeypatch, [me([OURS])])
    assert owner_among_processes(PEER, LOCAL, likely) == "other"


# -- Windows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "name", "owner"),
    [
        ([OURS, THEIRS], "me", "me"),
        ([OURS, THEIRS], "mallory", "other"),
        ([OURS, THEIRS], "denied", "other"),
        ([OURS, Row(PEER, LOCAL, 0)], "me", "gone"),
        ([OURS, Row(PEER, LOCAL, 99)], "me", "gone"),
        ([OURS], "me", "gone"),
        ([], "me", "unknown"),
    ],
)
def test_windows_names_the_process_of_each_connection(
    monkeypatch: pytest.MonkeyPatch, table: list[Row], name: str, owner: str
) -> None:
    play(monkeypatch, [me([]), Played(7, name)], table)
    assert owner_in_system_table(PEER, LOCAL) == owner


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_a_system_that_cannot_be_asked_is_not_taken_for_a_stranger(
    monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(psutil, "Process", broken)
    monkeypatch.setattr(psutil, "net_connections", broken)
    assert peer_owner(PEER, LOCAL) == "unknown"


# -- the ports, on a system that takes its time -------------------------------------------------


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with waiting_proxy() as world:
        yield world


class Slow:
    """macOS, which finds out whose a connection is only when it is allowed to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_tell = threading.Event()
        self.owner: str = "me"
        self.asked = 0
        monkeypatch.setattr(proxy_peer, "sys", _Darwin)
        monkeypatch.setattr(proxy_peer, "peer_owner", self._tell)

    def _tell(self, *_: object) -> str:
        self.asked += 1
        assert self.may_tell.wait(PATIENCE)
        return self.owner


class _Darwin:
    platform = "darwin"


@pytest.mark.parametrize("owner", ["me", "unknown", "other", "gone"])
async def test_nothing_is_answered_before_it_is_known_who_asks(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    await world.node.start()
    await world.open()
    slow = Slow(monkeypatch)
    slow.owner = owner
    async with Client(world.port) as client:
        client.send("/lab", **HTML)
        await until(lambda: slow.asked == 1)
        answer = asyncio.create_task(client.rest())
        await stays(lambda: not answer.done(), seconds=0.2)
        slow.may_tell.set()
        if owner in ("me", "unknown"):
            answer.cancel()
            assert b"JupyterLab" in (await fetch(world.port, "/lab", **HTML)).body
        else:
            raw = await answer
            assert raw.startswith(b"HTTP/1.1 403") and b"JupyterLab" not in raw


@pytest.mark.parametrize("owner", ["me", "other", "gone"])
async def test_a_service_hears_nobody_before_it_is_known_who_speaks(
    world: World, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(b"connected")
        await echo(reader, writer)

    await world.node.start()
    await world.open()
    slow = Slow(monkeypatch)
    slow.owner = owner
    async with unix_server(f"{world.node.folder}/service", listen):
        port = await world.proxy.add_forward(0, f"unix:{world.node.folder}/service")
        said = b""
        # Who is hung up on may have its connection reset: what it said is not read.
        with contextlib.suppress(ConnectionResetError):
            async with Client(port) as client:
                client.writer.write(b"SELECT 1;\n")
                client.writer.write_eof()
                await until(lambda: slow.asked == 1)
                await stays(lambda: not heard, seconds=0.2)
                slow.may_tell.set()
                said = await client.rest()
    assert said == (b"SELECT 1;\n" if owner == "me" else b"")
    assert heard == ([b"connected"] if owner == "me" else [])


@pytest.mark.parametrize("foreign", [True, False])
async def test_what_comes_before_it_is_known_is_held(
    monkeypatch: pytest.MonkeyPatch, foreign: bool
) -> None:
    """Python 3.10 reads on, once, after it was told to pause."""
    tell: list[Callable[[bool], None]] = []
    monkeypatch.setattr(Peers, "check", lambda self, transport, then: tell.append(then))
    client = MemoryForward()
    client.say(b"SELECT 1;\n")
    assert client.sent == b""
    tell[0](foreign)
    assert client.sent == (b"" if foreign else b"SELECT 1;\n") and client.transport.gone is foreign


async def test_on_linux_it_is_known_at_once(world: World) -> None:
    async with Client(world.port) as client:
        peer: Any = client.writer.get_extra_info("sockname")
        local: Any = client.writer.get_extra_info("peername")
        assert peer_owner(peer, local) == "me"
        assert peer_owner((peer[0], 1), local) == "unknown"
        # What psutil really shows has the form that is played above.
        assert owner_among_processes(tuple(peer), tuple(local)) == "me"
        assert owner_in_system_table(tuple(peer), tuple(local)) == "me"
        assert owner_among_processes((peer[0], 1), tuple(local)) == "unknown"
