"""A slow line: a relay on the laptop that holds every byte back for a while.

The kernel of a test machine may lack a queue that delays packets, so the delay
is made here: `python -m tests.cluster.slow MILLISECONDS HOST PORT` listens on a
free port of 127.0.0.1, prints it, and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.room import CHECKOUT

#: Bytes held back per direction before the sender has to wait.
_WINDOW = 4 * 2**20

_CHUNK = 2**16


@contextmanager
def slow_line(milliseconds: float, host: str, port: int) -> Iterator[int]:
    """A port of 127.0.0.1 that leads to host:port, `milliseconds` later each way."""
    relay = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.slow", str(milliseconds), host, str(port)],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert relay.stdin is not None and relay.stdout is not None
    try:
        yield int(relay.stdout.readline())
    finally:
        relay.stdin.close()
        relay.stdout.close()
        try:
            relay.wait(5)
        except subprocess.TimeoutExpired:
            relay.kill()
            relay.wait(5)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float
) -> None:
    """Copy one direction; every chunk leaves `delay` seconds after it came."""
    loop = asyncio.get_running_loop()
    line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WINDOW // _CHUNK)

    async def receive() -> None:
        data = b"start"
        while data:
            try:
                data = await reader.read(_CHUNK)
            except OSError:
                data = b""
            await line.put((loop.time() + delay, data))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due, data = await line.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
    except OSError:
        writer.close()
    finally:
        receiving.cancel()


async def _serve(milliseconds: float, host: str, port: int) -> None:
    delay = milliseconds / 1000

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            _pass_on(reader, far_writer, delay), _pass_on(far_reader, writer, delay)
        )
        far_writer.close()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # The connections that are still open end with the process.


if __name__ == "__main__":
    # epoll, which a loop has by default, waits for whole milliseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    loop.run_until_complete(_serve(float(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
