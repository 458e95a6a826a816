"""The ways to a small SSH server on loopback: which host, over which, and what is in the way."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import asyncssh
import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh.login import open_login, probe
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.errors import (
    AuthenticationFailed,
    Unreachable,
    UsageError,
)
from tests.connect.ssh.helpers import Person, Site, login_works, write_home, write_key


async def test_hosts_are_tried_in_order_while_unreachable(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        config = write_home(home, site).ssh_config
        dead = Site()
        async with dead.open():
            pass
        with open(str(config), "a") as file:
            file.write(f"Host dead\n  HostName 127.0.0.1\n  Port {dead.port}\n")
        login = Login(host=("dead", "site"), ssh_config=config, network="Use the VPN.")
        connection = await open_login(login, NoPrompter())
        assert connection.host == "site"
        connection.close()
        with pytest.raises(Unreachable) as caught:
            await open_login(
                Login(host=("dead", "no.such.invalid"), ssh_config=config, network="Use the VPN."),
                NoPrompter(),
            )
    assert f"127.0.0.1 port {dead.port}: Connection refused." in caught.value.message
    assert "no.such.invalid: the name is not known." in caught.value.message
    assert caught.value.hint == "Use the VPN." and caught.value.transient


async def test_a_refused_login_is_not_tried_on_the_next_host(home: Path) -> None:
    async with Site(password="x").open() as first, Site(password="x").open() as second:
        config = write_home(home, first).ssh_config
        with open(str(config), "a") as file:
            file.write(f"Host other\n  HostName 127.0.0.1\n  Port {second.port}\n")
        with pytest.raises(AuthenticationFailed):
            await open_login(Login(host=("site", "other"), ssh_config=config), Person([["wrong"]]))
    assert first.attempts == ["password"] and second.users == []


async def test_jump_hosts_of_profile_and_configuration(home: Path) -> None:
    key = write_key(home / ".ssh/id_ed25519")
    jump, site = Site(key=key), Site(key=key)

    class Door(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            jump.users.append(username)
            return False

        def connection_requested(self, *args: object) -> bool:
            return True

    door = await asyncssh.create_server(Door, "127.0.0.1", 0, server_host_keys=[jump.host_key])
    jump.port = door.get_port()
    async with site.open():
        config = str(write_home(home, site).ssh_config)
        with open(home / ".ssh/known_hosts", "a") as file:
            file.write(jump.known_hosts_line(f"[127.0.0.1]:{jump.port}"))
        profile = Login(host=("site",), ssh_config=config, jump=(f"bob@127.0.0.1:{jump.port}",))
        await login_works(profile, NoPrompter())
        assert jump.users == ["bob"] and site.users == ["ada"]
        via = f"  ProxyJump eve@127.0.0.1:{jump.port}"
        await login_works(write_home(home, site, extra=via), Person(trusts=True))
        assert jump.users[-1] == "eve"
        chain = (
            f"  ProxyJump inner\nHost inner\n  HostName 127.0.0.1\n  Port {jump.port}\n"
            f"  User ivy\n  ProxyJump eve@127.0.0.1:{jump.port}\n"
        )
        await login_works(write_home(home, site, extra=chain), Person(trusts=True))
        assert jump.users[-2:] == ["eve", "ivy"]
        circle = "  ProxyJump site"
        with pytest.raises(UsageError, match="circle of jump hosts"):
            await open_login(write_home(home, site, extra=circle), NoPrompter())
    door.close()
    await door.wait_closed()


async def test_a_proxy_command(home: Path) -> None:
    script = home / "proxy.py"
    script.write_text(
        "import os, select, socket, sys\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "while True:\n"
        "    for ready in select.select([0, s], [], [])[0]:\n"
        "        data = os.read(0, 65536) if ready == 0 else s.recv(65536)\n"
        "        if not data: sys.exit()\n"
        "        s.sendall(data) if ready == 0 else os.write(1, data)\n"
    )
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        extra = f"  ProxyCommand {sys.executable} {script} %p"
        login = write_home(home, site, extra=extra)
        assert (await probe(login)).sock is None
        await login_works(login, NoPrompter())


async def test_a_probe_authenticates_nothing(home: Path) -> None:
    async with Site(key=write_key(home / ".ssh/id_ed25519")).open() as site:
        login = write_home(home, site)
        reachable = await probe(login)
        assert reachable.host == "site" and site.users == []
        connection = await open_login(login, NoPrompter(), reachable=reachable)
        assert site.users == ["ada"]
        connection.close()
    with pytest.raises(Unreachable, match="No login host could be reached"):
        await probe(login, timeout=1)


async def test_a_server_that_says_nothing_is_unreachable(home: Path) -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    site = Site(port=server.sockets[0].getsockname()[1])
    with pytest.raises(Unreachable, match="does not greet as an SSH server does within 1 s"):
        await open_login(write_home(home, site), NoPrompter(), timeout=1)
    server.close()


async def test_a_server_that_hangs_up_is_unreachable(home: Path) -> None:
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    site = Site(port=server.sockets[0].getsockname()[1])
    with pytest.raises(Unreachable, match="closed the connection before a word"):
        await open_login(write_home(home, site), NoPrompter())
    server.close()


async def test_mistakes_in_the_configuration_are_named(home: Path) -> None:
    async with Site().open() as site:
        login = write_home(home, site, extra="  Port many")
        with pytest.raises(UsageError, match="SSH configuration for site is wrong"):
            await open_login(login, NoPrompter())
    with pytest.raises(UsageError, match="cannot be read"):
        await open_login(Login(host=("x",), ssh_config=f"{home}/none"), NoPrompter())
