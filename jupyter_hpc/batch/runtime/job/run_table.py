"""The runs of a sweep as one table: their parameters, how they ended, what they reached.

Each run writes it anew when it ends, so that it is there for the file browser, for
`results` and for every spreadsheet.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.marks import INCOMPLETE, MISSING

#: Beside the folders of the runs.
TABLE_NAME = "runs.csv"

_NUMBER = re.compile(r"\b([A-Za-z][\w ./-]{0,30}?)\s*[:=]\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\b")

#: "epoch 3", "Epoch: 3/10", "epoch=3"
EPOCH = re.compile(r"\bepoch\b\W{0,3}(\d{1,9})\b", re.IGNORECASE)

#: Lines of Slurm and of ours, which hold no results of the program.
_NOT_THE_PROGRAM = re.compile(
    r"\[jupyter-hpc\]|(slurm\w*|srun|sbatch|salloc|scancel|scontrol|sacct|squeue)(-\S+)?(\[\S+\])?:"
    r"|\[\d{4}-[\dT:.-]+\] error: \*\*\* "  # 26.05: "[2026-11-18T20:12:02.020] error: *** JOB 83 …"
)
#: Dates and times of day are no numbers with a name.
_CLOCK = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\b\d?\d:\d\d(?::\d\d)?\b")

#: What counts the steps before the name of a number: "epoch 3/10 - ".
_COUNTED = re.compile(r"^.*\b\d+(?:/\d+)?[^\w]+")


class RunRow:
    """One run; `state` is waiting, running, goes on, held, done, incomplete, failed or stopped.

    An incomplete run has ended well, but not all of its files are back. Without a task it is
    that of a submit that is no sweep; the parts of a chain are one run.
    """

    def __init__(self, run_dir: Path, task: str = "") -> None:
        output = run_dir / "output" / task
        ended = _table_of(output / "state.json")
        log = _log_of(run_dir, task)
        self.task = task
        self.output = output
        self.parameters = _table_of(
            run_dir / "parameters" / f"{task}.json" if task else run_dir / "parameters.json"
        )
        self.ended = ended
        self.code = ended.get("code")
        self.state = "running" if log else "waiting"
        if (output / "DONE").exists():
            self.state = "done"
        elif self.code is not None:
            early = ended.get("time_limit") or ended.get("told_to_end")
            early = early or ended.get("next") in ("used-up", "given-up")  # no part is left
            self.state = "stopped" if early else "failed"
            if ended.get("next") in ("goes-on", "held"):
                self.state = "goes on" if ended["next"] == "goes-on" else "held"
            if self.code == INCOMPLETE and any(output.glob(f"files*/{MISSING}")):
                self.state = "incomplete"
        self.figures = sum(1 for _ in (output / "figures").glob("*")) if output.is_dir() else 0
        self.metrics = {**_last_numbers(log), **_numbers(_table_of(output / "metrics.json"))}


def run_table(run_dir: Path) -> list[RunRow]:
    """The runs of a sweep in their order."""
    names = (file.stem for file in (run_dir / "parameters").glob("*.json"))
    tasks = sorted((name for name in names if name.isdecimal() and name.isascii()), key=int)
    return [RunRow(run_dir, task) for task in tasks]


def write_run_table(run_dir: Path) -> None:
    """Write the table, whole; again, if another run has ended in the meantime."""
    target = run_dir / "output" / TABLE_NAME
    draft = target.with_name(f".{TABLE_NAME}.{os.getpid()}")
    for _ in range(10):
        before = _end_times(run_dir)
        rows = run_table(run_dir)
        names = list(dict.fromkeys(name for row in rows for name in row.parameters))
        found = list(dict.fromkeys(name for row in rows for name in row.metrics))
        with open(draft, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["run", *names, "state", "exit code", *found, "figures"])
            for row in rows:
                given = [row.parameters.get(name, "") for name in names]
                reached = [row.metrics.get(name, "") for name in found]
                code = "" if row.code is None else row.code
                writer.writerow([row.task, *given, row.state, code, *reached, row.figures])
        os.replace(draft, target)
        if _end_times(run_dir) == before:
            return


def _end_times(run_dir: Path) -> dict[str, int]:
    """When each run wrote what its row is made of: the code first, then that all is done."""
    marks = [file for name in ("state.json", "DONE") for file in run_dir.glob(f"output/*/{name}")]
    return {str(file): file.stat().st_mtime_ns for file in marks}


def _table_of(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def logs_of(run_dir: Path, task: str) -> list[Path]:
    """The logs of a run, that of its last part last."""
    pattern = f"*_{task}.out" if task else "*.out"
    dated = []
    for file in (run_dir / "logs").glob(pattern):
        with contextlib.suppress(OSError):  # a link without an end, or deleted just now
            dated.append((file.stat().st_mtime, file))
    return [file for _, file in sorted(dated)]


def _log_of(run_dir: Path, task: str) -> Path | None:
    logs = logs_of(run_dir, task)
    return logs[-1] if logs else None


def _last_numbers(log: Path | None) -> dict[str, float]:
    """Numbers with names in the last line of a log that has any, such as `loss: 0.12`."""
    if log is None:
        return {}
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 20_000))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return next((found for line in reversed(lines) if (found := numbers_in(line))), {})


def numbers_in(line: str) -> dict[str, float]:
    """Numbers with names in one line of a log, without what counts the steps before them."""
    if not (":" in line or "=" in line) or _NOT_THE_PROGRAM.match(line):
        return {}
    plain = _CLOCK.sub("", line)
    found = [(name.strip(), float(value)) for name, value in _NUMBER.findall(plain)]
    short = [(_COUNTED.sub("", name) or name, value) for name, value in found]
    return dict(short if len(dict(short)) == len(dict(found)) else found)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in values.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
                found[name] = float(value)
    return found
