"""Whether a run that goes on gets anywhere: each part is to leave a newer checkpoint than it found.

A program that never loads its checkpoint does the same work in every part, for days. The parts
are counted in a hidden file of the output folder, at their beginning and at their end, since a
killed part has no end.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

#: Beside the results; hidden files are not listed among them.
PROGRESS_FILE = ".progress.json"
#: After so many parts without a newer checkpoint the rest waits for a person.
MAX_IDLE_PARTS = 2

#: What a checkpoint is called outside of the folder for checkpoints, where all files are.
_NAME = re.compile(
    r"checkpoint|ckpt|state|resume|snapshot|latest|\blast\b|model|weights|epoch|step"
    r"|\.(pt|pth|bin|safetensors|h5|hdf5|keras|npz|npy|pkl|pickle|joblib|msgpack|orbax|tar)$",
    re.IGNORECASE,
)
#: Beside checkpoints, its loggers write here in every part.
_LOGS = "lightning_logs/"
#: Folders that hold no results of the program.
_SKIPPED = frozenset({"hpc-batch", "node_modules", "__pycache__", "venv", "env", "site-packages"})
#: A folder with more entries, or that takes longer, is not looked through.
MAX_ENTRIES = 50_000
MAX_SECONDS = 5.0


class TooMuch(Exception):
    """The folders hold more than can be looked through at the end of a job."""


def newest_checkpoint(checkpoints: Path, others: list[Path]) -> int:
    """When the newest checkpoint was written, in nanoseconds; 0 if there is none.

    All files of the folder for checkpoints count, of other folders those that are called so.
    """
    newest, seen, end = 0, 0, time.monotonic() + MAX_SECONDS
    for top in (checkpoints, *others):
        for root, folders, files in os.walk(top):
            folders[:] = [
                name for name in folders if name not in _SKIPPED and not name.startswith(".")
            ]
            seen += len(files) + len(folders)
            if seen > MAX_ENTRIES or time.monotonic() > end:
                raise TooMuch
            for name in files:
                path = os.path.join(root, name)
                inner = os.path.relpath(path, top)
                all_count = top == checkpoints and not inner.startswith(_LOGS)
                if not (all_count or _NAME.search(inner.replace(_LOGS, "", 1))):
                    continue
                try:
                    newest = max(newest, os.lstat(path).st_mtime_ns)
                except OSError:
                    continue  # replaced just now
    return newest


def begin_part(output: Path, checkpoints: Path, others: list[Path]) -> tuple[int, int]:
    """Note that a part begins; its number, and how many before it got nowhere."""
    record = _read_progress(output)
    idle = int(record.get("idle", 0))
    if record.get("open"):  # the part before was killed before it came to its end
        idle = _counted(record, _look(checkpoints, others))
    part = int(record.get("part", 0)) + 1
    found = _look(checkpoints, others)
    _write_progress(output, {"part": part, "idle": idle, "found": found, "open": True})
    return part, idle


def end_part(output: Path, checkpoints: Path, others: list[Path]) -> int:
    """Note that the part ends and another is to follow; how many in a row got nowhere.

    Once there are MAX_IDLE_PARTS the count begins anew: whoever lets the rest go on means it.
    """
    record = _read_progress(output)
    idle = _counted(record, _look(checkpoints, others))
    kept = 0 if idle >= MAX_IDLE_PARTS else idle
    _write_progress(output, {**record, "idle": kept, "open": False})
    return idle


def _counted(record: dict[str, Any], newest: int | None) -> int:
    found = record.get("found")
    if newest is None or found is None or newest > found:
        return 0
    return int(record.get("idle", 0)) + 1


def _look(checkpoints: Path, others: list[Path]) -> int | None:
    """The newest checkpoint; None if that cannot be known, which is no reason to stop."""
    try:
        return newest_checkpoint(checkpoints, others)
    except (TooMuch, OSError):
        return None


def _read_progress(output: Path) -> dict[str, Any]:
    try:
        record = json.loads((output / PROGRESS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write_progress(output: Path, record: dict[str, Any]) -> None:
    draft = output / (PROGRESS_FILE + ".draft")
    draft.write_text(json.dumps(record), encoding="utf-8")
    os.replace(draft, output / PROGRESS_FILE)
