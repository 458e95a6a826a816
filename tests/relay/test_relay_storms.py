"""The relay under load: many connections, bounded memory, storms of cuts."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time

import pytest

from tests.relay.by_hand import ask, linked
from tests.relay.harness import (
    Collector,
    RelayProcess,
    SocketPipe,
    echo,
    running_relay,
    unix_server,
)
from tests.waiting import at_rest, stays, until

# -- much of everything ---------------------------------------------------------------------


async def test_two_hundred_connections_at_once_with_few_descriptors() -> None:
    node = RelayProcess()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 128), hard))
    try:
        await node.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        async with unix_server(node.jupyter, echo):
            link = await linked(node)
            data = os.urandom(64 << 10)
            ends = await asyncio.gather(*(ask(link, data) for _ in range(200)))
            assert all(bytes(end.data) == data for end in ends)
            assert (await link.facts())["streams"] == 1, "something is left open"
            await link.close()
    finally:
        node.close()


async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write as fast as it is taken, like a kernel that prints without end."""
    block = bytes(range(256)) * 256
    while True:
        writer.write(block)
        await writer.drain()


async def settled(node: RelayProcess) -> None:
    """Wait until two seconds make the relay hardly larger."""
    hardly_larger = at_rest(node.memory, 2, same=lambda before, now: now - before < 2_000)
    await until(hardly_larger, "it grows while the pipe is away")


async def test_memory_stays_bounded_while_nobody_reads() -> None:
    async with running_relay() as node, unix_server(node.jupyter, pour):
        link = await linked(node)
        pipes = []
        for _ in range(12):
            end = Collector()
            end.stream = link.open("", end)
            pipes.append(end)
        await pipes[0].wait(lambda: len(pipes[0].data) > 100_000)
        link._drop_pipe()
        await settled(node)
        assert node.memory() < 40_000, f"{node.memory()} kB"
        await link.close()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Five bytes at a time, which is what fragments a heap."""
    for number in range(4000):
        writer.write(b"%04d\n" % number)
        await writer.drain()
        await asyncio.sleep(0.0005)  # sleep: a program that prints bit by bit


async def test_many_small_writes_cost_little_and_come_whole() -> None:
    async with running_relay() as node, unix_server(node.jupyter, drip):
        link = await linked(node)
        ends = []
        for _ in range(4):
            end = Collector()
            end.stream = link.open("", end)
            ends.append(end)
        await ends[0].wait(lambda: len(ends[0].data) > 100)
        link._drop_pipe()
        before = node.memory()
        await stays(lambda: node.memory() - before < 12_000, seconds=3)
        await link.attach(await node.pipe())
        await until(lambda: all(end.eof for end in ends))
        for end in ends:
            assert bytes(end.data) == b"".join(b"%04d\n" % number for number in range(4000))
        await link.close()


async def storm(node: RelayProcess, seconds: float, seed: int, least: int = 4) -> None:
    """Echo random bytes over several streams while pipes are cut at random, `least` times."""
    import random

    dice = random.Random(seed)
    link = await linked(node)
    cuts = 0
    sent: dict[Collector, bytearray] = {}
    for _ in range(5):
        end = Collector()
        end.stream = link.open("", end)
        sent[end] = bytearray()
    pipe: SocketPipe | None = None
    until = time.monotonic() + seconds
    while time.monotonic() < until or cuts < least:
        for end, data in sent.items():
            if not end.paused and len(data) < 30 << 20:
                piece = dice.randbytes(dice.choice((1, 50, 4000, 100_000)))
                data += piece
                assert end.stream is not None
                end.stream.send(piece)
        await asyncio.sleep(dice.random() * 0.003)  # sleep: a cut comes at any moment
        if dice.random() < 0.02:
            if pipe is not None:
                pipe.abort()
            if dice.random() < 0.5:
                await asyncio.sleep(dice.random() * 0.02)  # sleep: the network is away
            pipe = await (node.attach_pipe() if dice.random() < 0.1 else node.pipe())
            await link.attach(pipe)
            cuts += 1
    await link.attach(await node.pipe())
    for end, data in sent.items():
        assert end.stream is not None
        end.stream.send_eof()
        await end.wait(lambda end=end: end.eof or end.reset is not None, 60)  # type: ignore[misc]
        assert end.reset is None and end.data == data
    await link.close()


async def test_a_storm_of_cuts_loses_and_doubles_nothing(node: RelayProcess) -> None:
    await storm(node, 4, seed=1)


@pytest.mark.faults
@pytest.mark.timeout(600)
async def test_a_long_storm(node: RelayProcess) -> None:
    for seed in range(10):
        await storm(node, 12, seed)
    assert node.memory() < 80_000


async def test_a_stopped_relay_goes_on_where_it_was(node: RelayProcess) -> None:
    assert node.process is not None
    link = await linked(node)
    end = Collector()
    end.stream = link.open("", end)
    node.process.send_signal(signal.SIGSTOP)
    data = os.urandom(1 << 20)
    end.stream.send(data)
    await stays(lambda: not end.data, seconds=0.5)
    node.process.send_signal(signal.SIGCONT)
    await end.wait(lambda: bytes(end.data) == data)
    await link.close()
