"""Commands and TCP connections over one asyncssh connection, as byte pipes."""

from __future__ import annotations

import contextlib
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.pipe import HIGH_WATER, LOW_WATER, STDERR_LIMIT, Receiving

#: A 32 kB packet of the inner hop and its header do not fit one packet of the outer
#: hop; pieces a little smaller do, and upload a fifth faster.
PIECE = 32768 - 64

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
            for start in range(0, len(data), PIECE):
                self._channel.write(data[start : start + PIECE])

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
        chan.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

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
        elif len(self._stderr) < STDERR_LIMIT:
            self._stderr += data[: STDERR_LIMIT - len(self._stderr)]

    def eof_received(self) -> bool:
        # The exit code comes after the end of the output.
        return True

    def exit_status_received(self, status: int) -> None:
        self._code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._code = _SIGNALS.get(signal, -1)
