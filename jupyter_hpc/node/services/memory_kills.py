"""Kernels and other processes of this session that the system has ended for want of memory.

Jupyter starts such a kernel again without a word. The group of the job's step counts what is
ended in it; a look at that count now and then, and at the processes of the kernels, tells whom
it hit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.cgroup import Kills, read_kills
from jupyter_hpc.node.services.notebooks import Notebook

_log = logging.getLogger(__name__)

#: A kernel that died is started again after three seconds at the latest.
LOOK_SECONDS = 2.0

#: Whether a kernel is among what was ended is looked at so often, and so far apart.
DYING_LOOKS = 5
DYING_SECONDS = 0.3

#: So many are kept for tabs and laptops that look later.
MAX_KEPT = 5


@dataclass(frozen=True)
class MemoryKill:
    """Something was ended.

    `number` counts what was ended since the server's step began. `limit` is the job's memory
    in bytes, None where the node itself had none left. Without `kernels` it was another
    process, such as one that a kernel had started.
    """

    number: int
    at: float
    limit: int | None
    kernels: tuple[Notebook, ...]


class MemoryKills:
    """Looks from `start` to `stop`; `recent` holds the newest, the last one last."""

    def __init__(
        self,
        running: Callable[[], Awaitable[Mapping[int, Notebook]]],
        on_kill: Callable[[MemoryKill], None],
        read: Callable[[], Kills | None] = read_kills,
        lives: Callable[[int], bool] | None = None,
    ) -> None:
        self.recent: tuple[MemoryKill, ...] = ()
        self._running = running
        self._on_kill = on_kill
        self._read = read
        self._lives = lives or process_lives
        self._count = 0
        self._kernels: Mapping[int, Notebook] = {}  # by process
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look; without a count there is nothing to look at."""
        if self._task is None and self._read() is not None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception as error:
                # A session that ends while it is listed; the next look finds what is left.
                _log.info("kernels could not be looked at: %r", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Tell of what was ended since the last look."""
        kills = self._read()  # a file of the kernel's own: it does not block
        before, self._kernels = self._kernels, await self._running()
        if kills is None or kills.count <= self._count:
            return
        self._count = kills.count
        lost = await self._lost(before)
        kill = MemoryKill(kills.count, time.time(), kills.limit, tuple(lost.values()))
        self.recent = (*self.recent, kill)[-MAX_KEPT:]
        names = ", ".join(kernel.path for kernel in lost.values()) or "no kernel"
        _log.warning("ended for want of memory (number %d): %s", kills.count, names)
        self._on_kill(kill)

    async def _lost(self, before: Mapping[int, Notebook]) -> dict[str, Notebook]:
        """The kernels that have ended: what is counted may take a moment to give its memory up."""
        lost: dict[str, Notebook] = {}
        for _ in range(DYING_LOOKS):
            lost = {
                kernel.kernel_id: kernel
                for pid, kernel in {**before, **self._kernels}.items()
                if pid not in self._kernels or not self._lives(pid)
            }
            if lost:
                break
            await asyncio.sleep(DYING_SECONDS)
            self._kernels = await self._running()
        return lost

    async def stop(self) -> None:
        """Look no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def process_lives(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # The second word is the program's name in parentheses, with whatever it holds.
    return stat.rpartition(")")[2].split()[:1] not in (["Z"], ["X"])
