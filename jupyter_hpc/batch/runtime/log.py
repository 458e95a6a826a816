"""The one voice of what travels with a job: lines of its log."""

from __future__ import annotations

import sys


def log(message: str) -> None:
    """One line for the log of the job; stdout stays what the notebook printed."""
    print("[jupyter-hpc] " + message, file=sys.stderr, flush=True)
