"""Events in words: one table, read by the terminal, the page, --json and the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from jupyter_hpc.connect.events import (
    ANSWERED_WHERE,
    QUESTIONS,
    Answered,
    Asked,
    Authenticating,
    Ended,
    Event,
    Failed,
    GpuIdle,
    Pending,
    PersonNeeded,
    Priced,
    Ready,
    Reconnected,
    Reconnecting,
    Running,
    Starting,
    TimeLimitNear,
    Warned,
)
from jupyter_hpc.text import duration, printable

#: The last second of the year 9999.
_LAST_MOMENT = 253402300799.0

#: Fields that hold an epoch and are printed as UTC.
_TIMES = frozenset({"estimated_start", "next_try"})

#: What follows from an answer.
_FOLLOWS = {
    "again": "the session is started again",
    "leave": "the session is left",
    "stop": "the job is cancelled",
    "login": "the login is tried again, and may ask",
}


def _answered(event: Answered) -> str:
    where = ANSWERED_WHERE.get(event.where)
    if where is None:
        return f"No answer is needed any more: {QUESTIONS[event.kind]}"
    return f"Answered {where}: {_FOLLOWS[event.answer]}."


SENTENCES: Mapping[type[Event], Callable[[Any], str]] = {
    Authenticating: lambda event: f"Logging in to {event.host}.",
    Priced: lambda event: f"The job costs at most {event.cost}.",
    Pending: lambda event: f"Job {event.job_id} waits: {event.reason_text}",
    Running: lambda event: f"Job {event.job_id} has {event.node}.",
    Starting: lambda event: f"Starting JupyterLab on {event.node}.",
    Ready: lambda event: (
        f"JupyterLab on {event.node} (job {event.job_id}, over {event.transport}): {event.url}"
    ),
    Reconnecting: lambda event: (
        f"{event.text} Still trying, because: {event.because}" if event.because else event.text
    ),
    Reconnected: lambda event: f"Connected again after {duration(event.seconds)}.",
    Warned: lambda event: event.text,
    PersonNeeded: lambda event: event.text,
    TimeLimitNear: lambda event: event.text,
    GpuIdle: lambda event: event.text,
    Failed: lambda event: f"{event.message} {event.hint}".strip(),
    Asked: lambda event: QUESTIONS[event.kind],
    Answered: _answered,
    Ended: lambda event: event.text or f"The session is over: {event.cause}.",
}


def stays(job_id: str, name: str, *, asked: bool = False) -> str:
    """What is said wherever a session is left and its job goes on; `asked`: by --keep."""
    return printable(f"Job {job_id} stays{' (--keep)' if asked else ''}. {ways_back(name)}")


def ways_back(name: str) -> str:
    """The commands that come back to a session and that end it."""
    return f"Come back: jupyter-hpc connect {name}. End it: jupyter-hpc stop {name}."


def sentence(event: Event) -> str:
    """What the event means, in one line that is safe to show."""
    return printable(SENTENCES[type(event)](event))


def as_json(event: Event, cluster: str, now: float) -> dict[str, Any]:
    """The event as `--json` prints it, with its sentence as `text`."""
    fields: dict[str, Any] = {"event": event.name, "time": utc(now), "cluster": cluster}
    for key, value in dataclasses.asdict(event).items():
        fields[key] = utc(value) if key in _TIMES and value is not None else value
    return {**fields, "text": sentence(event)}


def utc(epoch: float) -> str:
    """An epoch as ISO 8601 in UTC; what a cluster says may lie beyond all calendars."""
    stamp = datetime.fromtimestamp(min(max(epoch, 0.0), _LAST_MOMENT), timezone.utc)
    return stamp.isoformat(timespec="seconds").replace("+00:00", "Z")
