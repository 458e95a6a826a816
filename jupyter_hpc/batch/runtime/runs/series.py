"""How the numbers of a run grew: from metrics.jsonl where it wrote one, else from its logs."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runtime.job.run_table import EPOCH, logs_of, numbers_in

#: Of a longer log the beginning and the end are read.
MAX_LOG_BYTES = 16_000_000
#: So many numbers of a run are drawn.
MAX_CURVES = 24

#: "45%|" of a progress bar.
_SHARE = re.compile(r"\b(\d{1,3})%\|")
#: Numbers that count, and no results.
_COUNTERS = frozenset(
    {"epoch", "epochs", "step", "steps", "global step", "iteration", "batch", "it"}
)


class Series:
    """The curves of one run: `x` is what is counted, `curves` the points of each number."""

    def __init__(self, x: str, curves: dict[str, list[tuple[float, float]]], most: int) -> None:
        self.x = x
        grown = {name: points for name, points in curves.items() if len(points) > 1}
        names = sorted(grown, key=lambda name: -len(grown[name]))[:MAX_CURVES]
        self.curves = {name: _thinned(grown[name], most) for name in grown if name in names}


def series_of(run_dir: Path, task: str, output: Path, most: int) -> Series:
    """The curves of a run in at most so many points each."""
    found = _rows_of(output / "metrics.jsonl")
    if found:
        return Series("step", _by_name(found), most)
    epochs: dict[str, dict[float, float]] = {}
    plain: dict[str, list[tuple[float, float]]] = {}
    epoch = None
    for line in _lines(logs_of(run_dir, task)):
        if told := EPOCH.search(line):
            share = _SHARE.search(line)
            epoch = int(told[1]) + (min(100, int(share[1])) / 100 if share else 0.0)
        for name, value in numbers_in(line).items():
            if _counts(name) or not math.isfinite(value):
                continue
            if epoch is None:
                points = plain.setdefault(name, [])
                points.append((float(len(points) + 1), value))
            else:  # a part of a chain that goes on tells of some epochs again
                epochs.setdefault(name, {})[epoch] = value
    if epochs:
        return Series("epoch", {name: sorted(at.items()) for name, at in epochs.items()}, most)
    return Series("line", plain, most)


def _counts(name: str) -> bool:
    """Whether a number only says how far it is: "step", or "Epoch 3" before its share in %."""
    return name.lower() in _COUNTERS or EPOCH.match(name) is not None


def _by_name(rows: Iterable[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        step = row.get("step")
        if not isinstance(step, (int, float)):
            continue
        for name, value in row.items():
            if isinstance(value, (int, float)) and not _counts(name):
                curves.setdefault(name, []).append((float(step), float(value)))
    return curves


def _rows_of(path: Path) -> list[dict[str, Any]]:
    rows = []
    for line in _lines([path]):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # cut off by a kill
        if isinstance(row, dict):
            rows.append(row)
    return rows


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
