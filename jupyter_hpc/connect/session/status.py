"""The session as one table of plain values: what the page, `status` and the record show."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.connect.events import (
    Authenticating,
    Ended,
    Event,
    Pending,
    Ready,
    Reconnected,
    Reconnecting,
    Running,
    Starting,
    Warned,
)
from jupyter_hpc.text import printable

#: A page that is opened late shows the newest few warnings.
_WARNINGS_KEPT = 5


class Board:
    """Takes events, gives the state of the session; all texts are cleaned."""

    def __init__(self, cluster: str, title: str, port: int) -> None:
        self.state = "starting"
        self.job_id = ""
        self.node = ""
        self.transport = ""
        self.ends_at: float | None = None
        self._cluster = cluster
        self._title = title
        self._port = port
        self._host = ""
        self._text = "Starting."
        self._reason = ""
        self._advice = ""
        self._estimated_start: float | None = None
        self._since = time.time()
        self._warnings: list[str] = []
        self._ended: Ended | None = None
        self.needs_person = ""

    @property
    def url(self) -> str:
        return f"http://localhost:{self._port}/lab"

    def take(self, event: Event, advice: str = "") -> None:
        """Bring the board up to date."""
        if isinstance(event, Warned):
            self._warnings = [*self._warnings, printable(event.text)][-_WARNINGS_KEPT:]
            return
        before = self.state
        self._advice = printable(advice)
        if isinstance(event, Authenticating):
            self.state, self._host = "authenticating", event.host
            self._text = f"Logging in to {event.host}."
        elif isinstance(event, Pending):
            self.state, self.job_id = "pending", event.job_id
            self._text, self._reason = event.reason_text, event.reason
            self._estimated_start = event.estimated_start
        elif isinstance(event, (Running, Starting)):
            self.state, self.job_id, self.node = "starting", event.job_id, event.node
            self._text = f"Starting JupyterLab on {event.node}."
        elif isinstance(event, Ready):
            self.state, self.job_id, self.node = "ready", event.job_id, event.node
            self.transport, self._text = event.transport, f"JupyterLab runs on {event.node}."
        elif isinstance(event, Reconnecting):
            self.state, self._text = "reconnecting", event.text
        elif isinstance(event, Reconnected):
            self.state, self._text = "ready", f"JupyterLab runs on {self.node}."
        elif isinstance(event, Ended):
            self.state, self._text, self._ended = "ended", event.text, event
            self.ends_at = None
        if self.state != before:
            self._since = time.time()
        self._text = printable(self._text)

    def restart(self) -> None:
        """A new job begins on the same board."""
        self.state, self._ended, self.job_id, self.node = "starting", None, "", ""
        self.ends_at, self._warnings, self._since = None, [], time.time()

    def snapshot(self) -> dict[str, Any]:
        """Plain values for the page and for other commands."""
        ended = self._ended
        return {
            "cluster": self._cluster,
            "title": self._title,
            "state": self.state,
            "host": printable(self._host),
            "text": self._text,
            "reason": printable(self._reason),
            "advice": self._advice,
            "job_id": printable(self.job_id),
            "node": printable(self.node),
            "transport": self.transport,
            "port": self._port,
            "url": self.url,
            "since": self._since,
            "estimated_start": self._estimated_start,
            "ends_at": self.ends_at,
            "warnings": list(self._warnings),
            "needs_person": printable(self.needs_person),
            "ended": {"state": ended.state, "cause": ended.cause} if ended else None,
        }


def event_of(status: Mapping[str, Any]) -> Event:
    """The event that brought a board to this snapshot; for those who come late."""
    state, text = status.get("state"), str(status.get("text", ""))
    job_id, node = str(status.get("job_id", "")), str(status.get("node", ""))
    if state == "authenticating":
        return Authenticating(str(status.get("host", "")))
    if state == "pending":
        estimate = status.get("estimated_start")
        return Pending(job_id, str(status.get("reason", "")), text, estimate)
    if state == "ready":
        url, port, transport = (status[key] for key in ("url", "port", "transport"))
        return Ready(url, port, job_id, node, transport)
    if state == "reconnecting":
        return Reconnecting(text)
    if state == "ended":
        ended = status.get("ended") or {}
        return Ended(ended.get("state", "UNKNOWN"), ended.get("cause", "failed"), text)
    return Starting(job_id, node)
