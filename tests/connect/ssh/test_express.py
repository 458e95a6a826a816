"""The short way of data packets: every byte arrives, whatever happens on the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh import express as ssh_express
from jupyter_hpc.connect.ssh.express import Express
from jupyter_hpc.connect.ssh.login import open_login
from jupyter_hpc.connect.ssh.process import PIECE
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.tunnel.transports import Attach, Connections, open_pipe
from jupyter_hpc.relay.bridge import READ_SIZE
from jupyter_hpc.relay.frames import HEADER
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.ssh.on_cluster import at_home
from tests.connect.tunnel.pipe_helpers import ECHO_RELAY, echoes
from tests.waiting import until

NODE = "cpu01"
SIZE = 3_000_000


@pytest.fixture
def laptop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    return at_home(cluster.laptop("alice", "express"), monkeypatch)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Express]:
    """Every Express in the order of its connection."""
    found: list[Express] = []
    init = Express.__init__

    def noted(self: Express, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]
        found.append(self)

    monkeypatch.setattr(Express, "__init__", noted)
    return found


@asynccontextmanager
async def two_hops(laptop: Laptop, *options: str) -> AsyncIterator[Connections]:
    """Login and node, with lines before all others in the SSH configuration."""
    config = laptop.home / "config"
    config.write_text("\n".join([*options, f"Include {laptop.ssh_config}", ""]))
    login = await open_login(Login(host=("login1",), ssh_config=str(config)), NoPrompter())
    connections = Connections(login, NoPrompter())
    yield connections
    connections.close()


async def carries(connections: Connections) -> bool:
    return await echoes(await open_pipe("ssh", connections, Attach(NODE, ECHO_RELAY)), SIZE)


async def test_both_hops_use_it_in_both_directions(laptop: Laptop, made: list[Express]) -> None:
    async with two_hops(laptop) as connections:
        assert await carries(connections)
    assert len(made) == 2
    packets = SIZE // 32768
    assert all(one.works and min(one.sent, one.received) >= packets for one in made)


def test_a_read_and_its_header_fill_whole_packets() -> None:
    assert (READ_SIZE + HEADER.size) % PIECE == 0


async def test_a_login_that_only_forwards_is_made_to_answer_at_once(
    cluster: Cluster, laptop: Laptop
) -> None:
    """OpenSSH's server switches Nagle's algorithm off when it starts a command."""

    def started() -> int:
        return cluster.log("login1", "sshd").count("Starting session")

    before = started()
    async with two_hops(laptop) as connections:
        pipe = await open_pipe("ssh", connections, Attach(NODE, ECHO_RELAY))
        await until(lambda: started() > before)
        pipe.close()
        again = await open_pipe("ssh", connections, Attach(NODE, ECHO_RELAY))
        assert await echoes(again, 1000)
    assert started() == before + 1


async def test_new_keys_are_agreed_on_in_the_middle(laptop: Laptop, made: list[Express]) -> None:
    async with two_hops(laptop, "RekeyLimit 400K") as connections:
        assert await carries(connections) and await carries(connections)
    # What asyncssh holds back while keys are agreed on, it sends itself.
    assert all(one.sent and one.received > SIZE // 32768 for one in made)


async def test_the_server_asks_for_new_keys(
    cluster: Cluster, laptop: Laptop, made: list[Express]
) -> None:
    sshd_config = cluster.folders.host("login1") / "ssh/sshd_config"
    kept = sshd_config.read_text()
    cluster.stop("login1", "sshd")
    try:
        sshd_config.write_text(f"RekeyLimit 400K\n{kept}")
        cluster.start("login1", "sshd")
        async with two_hops(laptop) as connections:
            assert await carries(connections) and await carries(connections)
        cluster.stop("login1", "sshd")
    finally:
        sshd_config.write_text(kept)
        cluster.start("login1", "sshd")
    assert all(min(one.sent, one.received) > SIZE // 32768 for one in made)


@pytest.mark.parametrize("option", ["Ciphers chacha20-poly1305@openssh.com", "Compression yes"])
async def test_other_packets_go_the_long_way(
    laptop: Laptop, made: list[Express], option: str
) -> None:
    async with two_hops(laptop, option) as connections:
        assert await carries(connections)
    assert made and not any(one.sent or one.received for one in made)


async def test_an_asyncssh_that_keeps_its_state_elsewhere(
    laptop: Laptop, made: list[Express], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_express, "_USED_STATE", (*ssh_express._USED_STATE, "_moved"))
    async with two_hops(laptop) as connections:
        assert await carries(connections)
    assert made and not any(one.works or one.sent or one.received for one in made)
