"""Commands and TCP connections as byte pipes: channels of asyncssh, and local ssh processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, cast

import asyncssh

from jupyter_hpc.connect.ssh.pipe import (
    HIGH_WATER_BYTES,
    LOW_WATER_BYTES,
    MAX_STDERR_BYTES,
    Receiving,
)

#: What OpenSSH takes in one packet, less what two packets of a hop add to their data with any
#: cipher: asyncssh puts an empty one before each. So a packet of this hop, together with its
#: empty one, is one packet of the hop below, and no remainder needs another. asyncssh would cut
#: larger writes itself, with one more copy; a frame of the stream is eight such pieces
#: (relay/bridge.py).
PIECE_BYTES = 32768 - 192

_SIGNALS = {"HUP": -1, "INT": -2, "KILL": -9, "PIPE": -13, "TERM": -15}


class ChannelPipe(Receiving):
    """A byte pipe over an SSH channel."""

    def __init__(self) -> None:
        super().__init__()
        self._channel: Any = None

    def write(self, data: bytes) -> None:
        """Writing to a pipe that is gone is no error: its end is reported elsewhere."""
        if self.ended or self._hung_up:
            return
        with contextlib.suppress(OSError):
            for start in range(0, len(data), PIECE_BYTES):
                self._channel.write(data[start : start + PIECE_BYTES])

    def write_eof(self) -> None:
        if not self.ended:
            with contextlib.suppress(OSError):
                self._channel.write_eof()

    def queued(self) -> int:
        return 0 if self.ended else int(self._channel.get_write_buffer_size())

    def pause_reading(self) -> None:
        if not self.ended:
            self._channel.pause_reading()

    def resume_reading(self) -> None:
        if not self.ended:
            self._channel.resume_reading()

    def close(self) -> None:
        """Close at once; what is still queued is dropped."""
        self.hang_up()
        if not self.ended and self._channel is not None:
            self._channel.abort()

    # Called by asyncssh.

    def connection_made(self, chan: Any) -> None:
        if self._hung_up:
            # Closed before it was open: nothing is asked of the host any more.
            chan.abort()
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "no longer wanted")
        self._channel = chan
        chan.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)

    def session_started(self) -> None:
        """The channel is open."""

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.deliver(data)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """The owner looks at queued()."""

    def resume_writing(self) -> None:
        self.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(exc)


class ChannelTcp(ChannelPipe, asyncssh.SSHTCPSession[bytes]):
    """A TCP connection that begins on the other host."""


class ChannelProcess(ChannelPipe, asyncssh.SSHClientSession[bytes]):
    """A command on the other host."""

    def __init__(self) -> None:
        super().__init__()
        self._stderr = bytearray()
        self._code: int | None = None

    @property
    def stderr(self) -> bytes:
        return bytes(self._stderr)

    @property
    def returncode(self) -> int | None:
        return self._code

    def terminate(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.terminate()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype != asyncssh.EXTENDED_DATA_STDERR:
            self.deliver(data)
        elif len(self._stderr) < MAX_STDERR_BYTES:
            self._stderr += data[: MAX_STDERR_BYTES - len(self._stderr)]

    def eof_received(self) -> bool:
        # The exit code comes after the end of the output.
        return True

    def exit_status_received(self, status: int) -> None:
        self._code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._code = _SIGNALS.get(signal, -1)


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
        self._stdin.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=LOW_WATER_BYTES)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.deliver(data)
        elif len(self._stderr) < MAX_STDERR_BYTES:
            self._stderr += data[: MAX_STDERR_BYTES - len(self._stderr)]

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
