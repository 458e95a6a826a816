"""Somebody in the middle, who sees the lengths of packets, takes one out or changes it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncssh
import pytest

from jupyter_hpc.connect.ssh.carrier import Carrier, SocketCarrier
from jupyter_hpc.connect.ssh.pipe import ChannelProcess

CIPHER = "aes128-gcm@openssh.com"
LINES = [bytes([letter]) * 1000 for letter in b"ABCDEF"]
TAG = 16

Tamper = Callable[[bytes], bytes]


class OpenServer(asyncssh.SSHServer):
    """Lets everybody in."""

    def begin_auth(self, username: str) -> bool:
        return False


async def speak(process: asyncssh.SSHServerProcess[bytes]) -> None:
    await process.stdin.read(1)
    for line in LINES:
        process.stdout.write(line)
        await asyncio.sleep(0.02)  # sleep: a packet for each line
    await process.stdin.read()


@asynccontextmanager
async def connected() -> AsyncIterator[asyncssh.SSHClientConnection]:
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        server_factory=OpenServer,
        process_factory=speak,
        encoding=None,
    )
    sock = socket.create_connection(server.sockets[0].getsockname())
    sock.setblocking(False)
    connection = await asyncssh.connect(
        "127.0.0.1",
        tunnel=SocketCarrier(sock),
        known_hosts=None,
        username="alice",
        config=None,
        client_keys=None,
        encryption_algs=[CIPHER],
        compression_algs=["none"],
    )
    yield connection
    connection.abort()
    server.close()


class Middle:
    """Gives packets on, but for the second that carries a line."""

    def __init__(self, give: Callable[[bytes], None], tamper: Tamper, how: str) -> None:
        self._give, self._tamper, self._how = give, tamper, how
        self._bytes = b""
        self._kept: list[bytes] = []
        self._lines = 0

    def __call__(self, data: bytes) -> None:
        self._bytes += data
        while len(self._bytes) >= 4:
            size = 4 + int.from_bytes(self._bytes[:4], "big") + TAG
            if len(self._bytes) < size:
                break
            packet, self._bytes = self._bytes[:size], self._bytes[size:]
            if len(packet) > len(LINES[0]):
                self._lines += 1
                if self._lines == 2:
                    packet = self._tamper(packet)
            self._kept.append(packet)
        if self._how == "as they come" or not 2 <= self._lines < len(LINES):
            kept, self._kept = self._kept, []
            for piece in [b"".join(kept)] if self._how == "in one piece" else kept:
                if piece:
                    self._give(piece)


@pytest.mark.parametrize("how", ["as they come", "in one piece", "in one turn of the loop"])
@pytest.mark.parametrize(
    "tamper",
    [lambda packet: b"", lambda packet: packet[:-1] + bytes([packet[-1] ^ 1])],
    ids=["taken out", "changed"],
)
async def test_nothing_after_it_is_delivered(
    monkeypatch: pytest.MonkeyPatch, tamper: Tamper, how: str
) -> None:
    """And the connection ends."""
    got: list[bytes] = []
    async with connected() as connection:
        process = ChannelProcess()
        await connection.create_session(lambda: process, command="speak", encoding=None)
        process.set_receiver(got.append, lambda outcome: None)
        deliver = Carrier.deliver
        middles: dict[Carrier, Middle] = {}

        def between(carrier: Carrier, data: bytes) -> None:
            middle = middles.get(carrier)
            if middle is None:
                middle = Middle(lambda piece: deliver(carrier, piece), tamper, how)
                middles[carrier] = middle
            middle(data)

        monkeypatch.setattr(Carrier, "deliver", between)
        process.write(b"g")
        await asyncio.wait_for(process.wait_ended(), 30)
        await asyncio.wait_for(connection.wait_closed(), 30)
    assert len(middles) == 1
    assert b"".join(got) == LINES[0]
