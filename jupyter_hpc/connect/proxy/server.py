"""The local port: answers from second 0, and is JupyterLab as soon as it can be.

    proxy = LocalProxy(port, status, actions, secret)   port 0: one is chosen, see proxy.port
    await proxy.start()              PortTaken if something else listens there
    proxy.connect(upstream)          Jupyter answers: requests go to it (see upstream.py)
    proxy.disconnect()               it does not any more: the status page again
    proxy.browsers                   connections to Jupyter that are open now
    port = await proxy.add_forward(port, "tcp:127.0.0.1:6006")    also "unix:/path"
    await proxy.remove_forward(port)
    await proxy.close()

`status() -> dict` is what the page and `status` show (session/status.py); `actions` is a table
of `async (parameters: dict) -> dict`, for POST /_jupyter-hpc/actions/NAME with the header
X-Jupyter-Hpc-Secret. The page offers the actions "start", "login" and "stop" where they fit.
An HpcError of an action becomes 409 with its message and hint.

The port is bound to 127.0.0.1, and to ::1 where there is one. No unix sockets, no signals, no
processes: it runs on Linux, macOS and Windows.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property

from jupyter_hpc.connect.proxy.connection import BrowserConnection
from jupyter_hpc.connect.proxy.control import Action, Control, Status
from jupyter_hpc.connect.proxy.forward import ForwardConnection
from jupyter_hpc.connect.proxy.peer import Peers, listener
from jupyter_hpc.connect.proxy.tabs import Tabs
from jupyter_hpc.connect.proxy.upstream import Upstream
from jupyter_hpc.errors import PortTaken, UsageError
from jupyter_hpc.relay.bridge import read_buffer

_log = logging.getLogger(__name__)

#: At one time, on all ports of the session; a browser with many tabs stays far below.
MAX_CONNECTIONS = 800

#: A port that stays crowded is not spoken of again within so long.
_CROWD_SECONDS = 60.0

#: Files that a session has open or may need: connections that are made, processes, records.
_OWN_FILES = 96

#: Connections that wait to be accepted, and those that asyncio takes in one turn. Four turns
#: pass until one that is too many is closed, and there are two addresses: all of these have to
#: fit into _OWN_FILES.
_MAX_WAITING = 128
_ACCEPTED_AT_ONCE = 8

#: Errors of bind() that mean "there is no such address here", not "it is taken".
_NO_ADDRESS = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


class LocalProxy:
    """The local reverse proxy of one session: the address in the user's bookmark.

    Listens while the session lives, and outlives jobs, links and pipes: requests go to whatever
    upstream is connected, or else are answered with the status page.
    """

    def __init__(
        self,
        port: int,
        status: Status,
        actions: Callable[[], Mapping[str, Action]],
        secret: str,
        on_crowd: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.port = port
        self._own = (status, actions, secret)
        self.polls_held = 0
        self._max_connections = max_connections()
        self._on_crowd = on_crowd
        self._crowded_at = float("-inf")
        self._upstream: Upstream | None = None
        self._connections: set[asyncio.BaseProtocol] = set()
        self._servers: dict[int, list[asyncio.Server]] = {}
        self._targets: dict[int, str] = {}

    # What nobody needs before somebody connects.

    @cached_property
    def control(self) -> Control:
        """Answers what is asked of the proxy itself."""
        status, actions, secret = self._own
        return Control(status, actions(), secret, self.tabs)

    @cached_property
    def tabs(self) -> Tabs:
        """What the open tabs have heard of the session."""
        return Tabs()

    @cached_property
    def peers(self) -> Peers:
        """Who is at the other end of connections."""
        return Peers()

    @cached_property
    def buffer(self) -> memoryview:
        """What all connections read into."""
        return read_buffer()

    # -- state --------------------------------------------------------------------------

    @property
    def upstream(self) -> Upstream | None:
        """What leads to Jupyter, if requests may go there."""
        return self._upstream

    @property
    def browsers(self) -> int:
        """How many connections to Jupyter are open."""
        return sum(
            1 for one in self._connections if isinstance(one, BrowserConnection) and one.to_jupyter
        )

    def connect(self, upstream: Upstream) -> None:
        """From now on requests go to Jupyter, through `upstream`."""
        self._upstream = upstream

    def disconnect(self) -> None:
        """From now on requests get the status page, or 503."""
        self._upstream = None

    async def last_word(self, text: str) -> None:
        """Wait for the open tabs to hear how the session has ended, for a moment at most."""
        if not await self.tabs.all_know(text):
            _log.info("not every open tab has heard how the session ended")

    # -- listening ----------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on the session's port."""
        self.port = await self._listen(self.port, lambda port: BrowserConnection(self, port))

    async def add_forward(self, local_port: int, target: str) -> int:
        """Lead a local port (0: any) to a service of the user on the node.

        Asked for again, it is there already. Raises PortTaken and UsageError.
        """
        if not target.startswith(("tcp:", "unix:/")):
            raise UsageError(
                f"{target!r} is not a target.", "Use tcp:127.0.0.1:PORT or unix:/PATH."
            )
        if local_port in self._servers:
            if self._targets.get(local_port) == target:
                return local_port
            # Not by its process: the advice would be to end this very session.
            raise PortTaken(
                f"This session uses port {local_port} of this computer already.",
                "Choose another port with --port.",
            )
        port = await self._listen(local_port, lambda port: ForwardConnection(self, port, target))
        self._targets[port] = target
        _log.info("port %d leads to %s", port, target)
        return port

    @property
    def forwards(self) -> dict[int, str]:
        """Where each forwarded port leads."""
        return dict(self._targets)

    async def remove_forward(self, local_port: int) -> None:
        """Stop listening on a forwarded port, and close what is open through it."""
        if local_port != self.port:
            self._targets.pop(local_port, None)
            for server in self._servers.pop(local_port, []):
                server.close()
            for one in list(self._connections):
                if isinstance(one, ForwardConnection) and one.port == local_port:
                    one.close()

    async def close(self) -> None:
        """Stop listening and close what is open."""
        for servers in self._servers.values():
            for server in servers:
                server.close()
        self._servers.clear()
        self._upstream = None
        # Whoever asked the session to end still gets the answer.
        for _ in range(50):
            if not any(getattr(one, "answering", False) for one in self._connections):
                break
            await asyncio.sleep(0.02)
        for connection in list(self._connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.close()
        # One turn of the loop, in which the transports really close.
        await asyncio.sleep(0)

    async def _listen(self, port: int, protocol: Callable[[int], asyncio.BaseProtocol]) -> int:
        loop = asyncio.get_running_loop()
        sockets = bind_local(port)
        number: int = sockets[0].getsockname()[1]
        self._servers[number] = [
            await loop.create_server(lambda: protocol(number), sock=one, backlog=_ACCEPTED_AT_ONCE)
            for one in sockets
        ]
        for one in sockets:
            one.listen(_MAX_WAITING)  # asyncio has set it to the other number
        return number

    # -- for the connections ------------------------------------------------------------

    def joined(self, connection: asyncio.BaseProtocol) -> bool:
        if len(self._connections) >= self._max_connections:
            self._tell_crowd()
            return False
        self._connections.add(connection)
        return True

    def _tell_crowd(self) -> None:
        """More connections than we can have: those that are open go on."""
        before, self._crowded_at = self._crowded_at, time.monotonic()
        if self._crowded_at - before > _CROWD_SECONDS:
            self._on_crowd(
                f"{self._max_connections} connections to the local port are open, as many as this "
                "process may have; further ones are refused until some close."
            )

    def left(self, connection: asyncio.BaseProtocol) -> None:
        self._connections.discard(connection)


def max_connections() -> int:
    """As many as leave this process files for the session: its login, its records, its log."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(16, min(MAX_CONNECTIONS, allowed - _OWN_FILES))


def bind_local(port: int) -> list[socket.socket]:
    """Sockets on 127.0.0.1 and, where there is one, ::1, with the same port (0: any)."""
    for _ in range(20):
        first = _bind(socket.AF_INET, "127.0.0.1", port)
        number = first.getsockname()[1]
        try:
            return [first, _bind(socket.AF_INET6, "::1", number)]
        except PortTaken:
            # "localhost" may mean either address, so half of a port is not ours.
            first.close()
            if port:
                raise
        except OSError as error:
            if error.errno in _NO_ADDRESS:
                return [first]
            first.close()
            raise
    raise PortTaken("No free local port was found.", "Name one with --port.")


def _bind(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            # Without it, another program could take connections of our port.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        # Here and not later: two sockets may be bound to one port, but not listen on it.
        made.listen(_MAX_WAITING)
        made.setblocking(False)
        return made
    except OSError as error:
        made.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise _taken(port, error) from error
        raise


def _taken(port: int, error: OSError) -> PortTaken:
    if error.errno == errno.EACCES:
        return PortTaken(
            f"Port {port} may not be used by programs of users.", "Choose one above 1023."
        )
    who = listener(port) or "another program"
    return PortTaken(
        f"Port {port} on this computer is taken by {who}.",
        "End that program, or choose another port with --port.",
    )
