"""Who listens on a local port, and who is connected to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from jupyter_hpc.relay.socket_owners import connection_owner

_log = logging.getLogger(__name__)

#: Connections at one time of which it is not known yet whose they are.
MAX_LOOKING = 64

#: "gone": whoever it was has closed the connection, and nobody knows any more.
Owner = Literal["me", "other", "gone", "unknown"]


def listener(port: int) -> str:
    """'python3 (process 4711)' for whoever listens on a local port, or '' if unknown."""
    import psutil  # here and below: needed rarely, and slow to import

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return ""
    for connection in connections:
        local: Any = connection.laddr
        if connection.status == psutil.CONN_LISTEN and local and local.port == port:
            if connection.pid is None:
                return "a program of another user"
            try:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
            except psutil.Error:
                return f"process {connection.pid}"
    return ""


class Peers:
    """Who is at the other end of accepted loopback connections; one for each proxy.

    Everybody on this computer can connect to its ports. Linux tells at once whose a connection is;
    macOS and Windows after a look at processes, which begins with those that connected before.
    """

    def __init__(self) -> None:
        self._likely: deque[int] = deque(maxlen=8)  # processes of mine, the last one first
        self._looking: set[asyncio.Future[None]] = set()

    def check(self, transport: asyncio.Transport, then: Callable[[bool], None]) -> None:
        """Call then(foreign): in this moment, or as soon as it is found out, unless the connection
        closes before. Meanwhile as little as possible is read.

        foreign: another user is, or may have been, at the other end. Who sends something and
        closes at once is nobody's when we come to look.
        """
        if sys.platform.startswith("linux"):
            then(is_foreign(transport.get_extra_info("socket")))
            return
        if len(self._looking) >= MAX_LOOKING:
            transport.abort()
            return
        transport.pause_reading()
        looking = asyncio.ensure_future(self._look(transport, then))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)

    async def _look(self, transport: asyncio.Transport, then: Callable[[bool], None]) -> None:
        owner = await self.owner(transport)
        if not transport.is_closing():
            transport.resume_reading()
            then(owner in ("other", "gone"))

    async def owner(self, transport: asyncio.BaseTransport) -> Owner:
        """Whose it is; in a thread, for where that takes a look at all processes."""
        peer, local = (transport.get_extra_info(end) for end in ("peername", "sockname"))
        if peer is None or local is None:
            return "unknown"
        return await asyncio.to_thread(peer_owner, peer, local, self._likely)


def peer_owner(peer: Any, local: Any, likely: deque[int] | None = None) -> Owner:
    """Whose the other end of an accepted loopback connection is; only "me" gets the session's
    secret. `likely` are processes to look at first, where we have to look at all."""
    if sys.platform.startswith("linux"):
        return _owner_on_linux(peer, local)
    try:
        if sys.platform == "win32":
            return owner_in_system_table(tuple(peer[:2]), tuple(local[:2]))
        return owner_among_processes(tuple(peer[:2]), tuple(local[:2]), likely)
    except Exception as error:  # psutil's, which is imported only where it is needed
        _log.warning("whose a connection is could not be found out: %s", error)
        return "unknown"


def is_foreign(connected: socket.socket) -> bool:
    """Whether another user of this Linux is, or may have been, at the other end: the socket that a
    closed connection leaves behind belongs to root, or there is none."""
    try:
        owner = _owner_on_linux(connected.getpeername(), connected.getsockname())
        connected.getpeername()  # not known any more after a reset
    except OSError:
        return True
    return owner in ("other", "gone")


def _owner_on_linux(peer: Any, local: Any) -> Owner:
    """Root counts as me: it can do everything anyway, and it is what a Windows browser looks
    like from inside WSL. A socket without an inode is what a closed one leaves behind."""
    found = connection_owner(peer[:2], local[:2])
    if found is None or sys.platform == "win32":
        return "unknown"
    if not found.inode:
        return "gone"
    return "me" if found.uid in (0, os.geteuid()) else "other"


def owner_among_processes(peer: Any, local: Any, likely: deque[int] | None = None) -> Owner:
    """macOS shows the connections of our own processes, and only those: what none of them has is
    another's. Unless not even our own end is shown, which proves that nothing is."""
    import psutil

    if not _has(psutil.Process(), local, peer):
        return "unknown"
    name = psutil.Process().username()
    for pid in tuple(likely or ()):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)  # the number may be another's by now
            if process.username() == name and _has(process, peer, local):
                return "me"
    for process in psutil.process_iter(["username"]):
        if process.info["username"] == name and _has(process, peer, local):
            if likely is not None:
                likely.appendleft(process.pid)
            return "me"
    return "other"


def _has(process: Any, own: Any, other: Any) -> bool:
    """Whether a process has the connection with these ends, as far as we may know."""
    import psutil

    try:
        connections = process.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return False
    return any((one.laddr, one.raddr) == (own, other) for one in connections)


def owner_in_system_table(peer: Any, local: Any) -> Owner:
    """Windows names the process of each connection to everybody, but tells whose a process is only
    to its user: who may not be looked at is another, or runs as administrator."""
    import psutil

    ends = {(one.laddr, one.raddr): one.pid for one in psutil.net_connections(kind="tcp")}
    if (local, peer) not in ends:
        return "unknown"  # not even our own end is shown
    pid = ends.get((peer, local))
    if not pid:
        return "gone"
    try:
        mine = psutil.Process(pid).username() == psutil.Process().username()
    except psutil.NoSuchProcess:
        return "gone"
    except psutil.AccessDenied:
        return "other"
    return "me" if mine else "other"
