"""Several processes of one job run the same script: some things happen only once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: A folder that the processes share; the job sets it when it starts more than one.
RANKS_VARIABLE = "JUPYTER_HPC_RANKS"
#: "node": each node has a working directory of its own, so one process per node leads.
LEADER_VARIABLE = "JUPYTER_HPC_LEADER"
#: How long the others wait for what the first process does for all.
MAX_WAIT_SECONDS = 6 * 3600.0

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


def _first_number(names: Any) -> int:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return 0


def rank() -> int:
    """The number of this process among those of the job, 0 when there is one only."""
    return _first_number(_RANKS)


def is_leader() -> bool:
    """Whether this process shows values and saves figures, which one of the job does."""
    return rank() == 0


def is_folder_leader() -> bool:
    """Whether this process runs shell lines and writes files, which each folder needs once."""
    if os.environ.get(LEADER_VARIABLE) == "node":
        return _first_number(_LOCAL_RANKS) == 0
    return rank() == 0


class _Turns:
    count = 0


def once(action: Callable[[], Any]) -> Any:
    """Let the leading process do `action`; all processes go on when it is done.

    The result must be JSON. Without a shared folder (one process, or started by
    hand) every process does it for itself. An exception reaches every process.
    """
    folder = os.environ.get(RANKS_VARIABLE)
    if not folder:
        return action()
    _Turns.count += 1
    marker = Path(folder) / f"{_Turns.count:06d}.json"
    if not is_folder_leader():
        return _outcome(marker)
    try:
        result = action()
    except BaseException as error:
        _leave(marker, {"error": f"{type(error).__name__}: {error}"})
        raise
    _leave(marker, {"result": result})
    return result


def _leave(marker: Path, content: Any) -> None:
    marker.parent.mkdir(parents=True, exist_ok=True)
    draft = marker.with_suffix(".draft")
    draft.write_text(json.dumps(content), encoding="utf-8")
    draft.replace(marker)


def _outcome(marker: Path, seconds: float | None = None) -> Any:
    deadline = time.monotonic() + (MAX_WAIT_SECONDS if seconds is None else seconds)
    pause = 0.02
    while not marker.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("The first process of this job did not finish its shell command.")
        time.sleep(pause)
        pause = min(1.0, pause * 1.5)
    content = json.loads(marker.read_text(encoding="utf-8"))
    if "error" in content:
        raise RuntimeError("The first process of this job failed: " + content["error"])
    return content["result"]
