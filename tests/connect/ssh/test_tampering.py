"""Somebody in the middle, who sees the lengths of packets, takes one out or changes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncssh
import pytest
from jupyter_hpc.connect.ssh.lean import lean

from jupyter_hpc.connect.ssh.process import ChannelProcess

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
        await asyncio.sleep(0.02)
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
    connection = await asyncssh.connect(
        "127.0.0.1",
        server.sockets[0].getsockname()[1],
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

    def __init__(self, give: Callable[[bytes], None], tamper: Tamper, *, together: bool) -> None:
        self._give, self._tamper, self._together = give, tamper, together
        self._bytes = self._kept = b""
        self._lines = 0

    def __call__(self, data: bytes, datatype: int | None = None) -> None:
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
            self._kept += packet
        if self._kept and not (self._together and 2 <= self._lines < len(LINES)):
            kept, self._kept = self._kept, b""
            self._give(kept)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    "tamper",
    [lambda packet: b"", lambda packet: packet[:-1] + bytes([packet[-1] ^ 1])],
    ids=["taken out", "changed"],
)
async def test_nothing_after_it_is_delivered(tamper: Tamper, together: bool) -> None:
    got: list[bytes] = []
    async with connected() as connection:
        express = lean(connection, over_socket=True)
        process = ChannelProcess(express)
        await connection.create_session(lambda: process, command="speak", encoding=None)
        process.set_receiver(got.append, lambda outcome: None)
        connection.data_received = Middle(  # type: ignore[method-assign]
            connection.data_received, tamper, together=together
        )
        process.write(b"g")
        await asyncio.wait_for(process.wait_ended(), 30)
    assert express.received > 0
    assert b"".join(got) == LINES[0]
