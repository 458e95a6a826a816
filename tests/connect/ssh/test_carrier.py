"""What carries SSH connections: every byte arrives over two hops, in few and large writes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncssh
import pytest

from jupyter_hpc.clusters import Login
from jupyter_hpc.connect.ssh import carrier as ssh_carrier
from jupyter_hpc.connect.ssh.carrier import Carrier, ChannelCarrier, SocketCarrier
from jupyter_hpc.connect.ssh.login import open_login
from jupyter_hpc.connect.ssh.pipe import PIECE_BYTES, ChannelProcess
from jupyter_hpc.connect.ssh.prompts import NoPrompter
from jupyter_hpc.connect.tunnel.transports import Attach, Connections, open_pipe
from jupyter_hpc.relay.bridge import READ_SIZE
from jupyter_hpc.relay.frames import HEADER, MAX_PAYLOAD_BYTES
from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.ssh.on_cluster import at_home
from tests.connect.tunnel.pipe_helpers import ECHO_RELAY, echoes
from tests.waiting import until

NODE = "cpu01"
SIZE = 3_000_000


class EchoServer(asyncssh.SSHServer):
    """Lets everybody in, and onwards."""

    def begin_auth(self, username: str) -> bool:
        return False

    def connection_requested(self, *where: Any) -> bool:
        return True


async def echo(process: asyncssh.SSHServerProcess[bytes]) -> None:
    while data := await process.stdin.read(1 << 16):
        process.stdout.write(data)
    process.exit(0)


@asynccontextmanager
async def two_loopback_hops(**options: Any) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection to a small server through the same server."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        server_factory=EchoServer,
        process_factory=echo,
        encoding=None,
    )
    address = server.sockets[0].getsockname()
    sock = socket.create_connection(address)
    sock.setblocking(False)
    below = SocketCarrier(sock)
    usual: Any = {"known_hosts": None, "username": "ada", "config": None, "client_keys": None}
    usual |= options
    first = await asyncssh.connect("first", tunnel=below, **usual)
    through = ChannelCarrier(first, below)
    second = await asyncssh.connect(address[0], address[1], tunnel=through, **usual)
    try:
        yield second
    finally:
        second.abort()
        first.abort()
        server.close()
        await server.wait_closed()


async def test_every_byte_arrives_over_two_hops_in_few_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """asyncssh makes eight packets of each piece; they leave this machine together."""
    flushed: list[int] = []
    flush = Carrier.flush

    def noted(carrier: Carrier) -> None:
        if carrier.get_extra_info("socket") is not None and carrier.gathered_bytes:
            flushed.append(carrier.gathered_bytes)
        flush(carrier)

    monkeypatch.setattr(Carrier, "flush", noted)
    async with two_loopback_hops() as connection:
        process = ChannelProcess()
        await connection.create_session(lambda: process, command="echo", encoding=None)
        flushed.clear()
        assert await echoes(process, SIZE)
    pieces = SIZE // PIECE_BYTES
    assert sum(flushed) > SIZE
    assert len([size for size in flushed if size > PIECE_BYTES]) <= pieces // 2


@pytest.mark.parametrize(
    ("cipher", "mac"),
    [
        ("aes128-gcm@openssh.com", None),
        ("chacha20-poly1305@openssh.com", None),
        ("aes256-ctr", "hmac-sha2-512-etm@openssh.com"),
        ("aes256-ctr", "hmac-sha2-512"),
    ],
)
async def test_a_packet_of_one_hop_is_one_packet_of_the_hop_below(
    monkeypatch: pytest.MonkeyPatch, cipher: str, mac: str | None
) -> None:
    """A remainder would be a packet of its own, and an empty one before it."""
    flushed: list[int] = []
    flush = Carrier.flush

    def noted(carrier: Carrier) -> None:
        if carrier.gathered_bytes > PIECE_BYTES:
            flushed.append(carrier.gathered_bytes)
        flush(carrier)

    options = {"encryption_algs": [cipher], "mac_algs": [mac] if mac else ()}
    async with two_loopback_hops(**options) as connection:
        process = ChannelProcess()
        await connection.create_session(lambda: process, command="echo", encoding=None)
        monkeypatch.setattr(Carrier, "flush", noted)
        process.write(bytes(READ_SIZE + HEADER.size))
        await until(lambda: len(flushed) == 2)
        process.close()
    upper, lower = flushed
    pieces = (READ_SIZE + HEADER.size) // PIECE_BYTES
    assert pieces * PIECE_BYTES < upper <= pieces * 32768
    assert lower <= upper + pieces * 192


async def test_a_small_write_leaves_in_the_same_turn_of_the_loop() -> None:
    async with two_loopback_hops() as connection:
        process = ChannelProcess()
        await connection.create_session(lambda: process, command="echo", encoding=None)
        got: asyncio.Queue[bytes] = asyncio.Queue()
        process.set_receiver(got.put_nowait, lambda outcome: None)
        for number in range(100):
            process.write(b"%d" % number)
            assert await asyncio.wait_for(got.get(), 10) == b"%d" % number
        process.close()


async def test_more_than_a_megabyte_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop that writes without end must not gather without end."""
    written: list[bytes] = []

    class Below(asyncio.Transport):
        def write(self, data: Any) -> None:
            written.append(data)

        def is_closing(self) -> bool:
            return False

    class Connection(asyncio.Protocol):
        pass

    carrier = Carrier(None)
    carrier.connection = Connection()
    carrier.open(Below())
    monkeypatch.setattr(ssh_carrier, "MAX_GATHERED_BYTES", 1000)
    carrier.write(bytes(900))
    assert not written
    carrier.write(bytes(200))
    assert [len(data) for data in written] == [1100]
    carrier.write(b"rest")
    await asyncio.sleep(0)
    assert written[1:] == [b"rest"]


# ---- on the real cluster --------------------------------------------------------------


@pytest.fixture
def laptop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    return at_home(cluster.laptop("alice", "carrier"), monkeypatch)


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


def test_a_read_and_its_header_are_one_frame_and_fill_whole_packets() -> None:
    assert (READ_SIZE + HEADER.size) % PIECE_BYTES == 0
    assert READ_SIZE <= MAX_PAYLOAD_BYTES


@pytest.mark.parametrize(
    "option",
    [
        "Ciphers aes128-gcm@openssh.com",
        "Ciphers chacha20-poly1305@openssh.com",
        "Compression yes",
        "RekeyLimit 400K",
    ],
)
async def test_every_byte_arrives_whatever_is_agreed_on(laptop: Laptop, option: str) -> None:
    async with two_hops(laptop, option) as connections:
        assert await carries(connections) and await carries(connections)


async def test_the_server_asks_for_new_keys(cluster: Cluster, laptop: Laptop) -> None:
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
