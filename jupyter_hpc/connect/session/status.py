"""What a session shows of itself, as plain values: for the page, `status` and the store."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.connect.events import (
    Answered,
    Asked,
    Ended,
    Event,
    GpuIdle,
    JupyterEnded,
    OutOfMemory,
    PersonNeeded,
    Reconnected,
    Reconnecting,
    TimeLimitMoved,
    TimeLimitNear,
    Warned,
)
from jupyter_hpc.connect.sentences import as_json, sentence
from jupyter_hpc.text import printable

#: A page that is opened late shows the newest few warnings.
_MAX_WARNINGS = 5

#: Warnings of which only the newest is true.
_ABOUT: Mapping[type[Warned], str] = {
    TimeLimitNear: "time",
    TimeLimitMoved: "time",
    GpuIdle: "GPUs",
    OutOfMemory: "memory",
    JupyterEnded: "Jupyter",
}


class SessionStatus:
    """Takes the session's events, gives its state; all texts are cleaned."""

    def __init__(self, cluster: str, title: str, port: int) -> None:
        self.state = "starting"
        self.job_id = ""
        self.node = ""
        self.transport = ""
        self.ends_at: float | None = None
        self.needs_person = ""
        self._cluster = cluster
        self._title = title
        self._port = port
        self._since = time.time()
        self._warnings: list[Warned] = []
        self._server_ended: dict[str, Any] | None = None  # the last time that it was restarted
        self._out_of_memory: dict[str, Any] | None = None  # the last time of that
        self._questions: dict[str, str] = {}  # kind -> the open question
        self._event: Event | None = None  # the last one that is the session's state
        self._before: Event | None = None  # the one before the connection was lost

    @property
    def url(self) -> str:
        return f"http://localhost:{self._port}/lab"

    def take(self, event: Event) -> None:
        """Bring the status up to date."""
        if isinstance(event, Asked):
            self._questions[event.kind] = event.question
            return
        if isinstance(event, Answered):
            self._questions.pop(event.kind, None)
            return
        if isinstance(event, PersonNeeded):
            self.needs_person = sentence(event)
            return
        if isinstance(event, Warned):
            self._warn(event)
            return
        self.needs_person = ""
        if isinstance(event, Reconnected):
            if self._before is None:
                return
            event = self._before  # a session that was waiting in the queue waits there again
        if event.session_state != self.state:
            self.state, self._since = event.session_state, time.time()
        if not isinstance(event, Reconnecting):
            self._before = event
        for key in ("job_id", "node", "transport"):
            setattr(self, key, getattr(event, key, getattr(self, key)))
        if isinstance(event, Ended):
            self.ends_at = None
            self._warnings = []  # they were about the job that is over
        self._event = event

    def _warn(self, event: Warned) -> None:
        """Keep it, in the place of those that it makes untrue or says again."""
        about = _ABOUT.get(type(event))
        self._warnings = [
            other
            for other in self._warnings
            if sentence(other) != sentence(event)
            and (about is None or _ABOUT.get(type(other)) != about)
        ]
        self._warnings = [*self._warnings, event][-_MAX_WARNINGS:]
        told = {"text": sentence(event), "at": time.time()}
        if isinstance(event, JupyterEnded):
            self._server_ended = told
        if getattr(event, "cause", "") == "out_of_memory" or isinstance(event, OutOfMemory):
            self._out_of_memory = told

    def snapshot(self) -> dict[str, Any]:
        """Plain values for the page and for other commands; `event` as --json prints it."""
        event = self._event
        fields = dataclasses.asdict(event) if event is not None else {}
        return {
            "cluster": self._cluster,
            "title": self._title,
            "state": self.state,
            "host": printable(fields.get("host", "")),
            "text": sentence(event) if event is not None else "Starting.",
            "reason": printable(fields.get("reason", "")),
            "advice": printable(fields.get("advice", "")),
            "job_id": printable(self.job_id),
            "node": printable(self.node),
            "transport": self.transport,
            "port": self._port,
            "url": self.url,
            "since": self._since,
            "estimated_start": fields.get("estimated_start"),
            "next_try": fields.get("next_try"),
            "ends_at": self.ends_at,
            "warnings": [sentence(event) for event in self._warnings],
            "needs_person": self.needs_person,
            "server_ended": self._server_ended,
            "out_of_memory": self._out_of_memory,
            "questions": dict(self._questions),
            "ended": {"state": event.state, "cause": event.cause}
            if isinstance(event, Ended)
            else None,
            "event": as_json(event, self._cluster, self._since) if event is not None else None,
        }
