"""When a session asks for its successor, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_hpc.clusters import load
from jupyter_hpc.connect.events import Warned
from jupyter_hpc.connect.job.allocation import Launch
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.session.connections import ClusterConnections
from jupyter_hpc.connect.session.listener import SessionContext
from jupyter_hpc.connect.session.renew import renewal as module
from jupyter_hpc.connect.session.renew import schedule
from jupyter_hpc.connect.session.renew.moving import CarryLimits
from jupyter_hpc.connect.session.renew.renewal import Renewal
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.errors import ConnectError, SlurmUnavailable, Unreachable
from jupyter_hpc.slurm.client import SlurmClient
from tests.connect.session.supervised import Connections, Listener

MINUTE = 60.0


class World:
    """A session whose queue and kernels do as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, renew: bool = True) -> None:
        self.listener = Listener()
        self.wait: float | None = 0.0
        self.estimates = 0
        self.made: list[Exception | None] = []
        self.given_back: list[str] = []
        self.busy: list[bool | Exception] = []
        self.moved: list[str] = []
        self.link = SimpleNamespace(state="up", wait_up=self._wait_up)
        self.lost: list[str] = []
        launch = Launch(None, "salloc", "salloc", lambda **facts: None)
        connections = cast(ClusterConnections, Connections())
        options = ConnectOptions("ulysses", renew=renew)
        context = SessionContext(load("ulysses"), options, connections, launch, self.listener)
        world = self

        async def test_only(client: object, *_: object) -> Any:
            world.estimates += 1
            if world.wait is None:
                raise SlurmUnavailable("No controller.", "")
            return SimpleNamespace(start=time.time() + world.wait)

        class Maker:
            def __init__(self, context: SessionContext) -> None:
                self.request = context.request("+next")
                self.job_id = ""
                self.asked = False
                self.own = True

            async def make(self, asked: Any) -> Any:
                if not self.job_id:
                    self.job_id, self.asked = "8", True
                    asked("8")
                outcome = world.made.pop(0) if world.made else None
                if outcome is not None:
                    raise outcome
                opened = SimpleNamespace(job=SimpleNamespace(job_id="8"))
                link = SimpleNamespace(close=_nothing)
                return SimpleNamespace(opened=opened, link=link, said="")

            async def give_back(self, *, stop: bool = False) -> str:
                if not self.asked:
                    return ""
                world.given_back.append(self.job_id)
                return self.job_id

        async def busy(link: object, token: str, states: object) -> bool:
            answer = world.busy.pop(0) if world.busy else False
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def move(*_: object, browsers: bool, carry: CarryLimits | None) -> str:
            world.moved.append("moved" if carry is None else f"with {carry.each_bytes >> 20} MB")
            return ""

        monkeypatch.setattr(SlurmClient, "test_only", test_only)
        monkeypatch.setattr(module, "SuccessorMaker", Maker)
        monkeypatch.setattr(jupyter_api, "busy", busy)
        monkeypatch.setattr(module, "move_workbench", move)
        monkeypatch.setattr(module, "_BUSY_SECONDS", 0.01)
        self.context = context
        self.renewal = Renewal(context)

    async def _wait_up(self, seconds: float) -> bool:
        self.lost.append("waited")
        self.link.state = "up"
        return True

    async def run(self) -> None:
        await self.renewal.run("7", cast(Link, self.link), "token")

    def left(self, minutes: float, limit_minutes: float = 24 * 60) -> None:
        self.context.ends_at = time.time() + minutes * MINUTE
        self.context.longest_limit = int(max(self.context.longest_limit, limit_minutes * MINUTE))

    async def due(self) -> bool:
        """Whether a successor is asked for now."""
        task = asyncio.create_task(self.run())
        for _ in range(20):
            await asyncio.sleep(0)
        done = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return done

    @property
    def said(self) -> str:
        return " ".join(event.text for event in self.listener.events if isinstance(event, Warned))


async def _nothing() -> None:
    return None


