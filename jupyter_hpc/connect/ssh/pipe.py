"""Byte pipes: the receiving half that all of them share, and channels of asyncssh as pipes."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import asyncssh

from jupyter_hpc.connect.ssh.carrier import MAX_PACKET_BYTES, WINDOW_BYTES
from jupyter_hpc.connect.ssh.interfaces import OnClosed, OnData, OnDrained, Said
from jupyter_hpc.waiting import within

#: on_drained comes when the queue falls below LOW_WATER_BYTES after it was above HIGH_WATER_BYTES:
#: while there is still enough to keep the line busy, and for every writer that stops at
#: half a megabyte, as the stream does.
HIGH_WATER_BYTES = 256 * 1024
LOW_WATER_BYTES = 128 * 1024

#: With more than this before there is a receiver, the other end has to wait.
MAX_EARLY_BYTES = 2_000_000

#: Start-up files of login shells print a megabyte at times; more than this is no accident.
MAX_SKIPPED_BYTES = 64_000_000

#: More than this of stderr is not kept.
MAX_STDERR_BYTES = 1_000_000

#: The exit code of a command may come long before the end of its output: it is looked for so
#: often, and a child that was left behind may hold the output open for so long.
_LOOK_SECONDS = 0.5
MAX_OUTPUT_SECONDS_AFTER_EXIT = 2.0

#: What OpenSSH takes in one packet, less what two packets of a hop add to their data with any
#: cipher: asyncssh puts an empty one before each. So a packet of this hop, together with its
#: empty one, is one packet of the hop below, and no remainder needs another. asyncssh would cut
#: larger writes itself, with one more copy; a frame of the stream is eight such pieces
#: (relay/bridge.py).
PIECE_BYTES = 32768 - 192

_SIGNALS = {"HUP": -1, "INT": -2, "KILL": -9, "PIPE": -13, "TERM": -15}


class Receiving(ABC):
    """Hands bytes to the receiver; those that come before there is one are kept.

    A host that sends without end before it is listened to is held up: it may be hostile.
    A carrier calls `deliver`, `drained` and `end`; the receiver hears of the end once,
    and of nothing after `hang_up`.
    """

    def __init__(self) -> None:
        self._early: list[bytes] = []
        self._early_size = 0
        self._held_up = False
        self._on_data: OnData | None = None
        self._on_closed: OnClosed | None = None
        self._on_drained: OnDrained | None = None
        self._hung_up = False
        self._outcome: Exception | None = None
        self._gathered = bytearray()
        self._stderr = bytearray()
        self._code: int | None = None
        self._arrived = asyncio.Event()
        self._ended = asyncio.Event()

    def set_receiver(
        self, on_data: OnData, on_closed: OnClosed, on_drained: OnDrained | None = None
    ) -> None:
        if self._hung_up:
            return
        self._on_data, self._on_closed, self._on_drained = on_data, on_closed, on_drained
        early, self._early = self._early, []
        for data in early:
            on_data(data)
        if self._held_up:
            self._held_up = False
            self.resume_reading()
        if self._ended.is_set():
            self._tell_end()

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def write_eof(self) -> None: ...

    @abstractmethod
    def pause_reading(self) -> None:
        """Hold the other end up: bytes on their way are still delivered."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Let the other end go on."""

    async def skip_past(self, marker: bytes, limit: int = MAX_SKIPPED_BYTES) -> bool:
        """Drop everything up to and including `marker`; whether it came.

        False if the pipe ended, or `limit` bytes came, without one. Only before a
        receiver is set.
        """
        skipped = 0
        while True:
            self._arrived.clear()
            seen = b"".join(self._early)
            _, found, after = seen.partition(marker)
            # Of what is no marker, no more is kept than may be the beginning of one.
            kept = after if found else seen[1 - len(marker) :]
            self._early, self._early_size = [kept] if kept else [], len(kept)
            if found:
                return True
            skipped += len(seen) - len(kept)
            if self._held_up:
                self._held_up = False
                self.resume_reading()
            if self._ended.is_set() or skipped > limit:
                return False
            await self._arrived.wait()

    async def wait_ended(self) -> None:
        await self._ended.wait()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def deliver(self, data: bytes) -> None:
        if self._on_data is not None:
            self._on_data(data)
        elif not self._hung_up:
            self._early.append(data)
            self._early_size += len(data)
            if self._early_size > MAX_EARLY_BYTES and not self._held_up:
                self._held_up = True
                self.pause_reading()
            self._arrived.set()

    def drained(self) -> None:
        if self._on_drained is not None:
            self._on_drained()

    def end(self, outcome: Exception | None) -> None:
        if self._ended.is_set():
            return
        self._outcome = outcome
        self._ended.set()
        self._arrived.set()
        self._tell_end()

    def hang_up(self) -> None:
        """Nothing is delivered any more."""
        self._hung_up = True
        self._on_closed = self._on_drained = None
        self._on_data = _ignore
        self._early = []

    # What a command is besides a pipe.

    @property
    def stderr(self) -> bytes:
        return bytes(self._stderr)

    @property
    def returncode(self) -> int | None:
        return self._code

    def complain(self, data: bytes) -> None:
        """It has written to stderr."""
        if len(self._stderr) < MAX_STDERR_BYTES:
            self._stderr += data[: MAX_STDERR_BYTES - len(self._stderr)]

    async def communicate(self, stdin: bytes, most: int) -> Said:
        """Give the command `stdin` and no more, and take what it writes until it has ended."""
        self.set_receiver(partial(self._gather, most), _ignore)
        if stdin:
            self.write(stdin)
        self.write_eof()
        while not self.ended and self.returncode is None:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await within(self._ended.wait(), _LOOK_SECONDS)
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            await within(self._ended.wait(), MAX_OUTPUT_SECONDS_AFTER_EXIT)
        stdout, self._gathered = self.gathered, bytearray()
        return Said(stdout, self.stderr, self.returncode)

    def _gather(self, most: int, data: bytes) -> None:
        if len(self._gathered) <= most:
            self._gathered.extend(data)

    @property
    def gathered(self) -> bytes:
        return bytes(self._gathered)

    def _tell_end(self) -> None:
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed(self._outcome)


def _ignore(said: object) -> None:
    pass


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
