"""Whose a TCP socket of this machine is, as far as Linux tells; stdlib only, Python 3.9.

Used at both ends: on the node before a stream leads to a port of loopback, which everybody there
shares, and on the laptop for whoever connects to a port of ours. The kernel is asked for the one
socket (sock_diag(7)), in a fiftieth of a millisecond; where it does not answer, the tables of all
sockets are read, which takes milliseconds on a busy machine.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

# Of linux/netlink.h and linux/sock_diag.h; the socket module does not name all of them.
_NETLINK, _SOCK_DIAG = 16, 4
_BY_FAMILY, _REQUEST = 20, 1
#: Where an answer has the state of the socket (inet_diag_msg, after the 16 bytes of its header),
#: and where its owner, which its inode follows.
_STATE_OFFSET, _UID_OFFSET = 16 + 1, 16 + 64

_LISTENING = 10


class SocketOwner(NamedTuple):
    """`inode` is 0 for what a closed socket leaves behind: that belongs to nobody, or root."""

    uid: int
    inode: int


def connection_owner(own: tuple[str, int], other: tuple[str, int]) -> SocketOwner | None:
    """Whose the connected socket is that has the address `own` and leads to `other`; None if it is
    not known."""
    found = asked_kernel(own, other, listening=False)
    return connection_in_tables(own, other) if found is None else found


def listener_owners(port: int, version6: bool) -> set[int]:
    """The user ids that get what is sent to that port of loopback; empty if it is nobody, or not
    known."""
    own, anybody = ("::1", "::") if version6 else ("127.0.0.1", "0.0.0.0")  # noqa: S104 - a question
    found = asked_kernel((own, port), (anybody, 0), listening=True)
    return listeners_in_tables(port, version6) if found is None else {found.uid}


def asked_kernel(
    own: tuple[str, int], other: tuple[str, int], *, listening: bool
) -> SocketOwner | None:
    """The kernel's answer for one socket; None if it has none.

    It looks the socket up as it does for a packet: of several listeners it names the one that would
    get a connection.
    """
    try:
        with socket.socket(_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(0.2)
            kernel.send(_request(own, other))
            answer = kernel.recv(4096)
        if struct.unpack_from("=IH", answer)[1] != _BY_FAMILY:
            return None
        if (answer[_STATE_OFFSET] == _LISTENING) is not listening:
            return None
        return SocketOwner(*struct.unpack_from("=II", answer, _UID_OFFSET))
    except (OSError, ValueError, IndexError, struct.error):
        return None


def _request(own: tuple[str, int], other: tuple[str, int]) -> bytes:
    family = socket.AF_INET6 if ":" in own[0] else socket.AF_INET
    ends = [socket.inet_pton(family, end[0]).ljust(16, b"\0") for end in (own, other)]
    any_interface, any_cookie, any_state = bytes(4), b"\xff" * 8, 0xFFFFFFFF
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, any_state)
    body += struct.pack("!HH", own[1], other[1]) + ends[0] + ends[1] + any_interface + any_cookie
    return struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body


# -- where the kernel is not asked ------------------------------------------------------------


def connection_in_tables(own: tuple[str, int], other: tuple[str, int]) -> SocketOwner | None:
    """Looks through all sockets of this machine for the one with these ends."""
    wanted = [f"{_table_name(end[0])}:{end[1]:04X}" for end in (own, other)]
    for row in _rows("/proc/net/tcp6" if ":" in own[0] else "/proc/net/tcp"):
        if row[1:3] == wanted:
            return SocketOwner(int(row[7]), int(row[9]))
    return None


def listeners_in_tables(port: int, version6: bool) -> set[int]:
    """Looks through all sockets for those that listen on that port of loopback or of all
    addresses."""
    owners = set()
    for table in ("/proc/net/tcp6",) if version6 else ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in _rows(table):
            address, _, local_port = row[1].rpartition(":")
            listens = int(row[3], 16) == _LISTENING and int(local_port, 16) == port
            if listens and _takes_loopback(address, version6):
                owners.add(int(row[7]))
    return owners


def _rows(table: str) -> Iterator[list[str]]:
    """The words of each line, as far as the table can be read."""
    try:
        with open(table, encoding="ascii") as lines:
            for row in [line.split() for line in lines][1:]:
                if len(row) > 9:
                    yield row
    except (OSError, UnicodeDecodeError):
        return


def _takes_loopback(address: str, version6: bool) -> bool:
    """Whether a listener's address, as the tables show it, is loopback or any address."""
    if not address.strip("0"):
        return True
    if version6:
        return address == _table_name("::1")
    return address[-8:] == _table_name("127.0.0.1")


def _table_name(address: str) -> str:
    """An address as the kernel prints it: words of four bytes, each a number of this machine."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words)
