"""Who listens on a local port, and who is connected to it."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Any, Literal

#: "gone": whoever it was has closed the connection, and nobody knows any more.
Owner = Literal["me", "other", "gone", "unknown"]

# Of linux/netlink.h and linux/sock_diag.h; the socket module does not name all of them.
_NETLINK, _SOCK_DIAG = 16, 4
_BY_FAMILY, _REQUEST = 20, 1
#: Where an inet_diag_msg, after the 16 bytes of its header, has the owner; its inode follows.
_UID_OFFSET = 16 + 64


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


def peer_owner(peer: Any, local: Any) -> Owner:
    """Whose the other end of an accepted loopback connection is.

    Everybody on this computer can connect to the port; only "me" gets the session's secret.
    """
    if sys.platform.startswith("linux"):
        quick = _owner_by_kernel(peer, local)
        return owner_in_proc(peer, local) if quick == "unknown" else quick
    return owner_among_processes(peer, local)


def is_foreign(connected: socket.socket) -> bool:
    """Whether another user of this computer is, or may have been, at the other end of an
    accepted loopback connection, where that is quickly found out.

    Who sends something and closes at once is nobody's when we come to look: the socket that is
    left belongs to root, or there is none.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        owner = _owner_by_kernel(connected.getpeername(), connected.getsockname())
        connected.getpeername()  # not known any more after a reset
    except OSError:
        return True
    return owner in ("other", "gone")


def _owner_by_kernel(peer: Any, local: Any) -> Owner:
    """Asks Linux about this one socket (sock_diag(7)), in a twentieth of a millisecond."""
    try:
        with socket.socket(_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(0.2)
            kernel.send(_diag_request(peer, local))
            answer = kernel.recv(4096)
        if struct.unpack_from("=IH", answer)[1] != _BY_FAMILY:
            return "unknown"
        return _whose(*struct.unpack_from("=II", answer, _UID_OFFSET))
    except (OSError, ValueError, struct.error):
        return "unknown"


def _diag_request(peer: Any, local: Any) -> bytes:
    """The socket whose own address is `peer` and whose other end is `local`."""
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    ends = [socket.inet_pton(family, end[0]).ljust(16, b"\0") for end in (peer, local)]
    any_interface, any_cookie, any_state = bytes(4), b"\xff" * 8, 0xFFFFFFFF
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, any_state)
    body += struct.pack("!HH", peer[1], local[1]) + ends[0] + ends[1] + any_interface + any_cookie
    return struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body


def _whose(uid: int, inode: int) -> Owner:
    """Root counts as me: it can do everything anyway, and it is what a Windows browser looks
    like from inside WSL. A socket without an inode is what a closed one leaves behind."""
    if sys.platform == "win32":
        return "unknown"
    if not inode:
        return "gone"
    return "me" if uid in (0, os.geteuid()) else "other"


def owner_in_proc(peer: Any, local: Any) -> Owner:
    """Looks through all sockets of this computer, where the kernel does not answer."""
    try:
        table = "/proc/net/tcp6" if ":" in peer[0] else "/proc/net/tcp"
        wanted = [_proc_name(peer), _proc_name(local)]
        with open(table, encoding="ascii") as rows:
            for row in rows:
                fields = row.split()
                if fields[1:3] == wanted:
                    return _whose(int(fields[7]), int(fields[9]))
    except (OSError, ValueError, IndexError):
        pass
    return "unknown"


def owner_among_processes(peer: Any, local: Any) -> Owner:
    """Elsewhere the connections of our own processes can be seen, and only those."""
    import psutil

    name = psutil.Process().username()
    for process in psutil.process_iter(["username"]):
        if process.info["username"] != name:
            continue
        try:
            connections = process.net_connections(kind="tcp")
        except (psutil.Error, OSError):
            continue
        for one in connections:
            if one.laddr == tuple(peer[:2]) and one.raddr == tuple(local[:2]):
                return "me"
    return "unknown"


def _proc_name(address: Any) -> str:
    """An address and port as /proc/net/tcp writes them: words in this machine's order."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    packed = socket.inet_pton(family, address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
