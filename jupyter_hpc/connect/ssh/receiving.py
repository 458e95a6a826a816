"""The receiving half that all byte pipes share."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from functools import partial

from jupyter_hpc.connect.ssh.interfaces import Descriptors, OnClosed, OnData, OnDrained, Said
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

    def detach(self) -> Descriptors | None:
        return None

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
