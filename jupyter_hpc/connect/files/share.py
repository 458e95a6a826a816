"""A command over a session's connection, for another program of this user on the same laptop.

The manager of a session starts it and offers its stdin and stdout once, on a loopback port, to
whoever knows the secret that the answer to the request holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from typing import Any

from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
from jupyter_hpc.connect.ssh.receiving import HIGH_WATER_BYTES, LOW_WATER_BYTES, Receiving
from jupyter_hpc.errors import Unreachable
from jupyter_hpc.waiting import within

#: Whoever asked comes at once, or not at all.
_COME_SECONDS = 20.0

_SECRET_CHARACTERS = 64

_READ_BYTES = 1 << 18


class Shared:
    """The streams of one process, for one visitor."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process
        self._secret = secrets.token_hex(_SECRET_CHARACTERS // 2)
        self._server: asyncio.Server | None = None
        self._taken = False
        self._room = asyncio.Event()
        self._room.set()

    async def offer(self) -> dict[str, Any]:
        """Where it is to be had: {"port": …, "secret": …}."""
        self._server = await asyncio.start_server(self._visited, "127.0.0.1", 0, limit=_READ_BYTES)
        asyncio.get_running_loop().call_later(_COME_SECONDS, self._nobody_came)
        port = self._server.sockets[0].getsockname()[1]
        return {"port": port, "secret": self._secret}

    def _nobody_came(self) -> None:
        if not self._taken:
            self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._process.close()

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        welcome = False
        try:
            given = await within(reader.readexactly(_SECRET_CHARACTERS), _COME_SECONDS)
            if self._taken or not hmac.compare_digest(given, self._secret.encode()):
                return
            self._taken = welcome = True
            if self._server is not None:
                self._server.close()
            await self._carry(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.TimeoutError):
            pass
        finally:
            writer.close()
            if welcome:
                self._process.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        process = self._process
        back = _Back(process, writer)
        process.set_receiver(back.on_data, back.on_closed, self._room.set)
        while data := await reader.read(_READ_BYTES):
            process.write(data)
            if process.queued() > HIGH_WATER_BYTES:
                self._room.clear()
                await self._room.wait()
        process.write_eof()


class _Back:
    """What the process says goes to the visitor, as fast as that one reads."""

    def __init__(self, process: RemoteProcess, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._writer = writer
        self._waiting: asyncio.Task[None] | None = None

    def on_data(self, data: bytes) -> None:
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() > HIGH_WATER_BYTES and (
            self._waiting is None or self._waiting.done()
        ):
            self._process.pause_reading()
            self._waiting = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()
        self._process.resume_reading()

    def on_closed(self, error: Exception | None) -> None:
        self._writer.close()


class SharedProcess(Receiving, asyncio.Protocol):
    """The visitor's side of it; how the process ended is not known here."""

    def __init__(self) -> None:
        super().__init__()
        self._transport: asyncio.Transport | None = None

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.ended:
            self._transport.write(data)

    def write_eof(self) -> None:
        if self._transport is not None and not self.ended:
            self._transport.write_eof()

    def queued(self) -> int:
        if self._transport is None or self.ended:
            return 0
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        if self._transport is not None and not self.ended:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self.ended:
            self._transport.resume_reading()

    def terminate(self) -> None:
        self.close()

    def close(self) -> None:
        self.hang_up()
        if self._transport is not None:
            self._transport.abort()

    # Called by asyncio.

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.deliver(data)

    def resume_writing(self) -> None:
        self.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(exc)


async def visit(offered: dict[str, Any]) -> SharedProcess:
    """The process that a manager has offered. Raises Unreachable."""
    loop = asyncio.get_running_loop()
    try:
        _, process = await loop.create_connection(SharedProcess, "127.0.0.1", int(offered["port"]))
    except OSError as error:
        raise Unreachable("The session is gone.", "Try again.") from error
    process.write(str(offered["secret"]).encode())
    return process
