"""Joins one local socket to one stream, both ways; asyncio, stdlib only, Python 3.9.

Used at both ends: between the browser and the proxy, and between the relay and Jupyter.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from jupyter_hpc.relay.frames import HEADER, RESET
from jupyter_hpc.relay.mux import Stream

#: One read of a local socket, so that it and its header fill eight packets of SSH over two hops
#: (connect/ssh/pipe.py), and one frame. With half as much, the laptop takes a tenth more
#: processor time for an upload.
READ_SIZE = 8 * (32768 - 192) - HEADER.size

#: Above this many unsent bytes the local socket is said to be slow, and its data not consumed.
WRITE_HIGH_BYTES = 1 << 18


def read_buffer() -> memoryview:
    """A buffer that all bridges of one event loop share.

    asyncio fills it and hands it over in one step, so that one is enough. With a buffer for
    each read, thousands of kept five-byte reads fragment the heap (seen: 22 to 105 MB).
    """
    return memoryview(bytearray(READ_SIZE))


class Bridge(asyncio.BufferedProtocol):
    """The protocol of the local socket and the endpoint of the stream, in one object.

    Either half may come first: data of the stream waits for the socket (within its window),
    and a subclass that overrides `received` may look at the socket's data before there is
    a stream.
    """

    def __init__(self, buffer: memoryview) -> None:
        self.stream: Stream | None = None
        self.transport: asyncio.Transport | None = None
        self._buffer = buffer
        self._early: list[bytes] = []
        self._early_eof = False
        self._gathered: list[bytes] | None = None  # None: nothing was written in this turn
        self._stream_paused = False
        self._slow = False
        self._unconsumed = 0
        self._read_eof = False

    # -- the local socket ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        early, self._early = self._early, []
        for data in early:
            self.on_data(data)
        if self._early_eof:
            self.on_eof()
        if self._stream_paused:
            self.transport.pause_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(self._buffer[:nbytes])

    def received(self, data: bytes | memoryview) -> None:
        """Bytes of the local socket; they are there until this returns."""
        if self.stream is not None:
            self.stream.send(data)

    def eof_received(self) -> bool:
        """Half-closed: the other direction goes on until the other end is done, too."""
        self._read_eof = True
        if self.stream is None:
            return False
        self.stream.send_eof()
        if self.stream.finished and self.transport is not None:
            self.transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._early.clear()
        if self.stream is not None:
            self.stream.reset(RESET)

    def pause_writing(self) -> None:
        self._slow = True

    def resume_writing(self) -> None:
        self._slow = False
        count, self._unconsumed = self._unconsumed, 0
        if self.stream is not None and count:
            self.stream.consumed(count)

    # -- the stream ---------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        """Write at once; what comes in the same turn of the loop is gathered into one write.

        SSH brings 32 kB at a time, and a write of its own for each costs more than the rest.
        """
        if self.transport is None:
            self._early.append(data)
        elif self._gathered is not None:
            self._gathered.append(data)
        else:
            self._gathered = []
            asyncio.get_event_loop().call_soon(self._write_gathered)
            self._write(data)

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered:
            self._write(b"".join(gathered))

    def _write(self, data: bytes) -> None:
        if self.transport is None:
            return
        self.transport.write(data)
        if self._slow or self.stream is None:
            self._unconsumed += len(data)
        else:
            self.stream.consumed(len(data))

    def on_eof(self) -> None:
        self._write_gathered()
        if self.transport is None:
            self._early_eof = True
        elif self.stream is None or self.stream.finished:
            self.transport.close()
        elif self.transport.can_write_eof():
            # The local side may have gone in this very moment; connection_lost follows then.
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    def on_reset(self, code: int) -> None:
        """The other end is gone: what was written still goes out, then the socket closes."""
        self._early.clear()
        self._write_gathered()
        if self.transport is not None:
            self.transport.close()

    def on_pause(self) -> None:
        self._stream_paused = True
        if self.transport is not None and not self._read_eof:
            self.transport.pause_reading()

    def on_resume(self) -> None:
        self._stream_paused = False
        if self.transport is not None and not self._read_eof:
            self.transport.resume_reading()
