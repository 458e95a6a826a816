"""How the numbers of a run grew: from metrics.jsonl where it wrote one, else from its logs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jupyter_hpc.batch.runtime.job.run_table import EPOCH, logs_of, numbers_in

#: Of a longer log the beginning and the end are read.
MAX_LOG_BYTES = 16_000_000
#: So many numbers of a run are drawn.
MAX_CURVES = 24
#: So many are kept while it is read: a log may have a name of its own in each line.
MAX_NAMES = 100
#: A longer curve keeps every second of its points.
MAX_KEPT_POINTS = 8000

#: "45%|" of a progress bar.
SHARE = re.compile(r"\b(\d{1,3})%\|")
#: Numbers that count, and no results.
_COUNTERS = frozenset(
    {"epoch", "epochs", "step", "steps", "global step", "iteration", "batch", "it"}
)


class Series:
    """The curves of one run: `x` is what is counted, `curves` the points of each number."""

    def __init__(self, x: str, curves: Mapping[str, list[tuple[float, float]]], most: int) -> None:
        self.x = x
        grown = {name: points for name, points in curves.items() if len(points) > 1}
        names = sorted(grown, key=lambda name: -len(grown[name]))[:MAX_CURVES]
        self.curves = {name: _thinned(grown[name], most) for name in grown if name in names}


class Growth:
    """The curves of a run while its lines come, in memory that has an end."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[float, float]] = {}
        self._epochs: dict[str, dict[float, float]] = {}
        self._lines: dict[str, _Counted] = {}
        self._epoch: float | None = None

    def add_row(self, line: str) -> None:
        """A line of metrics.jsonl."""
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return  # cut off by a kill
        step = row.get("step") if isinstance(row, dict) else None
        if not isinstance(step, (int, float)):
            return
        for name, value in row.items():
            if isinstance(value, (int, float)) and not counts(name):
                with contextlib.suppress(OverflowError):  # an integer of hundreds of digits
                    _put(self._steps, name, float(step), float(value))

    def add_line(self, line: str) -> None:
        """A line of a log."""
        if told := EPOCH.search(line):
            share = SHARE.search(line)
            self._epoch = int(told[1]) + (min(100, int(share[1])) / 100 if share else 0.0)
        for name, value in numbers_in(line).items():
            if counts(name) or not math.isfinite(value):
                continue
            if self._epoch is not None:  # a part that goes on tells of some epochs again
                _put(self._epochs, name, self._epoch, value)
            elif name in self._lines or len(self._lines) < MAX_NAMES:
                self._lines.setdefault(name, _Counted()).add(value)

    def series(self, most: int) -> Series:
        """What has come so far, in at most so many points each."""
        if self._steps:
            return Series("step", _sorted(self._steps), most)
        if self._epochs:
            return Series("epoch", _sorted(self._epochs), most)
        return Series("line", {name: found.all() for name, found in self._lines.items()}, most)


class _Counted:
    """Values that nothing counts but themselves."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._last = (0.0, 0.0)
        self._every = 1

    def add(self, value: float) -> None:
        self._last = (self._last[0] + 1, value)
        if (self._last[0] - 1) % self._every == 0:
            self._points.append(self._last)
        if len(self._points) > MAX_KEPT_POINTS:
            self._points = self._points[::2]
            self._every *= 2

    def all(self) -> list[tuple[float, float]]:
        newest = [] if self._points[-1:] == [self._last] else [self._last]
        return self._points + newest


def _put(curves: dict[str, dict[float, float]], name: str, x: float, value: float) -> None:
    if name not in curves and len(curves) >= MAX_NAMES:
        return
    points = curves.setdefault(name, {})
    points[x] = value
    if len(points) > MAX_KEPT_POINTS:
        kept = sorted(points.items())
        curves[name] = dict([*kept[:-1:2], kept[-1]])


def _sorted(curves: Mapping[str, Mapping[float, float]]) -> dict[str, list[tuple[float, float]]]:
    return {name: sorted(points.items()) for name, points in curves.items()}


def series_of(run_dir: Path, task: str, output: Path, most: int) -> Series:
    """The curves of a run in at most so many points each."""
    growth = Growth()
    for line in _lines([output / "metrics.jsonl"]):
        growth.add_row(line)
    found = growth.series(most)
    if found.x == "step":
        return found
    for line in _lines(logs_of(run_dir, task)):
        growth.add_line(line)
    return growth.series(most)


def counts(name: str) -> bool:
    """Whether a number only says how far it is: "step", or "Epoch 3" before its share in %."""
    return name.lower() in _COUNTERS or EPOCH.match(name) is not None


def _lines(files: Iterable[Path]) -> Iterator[str]:
    """The lines of these files one after the other; what is written over is a line, too."""
    for path in files:
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_LOG_BYTES // 2)
                if (size := os.fstat(file.fileno()).st_size) > len(data):
                    file.seek(max(len(data), size - MAX_LOG_BYTES // 2))
                    data += b"\n" + file.read(MAX_LOG_BYTES // 2)
        except OSError:
            continue
        yield from data.decode("utf-8", "replace").splitlines()


def _thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many of them, evenly taken, with the last."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(number * step)] for number in range(most)]
