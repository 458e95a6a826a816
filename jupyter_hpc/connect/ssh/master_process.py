"""A local ssh process as a byte pipe."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

from jupyter_hpc.connect.ssh.pipe import HIGH_WATER, LOW_WATER, STDERR_LIMIT, Receiving


class MasterProcess(Receiving, asyncio.SubprocessProtocol):
    """stdin and stdout of an ssh that runs over a master connection."""

    def __init__(self) -> None:
        super().__init__()
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._stderr = bytearray()
        self._code: int | None = None
        self._open_pipes = {1, 2}
        self._when_ended: Callable[[MasterProcess], None] | None = None

    @property
    def stderr(self) -> bytes:
        return bytes(self._stderr)

    @property
    def returncode(self) -> int | None:
        return self._code

    def when_ended(self, callback: Callable[[MasterProcess], None]) -> None:
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

    def terminate(self) -> None:
        if self._process is not None and self._process.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def close(self) -> None:
        """Kill the ssh process; its session on the master ends with it."""
        self.hang_up()
        if self._process is not None:
            self._process.close()

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))
        self._stdout = cast(asyncio.ReadTransport, self._process.get_pipe_transport(1))
        self._stdin.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.deliver(data)
        elif len(self._stderr) < STDERR_LIMIT:
            self._stderr += data[: STDERR_LIMIT - len(self._stderr)]

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
