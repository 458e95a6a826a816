"""The proxy knows what carries its bytes by what it needs of it, and by nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jupyter_hpc.connect.proxy.server import LocalProxy
from jupyter_hpc.connect.proxy.upstream import Upstream
from jupyter_hpc.connect.tunnel.link import Link
from tests.connect.proxy.fake_upstream import MemoryUpstream
from tests.connect.proxy.helpers import Client
from tests.relay.harness import SECRET
from tests.waiting import until


async def test_a_link_is_an_upstream() -> None:
    link: Upstream = Link(SECRET, "laptop")
    assert isinstance(link, Upstream)
    assert not isinstance(object(), Upstream)


@pytest.mark.parametrize(("room", "module"), [("proxy", "server"), ("tunnel", "link")])
def test_proxy_and_tunnel_come_without_each_other(room: str, module: str) -> None:
    script = f"import sys, jupyter_hpc.connect.{room}.{module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    rooms = {name.split(".")[2] for name in done.stdout.split() if name.count(".") > 2}
    assert room in rooms
    assert not rooms & {"proxy", "tunnel", "job", "session"} - {room}


async def test_requests_go_to_whatever_upstream_is_connected() -> None:
    upstream = MemoryUpstream()
    proxy = LocalProxy(0, dict, dict, "secret")
    await proxy.start()
    proxy.connect(upstream)
    try:
        async with Client(proxy.port) as client:
            client.send("/lab")
            await until(lambda: upstream.stream.sent.endswith(b"\r\n\r\n"))
            assert upstream.stream.sent.startswith(b"GET /lab HTTP/1.1\r\n")
            assert upstream.target == ""
    finally:
        await proxy.close()
