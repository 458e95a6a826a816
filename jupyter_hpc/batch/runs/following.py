"""The curves of runs that grow: each look reads only what is new since the last one."""

from __future__ import annotations

import json
import os
import stat
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from jupyter_hpc.batch.runs.advance import Advance
from jupyter_hpc.batch.runtime.job.run_table import logs_of
from jupyter_hpc.batch.runtime.runs.series import MAX_LOG_BYTES, Growth, Series

#: Of so many runs the curves are kept; others are read anew.
MAX_FOLLOWED = 200
#: A line without an end is taken as one when it is longer.
_MAX_LINE_BYTES = 64 * 1024


class FollowedRun:
    """One run, or a job of which there is only a log. Not for two threads at once."""

    def __init__(self, find_logs: Callable[[], list[Path]], output: Path | None) -> None:
        self._find_logs = find_logs
        self._output = output
        self._forget()

    def _forget(self) -> None:
        self._growth = Growth()
        self._advance = Advance()
        self._files: dict[Path, _ReadFile] = {}

    def look(self) -> None:
        """Read what is new; of a run that is over, its last line too."""
        is_over = self._output is not None and _is_over(self._output)
        metrics = [] if self._output is None else [self._output / "metrics.jsonl"]
        logs = self._find_logs()
        try:
            self._read(metrics, logs, is_over)
        except _AnotherFile:  # rewritten, or replaced: what was read of it is not true any more
            self._forget()
            self._read(metrics, logs, is_over)

    def _read(self, metrics: list[Path], logs: list[Path], is_over: bool) -> None:
        if not set(self._files) <= {*metrics, *logs}:
            raise _AnotherFile
        for file in metrics:
            self._files.setdefault(file, _ReadFile()).read(file, self._row, is_over)
        for log in logs:
            if log not in self._files and log != logs[0]:
                self._advance.begin_part()
            self._files.setdefault(log, _ReadFile()).read(log, self._line, is_over)

    def _row(self, line: str, written: float) -> None:
        self._growth.add_row(line)
        self._advance.add_row(line, written)

    def _line(self, line: str, written: float) -> None:
        self._growth.add_line(line)
        self._advance.add_line(line, written)

    def series(self, points: int) -> Series:
        """The curves in at most so many points each."""
        return self._growth.series(points)

    @property
    def advance(self) -> Advance:
        """How far the run is by what it has told."""
        return self._advance


def _is_over(output: Path) -> bool:
    """Whether nothing more comes, as far as the run's own folder tells."""
    try:
        ended = json.loads((output / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(ended, dict) and ended.get("next") != "goes-on"


class _AnotherFile(Exception):
    """A file is not the one that was read before."""


@dataclass
class _ReadFile:
    """How far a file has been read."""

    identity: tuple[int, int] | None = None
    offset: int = 0
    rest: bytes = field(default=b"", repr=False)

    def read(self, path: Path, take: Callable[[str, float], None], is_over: bool) -> None:
        """Hand over each whole line that is new; what is written over is a line, too."""
        try:
            # Opened anew each time: that is what makes NFS tell the true size.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            if self.identity is not None:
                raise _AnotherFile from None
            return
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return
            identity = (status.st_dev, status.st_ino)
            if self.identity not in (None, identity) or status.st_size < self.offset:
                raise _AnotherFile
            self.identity = identity
            file.seek(self.offset)
            data = self.rest + file.read(MAX_LOG_BYTES // 2)
            self.offset = file.tell()
            if status.st_size - self.offset > MAX_LOG_BYTES // 2:
                self.offset = status.st_size - MAX_LOG_BYTES // 2
                file.seek(self.offset)
                data += b"\n"
            if self.offset < status.st_size:
                data += file.read(MAX_LOG_BYTES // 2)
                self.offset = file.tell()
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if is_over or len(data) - end > _MAX_LINE_BYTES:
            end = len(data)
        self.rest = data[end:]
        for line in data[:end].decode("utf-8", "replace").splitlines():
            take(line, status.st_mtime)


class FollowedRuns:
    """The runs that somebody looks at; those looked at longest ago are forgotten first."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[Path, str], FollowedRun] = OrderedDict()

    def of(self, run_dir: Path, task: str) -> FollowedRun:
        """The run of that folder; its task is empty unless it is one of a sweep."""
        run = FollowedRun(partial(logs_of, run_dir, task), run_dir / "output" / task)
        return self._kept((run_dir, task), run)

    def of_log(self, log: Path) -> FollowedRun:
        """A job that has no run folder, by its log."""
        return self._kept((log, "log"), FollowedRun(lambda: [log], None))

    def _kept(self, key: tuple[Path, str], new: FollowedRun) -> FollowedRun:
        if key not in self._runs:
            self._runs[key] = new
            while len(self._runs) > MAX_FOLLOWED:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]
