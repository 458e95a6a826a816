"""Whether anything listens where a forwarded port leads."""

from __future__ import annotations

import asyncio
from typing import Literal

from jupyter_hpc.connect.proxy.upstream import Upstream
from jupyter_hpc.relay.frames import FORBIDDEN, UNREACHABLE
from jupyter_hpc.waiting import within

#: yes; nothing; other: somebody else's, or no socket; unknown: the connection is away.
Listening = Literal["yes", "nothing", "other", "unknown"]

_REFUSED: dict[int, Listening] = {UNREACHABLE: "nothing", FORBIDDEN: "other"}

#: The relay says no within one way there and back; most services hang up at once, too.
_PROBE_SECONDS = 1.0


class _Probe:
    """The local end of a stream on which nothing is said; `said` is how it was received."""

    def __init__(self) -> None:
        self.said: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()

    def _say(self, word: Listening) -> None:
        if not self.said.done():
            self.said.set_result(word)

    def on_data(self, data: bytes) -> None:
        self._say("yes")

    def on_eof(self) -> None:
        self._say("yes")

    def on_reset(self, code: int) -> None:
        self._say(_REFUSED.get(code, "yes"))

    def on_pause(self) -> None:
        """Nothing is sent."""

    def on_resume(self) -> None:
        """See on_pause."""


async def listening(upstream: Upstream | None, target: str) -> Listening:
    """Open one connection to `target` and close it again; a service that waits counts as there."""
    if upstream is None or upstream.state != "up" or not upstream.can_open():
        return "unknown"
    probe = _Probe()
    stream = upstream.open(target, probe)
    stream.send_eof()
    try:
        return await within(probe.said, _PROBE_SECONDS)
    except (TimeoutError, asyncio.TimeoutError):
        return "yes" if upstream.state == "up" else "unknown"
    finally:
        stream.reset()
