"""What a run that is under way was given: files that lie among its results and are none."""

from __future__ import annotations

import json
from pathlib import Path

from jupyter_hpc.batch.runtime.job.entries import as_states, state_of
from jupyter_hpc.batch.runtime.job.own_folder import INPUTS

#: A person reads no longer list than this, and each name is a question to the file server.
MAX_INPUTS = 3000


def unchanged_inputs(output: Path) -> list[str]:
    """Their paths below the output folder of a job; a file that the run has changed is a result."""
    found: list[str] = []
    for mark in (output / INPUTS, *sorted(output.glob(f"[0-9]*/{INPUTS}"))):
        try:
            states = as_states(json.loads(mark.read_text(encoding="utf-8")))
        except (OSError, ValueError, AttributeError, TypeError):
            continue  # written just now, or none of ours
        for name, state in states.items():
            if len(found) >= MAX_INPUTS:
                return found
            path = mark.parent / "files" / name
            if state[0] != "made" and _is(path, state):
                found.append(str(path.relative_to(output)))
    return found


def _is(path: Path, state: tuple[object, ...]) -> bool:
    try:
        return state_of(str(path)) == state
    except OSError:
        return False
