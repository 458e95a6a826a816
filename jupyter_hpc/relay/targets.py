"""Where a stream may lead on the node: Jupyter's socket, or a service of the same user.

    ""                     Jupyter's unix socket
    "tcp:127.0.0.1:6006"   a TCP service on this node's loopback ("tcp:[::1]:6006" likewise)
    "unix:/path"           a unix socket that belongs to the user

Stdlib only, Python 3.9.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import struct
import time

from jupyter_hpc.relay.frames import FORBIDDEN, UNREACHABLE
from jupyter_hpc.relay.socket_owners import listener_owners

CONNECT_TIMEOUT = 10.0

_TCP = re.compile(r"tcp:(127\.0\.0\.1|localhost|\[::1\]):([0-9]{1,5})")


class TargetRefused(Exception):
    """The target cannot be reached or may not be; `code` goes into the RST frame."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


async def connect_target(target: bytes, jupyter: str) -> socket.socket:
    """A connected, non-blocking socket; TargetRefused says why there is none."""
    text = target.decode("utf-8", "surrogateescape")
    if not text:
        return await _connect(socket.AF_UNIX, jupyter)
    tcp = _TCP.fullmatch(text)
    if tcp is not None:
        return await _connect_tcp(tcp.group(1), int(tcp.group(2)))
    if text.startswith("unix:/") and "\0" not in text:
        return await _connect_unix(text[len("unix:") :])
    raise TargetRefused(FORBIDDEN)


async def _connect_tcp(host: str, port: int) -> socket.socket:
    if not 0 < port < 65536:
        raise TargetRefused(FORBIDDEN)
    if host == "localhost":
        # A service may listen on one of the two only.
        try:
            return await _connect_tcp("127.0.0.1", port)
        except TargetRefused:
            return await _connect_tcp("[::1]", port)
    version6 = host == "[::1]"
    # Loopback is shared by everybody on the node: somebody else's listener is not ours.
    owners = listener_owners(port, version6)
    if owners - {os.geteuid()}:
        raise TargetRefused(FORBIDDEN)
    family = socket.AF_INET6 if version6 else socket.AF_INET
    connected = await _connect(family, (host.strip("[]"), port))
    if not owners and listener_owners(port, version6) - {os.geteuid()}:
        # Somebody has begun to listen between the look and the connect.
        connected.close()
        raise TargetRefused(FORBIDDEN)
    return connected


async def _connect_unix(path: str) -> socket.socket:
    try:
        found = os.stat(path)
    except OSError:
        raise TargetRefused(UNREACHABLE) from None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise TargetRefused(FORBIDDEN)
    connected = await _connect(socket.AF_UNIX, path)
    if peer_uid(connected) not in (None, os.geteuid()):
        # The path was exchanged between the look and the connect.
        connected.close()
        raise TargetRefused(FORBIDDEN)
    return connected


async def _connect(family: int, address: str | tuple[str, int]) -> socket.socket:
    try:
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        # No descriptor is left: many nodes allow no more than 1024.
        raise TargetRefused(UNREACHABLE) from None
    made.setblocking(False)
    deadline = time.monotonic() + CONNECT_TIMEOUT
    try:
        if family != socket.AF_UNIX:
            loop = asyncio.get_event_loop()
            await asyncio.wait_for(loop.sock_connect(made, address), CONNECT_TIMEOUT)
            return made
        while True:
            # By hand: with a full backlog connect() says EAGAIN, which asyncio takes for
            # "in progress" and then for success.
            try:
                made.connect(address)
                return made
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.01)
    except (OSError, asyncio.TimeoutError):
        made.close()
        raise TargetRefused(UNREACHABLE) from None
    except BaseException:
        made.close()
        raise


def peer_uid(connected: socket.socket) -> int | None:
    """Who is at the other end of a unix socket, where the kernel tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return int(struct.unpack("3i", raw)[1])
