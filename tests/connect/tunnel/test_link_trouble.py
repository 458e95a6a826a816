"""The laptop's end of the stream: wrong answers, noise, slow lines, many reconnects."""

from __future__ import annotations

import asyncio
import os
import statistics
import time

import pytest

from jupyter_hpc.connect.tunnel import handshake
from jupyter_hpc.connect.tunnel import link as link_module
from jupyter_hpc.connect.tunnel.link import SleepWatch
from jupyter_hpc.connect.tunnel.link_events import (
    LinkDown,
    LinkLost,
    LinkUp,
)
from jupyter_hpc.errors import ConnectError
from jupyter_hpc.relay import frames
from tests.connect.tunnel.helpers import ForgedPipe, Watched, opened
from tests.relay.harness import (
    RelayProcess,
    SocketPipe,
    unix_server,
)
from tests.relay.wire import encode_wide
from tests.waiting import until


@pytest.mark.parametrize("status", [frames.NEW, frames.RESUMED])
async def test_an_answer_with_an_impossible_count_is_an_error(
    node: RelayProcess, status: int
) -> None:
    watched = Watched()
    forged = ForgedPipe(status, 10**9)
    with pytest.raises(ConnectError, match="counts otherwise"):
        await watched.link.attach(forged)
    assert watched.link.state == "down" and forged.closed
    await watched.link.attach(await node.pipe())
    assert watched.kinds()[-1] is LinkUp
    await watched.link.close()


async def test_a_pipe_that_closes_right_after_the_answer_is_not_up() -> None:
    """The answer has come, and whoever waits for it has not run yet."""
    watched = Watched()
    with pytest.raises(ConnectError, match="closed before"):
        await watched.link.attach(ForgedPipe(frames.NEW, closes=True))
    assert watched.link.state == "down" and LinkUp not in watched.kinds()


@pytest.mark.parametrize(
    "answer",
    [b"", b"JHR1", b"-bash: relay.py: command not found, and so on and on\n"],
    ids=["nothing", "a beginning", "something else"],
)
async def test_whatever_is_no_relay_is_an_error(
    answer: bytes, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "REPLY_SECONDS", 0.5)

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.read()

    async with unix_server(f"{tmp_path}/s", impostor):
        _, pipe = await asyncio.get_running_loop().create_unix_connection(
            SocketPipe, f"{tmp_path}/s"
        )
        watched = Watched()
        with pytest.raises(ConnectError):
            await watched.link.attach(pipe)
        assert watched.link.state == "down" and pipe.closed


async def test_a_pipe_that_closes_before_the_answer_is_an_error(tmp_path: object) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)

    async with unix_server(f"{tmp_path}/s", hang_up):
        loop = asyncio.get_running_loop()
        _, pipe = await loop.create_unix_connection(SocketPipe, f"{tmp_path}/s")
        began = time.monotonic()
        with pytest.raises(ConnectError, match="closed before"):
            await Watched().link.attach(pipe)
        _, dead = await loop.create_unix_connection(SocketPipe, f"{tmp_path}/s")
        dead.abort()
        await until(lambda: dead.closed)
        with pytest.raises(ConnectError, match="closed before"):
            await Watched().link.attach(dead)
        assert time.monotonic() - began < handshake.REPLY_SECONDS / 3


async def test_bytes_of_an_old_pipe_do_not_count(node: RelayProcess) -> None:
    watched = Watched()
    old = await node.pipe()
    await watched.link.attach(old)
    await watched.link.attach(await node.pipe())
    old.receiver(b"\xff" * 100)
    assert watched.link.state == "up" and LinkLost not in watched.kinds()
    await watched.link.close()


@pytest.mark.parametrize(
    "cut", [1, frames.REPLY_SIZE - 1, frames.REPLY_SIZE, frames.REPLY_SIZE + 5]
)
async def test_frames_right_behind_the_answer_are_kept(cut: int) -> None:
    """A relay that resumes replays at once: answer and frames may come in any pieces."""
    behind = encode_wide(frames.PONG, 1) * 20
    watched = Watched()
    with pytest.raises(ConnectError):
        await watched.link.attach(ForgedPipe(frames.NEW, length=7, closes=True, at_once=True))
    pipe = ForgedPipe(frames.NEW, behind=behind, cuts=(cut, 100), at_once=True)
    await watched.link.attach(pipe)
    assert watched.kinds() == [LinkUp] and watched.link.round_trip > 0
    await watched.link.close()


