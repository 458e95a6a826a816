"""A command on another host as two blocking streams, for the thread that does a transfer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from io import BufferedReader, FileIO
from typing import Protocol

from jupyter_hpc.connect.files.bundle import LOWEST_PYTHON, NO_PYTHON, agent_argv, packed_agent
from jupyter_hpc.connect.files.frames import READ_BYTES, READY, Data, Descriptor, Wire, widen
from jupyter_hpc.connect.ssh.interfaces import RemoteProcess
from jupyter_hpc.connect.ssh.runner import Marker, command_line, script_for
from jupyter_hpc.errors import CommandFailed, CommandMissing, Unreachable
from jupyter_hpc.runner import record_command
from jupyter_hpc.text import printable
from jupyter_hpc.waiting import within

#: Start-up files of login shells may be slow, and so may a Python on a network file system.
_START_SECONDS = 60.0

#: What may wait here in each direction.
_MAX_WAITING_BYTES = 4 << 20


class Starter(Protocol):
    """Whatever starts a command on the host: a login connection, or a session's."""

    @property
    def host(self) -> str: ...

    async def start(self, line: str, *, timeout: float = 15.0) -> RemoteProcess: ...

    async def start_sftp(self, *, timeout: float = 15.0) -> RemoteProcess: ...


class Streams:
    """stdin and stdout of a remote process; read and write block, and are for one thread each."""

    def __init__(self, process: RemoteProcess) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._arrived: deque[bytes] = deque()
        #: So much of the first piece has been read.
        self._start = 0
        self._size = 0
        self._wanted = 0
        self._held_up = False
        self._leaving = 0
        self._ended = False
        process.set_receiver(self._on_data, self._on_closed, self._on_drained)

    # Called on the event loop.

    def _on_data(self, data: bytes) -> None:
        with self._changed:
            self._arrived.append(data)
            self._size += len(data)
            if self._size > _MAX_WAITING_BYTES and not self._held_up:
                self._held_up = True
                self._process.pause_reading()
            # To wake it for each packet would cost more than the packet.
            if self._size >= self._wanted:
                self._changed.notify_all()

    def _on_closed(self, error: Exception | None) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _on_drained(self) -> None:
        with self._changed:
            self._leaving = 0
            self._changed.notify_all()

    def _write_now(self, data: bytes) -> None:
        self._process.write(data)
        with self._changed:
            # The rest is told of by on_drained, which comes once the queue was long.
            self._leaving = self._process.queued()
            self._changed.notify_all()

    # Called by the thread.

    def read(self, size: int) -> bytes:
        """So many bytes; fewer only at the end."""
        return b"".join(self._next(size))

    def readinto(self, room: memoryview) -> int:
        """Fill `room`; how much of it was filled, which is less only at the end."""
        filled = 0
        for piece in self._next(len(room)):
            room[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled

    def _next(self, size: int) -> Iterator[Data]:
        """The next `size` bytes in the pieces in which they came."""
        while size:
            with self._changed:
                # No more is waited for than is let in.
                self._wanted = min(size, _MAX_WAITING_BYTES // 2)
                self._changed.wait_for(lambda: self._size >= self._wanted or self._ended)
                if not self._arrived:
                    break
                pieces = self._taken(size)
                go_on = self._held_up and self._size < _MAX_WAITING_BYTES // 2
                if go_on:
                    self._held_up = False
            if go_on:
                self._call(self._process.resume_reading)
            size -= sum(map(len, pieces))
            yield from pieces

    def _taken(self, size: int) -> list[Data]:
        """Up to `size` bytes of what has arrived, which are no longer here."""
        pieces: list[Data] = []
        taken = 0
        while self._arrived and taken < size:
            first = self._arrived[0]
            end = min(len(first), self._start + size - taken)
            whole = self._start == 0 and end == len(first)
            pieces.append(first if whole else memoryview(first)[self._start : end])
            taken += end - self._start
            if end == len(first):
                self._arrived.popleft()
                end = 0
            self._start = end
        self._size -= taken
        return pieces

    def write(self, data: Data) -> None:
        """Send it; waits while much is on its way. Raises OSError at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._leaving < _MAX_WAITING_BYTES or self._ended)
            if self._ended:
                raise BrokenPipeError
            self._leaving += len(data)
        self._call(self._write_now, bytes(data))

    def flush(self) -> None:
        """Nothing waits in this object."""

    def _call(self, callback: Callable[..., object], *arguments: bytes) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed at the very end
            self._loop.call_soon_threadsafe(callback, *arguments)

    def end(self) -> None:
        """Wake whoever waits, in vain."""
        self._on_closed(None)


def agent_line() -> str:
    """The command line that starts the far end, for any login shell."""
    return command_line(script_for(agent_argv(), Marker("files")))


@contextlib.asynccontextmanager
async def open_agent(starter: Starter) -> AsyncIterator[Wire]:
    """The far end of a transfer, started on the host; it ends with this context.

    Raises ConnectError, CommandMissing where there is no Python, and CommandFailed.
    """
    record_command(agent_argv(), starter.host)
    packing = asyncio.ensure_future(asyncio.to_thread(packed_agent))
    process = await starter.start(agent_line())
    streams: Streams | None = None
    try:
        process.write(await packing)
        try:
            begun = await within(process.skip_past(READY), _START_SECONDS)
        except (TimeoutError, asyncio.TimeoutError):
            raise Unreachable(
                f"{starter.host} did not start the transfer within {_START_SECONDS:g} s.",
                "The host or its file system may be slow; try again.",
            ) from None
        if not begun:
            raise _not_begun(starter.host, process)
        descriptors = process.detach()
        if descriptors is not None:
            yield _wire_of(*descriptors)
        else:
            streams = Streams(process)
            yield Wire(streams, streams)
    finally:
        if streams is not None:
            streams.end()
        process.close()


def _wire_of(stdin: int, stdout: int) -> Wire:
    """A wire past the event loop; it is the thread's to close, which may wait for it."""
    for end in (stdin, stdout):
        widen(end)
    reader = BufferedReader(FileIO(stdout), READ_BYTES)

    def close() -> None:
        reader.close()
        os.close(stdin)

    return Wire(reader, Descriptor(stdin), close)


def _not_begun(host: str, process: RemoteProcess) -> Exception:
    if process.returncode == NO_PYTHON:
        lowest = ".".join(map(str, LOWEST_PYTHON))
        return CommandMissing(
            f"{host} has no Python {lowest} or newer on its PATH, which transfers need there.",
            f"Use scp or rsync, or ask the site for a newer Python on {host}.",
        )
    if process.returncode is None or process.returncode == 255:
        return Unreachable(f"The connection to {host} was lost.", "Try again.")
    said = printable(process.stderr.decode("utf-8", "replace"), 300).strip()
    return CommandFailed(
        f"The transfer did not begin on {host}: {said or f'exit {process.returncode}'}.",
        f"Check that `ssh {host} true` works; a host that only speaks SFTP is not enough.",
    )
