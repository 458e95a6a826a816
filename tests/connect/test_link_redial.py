"""When a new pipe is dialled, when not, and who has to be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_hpc.connect import redial as redial_module
from jupyter_hpc.connect.link import BytePipe, Link
from jupyter_hpc.connect.redial import (
    DialFailed,
    PersonNeeded,
    Redial,
    RedialEvent,
    SleepWatch,
    Timing,
    Woke,
)
from jupyter_hpc.errors import (
    AuthenticationFailed,
    ConnectError,
    HostKeyRefused,
    PromptNeeded,
    SessionEnded,
    SessionTaken,
    Unreachable,
)
from tests.connect.link_helpers import MutePipe, mute_pipe
from tests.relay.harness import (
    PATIENCE,
    SECRET,
    Collector,
    RelayProcess,
    echo,
    running_relay,
    unix_server,
)
from tests.waiting import until

QUICK = Timing(
    tick=0.05,
    knock_every=0.05,
    knock_limit=60,
    handshake_limit=60,
    first_pause=0.02,
    longest_pause=0.1,
)


@pytest.fixture
async def node() -> AsyncIterator[RelayProcess]:
    async with running_relay() as process, unix_server(process.jupyter, echo):
        yield process


class World:
    """A link that is redialled, with every call written down."""

    def __init__(self, node: RelayProcess, timing: Timing = QUICK, knocking: bool = False) -> None:
        self.node = node
        self.link = Link(SECRET, "laptop")
        self.events: list[RedialEvent] = []
        self.asked: list[bool] = []
        self.knocked: list[Any] = []
        self.knocks = 0
        self.errors: list[Exception] = []
        self.pipes: list[MutePipe] = []
        self.given_up = 0
        self.dial_answers = asyncio.Event()
        self.dial_answers.set()
        self.knock_answers = asyncio.Event()
        self.redial = Redial(
            self.link,
            self.dial,
            knock=self.knock if knocking else None,
            on_event=self.events.append,
            timing=timing,
        )
        self.task: asyncio.Task[None] | None = None

    async def dial(self, knocked: Any, ask: bool) -> BytePipe:
        self.asked.append(ask)
        self.knocked.append(knocked)
        try:
            await self.dial_answers.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if self.errors:
            raise self.errors.pop(0)
        self.pipes.append(await mute_pipe(self.node))
        return self.pipes[-1]

    async def knock(self) -> object:
        self.knocks += 1
        await self.knock_answers.wait()
        return Knock(self.knocks)

    async def start(self) -> None:
        self.task = asyncio.create_task(self.redial.run())
        assert await self.link.wait_up(PATIENCE)
        self.asked.clear()
        self.knocked.clear()
        self.knocks = 0
        self.events.clear()

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.link.close()

    def needs(self) -> list[PersonNeeded]:
        return [event for event in self.events if isinstance(event, PersonNeeded)]


class Knock:
    """A connected socket, say."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def close(self) -> None:
        self.closed = True


async def test_a_closed_pipe_is_dialled_for_at_once(node: RelayProcess) -> None:
    world = World(node, Timing(first_pause=60))
    await world.start()
    end = Collector()
    end.stream = world.link.open("", end)
    began = time.monotonic()
    world.pipes[-1].abort()
    end.stream.send(b"hello")
    await end.wait(lambda: bytes(end.data) == b"hello")
    assert time.monotonic() - began < 15
    assert world.asked == [False] and world.events == []
    await world.stop()


