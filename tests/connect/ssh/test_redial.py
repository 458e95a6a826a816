"""Several login hosts and a network that misbehaves: who is logged in to, and what is said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh import login as login_module
from jupyter_hpc.connect.ssh.auth import Client
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.login import open_login, probe
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import Unreachable
from tests.connect.fault_proxy import FaultProxy
from tests.connect.ssh.helpers import Site, write_home, write_key
from tests.waiting import stays, until


@pytest.fixture
async def site(home: Path) -> AsyncIterator[Site]:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as opened:
        yield opened


@pytest.fixture
def network(site: Site) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", site.port) as proxy:
        yield proxy


@pytest.fixture
def behind(home: Path, site: Site, network: FaultProxy) -> Login:
    """The same host twice: `first` behind the network, `site` beside it."""
    login = write_home(home, site)
    with open(str(login.ssh_config), "a") as file:
        file.write(
            f"Host first\n  HostName 127.0.0.1\n  Port {network.port}\n  User ada\n"
            f"  HostKeyAlias [127.0.0.1]:{site.port}\n"
        )
    return Login(host=("first",), ssh_config=login.ssh_config)


def both(login: Login) -> Login:
    return Login(host=("first", "site"), ssh_config=login.ssh_config)


async def test_a_first_host_that_is_silent_is_passed_by(
    behind: Login, network: FaultProxy, site: Site
) -> None:
    network.mode = "stall"
    began = time.monotonic()
    connection = await open_login(both(behind), NoPrompter())
    assert connection.host == "site" and site.users == ["ada"]
    assert time.monotonic() - began < 8
    connection.close()


async def test_the_host_that_worked_last_comes_first(
    behind: Login, network: FaultProxy, site: Site
) -> None:
    ring = KeyRing()
    network.mode = "stall"
    (await open_login(both(behind), NoPrompter(), ring=ring)).close()
    network.mode = "pass"
    made = network.accepted
    reachable = await probe(both(behind), ring=ring)
    assert reachable.host == "site" and network.accepted == made
    reachable.close()


async def test_a_host_that_fails_within_the_login_comes_last(
    behind: Login, network: FaultProxy, site: Site
) -> None:
    ring = KeyRing()
    network.cut_after(500)
    connection = await open_login(both(behind), NoPrompter(), ring=ring)
    assert connection.host == "site" and ring.ranked(("first", "site")) == ["site", "first"]
    connection.close()


async def test_the_probe_becomes_the_login(behind: Login, network: FaultProxy, site: Site) -> None:
    reachable = await probe(behind)
    (await open_login(behind, NoPrompter(), reachable=reachable)).close()
    assert network.accepted == 1 and site.users == ["ada"]


@pytest.mark.parametrize("mode", ["portal", "coy-portal"])
async def test_a_login_page_of_the_network_is_called_that(
    behind: Login, network: FaultProxy, mode: str
) -> None:
    network.mode = mode  # type: ignore[assignment]
    with pytest.raises(Unreachable, match=r"a web server answers.*302 Found.*login page of the"):
        await probe(behind, greeting=0.5)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"220 mail\r\n", r"answers, but not as an SSH server does\. It says: 220 mail"),
        (b"Not allowed at this time\r\n", "turns this address away for seconds to minutes"),
        (b"Exceeded MaxStartups\r\n", "has as many logins under way as it takes at once"),
    ],
)
async def test_another_service_is_quoted(home: Path, line: bytes, said: str) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.write(line), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    login = write_home(home, Site(port=port))
    with pytest.raises(Unreachable, match=said):
        await probe(login)
    server.close()


async def test_lines_before_the_greeting_are_waited_out(
    home: Path, site: Site, network: FaultProxy
) -> None:
    """RFC 4253 allows them."""

    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"Welcome.\r\n")
        await asyncio.sleep(0.1)  # sleep: the greeting comes in a packet of its own
        writer.write(b"SSH-2.0-Chatty\r\n")

    server = await asyncio.start_server(chatty, "127.0.0.1", 0)
    login = write_home(home, Site(port=server.sockets[0].getsockname()[1]))
    (await probe(login)).close()
    server.close()


async def test_a_silent_host_is_not_dialled_again_and_again(
    behind: Login, network: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing()
    network.mode = "stall"
    first = asyncio.create_task(probe(behind, ring=ring))
    await until(lambda: ring.ungreeted)
    for _ in range(5):
        with pytest.raises(Unreachable, match="has not spoken yet"):
            await probe(behind, ring=ring)
    assert network.accepted == 1
    monkeypatch.setattr(login_module, "_UNGREETED_SECONDS", 0.0)
    second = asyncio.create_task(probe(behind, ring=ring))
    await until(lambda: network.accepted == 2)
    network.mode = "pass"
    for task in (first, second):
        (await task).close()


async def test_a_login_that_falls_silent_is_given_up(
    behind: Login, network: FaultProxy, site: Site
) -> None:
    network.stall_after(600)
    began = time.monotonic()
    with pytest.raises(Unreachable, match="did not go on for 1 s"):
        await open_login(behind, NoPrompter(), quiet=1.0)
    assert time.monotonic() - began < 15
    (await open_login(behind, NoPrompter(), quiet=1.0)).close()


@pytest.mark.parametrize("bytes_more", [0, 20, 60])
async def test_silence_while_keys_are_offered_is_the_host_s(
    behind: Login, network: FaultProxy, bytes_more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the middle of a packet, when the host was the last to speak."""
    offer = Client.public_key_auth_requested

    async def offer_then_silence(self: Client) -> Any:
        network.forget(after=bytes_more)
        return await offer(self)

    monkeypatch.setattr(Client, "public_key_auth_requested", offer_then_silence)
    began = time.monotonic()
    with pytest.raises(Unreachable, match="did not go on"):
        await open_login(behind, NoPrompter(), quiet=0.5)
    assert time.monotonic() - began < 15


async def test_a_login_that_falls_silent_once_it_is_made_is_closed(
    behind: Login, network: FaultProxy
) -> None:
    login = await open_login(behind, NoPrompter())
    silent = asyncio.create_task(login.wait_silent(0.5))
    await stays(lambda: not silent.done(), seconds=1.5)
    network.forget()
    await asyncio.wait_for(silent, 15)
    assert login.closed


async def test_one_that_is_no_longer_watched_may_be_silent(
    behind: Login, network: FaultProxy
) -> None:
    login = await open_login(behind, NoPrompter())
    silent = asyncio.create_task(login.wait_silent(0.3))
    await stays(lambda: not silent.done(), seconds=0.2)
    silent.cancel()
    await asyncio.gather(silent, return_exceptions=True)
    network.mode = "stall"
    await stays(lambda: not login.closed, seconds=1.5)
    login.close()


async def test_a_slow_network_is_no_silence(behind: Login, network: FaultProxy, site: Site) -> None:
    network.delay = 0.3
    (await open_login(behind, NoPrompter(), quiet=1.5)).close()
    assert site.users == ["ada"]
