"""What the system has ended of a session for want of memory, asked of our extension."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.connect.events import OutOfMemory, Sink
from jupyter_hpc.connect.sentences import kernels_lost
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.text import printable

_log = logging.getLogger(__name__)

#: The node notices it at once, and the tab is told by it; this is for those who have no tab.
LOOK_SECONDS = 10.0


class MemoryKillWatch:
    """Tells of each once; `count` is the newest that is known of.

    What had happened before the first look was told by whoever was here then.
    """

    def __init__(self, link: Link, token: str, name: str, sink: Sink) -> None:
        self.count = 0
        self._link = link
        self._token = token
        self._name = name
        self._sink = sink
        self._begun = False

    async def run(self) -> None:
        """Look until cancelled; a server without our extension is left alone, for good."""
        while True:
            if self._link.state == "up":
                status, answer = await jupyter_api.request(
                    self._link, "GET", "/jupyter-hpc/session", self._token
                )
                if status >= 400:
                    _log.info("memory is not watched: the server answers %d", status)
                    await asyncio.Event().wait()
                if status == 200 and isinstance(answer, dict):
                    self.look(answer)
            await asyncio.sleep(LOOK_SECONDS)

    def look(self, answer: Mapping[str, Any]) -> None:
        """Tell of what is new since the last look."""
        kills = answer.get("memory_kills")
        for kill in kills if isinstance(kills, list) else ():
            number = kill.get("number") if isinstance(kill, dict) else None
            if isinstance(number, int) and number > self.count:
                self.count = number
                if self._begun:
                    self._tell(kill)
        self._begun = True

    def _tell(self, kill: Mapping[str, Any]) -> None:
        found, limit = kill.get("kernels"), kill.get("limit")
        kernels = tuple(
            printable(str(kernel.get("name")), 80)
            for kernel in (found if isinstance(found, list) else ())
            if isinstance(kernel, dict)
        )
        limit = limit if isinstance(limit, int) else None
        self._sink(OutOfMemory(kernels_lost(kernels, limit, self._name), kernels, limit))
