"""Looks through the folders of all runs that were ever submitted, newest first.

    python jupyter_hpc_runs.py NOTES MOST

NOTES is the folder in which the run folder of each job is noted under the job's number. The
answer is one line of JSON for each submit, with a row for each of its runs. It is read from
what the runs have left themselves, so that it is there also when Slurm has forgotten them.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.run_table import RunRow, run_table

#: What a submit has asked for; see batch/submit/recorded.py.
RUN_FILE = "run.json"
#: A recording of GPUs that is longer is not read for one number.
MAX_RECORDING_BYTES = 8_000_000


def collected(notes: Path, most: int) -> Iterator[dict[str, Any]]:
    """Each submit that has a note, the newest first, at most so many."""
    try:
        names = [name for name in os.listdir(notes) if name.isdigit()]
    except OSError:
        return
    for name in sorted(names, key=int, reverse=True)[:most]:
        note = notes / name
        try:
            folder = note.read_text(encoding="utf-8", errors="replace").strip("\n")
            submitted = note.stat().st_mtime
        except OSError:
            continue
        if folder.startswith("/"):
            yield _submit(name, Path(folder), submitted)


def _submit(job_id: str, run_dir: Path, submitted: float) -> dict[str, Any]:
    asked = _content(run_dir / RUN_FILE)
    if "notebook" not in asked:  # submitted by an older release
        asked = {**asked, "notebook": _content(run_dir / "conversion.json").get("notebook", "")}
    is_there = (run_dir / "output").is_dir()
    sweep = (run_dir / "parameters").is_dir()
    rows = [] if not is_there else run_table(run_dir) if sweep else [RunRow(run_dir)]
    return {
        "job": job_id,
        "run_dir": str(run_dir),
        "submitted": int(submitted),
        "there": is_there,
        "sweep": sweep,
        "asked": asked,
        "runs": [_row(row) for row in rows],
    }


def _row(row: RunRow) -> dict[str, Any]:
    return {
        "task": row.task,
        "parameters": row.parameters,
        "state": row.state,
        "code": row.code,
        "metrics": row.metrics,
        "figures": row.figures,
        "seconds": row.ended.get("total", row.ended.get("seconds")),
        "ended": row.ended.get("time"),
        "part": row.ended.get("part"),
        "rest": row.ended.get("rest", ""),
        "gpu_load": _mean_load(row.output / "gpu-usage.csv"),
    }


def _mean_load(recording: Path) -> float | None:
    """The mean load of all GPUs over the whole run, in percent."""
    try:
        if os.stat(recording).st_size > MAX_RECORDING_BYTES:
            return None
        with open(recording, encoding="utf-8", errors="replace", newline="") as file:
            loads = [line.get("load") for line in csv.DictReader(file)]
    except (OSError, csv.Error):
        return None
    values = []
    for load in loads:
        try:
            values.append(float(load or ""))
        except ValueError:
            continue
    return round(sum(values) / len(values), 1) if values else None


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def print_runs(notes: str, most: str) -> None:
    """One line for each submit."""
    for submit in collected(Path(notes), int(most)):
        sys.stdout.write(json.dumps(submit) + "\n")


if __name__ == "__main__":
    print_runs(*sys.argv[1:3])
