"""One stream to one browser tab: it pushes what the tab looks at, and nothing else.

A tab sends the list of what it looks at and repeats it while it is visible. When the
list has not come for a while (a laptop is asleep, its connection kept alive for it),
nothing is fetched or sent until it comes again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_hpc.errors import HpcError, UsageError
from jupyter_hpc.node.services.jobs import Seen
from jupyter_hpc.node.services.unexpected import unexpected
from jupyter_hpc.node.values import encode, problem_of

if TYPE_CHECKING:
    from jupyter_hpc.node.services.registry import Services

TOPICS = ("session", "gpus", "nodes", "jobs", "log")

#: Without a word from the tab for so long, nobody looks.
LEASE_SECONDS = 150.0

MAX_WATCHED_TOPICS = 20

SESSION_SECONDS = 5.0
LOG_SECONDS = 1.0
LOG_SECONDS_AT_REST = 3.0
LOG_REST_AFTER_SECONDS = 60.0

#: After an error a topic is tried again after so long, unless it knows better.
RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Watch:
    """One thing to look at; the position of a log is not part of what it is."""

    topic: str
    job: str = ""
    stream: str = ""

    def named(self) -> dict[str, str]:
        """The members that name the topic in a message."""
        names = {"topic": self.topic, "job": self.job, "stream": self.stream}
        return {key: value for key, value in names.items() if value}


class Stream:
    """Follows what one tab looks at. `send` may wait, which slows this stream alone."""

    def __init__(self, services: Services, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._services = services
        self._send = send
        self._tasks: dict[Watch, asyncio.Task[None]] = {}
        self._last_message_at = time.monotonic()
        self._message_came = asyncio.Event()

    async def receive(self, message: object) -> None:
        """Take the tab's list; a message that is none is answered with an error."""
        self._last_message_at = time.monotonic()
        self._message_came.set()
        try:
            wanted = _read_watches(message)
        except UsageError as error:
            await self._send(encode({"topic": "stream", "error": problem_of(error)}))
            return
        for watch in self._tasks.keys() - wanted.keys():
            self._tasks.pop(watch).cancel()
        for watch, start in wanted.items():
            if watch not in self._tasks or self._tasks[watch].done():
                self._tasks[watch] = asyncio.create_task(self._follow(watch, start))

    def close(self) -> None:
        """Stop everything."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _follow(self, watch: Watch, start: Mapping[str, Any]) -> None:
        """Send a topic until it is no longer watched."""
        said: str | None = None
        while True:
            try:
                async with aclosing(self._source(watch, start)) as source:
                    async for data in source:
                        said = None
                        await self._send(encode({**watch.named(), "data": data}))
                        await self._somebody_looks()
            except Exception as error:
                if said != str(error):
                    said = str(error)
                    problem = error if isinstance(error, HpcError) else unexpected(error)
                    await self._send(encode({**watch.named(), "error": problem_of(problem)}))
            await asyncio.sleep(self._retry_seconds(watch))
            await self._somebody_looks()

    def _retry_seconds(self, watch: Watch) -> float:
        return (
            max(RETRY_SECONDS, self._services.jobs.due())
            if watch.topic == "jobs"
            else (RETRY_SECONDS)
        )

    async def _somebody_looks(self) -> None:
        """Return at once while the tab sends its list, else when it comes again."""
        while time.monotonic() - self._last_message_at > LEASE_SECONDS:
            self._message_came.clear()
            await self._message_came.wait()

    def _source(self, watch: Watch, start: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        if watch.topic == "session":
            return self._session()
        if watch.topic == "gpus":
            return self._gpus()
        if watch.topic == "nodes":
            return self._nodes()
        if watch.topic == "jobs":
            return self._jobs()
        return self._log(watch, start)

    async def _session(self) -> AsyncGenerator[object, None]:
        while True:
            yield await self._services.session.read()
            await asyncio.sleep(SESSION_SECONDS)

    async def _gpus(self) -> AsyncGenerator[object, None]:
        gpus = self._services.gpus
        while True:
            yield await gpus.read()
            await gpus.sampled.wait(RETRY_SECONDS)

    async def _nodes(self) -> AsyncGenerator[object, None]:
        nodes = self._services.nodes
        while True:
            yield await nodes.read()
            await nodes.changed.wait(RETRY_SECONDS)

    async def _jobs(self) -> AsyncGenerator[object, None]:
        jobs, seen = self._services.jobs, Seen()
        while True:
            changes = await jobs.changes(seen)
            if changes is not None:
                yield changes
            await jobs.changed.wait(max(1.0, jobs.due()))

    async def _log(self, watch: Watch, start: Mapping[str, Any]) -> AsyncGenerator[object, None]:
        logs = self._services.logs
        offset, file = start.get("offset"), start.get("file")
        shown: object = None
        moved_at = time.monotonic()
        while True:
            piece = await logs.read(watch.job, watch.stream or "stdout", offset, file=file)
            state = (piece.exists, piece.message)
            if piece.text or piece.restarted or shown != state:
                moved_at = time.monotonic()
                yield piece
            shown = state
            if piece.exists:
                offset, file = piece.next_offset, piece.file
            if piece.eof:
                at_rest = time.monotonic() - moved_at > LOG_REST_AFTER_SECONDS
                await asyncio.sleep(LOG_SECONDS_AT_REST if at_rest else LOG_SECONDS)


def _read_watches(message: object) -> dict[Watch, Mapping[str, Any]]:
    """The list of a tab; where each log starts is the value."""
    items = message.get("watch") if isinstance(message, Mapping) else None
    if not isinstance(items, list) or len(items) > MAX_WATCHED_TOPICS:
        raise UsageError(
            "This is not a list of things to watch.",
            f'Send {{"watch": […]}} with at most {MAX_WATCHED_TOPICS} items.',
        )
    watches: dict[Watch, Mapping[str, Any]] = {}
    for item in items:
        topic = item.get("topic") if isinstance(item, Mapping) else None
        if topic not in TOPICS:
            raise UsageError("There is no such topic.", f"Topics: {', '.join(TOPICS)}.")
        if topic != "log":
            watches[Watch(topic)] = {}
            continue
        job, stream = item.get("job"), item.get("stream", "stdout")
        offset, file = item.get("offset"), item.get("file")
        well_formed = (
            isinstance(job, str)
            and isinstance(stream, str)
            and (offset is None or (isinstance(offset, int) and offset >= 0))
            and (file is None or isinstance(file, str))
        )
        if not well_formed:
            raise UsageError(
                "A log is watched by its job.", 'Send {"topic": "log", "job": "123", …}.'
            )
        watches[Watch("log", job, stream)] = {"offset": offset, "file": file}
    return watches
