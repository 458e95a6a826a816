"""The TCP connection below SSH: several attempts at once, none of them authenticated."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from typing import Any

from jupyter_hpc.errors import Unreachable
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

#: (family, address) as the socket module takes it.
Address = tuple[int, tuple[Any, ...]]

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
) -> socket.socket:
    """A connected TCP socket.

    `fresh` begins another attempt every second; without it each address is tried once.
    An address of `remembered` is tried while the name is still being looked up: when a
    network comes back, its name server is often the last to answer.

    Raises Unreachable, saying what the network said, after `timeout` seconds at most.
    """
    known = remembered if remembered is not None else {}
    race = _Race(host, port, family, fresh, known.get((host, port)))
    try:
        address, sock = await within(race.run(), timeout)
    except (TimeoutError, asyncio.TimeoutError):
        raise Unreachable(race.silence(timeout)) from None
    known[host, port] = address
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
        self._attempts: dict[asyncio.Task[socket.socket], Address] = {}
        self._refusal: OSError | None = None

    async def run(self) -> tuple[Address, socket.socket]:
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

    def _take_attempts(self, done: set[Any]) -> tuple[Address, socket.socket] | None:
        for task in [task for task in self._attempts if task in done]:
            address = self._attempts.pop(task)
            error = task.exception()
            if error is None:
                return address, task.result()
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
                task.result().close()


async def _connect(address: Address) -> socket.socket:
    sock = socket.socket(address[0], socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address[1])
    except BaseException:
        sock.close()
        raise
    return sock


def _tuned(sock: socket.socket) -> socket.socket:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, _MAX_RTO_MS)
    return sock
