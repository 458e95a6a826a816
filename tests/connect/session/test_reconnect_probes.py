"""How it is found out that a host can be reached again."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from jupyter_hpc.connect.session import retry
from jupyter_hpc.connect.session.retry import RetryTiming
from jupyter_hpc.errors import Unreachable
from tests.connect.session.reconnect_world import Answer, World
from tests.relay.harness import RelayProcess
from tests.waiting import stays, until


async def test_probes_go_on_in_parallel_and_one_wins(node: RelayProcess) -> None:
    world = World(node, probing=True)
    world.probe_answers.set()
    await world.start()
    world.probe_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.probes >= 4)
    assert world.asked == [], "a handshake was begun although nobody answered"
    world.probe_answers.set()
    await world.up()
    assert world.asked == [False] and isinstance(world.reachable[0], Answer)
    assert not world.reachable[0].closed
    await world.stop()


async def test_an_unreachable_host_is_probed_again(node: RelayProcess) -> None:
    world = World(node, probing=True)
    world.probe_answers.set()
    await world.start()
    refused = 5

    async def probe() -> object:
        nonlocal refused
        refused -= 1
        if refused >= 0:
            raise Unreachable("No route.", "Wait.")
        return Answer(0)

    world.reconnect._probe = probe
    world.pipes[-1].abort()
    await world.link.wait_trouble()
    await world.up()
    assert world.outage.probes_failed == 5 and world.outage.failures == []
    await world.stop()


async def test_probes_become_patient(node: RelayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    clock = SimpleNamespace(time=time.time, monotonic=lambda: time.monotonic() + passed)
    monkeypatch.setattr(retry, "time", clock)
    timing = RetryTiming(probe_every=0.02, patient_after=600, probe_patiently=60, probe_limit=60)
    world = World(node, timing, probing=True)
    world.probe_answers.set()
    await world.start()
    world.probe_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.probes >= 3)
    before, passed = world.probes, 601.0
    await stays(lambda: world.probes <= before + 2, seconds=0.5)
    await world.stop()


async def test_connections_that_come_too_late_are_closed(node: RelayProcess) -> None:
    world = World(node, probing=True)
    world.probe_answers.set()
    await world.start()
    made: list[Answer] = []
    begun = 0
    answers = asyncio.Event()

    async def probe() -> object:
        nonlocal begun
        begun += 1
        try:
            await (answers if begun == 1 else asyncio.Event()).wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # was connected at the same moment
        made.append(Answer(len(made)))
        return made[-1]

    world.reconnect._probe = probe
    world.pipes[-1].abort()
    await until(lambda: begun >= 3)
    answers.set()
    await until(lambda: world.reachable)
    await until(lambda: len(made) == begun and sum(not one.closed for one in made) == 1)
    assert not world.reachable[0].closed
    await world.stop()


async def test_nothing_is_left_when_it_is_cancelled(node: RelayProcess) -> None:
    world = World(node, probing=True)
    world.probe_answers.set()
    await world.start()
    world.probe_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.probes >= 2)
    before, own = asyncio.all_tasks(), asyncio.current_task()

    def probing() -> list[object]:
        return [task for task in asyncio.all_tasks() if task is not own and "probe" in repr(task)]

    assert probing()
    await world.stop()
    await until(lambda: not probing())
    assert len(asyncio.all_tasks()) < len(before)