async def test_noise_in_the_pipe_ends_the_session_not_the_program(node: RelayProcess) -> None:
    watched = Watched()
    pipe = await node.pipe()
    await watched.link.attach(pipe)
    end = opened(watched.link)
    pipe.receiver(b"slurmstepd: error: something\n")
    assert watched.kinds() == [LinkUp, LinkLost, LinkDown] and end.reset == frames.ENDED
    await watched.link.attach(await node.pipe())
    assert watched.link.state == "up"
    await watched.link.close()


async def test_facts_without_a_pipe_is_an_error_in_time(
    node: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "FACTS_SECONDS", 0.2)
    link = Watched().link
    with pytest.raises(ConnectError, match="did not answer"):
        await link.facts()
    assert link.streams == 0


class SlowPipe(SocketPipe):
    """A slow line behind deep buffers: what is written is gone at once, and arrives late."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self._rate = rate
        self._buffer = bytearray()
        self.idle = 0
        self.turns = 0

    def write(self, data: bytes) -> None:
        if not self._buffer:
            asyncio.get_running_loop().call_later(0.02, self._drip)
        self._buffer += data

    def _drip(self) -> None:
        count = self._rate // 50
        self.turns += 1
        self.idle += len(self._buffer) < count
        super().write(bytes(self._buffer[:count]))
        del self._buffer[:count]
        if self._buffer and not self.closed:
            asyncio.get_running_loop().call_later(0.02, self._drip)

    def queued(self) -> int:
        return max(0, len(self._buffer) - (6 << 20))


async def test_an_upload_over_a_slow_line_neither_blocks_nor_alarms(
    node: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the buffers take would need 15 s."""
    monkeypatch.setattr(link_module, "SUSPECT_AFTER_PINGS", 16)
    watched = Watched()
    link = watched.link
    _, pipe = await asyncio.get_running_loop().create_unix_connection(
        lambda: SlowPipe(400_000), node.socket_path
    )
    await link.attach(pipe)
    upload = opened(link)
    assert upload.stream is not None
    deadline = time.monotonic() + 6
    waits = []
    while time.monotonic() < deadline:
        while not upload.paused:
            upload.stream.send(os.urandom(100_000))
        began = time.monotonic()
        await link.facts()
        waits.append(time.monotonic() - began)
        await asyncio.sleep(0.1)  # sleep: how often it is asked
    assert watched.kinds() == [LinkUp], "it suspects its own upload"
    assert statistics.median(waits[len(waits) // 2 :]) < 5, "questions wait behind the upload"
    assert pipe.idle < 0.2 * pipe.turns, "the line is not used"
    await link.close()


async def test_a_thousand_reconnects_stay_flat(node: RelayProcess) -> None:
    """Short form: 150; what grows with each reconnect is seen by then."""
    import psutil

    watched = Watched()
    link = watched.link
    end = opened(link)
    assert end.stream is not None

    async def rounds(count: int) -> None:
        for _ in range(count):
            await link.attach(await node.pipe())
            end.stream.send(b"x" * 1000)  # type: ignore[union-attr]
            watched.events.clear()

    await rounds(50)
    relay_before, own_before = node.memory(), psutil.Process().memory_info().rss
    await rounds(150)
    await end.wait(lambda: len(end.data) == 200_000)
    assert node.memory() - relay_before < 1_500
    assert psutil.Process().memory_info().rss - own_before < 6_000_000
    assert node.memory() < 40_000
    await link.close()


def test_sleep_is_seen_by_either_clock() -> None:
    wall, steady = [1000.0], [50.0]
    watch = SleepWatch(lambda: wall[0], lambda: steady[0])
    wall[0] += 0.5
    steady[0] += 0.5
    assert watch.slept() == 0
    wall[0] += 3600  # suspended: the steady clock stood still
    steady[0] += 0.5
    assert watch.slept() == 3600
    wall[0] += 60
    steady[0] += 60  # stopped
    assert watch.slept() == 60
    wall[0] -= 7200  # the clock was set back
    steady[0] += 0.5
    assert watch.slept() == 0
