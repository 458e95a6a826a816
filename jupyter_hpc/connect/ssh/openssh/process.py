"""A process of the system's own `ssh`: its streams, also for a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import cast

from jupyter_hpc.connect.ssh.interfaces import Descriptors
from jupyter_hpc.connect.ssh.receiving import HIGH_WATER_BYTES, LOW_WATER_BYTES, Receiving
from jupyter_hpc.errors import CommandError, ConnectError
from jupyter_hpc.runner import start_process
from jupyter_hpc.text import printable


class OpenSshProcess(Receiving, asyncio.SubprocessProtocol):
    """stdin and stdout of an ssh that runs here."""

    def __init__(self) -> None:
        super().__init__()
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._open_pipes = {1, 2}
        self._when_ended: Callable[[OpenSshProcess], None] | None = None

    def when_ended(self, callback: Callable[[OpenSshProcess], None]) -> None:
        self._when_ended = callback

    def write(self, data: bytes) -> None:
        if self._stdin is not None and not self.ended and not self._hung_up:
            self._stdin.write(data)

    def write_eof(self) -> None:
        if self._stdin is not None and not self.ended:
            self._stdin.write_eof()

    def queued(self) -> int:
        return 0 if self._stdin is None or self.ended else self._stdin.get_write_buffer_size()

    def pause_reading(self) -> None:
        if self._stdout is not None and not self.ended:
            with contextlib.suppress(RuntimeError):
                self._stdout.pause_reading()

    def resume_reading(self) -> None:
        if self._stdout is not None and not self.ended:
            with contextlib.suppress(RuntimeError):
                self._stdout.resume_reading()

    def detach(self) -> Descriptors | None:
        if sys.platform == "win32":
            return None
        if self._process is None or self._stdin is None or self._stdout is None:
            return None
        if self.ended or self._early or self._stdin.get_write_buffer_size():
            return None
        pipes = [end.get_extra_info("pipe") for end in (self._stdin, self._stdout)]
        stdin, stdout = (os.dup(pipe.fileno()) for pipe in pipes)
        # Ours stay open, those of the event loop are done with.
        self._stdin.close()
        self._stdout.close()
        self._stdin = self._stdout = None
        for end in (stdin, stdout):
            os.set_blocking(end, True)
        return Descriptors(stdin, stdout)

    async def says(self, words: bytes) -> bool:
        """Whether `words` come on stderr before it ends; what came until then is dropped."""
        while words not in self._stderr:
            if self.ended:
                return False
            self._arrived.clear()
            await self._arrived.wait()
        del self._stderr[:]
        return True

    def terminate(self) -> None:
        if self._process is not None and self._process.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def close(self) -> None:
        """Kill the ssh process; what it has started over there ends with it."""
        self.hang_up()
        if self._process is not None:
            self._process.close()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))
        self._stdout = cast(asyncio.ReadTransport, self._process.get_pipe_transport(1))
        self._stdin.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.deliver(data)
        else:
            self.complain(data)
            self._arrived.set()

    def resume_writing(self) -> None:
        self.drained()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        self._maybe_end()

    def process_exited(self) -> None:
        self._code = self._process.get_returncode() if self._process is not None else None
        self._maybe_end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_pipes.clear()
        self._maybe_end()

    def _maybe_end(self) -> None:
        if self._code is None or self._open_pipes or self.ended:
            return
        if self._process is not None:
            self._process.close()
        self.end(None)
        if self._when_ended is not None:
            self._when_ended(self)


async def start_ssh(argv: Sequence[str]) -> OpenSshProcess:
    """Start an ssh command. Raises ConnectError."""
    process = OpenSshProcess()
    try:
        await start_process(argv, lambda: process)
    except (CommandError, OSError) as error:
        raise ConnectError(
            f"ssh could not be started: {printable(str(error), 200)}.", "Check your PATH."
        ) from error
    return process
