"""Rows of runs that are over, kept so that a thousand run folders need not be read anew.

They lie beside the notes, one file for each submit, and count as long as everything that they
were made of is as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Beside the folder of the notes.
REMEMBERED = "run-rows"
#: A submit that changed within these seconds is not kept: its last lines may still come.
SETTLED_SECONDS = 60
#: Kept by a release that made other rows, they are made anew.
_FORMAT = 1

#: States after which a run changes no more, unless a person does something.
_OVER = ("done", "incomplete", "stopped", "failed")

#: What a row is made of, in the folder of a run's output.
_SOURCES = ("", "state.json", "DONE", "metrics.json", "gpu-usage.csv", "figures")


def remembered(
    notes: Path, job_id: str, run_dir: Path, look: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `look` finds in the folder of a submit, looked for again only if that changed."""
    file = notes.parent / REMEMBERED / f"{job_id}.json"
    before = _marks(run_dir)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["format"] == _FORMAT and kept["dir"] == str(run_dir) and kept["marks"] == before:
            submit: dict[str, Any] = kept["submit"]
            return submit
    found = look()
    is_over = found["runs"] and all(row["state"] in _OVER for row in found["runs"])
    newest = max((mark for mark in before.values() if mark), default=0)
    if is_over and newest < (time.time() - SETTLED_SECONDS) * 1e9 and _marks(run_dir) == before:
        whole = {"format": _FORMAT, "dir": str(run_dir), "marks": before, "submit": found}
        _keep(file, json.dumps(whole))
    return found


def forget(notes: Path, job_id: str) -> None:
    """Keep nothing of a submit."""
    with contextlib.suppress(OSError):
        (notes.parent / REMEMBERED / f"{job_id}.json").unlink()


def _keep(file: Path, text: str) -> None:
    """A full disk, or a home that cannot be written, only costs time."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        os.makedirs(file.parent, mode=0o700, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, file)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def _marks(run_dir: Path) -> dict[str, int]:
    """When what the rows are made of was written, in nanoseconds; 0 for what is not there."""
    marks = {name: _written(run_dir / name) for name in ("run.json", "logs", "parameters")}
    tasks = [""]
    if marks["parameters"]:
        with contextlib.suppress(OSError):
            names = os.listdir(run_dir / "parameters")
            tasks += [name[:-5] for name in names if name.endswith(".json")]
    for task in tasks:
        for name in _SOURCES:
            path = os.path.join("output", task, name)
            marks[path] = _written(run_dir / path)
    return marks


def _written(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
