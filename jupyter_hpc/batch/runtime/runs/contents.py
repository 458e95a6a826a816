"""What a run folder holds that a report shows: rows, curves, figures, GPU records, script, log."""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.marks import ENVIRONMENT
from jupyter_hpc.batch.runtime.job.run_table import RunRow, logs_of
from jupyter_hpc.batch.runtime.runs.collect import noted_submit
from jupyter_hpc.batch.runtime.runs.series import series_of

#: What is taken into a report of each kind, at most.
MAX_PICTURES_BYTES = 6_000_000
MAX_PICTURE_BYTES = 2_000_000
MAX_RECORD_BYTES = 64_000_000
#: And of all runs of a sweep together, so that the answer stays below what is read of one.
MAX_RECORDS_BYTES = 200_000_000
MAX_POINTS, MIN_POINTS = 24_000, 20
MAX_SCRIPT_BYTES = 256_000
MAX_REPORT_LOG_BYTES = 20_000
MAX_ENVIRONMENT_BYTES = 1_000_000
#: The runs of a sweep have one environment, unless it was changed while they waited.
MAX_ENVIRONMENTS = 10

_PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def report_contents(notes: Path, job_id: str, task: str, most: int) -> dict[str, Any]:
    """Everything of one run, or of all runs of a sweep; curves have at most so many points.

    Empty if no note tells of such a job.
    """
    submit = noted_submit(notes, job_id)
    if submit is None:
        return {}
    run_dir = Path(submit["run_dir"])
    rows = [row for row in submit["runs"] if not task or row["task"] == task]
    left = MAX_PICTURES_BYTES // max(1, len(rows))
    records = min(MAX_RECORD_BYTES, MAX_RECORDS_BYTES // max(1, len(rows)))
    most = max(MIN_POINTS, min(most, MAX_POINTS // max(1, len(rows))))
    for row in rows:
        own = RunRow(run_dir, row["task"])
        series = series_of(run_dir, row["task"], own.output, most)
        row["x"], row["curves"] = series.x, series.curves
        row["pictures"] = _pictures(own.output / "figures", left)
        row["record"] = _packed(own.output / "gpu-usage.csv", records)
        row["log"] = _end_of(logs_of(run_dir, row["task"]))
    scripts = sorted(run_dir.glob("*.sbatch"))
    submit["runs"] = rows
    submit["environments"] = _environments(run_dir, rows)
    submit["script"] = _text(scripts[0]) if scripts else ""
    return submit


def _environments(run_dir: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the runs found installed, each that differs once, with the runs that it is of."""
    found: dict[str, list[str]] = {}
    for row in rows:
        text = _text(RunRow(run_dir, row["task"]).output / ENVIRONMENT, MAX_ENVIRONMENT_BYTES)
        if text in found or (text and len(found) < MAX_ENVIRONMENTS):
            found.setdefault(text, []).append(row["task"])
    environments = []
    for text, tasks in found.items():
        try:
            content = json.loads(text)
        except ValueError:
            continue
        if isinstance(content, dict):
            environments.append({**content, "runs": tasks})
    return environments


def _pictures(folder: Path, left: int) -> list[dict[str, Any]]:
    """The figures in the order of their cells; without `data` where they are too large."""
    found: list[dict[str, Any]] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError:
        return found
    for path in paths:
        kind = _PICTURES.get(path.suffix.lower(), "")
        try:
            size = path.stat().st_size
            fits = kind and size <= min(left, MAX_PICTURE_BYTES)
            data = base64.b64encode(path.read_bytes()).decode() if fits else None
        except OSError:
            continue
        left -= size if data else 0
        found.append({"name": path.name, "kind": kind, "size": size, "data": data})
    return found


def _packed(path: Path, most: int) -> str:
    """The file, compressed, as text; empty if it is not there or too large."""
    try:
        if path.stat().st_size > most:
            return ""
        return base64.b64encode(zlib.compress(path.read_bytes(), 1)).decode()
    except OSError:
        return ""


def _end_of(logs: list[Path]) -> str:
    if not logs:
        return ""
    try:
        with open(logs[-1], "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_REPORT_LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _text(path: Path, most: int = MAX_SCRIPT_BYTES) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def print_contents(notes: str, job_id: str, task: str, most: str) -> None:
    """One line of JSON."""
    content = report_contents(Path(notes), job_id, task, int(most))
    sys.stdout.write(json.dumps(content) + "\n")
