"""A byte pipe over two file descriptors, without blocking; stdlib only, Python 3.9.

asyncio's own pipe transports know no shared read buffer and hide how much is queued. The
descriptors may be a socket (twice the same), or the pipes that an `--attach` handed over.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

#: Buffers that one writev may take; the kernel allows 1024.
_MAX_BUFFERS = 64


class DescriptorPipe:
    """Owns both descriptors. Callbacks are set with start(); on_closed comes at most once."""

    def __init__(self, read_fd: int, write_fd: int, buffer: memoryview) -> None:
        self._loop = asyncio.get_event_loop()
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = buffer
        self._queue: deque[bytes | memoryview] = deque()
        self._queued = 0
        self._writing = False
        self._closed = False
        self._on_data: Callable[[bytes], None] = lambda data: None
        self._on_closed: Callable[[], None] = lambda: None
        self._on_drained: Callable[[], None] = lambda: None
        for descriptor in {read_fd, write_fd}:
            os.set_blocking(descriptor, False)

    def start(
        self,
        on_data: Callable[[bytes], None],
        on_closed: Callable[[], None],
        on_drained: Callable[[], None],
    ) -> None:
        """Begin to read. OSError if a descriptor is of a kind that cannot be waited for."""
        self._on_data, self._on_closed, self._on_drained = on_data, on_closed, on_drained
        self._loop.add_reader(self._read_fd, self._readable)

    def write(self, data: bytes) -> None:
        """Send, or queue what does not fit; the caller watches queued()."""
        if self._closed or not data:
            return
        self._queue.append(data)
        self._queued += len(data)
        if not self._writing:
            self._flush()

    def queued(self) -> int:
        return self._queued

    def close(self) -> None:
        """Close both descriptors; unsent bytes are dropped. on_closed is not called."""
        if self._closed:
            return
        self._closed = True
        # A descriptor that is closed while the selector still knows it is never watched
        # again under the same number.
        self._loop.remove_reader(self._read_fd)
        self._loop.remove_writer(self._write_fd)
        self._queue.clear()
        self._queued = 0
        for descriptor in {self._read_fd, self._write_fd}:
            os.close(descriptor)

    def _readable(self) -> None:
        try:
            count = os.readv(self._read_fd, [self._buffer])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if count:
            self._on_data(bytes(self._buffer[:count]))
        else:
            self._fail()

    def _flush(self) -> None:
        try:
            while self._queue:
                pieces = [self._queue[i] for i in range(min(len(self._queue), _MAX_BUFFERS))]
                self._sent(os.writev(self._write_fd, pieces))
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._write_fd, self._writable)
        except OSError:
            # Not from within write(): its caller is in the middle of something.
            self._loop.call_soon(self._fail)
        else:
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self._write_fd)

    def _writable(self) -> None:
        before = self._queued
        self._flush()
        if self._queued < before and not self._closed:
            self._on_drained()

    def _sent(self, count: int) -> None:
        self._queued -= count
        while count:
            first = self._queue.popleft()
            if len(first) > count:
                self._queue.appendleft(memoryview(first)[count:])
                return
            count -= len(first)

    def _fail(self) -> None:
        if not self._closed:
            self.close()
            self._on_closed()
