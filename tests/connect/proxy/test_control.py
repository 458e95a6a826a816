"""What the proxy answers itself: the page, the status, actions, and what is no request."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jupyter_hpc.connect.proxy import connection as proxy_connection
from jupyter_hpc.connect.proxy.control import MAX_BODY_BYTES
from jupyter_hpc.connect.proxy.http import MAX_HEAD_BYTES
from jupyter_hpc.connect.proxy.server import MAX_CONNECTIONS
from jupyter_hpc.connect.session.client import call_action, read_status
from jupyter_hpc.errors import ConnectError, Unreachable
from tests.connect.proxy.helpers import CONTROL_SECRET, HTML, Client, World, fetch, waiting_proxy
from tests.connect.proxy.opened import arrived
from tests.waiting import stays, until


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with waiting_proxy() as world:
        yield world


async def test_every_address_shows_the_page_while_jupyter_is_not_there(world: World) -> None:
    addresses = ("/", "/lab", "/lab/tree/notebook.ipynb?token=x", "/_jupyter-hpc/", "/tree")
    for target in (*addresses, "/lab/tree/files/a.ipynb", "/lab/tree/api/x.ipynb"):
        answer = await fetch(world.port, target, **HTML)
        assert answer.status == 200 and "Waiting in the queue" in answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["connection"] == "close"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_programs_are_asked_to_come_back(world: World) -> None:
    for target, headers in (
        ("/api/kernels", dict[str, Any]()),
        ("/lab/api/settings", HTML),
        ("/files/a.csv", HTML),
        ("/jupyter-hpc/jobs", HTML),
        ("/api/kernels/x/channels", {"Upgrade": "websocket", "Connection": "Upgrade"}),
        ("/lab", {"X_Requested_With": "XMLHttpRequest"}),
        ("/lab", {"Sec_Fetch_Mode": "cors"}),
        ("/lab", {"Accept": "application/json"}),
    ):
        answer = await fetch(world.port, target, **headers)
        assert answer.status == 503 and int(answer.headers["retry-after"]) > 0
        assert json.loads(answer.body)["message"] == "Waiting."
    answer = await fetch(world.port, "/lab", "POST", b"x=1", **HTML)
    assert answer.status == 503


async def test_head_has_no_body(world: World) -> None:
    async with Client(world.port) as client:
        client.send("/lab", "HEAD", **HTML)
        raw = await client.rest()
    assert raw.startswith(b"HTTP/1.1 200") and raw.endswith(b"\r\n\r\n")


async def test_the_status_is_json_for_page_and_commands(world: World) -> None:
    answer = await fetch(world.port, "/_jupyter-hpc/status")
    value = json.loads(answer.body)
    assert answer.status == 200 and value["open"] is False
    assert value["status"]["cluster"] == "ulysses"
    assert value["view"]["headline"] == "Waiting in the queue"
    assert await asyncio.to_thread(read_status, world.port) == value


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
async def test_our_own_names_are_answered(world: World, name: str) -> None:
    answer = await fetch(world.port, "/lab", Host=f"{name}:{world.port}", **HTML)
    assert answer.status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost",
        "localhost:1",
        "",
        "127.0.0.1.nip.io:{port}",
        "localhost:{port}.evil.example",
        "evil.localhost:{port}",
        "localhost.:{port}",
    ],
)
async def test_a_foreign_name_is_refused_for_everything(world: World, host: str) -> None:
    for target in ("/lab", "/api/kernels", "/_jupyter-hpc/", "/_jupyter-hpc/status"):
        answer = await fetch(world.port, target, Host=host.format(port=world.port), **HTML)
        assert answer.status == 403
        assert CONTROL_SECRET not in answer.text and "ulysses" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "https://localhost:{port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
async def test_pages_of_other_origins_get_nothing(world: World, headers: dict[str, Any]) -> None:
    headers = {name: value.format(port=world.port) for name, value in headers.items()}
    assert (await fetch(world.port, "/_jupyter-hpc/status", **headers)).status == 403
    headers["X_Jupyter_Hpc_Secret"] = CONTROL_SECRET
    answer = await fetch(world.port, "/_jupyter-hpc/actions/stop", "POST", b"{}", **headers)
    assert answer.status == 403 and world.done == []


async def test_an_action_needs_the_secret(world: World) -> None:
    for secret in ("", "wrong", CONTROL_SECRET[:-1], CONTROL_SECRET + "x"):
        answer = await fetch(
            world.port, "/_jupyter-hpc/actions/stop", "POST", b"{}", X_Jupyter_Hpc_Secret=secret
        )
        assert answer.status == 403
    query = f"/_jupyter-hpc/actions/stop?secret={CONTROL_SECRET}"
    assert (await fetch(world.port, query, "POST", b"{}")).status == 403
    assert world.done == []
    answer = await fetch(
        world.port,
        "/_jupyter-hpc/actions/stop",
        "POST",
        b'{"why": "test"}',
        X_Jupyter_Hpc_Secret=CONTROL_SECRET,
        Origin=f"http://localhost:{world.port}",
        Sec_Fetch_Site="same-origin",
    )
    assert answer.status == 200 and json.loads(answer.body) == {"stopped": True}
    assert world.done == [("stop", {"why": "test"})]


async def test_the_tab_gets_the_secret_of_the_page_only_for_its_own_origin(world: World) -> None:
    ours: dict[str, Any] = {
        "Origin": f"http://localhost:{world.port}",
        "Sec_Fetch_Site": "same-origin",
    }
    answer = await fetch(world.port, "/_jupyter-hpc/tab", "POST", b"{}", **ours)
    secret = json.loads(answer.body)["secret"]
    assert answer.status == 200 and secret and secret != CONTROL_SECRET
    answer = await fetch(
        world.port,
        "/_jupyter-hpc/actions/stop",
        "POST",
        b"{}",
        X_Jupyter_Hpc_Secret=secret,
        **ours,
    )
    assert answer.status == 200 and world.done == [("stop", {})]
    refused: list[dict[str, Any]] = [
        {},  # no browser sends a POST without its origin
        {"Origin": "null"},  # a sandboxed document
        {"Origin": "http://evil.example"},
        {"Origin": f"http://localhost:{world.port + 1}"},
        {**ours, "Sec_Fetch_Site": "same-site"},
        {**ours, "Host": "evil.example"},
    ]
    for headers in refused:
        answer = await fetch(world.port, "/_jupyter-hpc/tab", "POST", b"{}", **headers)
        assert answer.status == 403 and secret not in answer.text
    answer = await fetch(world.port, "/_jupyter-hpc/tab", **ours)
    assert answer.status == 405 and secret not in answer.text


async def test_commands_use_the_same_actions(world: World) -> None:
    port = world.port
    answer = await asyncio.to_thread(call_action, port, CONTROL_SECRET, "stop", {"a": 1})
    assert answer == {"stopped": True}
    with pytest.raises(ConnectError, match="cannot be done <now>") as refused:
        await asyncio.to_thread(call_action, port, CONTROL_SECRET, "refuse")
    assert refused.value.hint == "Wait." and refused.value.exit_code == 1
    with pytest.raises(ConnectError, match="no port") as misused:
        await asyncio.to_thread(call_action, port, CONTROL_SECRET, "misuse")
    assert misused.value.exit_code == 2
    with pytest.raises(ConnectError, match="missing or wrong"):
        await asyncio.to_thread(call_action, port, "wrong", "stop")
    with pytest.raises(ConnectError, match="no such action; known are stop"):
        await asyncio.to_thread(call_action, port, CONTROL_SECRET, "nothing")
    with pytest.raises(ConnectError) as failed:
        await asyncio.to_thread(call_action, port, CONTROL_SECRET, "fail")
    assert "secret detail" not in str(failed.value)
    await world.proxy.close()
    with pytest.raises(Unreachable):
        await asyncio.to_thread(call_action, port, CONTROL_SECRET, "stop")


async def test_an_action_goes_on_when_its_page_is_closed(world: World) -> None:
    async with Client(world.port) as client:
        client.send(
            "/_jupyter-hpc/actions/slow", "POST", b"{}", X_Jupyter_Hpc_Secret=CONTROL_SECRET
        )
        await until(world.slow_began.is_set)
    await until(lambda: all(getattr(one, "_read_eof", 0) for one in world.proxy._connections))
    assert world.done == []
    world.slow_may_end.set()
    await until(lambda: world.done == [("slow", {})])


@pytest.mark.parametrize(
    ("target", "method", "body", "status"),
    [
        ("/_jupyter-hpc/actions/stop", "GET", b"", 405),
        ("/_jupyter-hpc/status", "POST", b"{}", 405),
        ("/_jupyter-hpc/", "POST", b"{}", 405),
        ("/_jupyter-hpc/other", "GET", b"", 404),
        ("/_jupyter-hpc/actions/stop", "POST", b"[1]", 400),
        ("/_jupyter-hpc/actions/stop", "POST", b"{", 400),
        ("/_jupyter-hpc/actions/stop", "POST", b"x" * (MAX_BODY_BYTES + 1), 413),
        ("/_jupyter-hpc/actions/", "POST", b"{}", 404),
    ],
)
async def test_what_makes_no_sense_is_refused(
    world: World, target: str, method: str, body: bytes, status: int
) -> None:
    answer = await fetch(world.port, target, method, body, X_Jupyter_Hpc_Secret=CONTROL_SECRET)
    assert answer.status == status and world.done == []


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "٣", "9" * 30])
async def test_a_length_that_is_no_number_is_refused(world: World, length: str) -> None:
    async with Client(world.port) as client:
        head = f"POST /_jupyter-hpc/actions/stop HTTP/1.1\r\nHost: localhost:{world.port}\r\n"
        client.writer.write(f"{head}Content-Length: {length}\r\n\r\n{{}}".encode())
        assert (await client.answer()).status in (411, 413)
    assert world.done == []


async def test_a_body_in_pieces_is_waited_for(world: World) -> None:
    async with Client(world.port) as client:
        client.send(
            "/_jupyter-hpc/actions/stop",
            "POST",
            Content_Length="7",
            X_Jupyter_Hpc_Secret=CONTROL_SECRET,
        )
        body = b'{"a":1}'
        for end in range(1, len(body)):
            client.writer.write(body[end - 1 : end])
            await arrived(world, b"\r\n\r\n" + body[:end])
        client.writer.write(body[-1:])
        assert (await client.answer()).status == 200
    assert world.done == [("stop", {"a": 1})]


async def test_a_head_in_single_bytes(world: World) -> None:
    async with Client(world.port) as client:
        for byte in f"GET /lab HTTP/1.1\r\nHost: localhost:{world.port}\r\n\r\n".encode():
            client.writer.write(bytes((byte,)))
            await client.writer.drain()
        assert (await client.answer()).status == 200


@pytest.mark.parametrize(
    "first",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET http://localhost/ HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1 x\r\nHost: localhost\r\n\r\n",
        b"g@t / HTTP/1.1\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * MAX_HEAD_BYTES,
    ],
    ids=["tls", "absolute", "http2", "trailing", "method", "nul", "large"],
)
async def test_what_is_no_request_is_closed(world: World, first: bytes) -> None:
    async with Client(world.port) as client:
        client.writer.write(first)
        with contextlib.suppress(ConnectionResetError):
            assert await client.rest() == b""


async def test_an_unfinished_request_is_closed_in_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_connection, "MAX_HEAD_SECONDS", 0.2)
    for first in (b"GET /lab HT", b"POST /_jupyter-hpc/actions/stop HTTP/1.1\r\nContent-Le"):
        async with Client(world.port) as client:
            client.writer.write(first)
            with pytest.raises((ConnectionResetError, AssertionError)):
                assert await client.rest() != b""


async def test_too_many_connections_are_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_CONNECTIONS > 100
    monkeypatch.setattr(world.proxy, "_max_connections", 10)
    clients = [await Client(world.port).__aenter__() for _ in range(15)]
    await until(lambda: sum(client.reader.at_eof() for client in clients) == 5)
    assert len(world.proxy._connections) == 10
    for client in clients:
        await client.__aexit__()
    await until(lambda: not world.proxy._connections)
    assert (await fetch(world.port, "/lab")).status == 200


_CROWD = """
import socket, sys
made = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(120)]
print("there", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on files")
async def test_a_crowd_in_one_moment_does_not_use_up_the_files(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit as small as leaves what the proxy keeps for the session."""
    import resource

    monkeypatch.setattr(world.proxy, "_max_connections", 10)
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    crowd = subprocess.Popen(
        [sys.executable, "-c", _CROWD, str(world.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert crowd.stdin is not None and crowd.stdout is not None
    assert crowd.stdout.readline() == b"there\n"  # and the loop stands still meanwhile
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = itertools.filterfalse(
        {int(name) for name in os.listdir("/dev/fd")}.__contains__, itertools.count()
    )
    limit = next(itertools.islice(free, 80, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        await until(lambda: len(world.proxy._connections) == 10)
        await stays(lambda: not faults, seconds=0.5)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        crowd.stdin.close()
        crowd.wait(10)
        crowd.stdout.close()
    await until(lambda: not world.proxy._connections)
    assert (await fetch(world.port, "/lab")).status == 200


# -- the port -------------------------------------------------------------------------------
