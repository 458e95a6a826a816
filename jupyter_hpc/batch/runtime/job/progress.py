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
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_hpc.batch.runtime.job.marks import NOBODY
from jupyter_hpc.batch.runtime.log import log

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
#: The record has room, so that a later one fits into its place on a full disk.
_RECORD_BYTES = 240
#: Of more entries, or where it takes longer, only the upper folders are looked through.
MAX_ENTRIES = 50_000
MAX_SECONDS = 5.0


class _Scan(NamedTuple):
    """What a look through a folder has found."""

    #: When the newest checkpoint was written, in nanoseconds; 0 if there is none.
    newest: int = 0
    #: Whether there is a file that is called as checkpoints are.
    is_used: bool = False
    #: Whether all of it was looked through.
    is_whole: bool = True


class Look(NamedTuple):
    """The checkpoints that are there: in their own folder, and in the others."""

    own: _Scan
    others: _Scan
    #: The folder that holds too much.
    too_much: str = ""

    @property
    def can_tell(self) -> bool:
        """Whether no newer checkpoint means that there is none."""
        return self.own.is_whole and (self.own.is_used or self.others.is_whole)


def look(checkpoints: Path, others: list[Path], *, shared: bool = False) -> Look:
    """Look for checkpoints: all files of their own folder count, of others those called so.

    In `shared` folders others write as well: these do not count once the program is seen to
    use the folder for checkpoints, and files of other users never do.
    """
    own = _scan(checkpoints, all_count=True, shared=False)
    if shared and own.is_used:
        return Look(own, _Scan())
    newest, too_much = 0, ""
    for top in others:
        found = _scan(top, all_count=False, shared=shared)
        newest = max(newest, found.newest)
        too_much = too_much if found.is_whole else str(top)
    return Look(own, _Scan(newest, is_whole=not too_much), too_much)


def _scan(top: Path, *, all_count: bool, shared: bool) -> _Scan:
    """One folder, its upper folders first: where it holds too much, these are the likely ones."""
    newest, is_used, seen, end = 0, False, 0, time.monotonic() + MAX_SECONDS
    waiting = deque([str(top)])
    while waiting:
        try:
            entries = list(os.scandir(waiting.popleft()))
        except OSError:
            continue  # it was removed, or was never made
        seen += len(entries)
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED and not entry.name.startswith("."):
                        waiting.append(entry.path)
                    continue
                inner = os.path.relpath(entry.path, top)
                is_named = bool(_NAME.search(inner.replace(_LOGS, "", 1)))
                if not (is_named or (all_count and not inner.startswith(_LOGS))):
                    continue
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # replaced just now
            if shared and status.st_uid not in (os.getuid(), *NOBODY):
                continue
            newest = max(newest, status.st_mtime_ns)
            is_used = is_used or (is_named and not entry.name.startswith("."))
        if waiting and (seen > MAX_ENTRIES or time.monotonic() > end):
            return _Scan(newest, is_used, is_whole=False)
    return _Scan(newest, is_used)


def begin_part(output: Path, found: Look, number: int = 1) -> tuple[int, int]:
    """Note that a part begins; its number, and how many before it got nowhere.

    `number` is what Slurm makes of it, which counts where nothing can be noted.
    """
    record = _read_progress(output)
    idle = int(record.get("idle", 0))
    if record.get("open"):  # the part before was killed before it came to its end
        idle = _counted(record, found, 1)
    part = int(record.get("part", 0)) + 1
    noted = {**record, "part": part, "idle": idle, "open": True}
    noted.update(found=found.own.newest, others=found.others.newest)
    if not _write_progress(output, noted):
        part = max(part, number)
    return part, idle


def end_part(output: Path, found: Look, number: int = 1) -> int:
    """Note that the part ends and another is to follow; how many in a row got nowhere."""
    record = _read_progress(output)
    # Parts that could not be noted, on a full disk, have got nowhere that is known.
    parts = 1 if record.get("open") else max(1, number - int(record.get("part", 0)))
    idle = _counted(record, found, parts)
    record.update(idle=idle, open=False)
    if not found.can_tell and not record.get("said"):
        where = found.too_much or "the folder for checkpoints"
        log(
            f"{where} holds too much to be looked through for checkpoints, so parts that get "
            "nowhere are not held; they are if the program saves in $JUPYTER_HPC_CHECKPOINTS"
        )
        record["said"] = True
    _write_progress(output, record)
    return idle


def held(output: Path) -> None:
    """The rest waits for a person, and whoever lets it go on means it: count anew."""
    _write_progress(output, {**_read_progress(output), "idle": 0})


def _counted(record: dict[str, Any], found: Look, parts: int) -> int:
    """How many parts in a row got nowhere, with these; 0 if that cannot be known."""
    got_on = found.own.newest > record.get("found", 0)
    got_on = got_on or found.others.newest > record.get("others", 0)
    return 0 if got_on or not found.can_tell else int(record.get("idle", 0)) + parts


def _read_progress(output: Path) -> dict[str, Any]:
    try:
        record = json.loads((output / PROGRESS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write_progress(output: Path, record: dict[str, Any]) -> bool:
    """Whether the record could be kept."""
    target, draft = output / PROGRESS_FILE, output / (PROGRESS_FILE + ".draft")
    text = json.dumps(record).ljust(_RECORD_BYTES)
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as error:
        try:
            with open(target, "r+", encoding="utf-8") as file:  # takes no room of the disk
                file.write(text)
        except OSError:
            log(f"the parts of this run cannot be counted in {output}: {error.strerror}")
            return False
    return True
