"""What happens in a session, as values: the terminal, the page and --json show these.

Every event knows its fields; `as_json` adds `event`, `time` and `cluster`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar


@dataclass(frozen=True)
class Event:
    """Base of all events; `name` is the word that --json prints."""

    name: ClassVar[str] = ""


@dataclass(frozen=True)
class Authenticating(Event):
    """The login connection is being opened."""

    name: ClassVar[str] = "authenticating"
    host: str


@dataclass(frozen=True)
class Pending(Event):
    """The job waits; sent again when the reason or the estimate changes."""

    name: ClassVar[str] = "pending"
    job_id: str
    reason: str
    reason_text: str
    estimated_start: float | None = None


@dataclass(frozen=True)
class Running(Event):
    """The job has its node."""

    name: ClassVar[str] = "running"
    job_id: str
    node: str


@dataclass(frozen=True)
class Starting(Event):
    """Jupyter is being started, or found, in the job."""

    name: ClassVar[str] = "starting"
    job_id: str
    node: str


@dataclass(frozen=True)
class Ready(Event):
    """JupyterLab answers on the local port."""

    name: ClassVar[str] = "ready"
    url: str
    port: int
    job_id: str
    node: str
    transport: str


@dataclass(frozen=True)
class Reconnecting(Event):
    """The pipe is away; the session waits for it."""

    name: ClassVar[str] = "reconnecting"
    text: str


@dataclass(frozen=True)
class Reconnected(Event):
    """The pipe is back, `seconds` after it was last heard of."""

    name: ClassVar[str] = "reconnected"
    seconds: float


@dataclass(frozen=True)
class Warned(Event):
    """Something the user should know; nothing has stopped."""

    name: ClassVar[str] = "warning"
    text: str


@dataclass(frozen=True)
class Ended(Event):
    """The session is over; `cause` is one of the words in CAUSES."""

    name: ClassVar[str] = "ended"
    state: str
    cause: str
    text: str = ""


CAUSES = (
    "requested",
    "time_limit",
    "out_of_memory",
    "cancelled",
    "node_failure",
    "preempted",
    "failed",
)

#: Where events go; called in order, on the event loop.
Sink = Callable[[Event], None]

#: The last second of the year 9999.
_LAST_MOMENT = 253402300799.0

#: Fields that hold an epoch and are printed as UTC.
_TIMES = frozenset({"estimated_start"})


def utc(epoch: float) -> str:
    """An epoch as ISO 8601 in UTC; what a cluster says may lie beyond all calendars."""
    stamp = datetime.fromtimestamp(min(max(epoch, 0.0), _LAST_MOMENT), timezone.utc)
    return stamp.isoformat(timespec="seconds").replace("+00:00", "Z")


def as_json(event: Event, cluster: str, now: float) -> dict[str, object]:
    """The event as `--json` prints it."""
    fields: dict[str, object] = {"event": event.name, "time": utc(now), "cluster": cluster}
    for key, value in dataclasses.asdict(event).items():
        fields[key] = utc(value) if key in _TIMES and value is not None else value
    return fields
