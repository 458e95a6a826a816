"""How it is found out that a host can be reached again."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from jupyter_hpc.connect.session import reconnect as redial_module
from jupyter_hpc.connect.session.reconnect import DialFailed, Timing
from jupyter_hpc.errors import Unreachable
from tests.connect.session.reconnect_world import Knock, World
from tests.relay.harness import RelayProcess
from tests.waiting import until


async def test_knocks_go_on_in_parallel_and_one_wins(node: RelayProcess) -> None:
    world = World(node, knocking=True)
    world.knock_answers.set()
    await world.start()
    world.knock_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.knocks >= 4)
    assert world.asked == [], "a handshake was begun although nobody answered"
    world.knock_answers.set()
    await world.up()
    assert world.asked == [False] and isinstance(world.knocked[0], Knock)
    assert not world.knocked[0].closed
    await world.stop()


async def test_an_unreachable_host_is_told_once_and_knocked_at_again(node: RelayProcess) -> None:
    world = World(node, knocking=True)
    world.knock_answers.set()
    await world.start()
    refused = 5

    async def knock() -> object:
        nonlocal refused
        refused -= 1
        if refused >= 0:
            raise Unreachable("No route.", "Wait.")
        return Knock(0)

    world.redial._knock = knock
    world.pipes[-1].abort()
    await world.link.wait_trouble()
    await world.up()
    assert [type(event) for event in world.events] == [DialFailed]
    await world.stop()


async def test_knocks_become_patient(node: RelayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    clock = SimpleNamespace(time=time.time, monotonic=lambda: time.monotonic() + passed)
    monkeypatch.setattr(redial_module, "time", clock)
    timing = Timing(knock_every=0.02, patient_after=600, knock_patiently=60, knock_limit=60)
    world = World(node, timing, knocking=True)
    world.knock_answers.set()
    await world.start()
    world.knock_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.knocks >= 3)
    before, passed = world.knocks, 601.0
    await asyncio.sleep(0.5)
    assert world.knocks <= before + 2
    await world.stop()


async def test_connections_that_come_too_late_are_closed(node: RelayProcess) -> None:
    world = World(node, knocking=True)
    world.knock_answers.set()
    await world.start()
    made: list[Knock] = []
    begun = 0
    answers = asyncio.Event()

    async def knock() -> object:
        nonlocal begun
        begun += 1
        try:
            await (answers.wait() if begun == 1 else asyncio.sleep(60))
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)  # was connected at the same moment
        made.append(Knock(len(made)))
        return made[-1]

    world.redial._knock = knock
    world.pipes[-1].abort()
    await until(lambda: begun >= 3)
    answers.set()
    await until(lambda: world.knocked)
    await until(lambda: len(made) == begun and sum(not one.closed for one in made) == 1)
    assert not world.knocked[0].closed
    await world.stop()


async def test_nothing_is_left_when_it_is_cancelled(node: RelayProcess) -> None:
    world = World(node, knocking=True)
    world.knock_answers.set()
    await world.start()
    world.knock_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.knocks >= 2)
    before, own = asyncio.all_tasks(), asyncio.current_task()

    def knocking() -> list[object]:
        return [task for task in asyncio.all_tasks() if task is not own and "knock" in repr(task)]

    assert knocking()
    await world.stop()
    await until(lambda: not knocking())
    assert len(asyncio.all_tasks()) < len(before)
