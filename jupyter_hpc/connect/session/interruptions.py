"""What the link and its redialling report, as events that people understand."""

from __future__ import annotations

import time
from collections.abc import Callable

from jupyter_hpc.connect.events import Reconnected, Reconnecting, Sink, Warned
from jupyter_hpc.connect.session.reconnect import PersonNeeded, RedialEvent
from jupyter_hpc.connect.tunnel.link_events import (
    LinkAlive,
    LinkDown,
    LinkEvent,
    LinkLost,
    LinkSuspect,
    LinkUp,
)


class Interruptions:
    """One `reconnecting` and one `reconnected` for each time the pipe is away."""

    def __init__(self, sink: Sink, on_person: Callable[[str], None]) -> None:
        self._sink = sink
        self._on_person = on_person
        self._since: float | None = None
        self._lost = False

    def on_link(self, event: LinkEvent) -> None:
        if isinstance(event, (LinkSuspect, LinkDown)):
            if self._since is None:
                silence = event.silence if isinstance(event, LinkSuspect) else 0.0
                self._since = time.monotonic() - silence
                self._sink(Reconnecting("The connection is interrupted; reconnecting."))
        elif isinstance(event, (LinkUp, LinkAlive)) and self._since is not None:
            away = time.monotonic() - self._since
            self._since = None
            self._on_person("")
            self._sink(Reconnected(round(away, 2)))
        elif isinstance(event, LinkLost):
            # Told when it is back: a relay that goes with its job is not restarted.
            self._lost = True
        if isinstance(event, LinkUp) and self._lost:
            self._lost = False
            self._sink(Warned("The relay on the node was restarted; the page reconnects."))

    def on_redial(self, event: RedialEvent) -> None:
        if isinstance(event, PersonNeeded):
            self._on_person(str(event.error))
            self._sink(Warned(str(event.error)))