def _after(seconds: float) -> Callable[[], float]:
    return lambda: time.monotonic() + seconds


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("left", "limit", "wait", "due"),
    [
        (60, 1440, 0, False),
        (60, 1440, 49, False),
        (60, 1440, 51, True),  # a long queue: earlier
        (400, 1440, 1000, False),  # further ahead than queues are foreseen
        (16, 1440, 0, False),
        (14, 1440, 0, False),  # a short one: it would run, and cost, for longer than it has to
        (14, 1440, 3, False),
        (14, 1440, 5, True),
        (9.9, 1440, 0, True),
        (14, 1440, None, True),  # nobody knows: 15 minutes before the limit
        (16, 1440, None, False),
        (60, 1440, None, False),
        (14, 20, 0, False),  # a short job has half of its time
        (14, 20, 1000, False),
        (9, 20, 0, True),
    ],
)
async def test_when_it_is_asked_for(
    world: World, left: float, limit: float, wait: float | None, due: bool
) -> None:
    world.wait = None if wait is None else wait * MINUTE
    world.left(left, limit)
    assert await world.due() is due
    assert ("asked for" in world.said) is due


@pytest.mark.parametrize(("left", "passed", "asked"), [(60, 121, 1), (60, 601, 2), (29, 121, 2)])
async def test_slurm_is_asked_for_estimates_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch, left: float, passed: float, asked: int
) -> None:
    """More often when the limit is near: the queue may have grown."""
    world.left(left)
    for _ in range(3):
        assert not await world.due()
    assert world.estimates == 1
    monkeypatch.setattr(schedule, "time", SimpleNamespace(time=time.time, monotonic=_after(passed)))
    assert not await world.due()
    assert world.estimates == asked


async def test_without_the_option_only_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, renew=False)
    world.left(5)
    assert not await world.due() and world.said == ""
    cost = "side by side for at most 5 minutes, and both are charged: about "
    assert cost in world.renewal.offer
    world.renewal.ask()
    assert world.renewal.offer == ""
    assert await world.due()
    assert "to go on when job 7 ends in 4 min" in world.said
    assert cost in world.said


async def test_variables_go_along_when_they_are_asked_for(world: World) -> None:
    world.left(10)
    world.renewal.ask(variables=True)
    await world.run()
    assert world.moved == ["with 256 MB"]
    with pytest.raises(ConnectError, match="Job 8 was asked for already"):
        world.renewal.ask()


async def test_a_cut_gives_up_nothing(world: World) -> None:
    world.left(10)
    world.link.state = "down"
    world.made = [Unreachable("Nobody answers.")]
    await world.run()
    assert world.lost == ["waited"] and world.given_back == []
    assert world.renewal.ready is not None
    assert world.said.count("Job 8 was asked for") == 1 and "could not be" not in world.said


async def test_one_that_waits_is_handed_over_when_the_job_is_over(world: World) -> None:
    world.left(10)
    world.link.state = "down"
    world.made = [Unreachable("Nobody answers.")] * 100
    assert not await world.due()
    maker = world.renewal.hand_over()
    assert maker is not None and maker.job_id == "8"
    await world.renewal.give_back()
    assert world.given_back == [] and world.renewal.hand_over() is None


async def test_a_shortened_limit_does_not_stop_it(world: World) -> None:
    world.left(30, 30)
    assert not await world.due()
    world.left(10, 10)
    assert await world.due()


async def test_the_change_waits_for_kernels_but_not_beyond_the_last_moment(world: World) -> None:
    world.left(10)
    world.busy = [True, ConnectError("away"), True, False]
    await world.run()
    assert world.busy == [] and world.moved == ["moved"]
    assert world.said.count("A kernel works") == 1
    world.left(1.5)
    world.busy = [True]
    await world.run()
    assert world.busy == [True]


async def test_one_that_fails_is_said_and_not_tried_again(world: World) -> None:
    world.left(10)
    world.made = [ConnectError("Jupyter did not start.")]
    assert not await world.due()
    assert "Jupyter did not start. It goes on until its time limit." in world.said
    assert not await world.due()
    assert world.said.count("asked for") == 1


async def test_not_even_a_mistake_of_ours_ends_the_session(world: World) -> None:
    world.left(10)
    world.made = [KeyError("a mistake")]
    assert not await world.due()
    assert "a mistake" in world.said and "It goes on until its time limit." in world.said


async def test_one_that_was_not_used_is_given_back(world: World) -> None:
    world.left(10)
    await world.run()
    assert world.renewal.ready is not None
    await world.renewal.give_back()
    assert world.given_back == ["8"] and world.renewal.ready is None
    await world.renewal.give_back()
    assert world.given_back == ["8"]
