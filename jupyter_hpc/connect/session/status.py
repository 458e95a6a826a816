"""What a session shows of itself, as plain values: for the page, `status` and the store."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from jupyter_hpc.connect.events import (
    Answered,
    Asked,
    Ended,
    Event,
    PersonNeeded,
    Reconnected,
    Reconnecting,
    Warned,
)
from jupyter_hpc.connect.sentences import as_json, sentence
from jupyter_hpc.text import printable

#: A page that is opened late shows the newest few warnings.
_MAX_WARNINGS = 5


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
        self._warnings: list[str] = []
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
            self._warnings = [*self._warnings, sentence(event)][-_MAX_WARNINGS:]
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
            "warnings": list(self._warnings),
            "needs_person": self.needs_person,
            "questions": dict(self._questions),
            "ended": {"state": event.state, "cause": event.cause}
            if isinstance(event, Ended)
            else None,
            "event": as_json(event, self._cluster, self._since) if event is not None else None,
        }
