"""The one voice of what travels with a job: lines of its log."""

from __future__ import annotations

import contextlib
import sys

_STDERR = 2


def log(message: str) -> None:
    """One line for the log of the job; stdout stays what the notebook printed."""
    try:
        print("[jupyter-hpc] " + message, file=sys.stderr, flush=True)
    except OSError:
        _forget_what_is_unwritten()


def _forget_what_is_unwritten() -> None:
    """A full disk costs lines of the log, and nothing else.

    What Python still holds it would write again when it ends, and fail with a code of its own.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.stderr.fileno() == _STDERR:
            sys.stderr = open(  # noqa: SIM115 - for as long as Python runs
                _STDERR, "w", errors="backslashreplace", closefd=False
            )
