"""The TCP connection below SSH: several attempts at once, none of them authenticated.

sock = await dial(host, port, timeout)
await greeted(sock, host, port, timeout)      an SSH server answers there, and nothing else
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from typing import Any

from jupyter_hpc.errors import Unreachable
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

#: A lost SYN is repeated by the system only after 1, 3 and 7 s; a fresh connect() each
#: second finds a network that has come back sooner.
_FRESH_ATTEMPT_SECONDS = 1.0

#: Pause before the next address of the same name gets its chance.
_NEXT_ADDRESS_SECONDS = 0.2

#: Linux 6.15 and later: the longest pause between two retransmissions, in milliseconds.
#: After a cut the old connection goes on within a second instead of half a minute.
_TCP_RTO_MAX_MS = 44
_MAX_RTO_MS = 1000

#: Bytes of a greeting that are looked at; that of an SSH server has 255 at most.
_GREETING_BYTES = 512

#: Between two looks at what has come: first and longest.
_LOOK_SECONDS = (0.002, 0.05)

#: An SSH server may say other lines before its own greeting; it is waited for so long.
_SAID_ELSE_SECONDS = 1.0

#: (family, address) as the socket module takes it.
Address = tuple[int, tuple[Any, ...]]

#: A socket, and the seconds that its connection took: one round trip.
_Connected = tuple[socket.socket, float]

#: Addresses that have answered, by host and port.
Addresses = dict[tuple[str, int], Address]


async def dial(
    host: str,
    port: int,
    timeout: float,
    *,
    family: int = 0,
    fresh: bool = True,
    remembered: Addresses | None = None,
    round_trips: dict[tuple[str, int], float] | None = None,
) -> socket.socket:
    """A connected TCP socket.

    `fresh` begins another attempt every second; without it each address is tried once.
    An address of `remembered` is tried while the name is still being looked up: when a
    network comes back, its name server is often the last to answer. `round_trips` is told the
    seconds of one.

    Raises Unreachable, saying what the network said, after `timeout` seconds at most.
    """
    known = remembered if remembered is not None else {}
    race = _Race(host, port, family, fresh, known.get((host, port)))
    try:
        address, sock, seconds = await within(race.run(), timeout)
    except (TimeoutError, asyncio.TimeoutError):
        raise Unreachable(race.silence(timeout)) from None
    known[host, port] = address
    if round_trips is not None:
        round_trips[host, port] = seconds
    return _tuned(sock)


class _Race:
    """The attempts to reach one host."""

    def __init__(
        self, host: str, port: int, family: int, fresh: bool, remembered: Address | None
    ) -> None:
        self._host = host
        self._port = port
        self._family = family
        self._fresh = fresh
        self._addresses = [remembered] if remembered is not None else []
        self._looked_up = False
        self._attempts: dict[asyncio.Task[_Connected], Address] = {}
        self._refusal: OSError | None = None

    async def run(self) -> tuple[Address, socket.socket, float]:
        looking = asyncio.create_task(self._look_up())
        turn = 0
        try:
            while True:
                if turn < len(self._addresses) or (self._fresh and self._addresses):
                    address = self._addresses[turn % len(self._addresses)]
                    self._attempts[asyncio.create_task(_connect(address))] = address
                    turn += 1
                first = turn < len(self._addresses)
                pause = _NEXT_ADDRESS_SECONDS if first else _FRESH_ATTEMPT_SECONDS
                waiting = {*self._attempts, *([] if self._looked_up else [looking])}
                if waiting:
                    done, _ = await asyncio.wait(
                        waiting, timeout=pause, return_when=asyncio.FIRST_COMPLETED
                    )
                    if looking in done:
                        self._take_names(looking)
                    connected = self._take_attempts(done)
                    if connected is not None:
                        return connected
                if not self._attempts and self._looked_up and turn >= len(self._addresses):
                    raise Unreachable(self._refused())
        finally:
            await self._clean_up(looking)

    async def _look_up(self) -> list[Address]:
        found = await asyncio.get_running_loop().getaddrinfo(
            self._host, self._port, family=self._family, type=socket.SOCK_STREAM
        )
        return [(int(entry[0]), entry[4]) for entry in found]

    def _take_names(self, looking: asyncio.Task[list[Address]]) -> None:
        self._looked_up = True
        if looking.exception() is None:
            new = [address for address in looking.result() if address not in self._addresses]
            self._addresses += new

    def _take_attempts(self, done: set[Any]) -> tuple[Address, socket.socket, float] | None:
        for task in [task for task in self._attempts if task in done]:
            address = self._attempts.pop(task)
            error = task.exception()
            if error is None:
                return address, *task.result()
            if isinstance(error, OSError):
                self._refusal = error
        return None

    def _refused(self) -> str:
        if self._refusal is None:
            return f"{self._host}: the name is not known."
        # asyncio's own text repeats the address instead of saying why.
        number = self._refusal.errno
        why = os.strerror(number) if number else str(self._refusal)
        return f"{self._host} port {self._port}: {why}."

    def silence(self, seconds: float) -> str:
        """What to say when time is up."""
        if not self._addresses:
            return f"{self._host}: the name server does not answer."
        return f"{self._host} port {self._port}: no answer within {seconds:g} s."

    async def _clean_up(self, looking: asyncio.Task[list[Address]]) -> None:
        looking.cancel()
        for task in self._attempts:
            task.cancel()
        await asyncio.gather(looking, *self._attempts, return_exceptions=True)
        for task in self._attempts:
            if not task.cancelled() and task.exception() is None:
                task.result()[0].close()


async def _connect(address: Address) -> _Connected:
    sock = socket.socket(address[0], socket.SOCK_STREAM)
    began = time.monotonic()
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address[1])
    except BaseException:
        sock.close()
        raise
    return sock, time.monotonic() - began


def _tuned(sock: socket.socket) -> socket.socket:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, _MAX_RTO_MS)
    return sock


async def greeted(sock: socket.socket, host: str, port: int, timeout: float) -> None:
    """Wait until the other side greets as an SSH server does; the greeting stays in the socket.

    Raises Unreachable, saying what is there instead. One that is silent is spoken to at the
    end, as ssh would: a web server says then what it is. The socket is of no use after that.
    """
    deadline = time.monotonic() + timeout
    said = await _said(sock, host, port, deadline)
    if not said:
        with contextlib.suppress(OSError):
            sock.send(b"SSH-2.0-jupyter_hpc\r\n")
        said = await _said(sock, host, port, time.monotonic() + _SAID_ELSE_SECONDS)
        if not said or _is_greeting(said):
            raise Unreachable(
                f"{host} port {port}: accepts connections, but does not greet as an SSH server "
                f"does within {timeout:g} s."
            )
    if not _is_greeting(said):
        raise Unreachable(_no_ssh(host, port, said))


def greeting(sock: socket.socket) -> str:
    """What the other side has greeted with (after `greeted`); it stays in the socket."""
    try:
        said = sock.recv(_GREETING_BYTES, socket.MSG_PEEK)
    except OSError:
        return ""
    line = next((line for line in said.split(b"\n") if line.startswith(b"SSH-")), b"")
    return printable(line.decode("ascii", "replace").strip(), 100)


async def _said(sock: socket.socket, host: str, port: int, deadline: float) -> bytes:
    """A greeting, or whatever else was said by the deadline; looked at, not taken.

    Looked at again and again, because not every event loop of Python can wait for a socket
    without reading it.
    """
    pause, longest = _LOOK_SECONDS
    while True:
        try:
            said = sock.recv(_GREETING_BYTES, socket.MSG_PEEK)
            if not said:
                raise ConnectionResetError
        except (BlockingIOError, InterruptedError):
            said = b""
        except OSError:
            raise Unreachable(
                f"{host} port {port}: closed the connection before a word was said."
            ) from None
        if _is_greeting(said) or said.startswith((b"HTTP/", b"<")):
            return said
        if b"\n" in said:
            deadline = min(deadline, time.monotonic() + _SAID_ELSE_SECONDS)
        if time.monotonic() >= deadline:
            return said
        await asyncio.sleep(pause)
        pause = min(longest, pause * 1.5)


def _is_greeting(said: bytes) -> bool:
    return any(line.startswith(b"SSH-") for line in said.split(b"\n"))


#: What OpenSSH says instead of a greeting (9.8 and later), and what it means.
_TURNED_AWAY = {
    "Not allowed at this time": "turns this address away for seconds to minutes, because "
    "connections from it failed to log in, or never tried.",
    "Exceeded MaxStartups": "has as many logins under way as it takes at once.",
}


def _no_ssh(host: str, port: int, said: bytes) -> str:
    line = printable(said.split(b"\n")[0].decode("ascii", "replace").strip(), 100)
    if said.startswith((b"HTTP/", b"<")):
        return (
            f"{host} port {port}: a web server answers, not an SSH server ({line}). It may be a "
            "login page of the network: open any page in a browser and see."
        )
    for words, meaning in _TURNED_AWAY.items():
        if words in line:
            return f"{host} port {port}: {meaning} It says: {line}"
    return f"{host} port {port}: answers, but not as an SSH server does. It says: {line}"
