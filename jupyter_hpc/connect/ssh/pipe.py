"""Channels of asyncssh as byte pipes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.carrier import MAX_PACKET_BYTES, WINDOW_BYTES
from jupyter_hpc.connect.ssh.receiving import HIGH_WATER_BYTES, LOW_WATER_BYTES, Receiving
from jupyter_hpc.waiting import within

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

    #: When it ended, by the clock of the loop.
    ended_at = float("-inf")

    async def open(
        self, connection: asyncssh.SSHClientConnection, line: str | None, timeout: float
    ) -> None:
        """Start `line`, or SFTP without one; a session that opens when nobody waits any more is
        closed at once.

        To give up the question itself would leave an open session on the server, which allows
        only so many on one connection.
        """
        opening = asyncio.ensure_future(
            connection.create_session(
                lambda: self,
                command=line,
                subsystem="sftp" if line is None else None,
                encoding=None,
                window=WINDOW_BYTES,
                max_pktsize=MAX_PACKET_BYTES,
            )
        )
        try:
            await within(asyncio.shield(opening), timeout)
        except BaseException:
            opening.add_done_callback(self._given_up)
            self.close()
            raise

    def _given_up(self, opening: asyncio.Future[Any]) -> None:
        """Nobody waits for it; one that did not open has ended."""
        if opening.cancelled() or opening.exception() is not None:
            self.end(None)

    def terminate(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.terminate()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self.complain(data)
        else:
            self.deliver(data)

    def eof_received(self) -> bool:
        # The exit code comes after the end of the output.
        return True

    def exit_status_received(self, status: int) -> None:
        self._code = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._code = _SIGNALS.get(signal, -1)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended_at = asyncio.get_running_loop().time()
        super().connection_lost(exc)
