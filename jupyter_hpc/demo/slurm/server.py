"""Accepts the commands of the hosts on the controller's unix socket."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from jupyter_hpc.demo.client import LENGTH
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.options import BadCommand
from jupyter_hpc.waiting import finish

log = logging.getLogger(__name__)

Command = Callable[[Call, Controller], Awaitable[int]]
#: The longest greeting that is read: arguments and environment of one process.
MAX_GREETING_BYTES = 8 << 20


class Hosts(Protocol):
    """The SSH servers of the hosts."""

    def knows(self, host: str) -> bool: ...

    def serve(self, host: str, sock: socket.socket) -> None: ...


class ControlServer:
    """Reads who asks for what, and runs the command's part in the controller."""

    def __init__(
        self,
        path: Path,
        controller: Controller,
        commands: Mapping[str, Command],
        hosts: Hosts,
    ) -> None:
        self._path = path
        self._controller = controller
        self._commands = commands
        self._hosts = hosts
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        os.chmod(self._path, 0o600)
        listener.listen(128)
        listener.setblocking(False)
        self._socket = listener
        self._spawn(self._accept(listener))

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        self._path.unlink(missing_ok=True)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)  # noqa: S101 - for the type checker
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            connection.setblocking(False)
            self._spawn(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        try:
            size = LENGTH.unpack(await _exactly(connection, LENGTH.size))[0]
            if size > MAX_GREETING_BYTES:
                raise EOFError
            body = await _exactly(connection, size)
        except (OSError, EOFError):
            connection.close()
            return
        words = [os.fsdecode(word) for word in body.split(b"\0")]
        program, work_dir, pid, count = words[:4]
        arguments = words[4 : 4 + int(count)]
        environment = dict(word.split("=", 1) for word in words[4 + int(count) :] if "=" in word)
        if program == "demo-connect":
            await self._hand_over(arguments[0] if arguments else "", connection)
            return
        reader, writer = await asyncio.open_connection(sock=connection)
        call = Call(program, arguments, environment, work_dir, int(pid), reader, writer)
        listening = asyncio.create_task(call.listen())
        try:
            await call.finish(await self._answer(call))
        finally:
            await finish(listening)
            writer.close()

    async def _answer(self, call: Call) -> int:
        command = self._commands.get(call.program)
        if command is None:
            call.err(f"{call.program}: command not found")
            return 127
        try:
            return await command(call, self._controller)
        except BadCommand as refusal:
            call.err(*refusal.lines)
            return refusal.code
        except Exception:
            log.exception("The demo's %s failed for %s", call.program, call.arguments)
            call.say("fatal: the demo cluster failed on this command; its log says more")
            return 1

    async def _hand_over(self, host: str, connection: socket.socket) -> None:
        """From here on the socket speaks SSH with that host."""
        known = self._hosts.knows(host)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(connection, b"+" if known else b"-")
        except OSError:
            known = False
        if known:
            self._hosts.serve(host, connection)
        else:
            connection.close()


async def _exactly(connection: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        piece = await loop.sock_recv(connection, count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
