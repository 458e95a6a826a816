"""Who has to be asked when a new pipe is made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_hpc.connect.events import Reconnected
from jupyter_hpc.errors import AuthenticationFailed, HostKeyRefused, PromptNeeded
from tests.connect.session.reconnect_world import World
from tests.relay.harness import RelayProcess
from tests.waiting import stays, until


@pytest.mark.parametrize("kind", [PromptNeeded, AuthenticationFailed, HostKeyRefused])
async def test_a_person_is_never_asked_unasked(node: RelayProcess, kind: Any) -> None:
    world = World(node)
    await world.start()
    world.errors = [kind("A person has to answer.", "Log in again.")]
    world.pipes[-1].abort()
    await until(lambda: world.needs())
    await stays(lambda: world.asked == [False], seconds=0.3)  # it is not tried again
    world.retry.allow()
    await world.up()
    assert world.asked == [False, True] and isinstance(world.events[-1], Reconnected)
    await world.stop()


@pytest.mark.usefixtures("alert")
async def test_the_old_pipe_makes_the_person_unnecessary(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    world.errors = [PromptNeeded("Duo.", "")]
    old = world.pipes[-1]
    old.fall_silent()
    await until(lambda: world.needs())
    assert not old.closed
    old.speak()
    await until(lambda: isinstance(world.events[-1], Reconnected))
    await until(lambda: not any("until_done" in repr(task) for task in asyncio.all_tasks()))
    world.retry.allow()  # too late: must not be remembered
    old.abort()
    await world.up(2)
    assert world.asked == [False, False]
    await world.stop()


async def test_a_failed_answer_is_not_repeated(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    world.errors = [PromptNeeded("Duo.", ""), AuthenticationFailed("Wrong code.", "")]
    world.pipes[-1].abort()
    await until(lambda: len(world.needs()) == 1)
    world.retry.allow()
    await until(lambda: len(world.needs()) == 2)
    await stays(lambda: world.asked == [False, True], seconds=0.2)
    world.retry.allow()
    await world.up()
    assert world.asked == [False, True, True]
    await world.stop()
