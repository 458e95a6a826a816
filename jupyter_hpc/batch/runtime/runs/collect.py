"""Looks through the folders of all runs that were ever submitted, newest first.

    python jupyter_hpc_runs.py list NOTES MOST

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

from jupyter_hpc.batch.runtime.job.run_table import EPOCH, RunRow, logs_of, run_table
from jupyter_hpc.batch.runtime.runs.remembered import remembered

#: What a submit has asked for; see batch/submit/recorded.py.
RUN_FILE = "run.json"
#: A recording of GPUs that is longer is not read for one number.
MAX_RECORDING_BYTES = 8_000_000
#: The first and the last epoch of a log are looked for in so much at its ends.
LOG_END_BYTES = 50_000


def collected(notes: Path, most: int) -> Iterator[dict[str, Any]]:
    """Each submit that has a note, the newest first, at most so many."""
    try:
        names = [name for name in os.listdir(notes) if name.isdigit()]
    except OSError:
        return
    for name in sorted(names, key=int, reverse=True)[:most]:
        try:
            submit = noted_submit(notes, name)
        except Exception as error:  # one that cannot be read hides no other
            sys.stderr.write(f"job {name}: {type(error).__name__}: {error}\n")
            continue
        if submit is not None:
            yield submit


def noted_submit(notes: Path, job_id: str) -> dict[str, Any] | None:
    """The submit of a job, by its note; None if there is none."""
    note = notes / job_id
    try:
        folder = note.read_text(encoding="utf-8", errors="replace").strip("\n")
        submitted = note.stat().st_mtime
    except OSError:
        return None
    if not folder.startswith("/"):
        return None
    run_dir = Path(folder)
    found = remembered(notes, job_id, run_dir, lambda: _submit(run_dir))
    return {"job": job_id, "submitted": int(submitted), **found}


def _submit(run_dir: Path) -> dict[str, Any]:
    asked = _content(run_dir / RUN_FILE)
    if "notebook" not in asked:  # submitted by an older release
        asked = {**asked, "notebook": _content(run_dir / "conversion.json").get("notebook", "")}
    is_there = (run_dir / "output").is_dir()
    sweep = (run_dir / "parameters").is_dir()
    rows = [] if not is_there else run_table(run_dir) if sweep else [RunRow(run_dir)]
    return {
        "run_dir": str(run_dir),
        "there": is_there,
        "sweep": sweep,
        "asked": asked,
        "runs": [_row(run_dir, row) for row in rows],
    }


def _row(run_dir: Path, row: RunRow) -> dict[str, Any]:
    return {
        "task": row.task,
        "parameters": row.parameters,
        "state": row.state,
        "code": row.code,
        "metrics": row.metrics,
        "figures": row.figures,
        "epochs": _epochs(logs_of(run_dir, row.task)),
        "seconds": row.ended.get("total", row.ended.get("seconds")),
        "ended": row.ended.get("time"),
        "part": row.ended.get("part"),
        "rest": row.ended.get("rest", ""),
        "gpu_load": _mean_load(row.output / "gpu-usage.csv"),
    }


def _epochs(logs: list[Path]) -> int | None:
    """From the first to the last epoch that these logs tell of; None where they tell of none,
    or only of one, which can be the last of many."""
    numbers: set[int] = set()
    for log in logs:
        try:
            with open(log, "rb") as file:
                ends = file.read(LOG_END_BYTES)
                if (size := os.fstat(file.fileno()).st_size) > LOG_END_BYTES:
                    file.seek(max(LOG_END_BYTES, size - LOG_END_BYTES))
                    ends += b"\n" + file.read(LOG_END_BYTES)
        except OSError:
            continue
        numbers.update(map(int, EPOCH.findall(ends.decode("utf-8", "replace"))))
    return max(numbers) - min(numbers) + 1 if len(numbers) > 1 else None


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
