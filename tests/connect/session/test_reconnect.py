"""When a new pipe is made, and when not."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

import pytest

from jupyter_hpc.connect.events import Reconnected, Reconnecting
from jupyter_hpc.connect.session.retry import RetryTiming
from jupyter_hpc.connect.tunnel import link
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, SessionEnded, SessionTaken
from tests.connect.session.reconnect_world import QUICK, World
from tests.relay.harness import PATIENCE, SECRET, Collector, RelayProcess
from tests.waiting import stays, until


async def test_a_closed_pipe_is_replaced_at_once(node: RelayProcess) -> None:
    world = World(node, RetryTiming(first_pause=60))
    await world.start()
    end = Collector()
    end.stream = world.link.open("", end)
    began = time.monotonic()
    world.pipes[-1].abort()
    end.stream.send(b"hello")
    await end.wait(lambda: bytes(end.data) == b"hello")
    assert time.monotonic() - began < 15
    assert world.asked == [False] and world.outage.failures == []
    assert [type(event) for event in world.events] == [Reconnecting, Reconnected]
    await world.stop()


@pytest.mark.usefixtures("alert")
async def test_a_silent_pipe_is_kept_until_the_new_one_is_there(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    old = await world.fall_silent()
    assert not old.closed and str(world.link.state) == "suspect"
    world.pipe_answers.set()
    await world.up()
    assert old.closed and len(world.pipes) == 2
    await world.stop()


@pytest.mark.usefixtures("alert")
async def test_a_pipe_that_speaks_again_ends_the_attempt(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    old = await world.fall_silent()
    old.speak()
    await until(lambda: world.given_up)
    assert world.link.state == "up" and not old.closed and len(world.pipes) == 1
    old.abort()
    world.pipe_answers.set()
    await world.up(2)
    await world.stop()


async def test_failed_attempts_pause_longer_each_time(node: RelayProcess) -> None:
    world = World(node, RetryTiming(first_pause=0.01, away_pause=0.05))
    await world.start()
    world.errors = [ConnectError("no", "") for _ in range(6)]
    world.pipes[-1].abort()
    await world.link.wait_trouble()
    await world.up()
    pauses = [pause for _, pause in world.outage.failures]
    assert len(pauses) == 6 and world.asked == [False] * 7
    for number, pause in enumerate(pauses):
        full = min(0.05, 0.01 * 2**number)
        assert full / 2 <= pause <= full
    await world.stop()


async def test_an_attempt_ends_when_the_way_to_the_login_host_is_lost(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    world.pipe_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.asked)
    world.way_lost.set()
    await until(lambda: world.given_up)
    world.way_lost.clear()
    world.pipe_answers.set()
    await world.up(2)
    assert "was lost" in str(world.outage.failures[0][0])
    await world.stop()


async def test_a_connection_that_serves_makes_up_for_its_login(
    node: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(node)
    served: list[float] = []
    monkeypatch.setattr(world.login_limit, "served", served.append)
    await world.start()
    world.pipes[-1].abort()
    await world.up(2)
    world.pipes[-1].abort()
    await world.up(3)
    assert len(served) == 3 and all(0 <= seconds < 60 for seconds in served)
    await world.stop()


async def test_an_attempt_that_hangs_is_ended(node: RelayProcess) -> None:
    world = World(node, replace(QUICK, attempt_limit=0.5))
    await world.start()
    world.pipe_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: len(world.asked) >= 2)
    world.pipe_answers.set()
    await world.up()
    assert isinstance(world.outage.failures[0][0], asyncio.TimeoutError)
    await world.stop()


@pytest.mark.parametrize("kind", [SessionEnded, SessionTaken])
async def test_what_makes_new_pipes_pointless_ends_it(node: RelayProcess, kind: Any) -> None:
    world = World(node)
    await world.start()
    world.errors = [kind("Over.", "")]
    world.pipes[-1].abort()
    assert world.task is not None
    with pytest.raises(kind):
        await asyncio.wait_for(world.task, PATIENCE)
    await world.stop()


async def test_a_second_session_ends_the_first_ones_reconnecting(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    other = Link(SECRET, "laptop")
    await other.attach(await node.pipe())
    assert world.task is not None
    with pytest.raises(SessionTaken):
        await asyncio.wait_for(world.task, PATIENCE)
    assert other.state == "up"
    await world.stop()
    await other.close()


async def test_waking_doubts_the_pipe(
    node: RelayProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "PING_SECONDS", 0.05)
    monkeypatch.setattr(link, "SLEEP_JUMP_SECONDS", 0.3)
    caplog.set_level(logging.INFO)
    world = World(node, RetryTiming())
    await world.start()
    world.pipes[-1].fall_silent()
    began = time.monotonic()
    time.sleep(0.5)  # sleep: this process does not run meanwhile
    await world.up(2)
    assert time.monotonic() - began < 20, "it waited as if nothing had happened"
    assert "slept for about" in caplog.text
    await world.stop()


async def test_pipes_that_close_at_once_are_not_replaced_without_pause(
    node: RelayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site that kills each step, say, must not see hundreds of them a minute."""
    monkeypatch.setattr("jupyter_hpc.connect.session.reconnect._SHORT_LIFE_SECONDS", 60.0)
    world = World(node, replace(QUICK, first_pause=5.0, longest_pause=5.0))
    world.task = asyncio.create_task(world.reconnect.run())
    for number in range(1, 7):
        await world.up(number)
        world.pipes[-1].abort()
    await until(lambda: bool(world.outage.failures))
    ((error, pause),) = world.outage.failures
    assert "closes as soon as it is open" in str(error) and pause >= 2.5
    await stays(lambda: len(world.pipes) == 6, seconds=0.3)
    await world.stop()
