"""Open connections made by asyncssh: a host, and a login host that leads to more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.carrier import MAX_PACKET_BYTES, WINDOW_BYTES
from jupyter_hpc.connect.ssh.hop import Hop
from jupyter_hpc.connect.ssh.interfaces import BytePipe, Connection, RemoteProcess
from jupyter_hpc.connect.ssh.keys import KeyRing
from jupyter_hpc.connect.ssh.node import forwarding_denied, open_second_hop
from jupyter_hpc.connect.ssh.pipe import ChannelProcess, ChannelTcp
from jupyter_hpc.connect.ssh.prompts import Prompter
from jupyter_hpc.connect.ssh.runner import SshRunner
from jupyter_hpc.connect.ssh.settings import Target
from jupyter_hpc.errors import ConnectError, HpcError, PipeRefused, Unreachable
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

#: How often a refused session is asked for again while other commands hold sessions.
_SESSION_RETRY_SECONDS = 0.2
#: How long a server may take to notice that a session of ours has ended.
_SESSION_CLEANUP_SECONDS = 3.0
#: How long the command that does nothing may take, where a site runs another in its place.
_MAX_NOTHING_SECONDS = 10.0

#: So often a host is asked for an answer before its silence is held against it.
_MAX_QUESTIONS = 2


class SshConnection:
    """One authenticated hop made by asyncssh."""

    def __init__(self, name: str, hop: Hop, below: Sequence[asyncssh.SSHClientConnection]) -> None:
        self.host = name
        self._hop = hop
        self._below = tuple(below)
        self._processes: list[ChannelProcess] = []  # with some that have ended
        self._started_any = False

    @cached_property
    def runner(self) -> SshRunner:
        return SshRunner(self)

    @property
    def user(self) -> str:
        return self._hop.settings.user

    @property
    def closed(self) -> bool:
        return self._hop.connection.is_closed()

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess:
        return await self._start(line, timeout)

    async def start_sftp(self, *, timeout: float = 15.0) -> RemoteProcess:
        return await self._start(None, timeout)

    async def _start(self, line: str | None, timeout: float) -> RemoteProcess:
        end = asyncio.get_running_loop().time() + timeout
        while True:
            taken, process = self._places(), ChannelProcess()
            self._processes = [*taken, process]
            self._started_any = True
            try:
                await process.open(self._hop.connection, line, timeout)
                return process
            except asyncssh.ChannelOpenError as error:
                # The server's MaxSessions may be smaller than ours: wait for our own turn.
                self._processes.remove(process)
                late = asyncio.get_running_loop().time() > end
                if late or self.closed or not self._places():
                    raise self._lost(error) from error
            except (TimeoutError, asyncio.TimeoutError) as error:
                raise Unreachable(
                    f"{self.host} did not start the command within {timeout:g} s.",
                    "The network or the host may be slow; try again.",
                ) from error
            except (asyncssh.Error, OSError) as error:
                raise self._lost(error) from error
            await asyncio.sleep(_SESSION_RETRY_SECONDS)

    def _places(self) -> list[ChannelProcess]:
        """The sessions of ours that may fill the server's places, also those just ended."""
        soon = asyncio.get_running_loop().time() - _SESSION_CLEANUP_SECONDS
        return [each for each in self._processes if not each.ended or each.ended_at > soon]

    def _lost(self, error: Exception) -> ConnectError:
        if self.closed:
            return Unreachable(f"The connection to {self.host} is closed.", "Connect again.")
        return ConnectError(
            f"{self.host} refuses to start a command: {printable(str(error), 200)}.",
            "Check that the site lets you run commands over SSH.",
        )

    async def wait_closed(self) -> None:
        await self._hop.connection.wait_closed()

    def close(self) -> None:
        for connection in (self._hop.connection, *self._below):
            with contextlib.suppress(OSError):
                connection.abort()


#: ssh lets two megabytes be on their way to it, so much further away it would be the slower one
#: (asyncssh: carrier.WINDOW_BYTES).
_MAX_ALONE_ROUND_TRIP_SECONDS = 0.01


def _is_near(hop: Hop, ring: KeyRing) -> bool:
    place = hop.settings.host, hop.settings.port
    return ring.round_trips.get(place, float("inf")) <= _MAX_ALONE_ROUND_TRIP_SECONDS


class SshLogin(SshConnection):
    """The login host, reached by asyncssh."""

    kind = "ssh"

    def __init__(self, name: str, hops: Sequence[Hop], ring: KeyRing) -> None:
        super().__init__(name, hops[-1], [hop.connection for hop in reversed(hops[:-1])])
        self.needs_person = any(hop.needed_person for hop in hops)
        self.keys_alone = len(hops) == 1 and hops[0].keys_alone and _is_near(hops[0], ring)
        self._ring = ring
        self._prompt: asyncio.Future[None] | None = None

    async def wait_silent(self, seconds: float) -> None:
        connection = self._hop.connection
        connection.set_keepalive(seconds / (_MAX_QUESTIONS + 1), _MAX_QUESTIONS)
        try:
            await connection.wait_closed()
        finally:
            if not self.closed:
                connection.set_keepalive(*self._hop.keepalive)

    async def open_tcp(self, host: str, port: int, *, timeout: float = 15.0) -> BytePipe:
        opening: Any = self._hop.connection.create_connection(
            ChannelTcp, host, port, window=WINDOW_BYTES, max_pktsize=MAX_PACKET_BYTES
        )
        try:
            _, pipe = await within(opening, timeout)
        except (asyncssh.Error, OSError, TimeoutError, asyncio.TimeoutError) as error:
            if getattr(error, "code", None) == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
                raise forwarding_denied(self.host) from error
            raise PipeRefused(
                f"{self.host} opens no TCP connection to {host} port {port}: "
                f"{printable(str(error), 200) or 'no answer'}.",
                "The site may forbid forwarding, or the node may not be reachable.",
            ) from error
        channel: BytePipe = pipe
        return channel

    async def open_node(
        self, node: str, prompter: Prompter, *, timeout: float = 20.0
    ) -> Connection:
        self._have_answers_sent_at_once()
        login = self._hop.settings.target
        hop = await open_second_hop(
            Target(node, login.user, None, login.ssh_config),
            self.user,
            prompter,
            self._ring,
            self.runner,
            timeout,
            through=self._hop,
        )
        return SshConnection(node, hop, ())

    def _have_answers_sent_at_once(self) -> None:
        """Start a command, if none was yet: until then OpenSSH's server leaves Nagle's algorithm
        on, and what it forwards waits up to 40 ms for our kernel's acknowledgement."""
        if not self._started_any:
            self._started_any = True
            self._prompt = asyncio.ensure_future(self._run_nothing())

    async def _run_nothing(self) -> None:
        """Whatever it says, and however it ends, does not matter; only that it does."""
        with contextlib.suppress(HpcError, OSError, TimeoutError, asyncio.TimeoutError):
            process = await self.start("exit 0")
            try:
                process.set_receiver(lambda data: None, lambda outcome: None)
                process.write_eof()
                await within(process.wait_ended(), _MAX_NOTHING_SECONDS)
            finally:
                process.close()
