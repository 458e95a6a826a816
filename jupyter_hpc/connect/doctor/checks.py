"""One line of a check-up, and the order in which the lines come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from jupyter_hpc.errors import HpcError
from jupyter_hpc.text import printable


class Outcome(Enum):
    """How a check went; a note is worth knowing and is no failure."""

    OK = "ok"
    NOTE = "note"
    FAILED = "failed"
    SKIPPED = "skipped"


#: Every check that there is, in its order, with the words for people.
CHECKS: dict[str, str] = {
    "laptop": "this computer",
    "profile": "profile",
    "name": "name",
    "network": "network",
    "credential": "credential",
    "host-key": "host key",
    "sign-in": "sign-in",
    "forwarding": "forwarding",
    "login-shell": "login shell",
    "login-clock": "clock there",
    "login-home": "home folder",
    "quota": "quota",
    "login-tmp": "temporary files",
    "slurm": "Slurm",
    "partition": "partition",
    "account": "account",
    "qos": "QOS",
    "limits": "limits",
    "job": "job",
    "transport": "transport",
    "node-clock": "clock of the node",
    "node-home": "home on the node",
    "node-tmp": "temporary files there",
    "socket": "socket path",
    "jupyter": "JupyterLab",
    "extension": "extension",
    "versions": "versions",
    "given-back": "given back",
}

#: What only a job can tell.
IN_A_JOB = tuple(CHECKS)[tuple(CHECKS).index("job") :]

#: A line of the cluster's may hold anything; more of it helps nobody.
_MAX_CHARACTERS = 600


@dataclass(frozen=True)
class Check:
    """What came of one check; `fix` says what to do about a failure."""

    name: str
    outcome: Outcome
    text: str
    fix: str = ""

    @property
    def title(self) -> str:
        return CHECKS[self.name]

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.name,
            "title": self.title,
            "outcome": self.outcome.value,
            "text": self.text,
            "fix": self.fix,
        }


class Report:
    """The lines of one check-up: each is shown once, as soon as it and all before it are known.

    Checks run side by side, people read from top to bottom. What is said comes from the cluster
    in part, so it is cleaned here, once for all.
    """

    def __init__(self, show: Callable[[Check], None]) -> None:
        self._show = show
        self._unshown = list(CHECKS)
        self.checks: dict[str, Check] = {}

    def ok(self, name: str, text: str) -> None:
        self._add(name, Outcome.OK, text)

    def note(self, name: str, text: str, advice: str = "") -> None:
        self._add(name, Outcome.NOTE, text, advice)

    def failed(self, name: str, text: str, fix: str) -> None:
        self._add(name, Outcome.FAILED, text, fix)

    def error(self, name: str, error: HpcError, fix: str = "") -> None:
        """A failure in the words of an error that somebody else raised."""
        self.failed(name, error.message, error.hint or fix)

    def skip(self, names: Iterable[str], because: str) -> None:
        """Those of `names` that have no line yet cannot be looked at."""
        for name in names:
            if name not in self.checks:
                self._add(name, Outcome.SKIPPED, because)

    def skip_after(self, name: str) -> None:
        """The rest cannot be looked at, because that one failed."""
        self.skip(CHECKS, f"not looked at: {CHECKS[name]} failed")

    @property
    def failures(self) -> Sequence[Check]:
        return [check for check in self.checks.values() if check.outcome is Outcome.FAILED]

    def _add(self, name: str, outcome: Outcome, text: str, fix: str = "") -> None:
        if name in self.checks:
            return  # the first word counts
        check = Check(
            name,
            outcome,
            printable(text, _MAX_CHARACTERS).strip(),
            printable(fix, _MAX_CHARACTERS).strip(),
        )
        self.checks[name] = check
        while self._unshown and self._unshown[0] in self.checks:
            self._show(self.checks[self._unshown.pop(0)])

    def show_rest(self) -> None:
        """What is known, also where lines before it will not come any more."""
        left, self._unshown = self._unshown, []
        for name in left:
            if name in self.checks:
                self._show(self.checks[name])
