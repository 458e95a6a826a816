"""What the parts of the kit share: torch itself, words for the log, times as people write them."""

from __future__ import annotations

import os
import re
import sys
from contextvars import ContextVar
from typing import Any

from jupyter_hpc.errors import UsageError

#: How long a process waits for another one, where `distributed(timeout=…)` has said it.
peer_seconds: ContextVar[float | None] = ContextVar("peer_seconds", default=None)

_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}


def torch_module() -> Any:
    """PyTorch; a sentence where it is not installed. The kit itself can be imported without it."""
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            f"The training kit needs PyTorch, which {sys.executable} does not have.",
            "Install it there (pip install 'jupyter-hpc[torch]'), or use the Python that has it.",
        ) from error
    return torch


def say(text: str) -> None:
    """A line of ours in the log, as the job's other lines are marked."""
    sys.stderr.write(f"[jupyter-hpc] {text}\n")
    sys.stderr.flush()


def seconds(text: str | float) -> float:
    """`"10 min"`, `"90 s"`, `"1 h"` or a number of seconds."""
    if isinstance(text, int | float):
        value, unit = float(text), "s"
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", text.lower())
        value, unit = (float(found[1]), found[2] or "s") if found else (0.0, "")
    if value <= 0 or unit not in _UNITS:
        raise UsageError(f"{text!r} is no length of time.", 'Write "10 min", "90 s" or "1 h".')
    return value * _UNITS[unit]


def number(*names: str) -> int | None:
    """The first of these variables of the environment that holds a number."""
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None


def processors() -> int:
    """The CPUs of this task: what Slurm gave it, else what this process may run on."""
    given = number("SLURM_CPUS_PER_TASK")
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        allowed = os.cpu_count() or 1
    return max(1, min(given, allowed) if given else allowed)
