"""A network that misbehaves: a TCP proxy before a login host, whose faults the tests choose.

    with FaultProxy(host, port) as network:
        network.port                    where the laptop dials
        network.mode = "stall"          accepts, and nothing goes through; "pass" again: it goes on
        network.mode = "portal"         a web server answers every new connection
        network.mode = "coy-portal"     the same, once it has been spoken to
        network.delay, network.rate     seconds each way; bytes a second
        network.reset()                 every connection is reset
        network.forget()                what is open leads nowhere, as when a NAT forgets it
        network.cut_after(count)        the next connection is reset after so many bytes of the host
        network.stall_after(count)      the next connection leads nowhere after so many

It runs on a thread of its own, so that tests with and without an event loop can use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

Mode = Literal["pass", "stall", "portal", "coy-portal"]

#: What a login page of a network says to whoever asks for something else.
PORTAL = b"HTTP/1.1 302 Found\r\nLocation: http://portal.test/login\r\nContent-Length: 0\r\n\r\n"

_TICK = 0.01


@dataclass(eq=False)
class _Flow:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    forgotten: bool = False
    brought: int = 0  # bytes of the host
    cut_after: int | None = None
    stall_after: int | None = None

    def reset(self) -> None:
        for writer in (self.client, self.server):
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class FaultProxy:
    """See the module's text; `accepted` counts the connections that were made to it."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self.mode: Mode = "pass"
        self.delay = 0.0
        self.rate = 0.0
        self.accepted = 0
        self._to = (host, port)
        self._flows: set[_Flow] = set()
        self._cut_after: int | None = None
        self._stall_after: int | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        server = self._do(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.reset()
        self._do(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def reset(self) -> None:
        """Reset every connection that is open."""

        async def reset() -> None:
            for flow in list(self._flows):
                flow.reset()

        self._do(reset())

    def forget(self, after: int = 0) -> None:
        """What is open leads nowhere, after so many more bytes of the host; new ones pass."""
        for flow in list(self._flows):
            flow.forgotten = not after
            flow.stall_after = flow.brought + after

    def cut_after(self, count: int) -> None:
        self._cut_after = count

    def stall_after(self, count: int) -> None:
        self._stall_after = count

    def _do(self, work: object) -> asyncio.Server:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)  # type: ignore[arg-type]

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            while self.mode == "stall":
                await asyncio.sleep(_TICK)  # sleep: a network that stands still
            if self.mode != "pass":
                await self._answer_as_portal(reader, writer)
                return
            await self._carry(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    async def _answer_as_portal(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.mode == "coy-portal" and not await reader.read(100):
            return
        writer.write(PORTAL)
        await writer.drain()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_host, to_host = await asyncio.open_connection(*self._to)
        flow = _Flow(writer, to_host, False, 0, self._cut_after, self._stall_after)
        self._cut_after = self._stall_after = None
        self._flows.add(flow)
        try:
            await asyncio.gather(
                self._pump(flow, reader, to_host, False), self._pump(flow, from_host, writer, True)
            )
        finally:
            self._flows.discard(flow)
            to_host.close()

    async def _pump(
        self,
        flow: _Flow,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_host: bool,
    ) -> None:
        due = 0.0
        while data := await reader.read(65536):
            while self.mode != "pass" and not flow.forgotten:
                await asyncio.sleep(_TICK)  # sleep: a network that stands still
            if from_host and not self._within_limits(flow, data):
                return
            if flow.forgotten:
                continue
            until = self._loop.time() + (len(data) / self.rate if self.rate else 0.0)
            while self.rate and self._loop.time() < until:
                await asyncio.sleep(_TICK)  # sleep: a slow network
            now = self._loop.time()
            if self.delay or due > now:
                # Never before what is under way already.
                due = max(now + self.delay, due + 1e-4)
                self._loop.call_at(due, _write, writer, data)
            else:
                _write(writer, data)
                await writer.drain()
        if not flow.forgotten:
            writer.close()

    def _within_limits(self, flow: _Flow, data: bytes) -> bool:
        """False: the connection has been reset. One that is to stall is forgotten from here on."""
        before, flow.brought = flow.brought, flow.brought + len(data)
        if flow.cut_after is not None and flow.brought >= flow.cut_after:
            flow.reset()
            return False
        if flow.stall_after is not None and flow.brought >= flow.stall_after:
            flow.forgotten, last = True, data[: max(0, flow.stall_after - before)]
            _write(flow.client, last)
        return True


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)
