"""What a transfer reads of a command: all of it, in order, and no more is let in than fits."""

from __future__ import annotations

import asyncio
import os

from jupyter_hpc.connect.files.channel import Streams
from tests.connect.files.test_share import Echo
from tests.waiting import until


class Host(Echo):
    """A command that says what a test has it say, unless it is held up."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = 0
        self.stopped = False

    def pause_reading(self) -> None:
        self.stopped = True
        self.paused += 1

    def resume_reading(self) -> None:
        self.stopped = False


async def test_all_of_it_comes_in_order_however_it_is_cut() -> None:
    host, data = Host(), os.urandom(300_000)
    streams = Streams(host)
    for start in range(0, len(data), 7001):
        host.deliver(data[start : start + 7001])
    sizes = [5, 260_000, 0, 1, 39_994]
    read = [await asyncio.to_thread(streams.read, size) for size in sizes]
    assert [len(each) for each in read] == sizes and b"".join(read) == data
    reading = asyncio.create_task(asyncio.to_thread(streams.read, 100))
    host.deliver(b"x" * 60)
    await asyncio.sleep(0)
    assert not reading.done()
    host.end(None)
    assert await reading == b"x" * 60
    assert await asyncio.to_thread(streams.read, 10) == b""


async def test_a_fast_host_is_held_up_until_what_came_is_read() -> None:
    host, block = Host(), bytes(32_768)
    streams = Streams(host)
    came = 0
    while not host.stopped:
        host.deliver(block)
        came += len(block)
    assert came < 6_000_000

    read = 0
    while read < came - 1_000_000:  # a frame is much smaller than what waits
        read += len(await asyncio.to_thread(streams.read, 100_000))
    await until(lambda: not host.stopped)
    assert host.paused == 1


async def test_a_frame_larger_than_what_is_let_in_is_read() -> None:
    host, block = Host(), bytes(65_536)
    streams = Streams(host)
    reading = asyncio.create_task(asyncio.to_thread(streams.read, 20_000_000))
    sent = 0
    while sent < 20_000_000:
        await until(lambda: not host.stopped)
        host.deliver(block)
        sent += len(block)
    assert len(await reading) == 20_000_000
