"""The proxy's port: loopback only, taken or free, and whose its connections are."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import psutil
import pytest

from jupyter_hpc.connect.proxy import peer as proxy_peer
from jupyter_hpc.connect.proxy.peer import is_foreign
from jupyter_hpc.connect.proxy.server import LocalProxy, bind_local
from jupyter_hpc.connect.session.client import call_action
from jupyter_hpc.errors import ConnectError, PortTaken
from tests.connect.proxy.helpers import CONTROL_SECRET, HTML, Client, World, fetch, waiting_proxy
from tests.relay.harness import echo, unix_server
from tests.waiting import stays


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with waiting_proxy() as world:
        yield world


async def test_it_listens_on_loopback_only_on_both_addresses(world: World) -> None:
    sockets = [
        s.getsockname()[:2] for server in world.proxy._servers[world.port] for s in server.sockets
    ]
    assert ("127.0.0.1", world.port) in sockets
    assert {address for address, _ in sockets} <= {"127.0.0.1", "::1"}
    if socket.has_ipv6 and ("::1", world.port) in sockets:
        reader, writer = await asyncio.open_connection("::1", world.port)
        writer.write(f"GET /lab HTTP/1.1\r\nHost: [::1]:{world.port}\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_taken_port_is_said_with_its_taker(world: World) -> None:
    with pytest.raises(PortTaken) as taken:
        await LocalProxy(world.port, dict, dict, "x").start()
    assert f"process {os.getpid()}" in taken.value.message
    assert str(world.port) in taken.value.message and "--port" in taken.value.hint


async def test_half_a_port_is_taken_too() -> None:
    probe = socket.socket(socket.AF_INET6)
    try:
        probe.bind(("::1", 0))
    except OSError:
        pytest.skip("there is no ::1 here")
    with probe:
        probe.listen()
        port = probe.getsockname()[1]
        with pytest.raises(PortTaken):
            bind_local(port)
        # Nothing of ours is left on it; what others bind meanwhile is theirs.
        ours = [one.laddr for one in psutil.Process().net_connections("tcp4") if one.laddr]
        assert port not in [address.port for address in ours]


async def test_a_closed_port_can_be_opened_again_at_once(world: World) -> None:
    await fetch(world.port, "/lab")
    await world.proxy.close()
    again = LocalProxy(world.port, lambda: world.state, dict, "x")
    await again.start()
    assert (await fetch(again.port, "/lab")).status == 200
    await again.close()


async def test_the_secret_is_in_the_page_only_for_its_user(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = page_secret((await fetch(world.port, "/lab", **HTML)).text)
    assert secret
    monkeypatch.setattr(proxy_peer, "peer_owner", lambda *_: "unknown")
    for target in ("/lab", "/_jupyter-hpc/", "/_jupyter-hpc/status"):
        answer = await fetch(world.port, target, **HTML)
        assert answer.status == 200 and "Waiting in the queue" in answer.text
        assert secret not in answer.text and "Cancel the job" not in answer.text
    assert page_secret((await fetch(world.port, "/lab", **HTML)).text) == ""


def page_secret(text: str) -> str:
    found = re.search(r'id="settings">(.*?)</script>', text, re.S)
    assert found is not None
    return str(json.loads(found[1])["secret"])


async def test_the_pages_secret_is_for_its_buttons_only(world: World) -> None:
    """JupyterLab's scripts come from the cluster and can read the page."""
    text = (await fetch(world.port, "/_jupyter-hpc/")).text
    assert CONTROL_SECRET not in text
    secret, port = page_secret(text), world.port
    for action in ("stop", "start", "enter"):
        await asyncio.to_thread(call_action, port, secret, action)
    for action in ("slow", "refuse", "fail", "nothing"):
        with pytest.raises(ConnectError, match="missing or wrong"):
            await asyncio.to_thread(call_action, port, secret, action)
    assert [name for name, _ in world.done] == ["stop", "stop"]


@pytest.mark.skipif(
    os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="root on Linux only"
)
async def test_another_user_of_this_computer_gets_nothing(world: World) -> None:
    """Neither page nor secret, nor a word of Jupyter or of a forwarded service."""
    script = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(); s.settimeout(30); s.connect(('127.0.0.1', int(sys.argv[1])))\n"
        "head = f'GET {sys.argv[2]} HTTP/1.1\\r\\nHost: localhost:{sys.argv[1]}\\r\\n'\n"
        "try:  # it is answered before it asks, and may be hung up on then\n"
        "    s.sendall(head.encode() + b'Accept: text/html\\r\\n\\r\\n')\n"
        "    while data := s.recv(65536): print(data.decode())\n"
        "except ConnectionError: pass"
    )
    for target in ("/lab", "/_jupyter-hpc/", "/_jupyter-hpc/status"):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", script, str(world.port), target],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "403 Forbidden" in done.stdout, done.stdout + done.stderr
        assert CONTROL_SECRET not in done.stdout and "ulysses" not in done.stdout
    await world.node.start()
    await world.open()
    async with unix_server(f"{world.node.folder}/service", echo):
        forward = await world.proxy.add_forward(0, f"unix:{world.node.folder}/service")
        for port, shown in ((world.port, "403 Forbidden"), (forward, "")):
            done = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", script, str(port), "/lab"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert shown in done.stdout and "JupyterLab" not in done.stdout
            assert "GET /lab" not in done.stdout, "the service has echoed"
        assert b"GET /lab" in await _echoed(forward)


@pytest.mark.skipif(
    os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="root on Linux only"
)
@pytest.mark.parametrize("end", ["", "s.setsockopt(1, 13, struct.pack('ii', 1, 0))"])
async def test_who_sends_and_closes_at_once_is_not_taken_for_us(
    world: World, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A service without a password must not even hear another user, who needs no answer."""
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read())
        writer.close()

    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # we are not root, who may do everything
    script = (
        "import os, socket, struct, sys; os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(); s.connect(('127.0.0.1', int(sys.argv[1])))\n"
        f"s.sendall(b'{{launch}}'); {end}\n"
        "s.close()"
    )
    await world.node.start()
    await world.open()
    async with unix_server(f"{world.node.folder}/service", listen):
        port = await world.proxy.add_forward(0, f"unix:{world.node.folder}/service")
        # Not in a thread: when the loop goes on, the client is gone already.
        subprocess.run([sys.executable, "-c", script, str(port)], check=True, timeout=60)
        await stays(lambda: received in ([], [b""]), seconds=0.5)
    sockets = [socket.socket() for _ in range(2)]
    with sockets[0], sockets[1]:
        sockets[0].bind(("127.0.0.1", 0))
        sockets[0].listen()
        sockets[1].connect(sockets[0].getsockname())
        accepted, _ = sockets[0].accept()
        with accepted:
            assert not is_foreign(accepted), "root, whose socket is open"


async def _echoed(port: int) -> bytes:
    async with Client(port) as client:
        client.send("/lab")
        client.writer.write_eof()
        return await client.rest()
