"""A link that is redialled, as the tests of redialling see it."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_hpc.connect.session.reconnect import PersonNeeded, Redial, RedialEvent, Timing
from jupyter_hpc.connect.ssh.interfaces import BytePipe
from jupyter_hpc.connect.tunnel.link import Link
from tests.connect.tunnel.helpers import MutePipe, mute_pipe
from tests.relay.harness import PATIENCE, SECRET, RelayProcess
from tests.waiting import until

QUICK = Timing(
    tick=0.05,
    knock_every=0.05,
    knock_limit=60,
    handshake_limit=60,
    first_pause=0.02,
    longest_pause=0.1,
)


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

    async def up(self, pipes: int = 0) -> None:
        """Wait until the link is up, over pipe number `pipes` where that matters."""
        await until(lambda: self.link.state == "up" and pipes in (0, len(self.pipes)))

    async def fall_silent(self) -> MutePipe:
        """The pipe, silent and suspected: a new one is dialled for, and nobody answers."""
        self.dial_answers.clear()
        self.pipes[-1].fall_silent()
        await until(lambda: self.asked)
        return self.pipes[-1]

    def needs(self) -> list[PersonNeeded]:
        return [event for event in self.events if isinstance(event, PersonNeeded)]


class Knock:
    """A connected socket, say."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def close(self) -> None:
        self.closed = True
