"""What of a session is told to its user, by the laptop's manager or by the job itself.

Both see the same; each occurrence is told once, by whoever makes its mark first: a folder beside
the session's files on the cluster. The laptop, which can show a window, has a head start.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: How the job tells, in the session's folder: `command`, `webhook`, and `gpu_idle` in seconds.
SETTINGS_FILE = "notify.json"

#: So long before the time limit it is told of.
NEAR_SECONDS = 600.0

#: A mark of the time limit that is older belongs to a limit that was extended since.
NEAR_MARK_SECONDS = NEAR_SECONDS

#: The laptop's way to make a mark. FOLDER EVENT MINUTES: exit 0, it was made; 3, another one has
#: made it within so many minutes.
MARK_SCRIPT = """
mark=$1/told-$2
[ -z "$(find "$mark" -maxdepth 0 -mmin "+$3" 2>/dev/null)" ] || rmdir -- "$mark"
mkdir -- "$mark" 2>/dev/null && exit 0
[ ! -d "$mark" ] || exit 3
exit 1
"""
MARKED_BY_ANOTHER = 3


def make_mark(folder: Path, event: str, seconds: float) -> bool:
    """Whether it is ours to tell; one that is older than so many seconds counts no more.

    Where no mark can be made, on a full disk, say, it is told rather twice than never.
    """
    mark = folder / f"told-{event}"
    try:
        if time.time() - mark.stat().st_mtime > seconds:
            mark.rmdir()
    except OSError:
        pass
    try:
        mark.mkdir(0o700)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def time_limit_near(seconds: float) -> str:
    """What is said so long before the end of the job."""
    shown = max(0, round(seconds / 60))
    return (
        f"The job's time limit comes in {shown} minute{'' if shown == 1 else 's'}. "
        "Save your notebooks; what runs then is ended."
    )


@dataclass(frozen=True)
class IdleGpus:
    """GPUs that have become idle, in a sentence, and for how long they have been."""

    text: str
    seconds: float


class IdleStretches:
    """Finds each stretch in which a GPU does nothing for `window` seconds, once."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._noticed: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Whether one of those that were found is idle still."""
        return bool(self._noticed)

    def look(self, answer: Mapping[str, Any]) -> IdleGpus | None:
        """What has become idle since the last look; what works again is forgotten.

        `answer` is what our extension says of its GPUs.
        """
        now, gpus = answer.get("taken_at"), answer.get("gpus")
        if not isinstance(now, (int, float)) or not isinstance(gpus, list):
            return None
        idle = {str(gpu.get("id")): seconds for gpu in gpus if (seconds := _idle(gpu, now))}
        self._noticed &= set(idle)
        new = [name for name, seconds in idle.items() if seconds >= self._window]
        if not set(new) - self._noticed:
            return None
        self._noticed |= set(new)
        named = [str(gpu.get("index")) for gpu in gpus if str(gpu.get("id")) in new]
        seconds = min(idle[name] for name in new)
        return IdleGpus(_sentence(named, seconds), seconds)


def _idle(gpu: Any, now: float) -> float:
    since = gpu.get("idle_since") if isinstance(gpu, dict) else None
    return now - since if isinstance(since, (int, float)) else 0.0


def _sentence(indices: Sequence[str], seconds: float) -> str:
    which = f"GPU {indices[0]} has" if len(indices) == 1 else f"GPUs {', '.join(indices)} have"
    minutes = max(1, round(seconds / 60))
    plural = "" if minutes == 1 else "s"
    return (
        f"{which} been idle for {minutes} minute{plural}. "
        "End the session when you no longer need it."
    )
