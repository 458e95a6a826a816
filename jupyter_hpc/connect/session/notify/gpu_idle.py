"""GPUs of a session that nobody uses, asked of our extension through the link."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_hpc.connect.events import GpuIdle, Sink
from jupyter_hpc.connect.session import jupyter_api
from jupyter_hpc.connect.tunnel.link import Link

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
        self._noticed: set[str] = set()

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
        now, gpus = answer.get("taken_at"), answer.get("gpus")
        if not isinstance(now, (int, float)) or not isinstance(gpus, list):
            return
        idle = {str(gpu.get("id")): seconds for gpu in gpus if (seconds := _idle(gpu, now))}
        self._noticed &= set(idle)
        new = [name for name, seconds in idle.items() if seconds >= self._window]
        if set(new) - self._noticed:
            self._noticed |= set(new)
            named = [str(gpu.get("index")) for gpu in gpus if str(gpu.get("id")) in new]
            self._sink(GpuIdle(_sentence(named, min(idle[name] for name in new))))


def _idle(gpu: Any, now: float) -> float:
    since = gpu.get("idle_since") if isinstance(gpu, dict) else None
    return now - since if isinstance(since, (int, float)) else 0.0


def _sentence(indices: Sequence[str], seconds: float) -> str:
    which = f"GPU {indices[0]} has" if len(indices) == 1 else f"GPUs {', '.join(indices)} have"
    minutes = max(1, round(seconds / 60))
    plural = "" if minutes == 1 else "s"
    return (
        f"{which} been idle for {minutes} minute{plural}. "
        "End the session when you no longer need it."
    )
