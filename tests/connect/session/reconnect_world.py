"""A link that gets new pipes, as the tests of reconnecting see it."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_hpc.connect.events import Event, PersonNeeded
from jupyter_hpc.connect.session.outage import Outage
from jupyter_hpc.connect.session.reconnect import PipeReconnect
from jupyter_hpc.connect.session.retry import LoginLimit, Retry, RetryTiming
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.link import Link
from tests.connect.tunnel.helpers import MutePipe, mute_pipe
from tests.relay.harness import PATIENCE, SECRET, RelayProcess
from tests.waiting import until

QUICK = RetryTiming(
    probe_every=0.05,
    probe_limit=60,
    attempt_limit=60,
    first_pause=0.02,
    longest_pause=0.1,
)


class WatchedOutage(Outage):
    """Writes down what failed, and the pauses after it."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__(events.append)
        self.failures: list[tuple[BaseException, float]] = []
        self.probes_failed = 0

    def attempt_failed(self, error: BaseException, pause: float) -> None:
        self.failures.append((error, pause))
        super().attempt_failed(error, pause)

    def probe_failed(self, error: BaseException) -> None:
        self.probes_failed += 1
        super().probe_failed(error)


class World:
    """A link that gets new pipes, with every call written down."""

    def __init__(
        self, node: RelayProcess, timing: RetryTiming = QUICK, probing: bool = False
    ) -> None:
        self.node = node
        self.events: list[Event] = []
        self.outage = WatchedOutage(self.events)
        self.link = Link(SECRET, "laptop", self.outage.on_link)
        self.asked: list[bool] = []
        self.reachable: list[Any] = []
        self.probes = 0
        self.errors: list[Exception] = []
        self.pipes: list[MutePipe] = []
        self.given_up = 0
        self.pipe_answers = asyncio.Event()
        self.pipe_answers.set()
        self.probe_answers = asyncio.Event()
        self.retry = Retry(self.outage, timing)
        probe = self.probe if probing else None
        self.login_limit = LoginLimit()
        self.way_lost = asyncio.Event()
        self.reconnect = PipeReconnect(self.link, self.open_pipe, probe, lambda: self.retry, self)
        self.task: asyncio.Task[None] | None = None

    async def open_pipe(self, reachable: Any, ask: bool) -> BytePipe:
        self.asked.append(ask)
        self.reachable.append(reachable)
        try:
            await self.pipe_answers.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if self.errors:
            raise self.errors.pop(0)
        self.pipes.append(await mute_pipe(self.node))
        return self.pipes[-1]

    async def probe(self) -> object:
        self.probes += 1
        await self.probe_answers.wait()
        return Answer(self.probes)

    async def lost(self) -> None:
        await self.way_lost.wait()

    async def start(self) -> None:
        self.task = asyncio.create_task(self.reconnect.run())
        assert await self.link.wait_up(PATIENCE)
        self.asked.clear()
        self.reachable.clear()
        self.probes = 0
        self.outage.failures.clear()
        self.outage.probes_failed = 0
        self.events.clear()

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.link.close()

    async def up(self, pipes: int = 0) -> None:
        """Wait until the link is up, over pipe number `pipes` where that matters."""
        await until(lambda: self.link.state == "up" and pipes in (0, len(self.pipes)))

    async def fall_silent(self) -> MutePipe:
        """The pipe, silent and suspected: a new one is asked for, and nobody answers."""
        self.pipe_answers.clear()
        self.pipes[-1].fall_silent()
        await until(lambda: self.asked)
        return self.pipes[-1]

    def needs(self) -> list[PersonNeeded]:
        return [event for event in self.events if isinstance(event, PersonNeeded)]


class Answer:
    """A connected socket, say."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def close(self) -> None:
        self.closed = True
