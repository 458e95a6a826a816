"""What a session can be told, by a signal, the terminal, the page or another command.

Some of it answers a question of the session: to start again after the end of a job, to log in
again where that needs a person. Such a question is open once, for all who show it. Whoever
answers first decides, and it is closed for the others; what they answer later is refused.
"""

from __future__ import annotations

from enum import Enum

from jupyter_hpc.connect.events import Answered, Asked, Sink
from jupyter_hpc.connect.sentences import sentence
from jupyter_hpc.errors import ConnectError


class SessionCommand(Enum):
    """The value is the word that crosses a process boundary."""

    LEAVE = "leave"  #: the job stays
    STOP = "stop"  #: the job is cancelled
    AGAIN = "again"  #: a new job, after the old one has ended
    LOGIN = "login"  #: a person is there to answer a login
    TRY = "try"  #: reconnect now, and not after the pause


#: Commands that are nothing but an answer: the kind of question that each needs, and what is
#: said where it is not open.
_ANSWERS_ONLY = {
    SessionCommand.AGAIN: ("again", "The session has not ended; there is nothing to start again."),
    SessionCommand.LOGIN: ("login", "Nothing asks for a login now."),
}


class Questions:
    """The open questions of one session, at most one of each kind (events.QUESTIONS).

    `sink` hears when one is opened and when it is closed, and by whom.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._open: dict[str, Asked] = {}
        self._closed: dict[str, Answered] = {}
        self._count = 0

    def open(self, kind: str) -> None:
        """Ask; one that is open already stays."""
        if kind not in self._open:
            self._count += 1
            asked = self._open[kind] = Asked(f"{kind}-{self._count}", kind)
            self._sink(asked)

    def withdraw(self, kind: str) -> None:
        """It has settled itself."""
        if kind in self._open:
            self._close(kind)

    def answer(self, command: SessionCommand, question: str = "", where: str = "") -> None:
        """Close what the command answers; ConnectError if that is not open any more.

        `question` is the one that the person has seen; "" for a command that was given without
        one, which answers whatever is open.
        """
        needed, missing = _ANSWERS_ONLY.get(command, ("", ""))
        seen = {asked.question: kind for kind, asked in self._open.items()}
        if question and question not in seen:
            raise self._late(question)
        if needed and needed not in ([seen[question]] if question else self._open):
            raise ConnectError(missing, "'jupyter-hpc status' shows how it stands.")
        if question or needed:
            self._close(seen.get(question, needed), command.value, where)
        else:
            for kind in list(self._open):
                self._close(kind, command.value, where)

    def _close(self, kind: str, answer: str = "", where: str = "") -> None:
        asked = self._open.pop(kind)
        answered = Answered(asked.question, kind, answer, where)
        self._closed[asked.question] = answered
        self._sink(answered)

    def _late(self, question: str) -> ConnectError:
        answered = self._closed.get(question)
        said = sentence(answered) if answered is not None else "It is not known here."
        return ConnectError(f"This came too late and changes nothing. {said}")
