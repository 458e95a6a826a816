"""Which notebook a process belongs to: kernels, and everything that they started."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: Kernels come and go slowly; the list is kept so long.
LIFETIME_SECONDS = 5.0

#: A chain of parents longer than this is a loop or no kernel's.
MAX_PARENTS = 50


@dataclass(frozen=True)
class Notebook:
    """The notebook or console whose kernel a process belongs to."""

    path: str
    name: str
    kernel_id: str
    session_id: str | None


@dataclass(frozen=True)
class Owner:
    """A process by name, and its notebook where it has one."""

    name: str
    notebook: Notebook | None


class Notebooks:
    """Knows the kernels of this server, through the two questions it is given."""

    def __init__(
        self,
        list_sessions: Callable[[], Awaitable[list[Mapping[str, Any]]]],
        kernel_pid: Callable[[str], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_sessions = list_sessions
        self._kernel_pid = kernel_pid
        self._clock = clock
        self._kernels: dict[int, Notebook] = {}
        self._owners: dict[int, Owner] = {}
        self._read_at = float("-inf")

    async def owners(self, pids: set[int]) -> dict[int, Owner]:
        """Who these processes are."""
        if self._clock() - self._read_at > LIFETIME_SECONDS:
            self._read_at = self._clock()
            self._kernels = await self.kernels()
            self._owners = {}
        for pid in pids - self._owners.keys():
            self._owners[pid] = self._owner(pid)
        return {pid: self._owners[pid] for pid in pids}

    async def kernels(self) -> dict[int, Notebook]:
        """The processes of kernels, as of now."""
        kernels: dict[int, Notebook] = {}
        for session in await self._list_sessions():
            kernel_id = str((session.get("kernel") or {}).get("id") or "")
            pid = self._kernel_pid(kernel_id) if kernel_id else None
            if pid:
                path = str(session.get("path") or "")
                name = str(session.get("name") or "") or path.rpartition("/")[2]
                kernels[pid] = Notebook(path, name, kernel_id, session.get("id"))
        return kernels

    def _owner(self, pid: int) -> Owner:
        """Walk up from the process until a kernel is met."""
        import psutil

        name, current = f"process {pid}", pid
        try:
            process = psutil.Process(pid)
            name = process.name()
            for _ in range(MAX_PARENTS):
                if current in self._kernels or current <= 1:
                    break
                current = psutil.Process(current).ppid()
        except psutil.Error:
            pass  # ended meanwhile, or outside of this container
        return Owner(name, self._kernels.get(current))
