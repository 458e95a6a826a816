"""GPUs of a session that nobody uses, asked of our extension through the link."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.connect.events import GpuIdle, Sink
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.tunnel.link import Link
from jupyter_hpc.telling import IdleStretches

_log = logging.getLogger(__name__)

#: The node keeps count of idle time, so a look now and then is enough.
_MAX_PAUSE_SECONDS = 300.0


class GpuIdleWatch:
    """Tells of each idle stretch once: `window` seconds in which the GPU did nothing."""

    def __init__(self, window: float, link: Link, token: str, sink: Sink) -> None:
        self._window = window
        self._link = link
        self._token = token
        self._sink = sink
        self._stretches = IdleStretches(window)

    async def run(self) -> None:
        """Look until cancelled; a server without GPUs, or without our extension, is left alone."""
        while True:
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, max(1.0, self._window / 3)))
            if self._link.state != "up":
                continue
            status, answer = await jupyter_api.request(
                self._link, "GET", "/jupyter-hpc/gpus", self._token
            )
            if status >= 400:
                _log.info("idle GPUs are not watched: the server answers %d", status)
                return
            if status == 200 and isinstance(answer, dict):
                self.look(answer)

    def look(self, answer: Mapping[str, Any]) -> None:
        """Tell of what has become idle since the last look, and forget what works again."""
        found = self._stretches.look(answer)
        if found is not None:
            self._sink(GpuIdle(found.text, found.seconds))
