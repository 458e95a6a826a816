"""What a session can be told, by a signal, the terminal, the page or another command."""

from __future__ import annotations

from enum import Enum


class SessionCommand(Enum):
    """The value is the word that crosses a process boundary."""

    LEAVE = "leave"  #: the job stays
    STOP = "stop"  #: the job is cancelled
    AGAIN = "again"  #: a new job, after the old one has ended
