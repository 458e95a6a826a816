"""Sessions that a slow host opens when nobody waits for them any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import asyncssh
import pytest

from jupyter_hpc.connect.ssh.connection import SshConnection
from jupyter_hpc.connect.ssh.hop import Hop
from jupyter_hpc.errors import Unreachable
from tests.waiting import until


class Session(asyncssh.SSHServerSession[bytes]):
    """Writes down what it was asked to run."""

    def __init__(self, host: SlowHost) -> None:
        self._host = host

    def connection_made(self, chan: Any) -> None:
        self._host.open += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.open -= 1

    def exec_requested(self, command: str) -> bool:
        self._host.began.append(command)
        return True


class SlowHost(asyncssh.SSHServer):
    """Opens a session only when it is told to."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.asked = 0
        self.open = 0
        self.began: list[str] = []

    def begin_auth(self, username: str) -> bool:
        return False

    def session_requested(self) -> Awaitable[Session]:
        return self._session()

    async def _session(self) -> Session:
        self.asked += 1
        await self.goes_on.wait()
        return Session(self)


async def test_a_session_that_comes_too_late_is_closed_and_runs_nothing() -> None:
    """The server allows ten on a connection; those that are left open would use them up."""
    host = SlowHost()
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=lambda: host, server_host_keys=[key], encoding=None
    )
    client = await asyncssh.connect(
        "127.0.0.1", server.get_port(), known_hosts=None, username="ada", client_keys=None
    )
    settings: Any = None
    hop = Hop(client, settings, False, (0, 3))
    connection = SshConnection("site", hop, ())
    with pytest.raises(Unreachable, match="did not start"):
        await connection.start("late", timeout=0.2)
    given_up = asyncio.ensure_future(connection.start("given up"))
    await until(lambda: host.asked == 2)
    given_up.cancel()
    await asyncio.wait((given_up,))
    host.goes_on.set()
    process = await connection.start("in time")
    await until(lambda: host.asked == 3 and host.open == 1)
    assert host.began == ["in time"]
    process.close()
    await until(lambda: host.open == 0)
    client.abort()
    server.close()
    await server.wait_closed()
