"""Events in words: one table, read by the terminal, the page, --json and the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
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
    JupyterEnded,
    OutOfMemory,
    Pending,
    PersonNeeded,
    Priced,
    Ready,
    Reconnected,
    Reconnecting,
    Running,
    Starting,
    TimeLimitMoved,
    TimeLimitNear,
    Warned,
)
from jupyter_hpc.slurm.units import format_memory
from jupyter_hpc.text import duration, memory_size, printable

#: The last second of the year 9999.
_LAST_MOMENT = 253402300799.0

#: Fields that hold an epoch and are printed as UTC.
_TIMES = frozenset({"estimated_start", "next_try"})

DIRECT_WARNING = (
    "The relay listens on a TCP port of the node, as asked for: others on the cluster can reach "
    "it, but without this session's certificate and secret they can neither read nor send anything."
)
_OLDEST_PYTHON = (3, 10)  #: that jupyter-hpc can be installed for

#: What follows from an answer.
_FOLLOWS = {
    "again": "the session is started again",
    "leave": "the session is left",
    "stop": "the job is cancelled",
    "login": "the login is tried again, and may ask",
}


def plain_warning(version: str) -> str:
    """That JupyterLab has no panels, and what to do; `version` is that of its Python, if known."""
    said = (
        "jupyter-hpc is not installed in the cluster's environment: plain JupyterLab is open, "
        "without its panels."
    )
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if len(numbers) == 2 and numbers < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        return (
            f"{said} It cannot be added to this Python ({version}): install JupyterLab and "
            f"jupyter-hpc in an environment with Python {oldest} or newer."
        )
    return f"{said} To add them there: pip install jupyter-hpc"


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
    TimeLimitMoved: lambda event: event.text,
    GpuIdle: lambda event: event.text,
    OutOfMemory: lambda event: event.text,
    JupyterEnded: lambda event: event.text,
    Failed: lambda event: " ".join(f"{event.message} {event.hint}".split()),
    Asked: lambda event: QUESTIONS[event.kind],
    Answered: _answered,
    Ended: lambda event: event.text or f"The session is over: {event.cause}.",
}


def kernels_lost(kernels: Sequence[str], limit: int | None, name: str) -> str:
    """What is said of kernels, or of something else, that the system has ended."""
    if not kernels:
        who, then = "A process of this session was", ""
    elif len(kernels) == 1:
        who, then = f"The kernel of {kernels[0]} was", " It is started again without its variables."
    else:
        who = f"The kernels of {', '.join(kernels)} were"
        then = " They are started again without their variables."
    return f"{who} ended: {memory_full(limit)}{then} {more_memory(limit, name)}"


def memory_full(limit: int | None) -> str:
    """Why the system ends processes."""
    if limit is None:
        return "the node had no memory left."
    return f"the job's memory ({memory_size(limit / 2**20)}) was full."


def more_memory(limit: int | None, name: str) -> str:
    """The next step of somebody who has run out of memory."""
    if limit is None:
        return f"Load less at once, or go to another node: jupyter-hpc connect {name}."
    twice = format_memory(2 * limit // 2**20)
    return f"For more memory: jupyter-hpc connect {name} --mem {twice}"


def stays(job_id: str, name: str, *, asked: bool = False) -> str:
    """What is said wherever a session is left and its job goes on; `asked`: by --keep."""
    return printable(f"Job {job_id} stays{' (--keep)' if asked else ''}. {ways_back(name)}")


def successor_cancelled(job_id: str) -> str:
    """What is added where the job that was to go on with a session has been cancelled with it."""
    said = f" Job {job_id}, which was to take this session over, was cancelled, too."
    return said if job_id else ""


def cancelled_as_asked(job_id: str, successor_id: str) -> str:
    """What is said of a session that somebody has stopped."""
    return f"Job {job_id} was cancelled, as asked.{successor_cancelled(successor_id)}"


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
