"""The login host and the nodes as SSH servers of this process.

Only the login host has a port, on loopback. A node has none: a connection to it
exists only as a forwarded channel of the login host (or an `ssh` on one of the
hosts), whose bytes go to a server at the other end of a socket pair.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import asyncssh

from jupyter_hpc.demo.layout import Layout
from jupyter_hpc.demo.spawner import Spawner
from jupyter_hpc.demo.ssh_files import LOGIN, load_or_make_key
from jupyter_hpc.demo.ssh_session import HostSession

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SSH_PORT = 22


@dataclass(frozen=True)
class Credentials:
    """What the login host asks for in the mode with password and code."""

    password: str
    code: str


@dataclass
class SshHosts:
    """All hosts of the cluster, and the way to each of them."""

    layout: Layout
    spawner: Spawner
    nodes: Sequence[str]
    environment: Callable[[str], dict[str, str]]
    credentials: Credentials | None
    _tasks: set[object] = field(default_factory=set)
    _connections: set[asyncssh.SSHServerConnection] = field(default_factory=set)
    _listener: asyncssh.SSHAcceptor | None = None

    async def start(self) -> int:
        """Listen as the login host; its port on loopback."""
        self._user_key = load_or_make_key(self.layout, "user").convert_to_public()
        self._keys = {h: load_or_make_key(self.layout, h) for h in (LOGIN, *self.nodes)}
        self._listener = await asyncssh.listen("127.0.0.1", 0, **self._options(LOGIN))
        return self._listener.get_port()

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            if isinstance(task, asyncio.Task):
                task.cancel()
        await asyncio.gather(
            *(t for t in self._tasks if isinstance(t, asyncio.Task)), return_exceptions=True
        )

    def _options(self, host: str) -> dict[str, object]:
        return {
            "server_factory": lambda: HostServer(self, host),
            "server_host_keys": [self._keys[host]],
            "encoding": None,
            "line_editor": False,
            "agent_forwarding": False,
            "server_version": "jupyter_hpc_demo",
        }

    def knows(self, host: str) -> bool:
        return host == LOGIN or host in self.nodes

    def serve(self, host: str, sock: socket.socket) -> None:
        """Be `host` to the SSH client at the other end of `sock`."""

        async def run() -> None:
            with contextlib.suppress(asyncssh.Error, OSError, asyncio.TimeoutError):
                await asyncssh.run_server(sock, **self._options(host))

        sock.setblocking(False)
        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def session(self, host: str, connection: asyncssh.SSHServerConnection) -> HostSession:
        peer = connection.get_extra_info("peername") or ("127.0.0.1", 0)
        address, port = (peer[0], peer[1]) if isinstance(peer, tuple) else ("127.0.0.1", 0)
        environment = self.environment(host)
        environment["SSH_CONNECTION"] = f"{address} {port} 127.0.0.1 {SSH_PORT}"
        environment["SSH_CLIENT"] = f"{address} {port} {SSH_PORT}"
        return HostSession(self.layout, environment, self.spawner, self._tasks)

    def accepts_key(self, key: asyncssh.SSHKey) -> bool:
        return key.public_data == self._user_key.public_data

    def opened(self, connection: asyncssh.SSHServerConnection) -> None:
        self._connections.add(connection)

    def closed(self, connection: asyncssh.SSHServerConnection) -> None:
        self._connections.discard(connection)


class HostServer(asyncssh.SSHServer):
    """One connection to one host: who may come in, and where they may go on to."""

    def __init__(self, hosts: SshHosts, host: str) -> None:
        self._hosts = hosts
        self._host = host
        self._asks = hosts.credentials if host == LOGIN else None
        self._password_ok = False

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._hosts.opened(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hosts.closed(self._connection)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return self._asks is None

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self._hosts.layout.user and self._hosts.accepts_key(key)

    def kbdint_auth_supported(self) -> bool:
        return self._asks is not None

    def get_kbdint_challenge(
        self, username: str, lang: str, submethods: str
    ) -> tuple[str, str, str, list[tuple[str, bool]]]:
        return "", "Demo cluster of jupyter-hpc", "", [("Password: ", False)]

    def validate_kbdint_response(
        self, username: str, responses: Sequence[str]
    ) -> bool | tuple[str, str, str, list[tuple[str, bool]]]:
        """Password first, then the code in a second round, as PAM asks for them."""
        asks = self._asks
        if asks is None or len(responses) != 1:
            return False
        answer = responses[0].strip().encode()
        if not self._password_ok:
            self._password_ok = hmac.compare_digest(answer, asks.password.encode())
            # The code is asked for in any case: the answer tells nothing about the password.
            self._password_wrong = not self._password_ok
            self._password_ok = True
            return "", "", "", [("Verification code: ", False)]
        self._password_ok = False
        right = hmac.compare_digest(answer, asks.code.encode())
        return right and not self._password_wrong and username == self._hosts.layout.user

    def session_requested(self) -> HostSession:
        return self._hosts.session(self._host, self._connection)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[asyncssh.SSHTCPSession[bytes]]:
        if self._hosts.knows(dest_host) and dest_port == SSH_PORT:
            return self._to_host(dest_host)
        if dest_host in LOOPBACK or self._hosts.knows(dest_host):
            # The hosts share this machine's loopback, so a port "on a node" is here.
            return self._to_port(dest_port)
        raise asyncssh.ChannelOpenError(
            asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
            f"The demo cluster has no network: {dest_host} port {dest_port} cannot be reached",
        )

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True

    async def _to_host(self, host: str) -> asyncssh.SSHTCPSession[bytes]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._hosts.serve(host, theirs)
        bridge = SocketBridge()
        await asyncio.get_running_loop().create_connection(lambda: SocketEnd(bridge), sock=ours)
        return bridge

    async def _to_port(self, port: int) -> asyncssh.SSHTCPSession[bytes]:
        bridge = SocketBridge()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: SocketEnd(bridge), "127.0.0.1", port)
        except OSError as error:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, str(error)) from error
        return bridge


class SocketBridge(asyncssh.SSHTCPSession[bytes]):
    """A forwarded channel, joined to a socket of this process."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None

    def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
        self.channel: asyncssh.SSHTCPChannel[bytes] | None = chan

    def session_started(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def eof_received(self) -> bool:
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.channel = None
        if self.transport is not None:
            self.transport.close()

    def pause_writing(self) -> None:
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()


class SocketEnd(asyncio.Protocol):
    """The socket's side of a SocketBridge."""

    def __init__(self, bridge: SocketBridge) -> None:
        self._bridge = bridge

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._bridge.transport = transport
        # Nothing may be read before the channel exists; session_started resumes.
        transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self._bridge.channel is not None:
            self._bridge.channel.write(data)

    def eof_received(self) -> bool:
        if self._bridge.channel is not None:
            self._bridge.channel.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._bridge.transport = None
        if self._bridge.channel is not None:
            self._bridge.channel.close()

    def pause_writing(self) -> None:
        if self._bridge.channel is not None:
            self._bridge.channel.pause_reading()

    def resume_writing(self) -> None:
        if self._bridge.channel is not None:
            self._bridge.channel.resume_reading()
