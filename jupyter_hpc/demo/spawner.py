"""Starts processes through the reaper and learns how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jupyter_hpc.demo import processes
from jupyter_hpc.demo.reaper import HEADER
from jupyter_hpc.errors import CommandFailed
from jupyter_hpc.waiting import finish, within


class SpawnFailed(Exception):
    """The program could not be executed; `errno` and `reason` say why."""

    def __init__(self, errno: int, reason: str) -> None:
        super().__init__(reason)
        self.errno = errno
        self.reason = reason


def _search_path() -> list[str]:
    """Where the reaper finds what it imports: absolute, as it works in another folder."""
    roots = [Path(__file__).parents[2], Path(psutil.__file__).parents[1]]
    return [os.path.abspath(entry) for entry in (*sys.path, *map(str, roots))]


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code or minus the signal's number, and what it used."""

    code: int
    cpu_seconds: float = 0.0
    memory_kib: int = 0


@dataclass(frozen=True)
class Spawned:
    """A started process."""

    pid: int
    ended: asyncio.Future[Ended]


class Spawner:
    """Starts processes of the cluster through the reaper, and tells how they ended; the demo's
    end of the control socket.
    """

    def __init__(self) -> None:
        self._reaper: subprocess.Popen[bytes] | None = None
        self._writer: socket.socket | None = None
        self._lock = asyncio.Lock()
        self._next_id = 0
        self._marker = ""
        self._answers: dict[int, asyncio.Future[Spawned]] = {}
        self._running: dict[int, asyncio.Future[Ended]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[int] | None = None

    @property
    def reaper_pid(self) -> int:
        return self._reaper.pid if self._reaper else 0

    async def start(self, marker: str, remove: Sequence[str], keep_open: Sequence[int]) -> None:
        """Start the reaper; it inherits `keep_open` and removes the folders at the end."""
        self._marker = marker
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        config = json.dumps({"path": _search_path(), "marker": marker, "remove": list(remove)})
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        with theirs:
            # -I -S: a bare interpreter starts several times faster, and the path comes along.
            self._reaper = subprocess.Popen(  # noqa: ASYNC220 - once, at the start
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(Path(__file__).with_name("reaper.py")),
                    str(theirs.fileno()),
                    config,
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *keep_open],
                cwd="/",
                start_new_session=True,
            )
        self._writer = ours
        self._reader = asyncio.create_task(self._read(ours))
        await within(asyncio.shield(self._ready), 60)

    async def stop(self) -> None:
        """Close the control socket and wait until the reaper has ended everything."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.shutdown(socket.SHUT_RDWR)
        if self._reader is not None:
            await finish(self._reader)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._reaper is not None:
            reaper, self._reaper = self._reaper, None
            try:
                code = await asyncio.to_thread(reaper.wait, 15)
            except subprocess.TimeoutExpired:
                reaper.kill()
                code = await asyncio.to_thread(reaper.wait, 5)
            if code != 0:
                # It was killed before it could do its last work.
                await asyncio.to_thread(processes.end_all, self._marker)

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        terminal: bool = False,
        executable: str | None = None,
    ) -> Spawned:
        """Start `argv` in a session of its own with these files; None is /dev/null.

        The caller keeps its descriptors and closes them. Raises SpawnFailed.
        """
        if self._writer is None:
            raise CommandFailed("The embedded cluster is not running.", "Start it again.")
        fds: list[int] = []

        def index(fd: int | None) -> int | None:
            if fd is None:
                return None
            if fd not in fds:
                fds.append(fd)
            return fds.index(fd)

        self._next_id += 1
        request = {
            "id": self._next_id,
            "argv": list(argv),
            "executable": executable,
            "env": dict(env),
            "cwd": cwd,
            "stdin": index(stdin),
            "stdout": index(stdout),
            "stderr": index(stderr),
            "terminal": terminal,
        }
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Spawned] = loop.create_future()
        self._answers[self._next_id] = answer
        body = json.dumps(request).encode()
        async with self._lock:
            await self._send(HEADER.pack(len(body)), fds, body)
        return await answer

    async def _send(self, head: bytes, fds: list[int], body: bytes) -> None:
        loop = asyncio.get_running_loop()
        writer = self._writer
        assert writer is not None  # noqa: S101 - checked by spawn
        while True:
            try:
                if fds:
                    socket.send_fds(writer, [head], fds)
                else:
                    writer.send(head)
                break
            except BlockingIOError:
                await asyncio.sleep(0.001)
        await loop.sock_sendall(writer, body)

    async def _read(self, sock: socket.socket) -> None:
        """Take answers and endings until the reaper is gone."""
        loop = asyncio.get_running_loop()
        buffer = b""
        while True:
            try:
                data = await loop.sock_recv(sock, 65536)
            except OSError:
                data = b""
            if not data:
                break
            buffer += data
            while len(buffer) >= HEADER.size:
                size = HEADER.size + HEADER.unpack(buffer[: HEADER.size])[0]
                if len(buffer) < size:
                    break
                self._take(json.loads(buffer[HEADER.size : size]))
                buffer = buffer[size:]
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(SpawnFailed(3, "the embedded cluster is stopping"))
        for future in self._running.values():
            if not future.done():
                future.set_result(Ended(-9))

    def _take(self, message: dict[str, Any]) -> None:
        if "ready" in message and self._ready is not None:
            self._ready.set_result(message["ready"])
        elif "ended" in message:
            future = self._running.pop(message["ended"], None)
            if future is not None and not future.done():
                ended = Ended(message["status"], message["cpu"], message["memory"])
                future.set_result(ended)
        elif "id" in message:
            self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        answer = self._answers.pop(message["id"])
        if "pid" in message:
            # Registered here, before the reaper can report its end.
            future = asyncio.get_running_loop().create_future()
            self._running[message["pid"]] = future
            if not answer.done():
                answer.set_result(Spawned(message["pid"], future))
        elif not answer.done():
            number = message["errno"]
            reason = os.strerror(number) if number else message["error"]
            answer.set_exception(SpawnFailed(number, reason))
