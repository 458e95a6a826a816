"""What is found before a job is queued: errors, which stop it, and warnings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from jupyter_hpc.errors import PreflightFailed

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One sentence about what would go wrong, and what to do about it."""

    severity: Severity
    #: What was looked at, in one word, so that others can tell findings apart.
    check: str
    message: str
    hint: str = ""
    #: Such as `cell 3` or `train.py`; empty where it has no place.
    where: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{self.severity}: {place}{self.message} {self.hint}".rstrip()


def error(check: str, message: str, hint: str = "", where: str = "") -> Finding:
    return Finding("error", check, message, hint, where)


def warning(check: str, message: str, hint: str = "", where: str = "") -> Finding:
    return Finding("warning", check, message, hint, where)


def errors_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each once, errors before warnings, else in their order."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda found: found.severity))


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether one of them would stop the job."""
    return any(found.severity == "error" for found in findings)


def counted(findings: Iterable[Finding]) -> str:
    """`1 error, 2 warnings`; empty where there is nothing."""
    found = list(findings)
    parts = []
    for severity in ("error", "warning"):
        count = sum(each.severity == severity for each in found)
        if count:
            parts.append(f"{count} {severity}{'' if count == 1 else 's'}")
    return ", ".join(parts)


def stop_for_errors(findings: Iterable[Finding]) -> None:
    """Raise PreflightFailed for errors, all of them in its message."""
    errors = [found for found in findings if found.severity == "error"]
    if not errors:
        return
    lines = "".join(
        f"\n  {each.where + ': ' if each.where else ''}{each.message} {each.hint}".rstrip()
        for each in errors
    )
    raise PreflightFailed(
        f"The job would fail, so it was not queued ({counted(errors)}):{lines}",
        "Submit it all the same with --force.",
    )
