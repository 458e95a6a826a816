"""What happens in a session, as values: the one vocabulary of terminal, page, --json and log.

Every event knows its fields and the state that the session is in from then on; what it says
in words stands in sentences.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Event:
    """Base of all events.

    `name` is the word that --json prints, `session_state` the session's state from then on;
    "" where that stays as it is.
    """

    name: ClassVar[str] = ""
    session_state: ClassVar[str] = ""


@dataclass(frozen=True)
class Authenticating(Event):
    """The login connection is being opened."""

    name: ClassVar[str] = "authenticating"
    session_state: ClassVar[str] = "authenticating"
    host: str


@dataclass(frozen=True)
class Priced(Event):
    """What the job that is asked for costs at most; `cost` with the unit of the budget."""

    name: ClassVar[str] = "cost"
    cost: str


@dataclass(frozen=True)
class Pending(Event):
    """The job waits; sent again when the reason or the estimate changes.

    `stuck`: waiting alone will not help, and `advice` says what does.
    """

    name: ClassVar[str] = "pending"
    session_state: ClassVar[str] = "pending"
    job_id: str
    reason: str
    reason_text: str
    estimated_start: float | None = None
    advice: str = ""
    stuck: bool = False


@dataclass(frozen=True)
class Running(Event):
    """The job has its node."""

    name: ClassVar[str] = "running"
    session_state: ClassVar[str] = "starting"
    job_id: str
    node: str


@dataclass(frozen=True)
class Starting(Event):
    """Jupyter is being started, or found, in the job."""

    name: ClassVar[str] = "starting"
    session_state: ClassVar[str] = "starting"
    job_id: str
    node: str


@dataclass(frozen=True)
class Ready(Event):
    """JupyterLab answers on the local port."""

    name: ClassVar[str] = "ready"
    session_state: ClassVar[str] = "ready"
    url: str
    port: int
    job_id: str
    node: str
    transport: str


@dataclass(frozen=True)
class Reconnecting(Event):
    """The connection is away; sent again with `because` while it stays so.

    `next_try` is when it is tried again, where that is not at once; a person may want it now.
    """

    name: ClassVar[str] = "reconnecting"
    session_state: ClassVar[str] = "reconnecting"
    text: str
    because: str = ""
    next_try: float | None = None


@dataclass(frozen=True)
class Reconnected(Event):
    """The connection is back, `seconds` after it was last heard of; all is as it was before."""

    name: ClassVar[str] = "reconnected"
    seconds: float


@dataclass(frozen=True)
class Warned(Event):
    """Something the user should know; nothing has stopped."""

    name: ClassVar[str] = "warning"
    text: str


@dataclass(frozen=True)
class PersonNeeded(Warned):
    """Nothing more is tried by itself: somebody has to answer a login."""


@dataclass(frozen=True)
class TimeLimitNear(Warned):
    """The job's time limit comes; `step` is the minutes of the warning that was due."""

    step: int


@dataclass(frozen=True)
class TimeLimitMoved(Warned):
    """The job's time limit is another one now; the warnings are given again."""


@dataclass(frozen=True)
class GpuIdle(Warned):
    """GPUs of the session have done nothing for as long as the user set, or longer."""

    idle_seconds: float = 0.0


@dataclass(frozen=True)
class OutOfMemory(Warned):
    """The system has ended something of the session for want of memory; the session goes on.

    `kernels` are the notebooks whose kernels were ended, none if it was another process;
    `limit` is the job's memory in bytes, None where the node itself had none left.
    """

    kernels: tuple[str, ...]
    limit: int | None


@dataclass(frozen=True)
class JupyterEnded(Warned):
    """Jupyter has ended, and is started again in the same job; `cause` as in CAUSES."""

    cause: str


@dataclass(frozen=True)
class Ended(Event):
    """The session is over; `cause` is one of the words in CAUSES."""

    name: ClassVar[str] = "ended"
    session_state: ClassVar[str] = "ended"
    state: str
    cause: str
    text: str = ""


@dataclass(frozen=True)
class Failed(Event):
    """The command could not do what it was asked to; nothing follows. `code` is its exit code."""

    name: ClassVar[str] = "error"
    message: str
    hint: str
    code: int


@dataclass(frozen=True)
class Asked(Event):
    """A question of the session is open, wherever it can be answered; see QUESTIONS."""

    name: ClassVar[str] = "question"
    question: str
    kind: str


@dataclass(frozen=True)
class Answered(Event):
    """A question is closed; `where` is one of ANSWERED_WHERE, "" where it settled itself."""

    name: ClassVar[str] = "answered"
    question: str
    kind: str
    answer: str = ""
    where: str = ""


#: The kinds of questions, and how each is asked.
QUESTIONS = {
    "again": "Start again?",
    "login": "Log in again?",
}

#: Who has answered a question, as it is said to the others.
ANSWERED_WHERE = {
    "page": "on the page",
    "terminal": "in the terminal",
    "command": "by another command",
}

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