@pytest.mark.usefixtures("alert")
async def test_a_silent_pipe_is_kept_until_the_new_one_is_there(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    world.dial_answers.clear()
    old = world.pipes[-1]
    old.fall_silent()
    await until(lambda: world.asked)
    assert not old.closed and str(world.link.state) == "suspect"
    world.dial_answers.set()
    await until(lambda: world.link.state == "up")
    assert old.closed and len(world.pipes) == 2
    await world.stop()


@pytest.mark.usefixtures("alert")
async def test_a_pipe_that_speaks_again_ends_the_dial(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    world.dial_answers.clear()
    old = world.pipes[-1]
    old.fall_silent()
    await until(lambda: world.asked)
    old.speak()
    await until(lambda: world.given_up)
    assert world.link.state == "up" and not old.closed and len(world.pipes) == 1
    old.abort()
    world.dial_answers.set()
    await until(lambda: world.link.state == "up" and len(world.pipes) == 2)
    await world.stop()


async def test_knocks_go_on_in_parallel_and_one_wins(node: RelayProcess) -> None:
    world = World(node, knocking=True)
    world.knock_answers.set()
    await world.start()
    world.knock_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: world.knocks >= 4)
    assert world.asked == [], "a handshake was begun although nobody answered"
    world.knock_answers.set()
    await until(lambda: world.link.state == "up")
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
    await until(lambda: world.link.state == "up")
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


async def test_failed_dials_pause_longer_each_time(node: RelayProcess) -> None:
    world = World(node, Timing(first_pause=0.01, longest_pause=0.05))
    await world.start()
    world.errors = [ConnectError("no", "") for _ in range(6)]
    world.pipes[-1].abort()
    await world.link.wait_trouble()
    await until(lambda: world.link.state == "up")
    pauses = [event.pause for event in world.events if isinstance(event, DialFailed)]
    assert len(pauses) == 6 and world.asked == [False] * 7
    for number, pause in enumerate(pauses):
        full = min(0.05, 0.01 * 2**number)
        assert full / 2 <= pause <= full
    await world.stop()


async def test_a_dial_that_hangs_is_ended(node: RelayProcess) -> None:
    world = World(node, replace(QUICK, handshake_limit=0.5))
    await world.start()
    world.dial_answers.clear()
    world.pipes[-1].abort()
    await until(lambda: len(world.asked) >= 2)
    world.dial_answers.set()
    await until(lambda: world.link.state == "up")
    assert isinstance(world.events[0], DialFailed)
    await world.stop()


@pytest.mark.parametrize("kind", [PromptNeeded, AuthenticationFailed, HostKeyRefused])
async def test_a_person_is_never_asked_unasked(node: RelayProcess, kind: Any) -> None:
    world = World(node)
    await world.start()
    world.errors = [kind("A person has to answer.", "Log in again.")]
    world.pipes[-1].abort()
    await until(lambda: world.needs())
    await asyncio.sleep(0.3)
    assert world.asked == [False], "it was tried again"
    assert world.redial.needs_person is not None
    world.redial.allow()
    await until(lambda: world.link.state == "up")
    assert world.asked == [False, True] and world.redial.needs_person is None
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
    await until(lambda: world.link.state == "up" and world.redial.needs_person is None)
    world.redial.allow()  # too late: must not be remembered
    old.abort()
    await until(lambda: len(world.pipes) == 2 and world.link.state == "up")
    assert world.asked == [False, False]
    await world.stop()


async def test_a_failed_answer_is_not_repeated(node: RelayProcess) -> None:
    world = World(node)
    await world.start()
    world.errors = [PromptNeeded("Duo.", ""), AuthenticationFailed("Wrong code.", "")]
    world.pipes[-1].abort()
    await until(lambda: len(world.needs()) == 1)
    world.redial.allow()
    await until(lambda: len(world.needs()) == 2)
    await asyncio.sleep(0.2)
    assert world.asked == [False, True]
    world.redial.allow()
    await until(lambda: world.link.state == "up")
    assert world.asked == [False, True, True]
    await world.stop()


@pytest.mark.parametrize("kind", [SessionEnded, SessionTaken])
async def test_what_makes_dialling_pointless_ends_it(node: RelayProcess, kind: Any) -> None:
    world = World(node)
    await world.start()
    world.errors = [kind("Over.", "")]
    world.pipes[-1].abort()
    assert world.task is not None
    with pytest.raises(kind):
        await asyncio.wait_for(world.task, PATIENCE)
    await world.stop()


async def test_a_second_gate_ends_the_first_ones_dialling(node: RelayProcess) -> None:
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
    before = asyncio.all_tasks()
    await world.stop()
    await until(lambda: not [task for task in asyncio.all_tasks() if "knock" in repr(task)])
    assert len(asyncio.all_tasks()) < len(before)


def test_sleep_is_seen_by_either_clock() -> None:
    wall, steady = [1000.0], [50.0]
    watch = SleepWatch(5.0, lambda: wall[0], lambda: steady[0])
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


async def test_waking_doubts_the_pipe(node: RelayProcess) -> None:
    world = World(node, Timing(tick=0.05, sleep_jump=0.3))
    await world.start()
    await asyncio.sleep(0.2)
    world.pipes[-1].fall_silent()
    began = time.monotonic()
    time.sleep(0.5)
    await until(lambda: len(world.pipes) == 2 and world.link.state == "up")
    assert time.monotonic() - began < 20, "it waited as if nothing had happened"
    assert any(isinstance(event, Woke) for event in world.events)
    await world.stop()


async def test_pipes_that_close_at_once_are_not_dialled_without_pause(node: RelayProcess) -> None:
    """A site that kills each step, say, must not see hundreds of them a minute."""
    world = World(node, replace(QUICK, short_life=60, first_pause=5.0, longest_pause=5.0))
    world.task = asyncio.create_task(world.redial.run())
    for number in range(1, 7):
        await until(lambda: len(world.pipes) == number and world.link.state == "up")  # noqa: B023
        world.pipes[-1].abort()
    await until(lambda: bool(world.events))
    (event,) = world.events
    assert isinstance(event, DialFailed) and event.pause >= 2.5
    await asyncio.sleep(0.3)
    assert len(world.pipes) == 6
    await world.stop()
