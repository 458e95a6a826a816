"""Reads the GPU recording of a batch job: `gpu-usage.csv`, written by the job's own runtime.

One line for each GPU and sample, under the header

    time,host,gpu,name,load,memory_mib,memory_total_mib,power_w,temperature_c

`time` is epoch seconds, `gpu` the number on that host; a value that could not be had
is empty. A job may be killed at any moment, so a line is written whole and an
unfinished last one is ignored. Columns may be missing or in another order: the
header decides.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path

from jupyter_hpc.gpu.history import Column, HistoryView, thin
from jupyter_hpc.gpu.sample import GpuReading

FILE_NAME = "gpu-usage.csv"

_MIB = 1024 * 1024

#: No reading, not even a time, is as large as this; infinity is none either.
_LARGEST = 1e15

#: A recording is read up to this size; at one line a second that is over a week of 8 GPUs.
MAX_CHARACTERS = 256 * _MIB


def read_recording(path: Path, points: int = 600) -> HistoryView:
    """The recording as columns, in at most `points` rows."""
    times: list[float] = []
    columns: dict[Column, list[float]] = {}
    gpus: dict[str, GpuReading] = {}
    rows: dict[int, int] = {}
    for line in _lines(path):
        time = _number(line.get("time"))
        if math.isnan(time):
            continue
        host, gpu = line.get("host") or "", line.get("gpu") or "0"
        name = f"{host}:{gpu}" if host else gpu
        if name not in gpus:
            total = _number(line.get("memory_total_mib"))
            gpus[name] = GpuReading(
                id=name,
                index=len(gpus),
                name=line.get("name") or f"GPU {gpu}",
                memory_total=None if math.isnan(total) else int(total * _MIB),
            )
        # Samples of several GPUs and nodes share a row when they are of the same second.
        row = rows.setdefault(round(time), len(times))
        if row == len(times):
            times.append(time)
        for quantity, value in (
            ("load", _number(line.get("load"))),
            ("memory_used", _number(line.get("memory_mib")) * _MIB),
            ("power", _number(line.get("power_w"))),
            ("temperature", _number(line.get("temperature_c"))),
        ):
            column = columns.setdefault((name, quantity), [])
            column.extend([math.nan] * (len(times) - len(column)))
            column[row] = value
    for column in columns.values():
        column.extend([math.nan] * (len(times) - len(column)))
    order = sorted(range(len(times)), key=times.__getitem__)
    return thin(
        [times[row] for row in order],
        {key: [column[row] for row in order] for key, column in columns.items()},
        list(gpus.values()),
        points,
    )


def mean_load(path: Path) -> float | None:
    """The average load over all GPUs and samples, in per cent."""
    loads = [load for line in _lines(path) if not math.isnan(load := _number(line.get("load")))]
    return sum(loads) / len(loads) if loads else None


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        text = file.read(MAX_CHARACTERS)
    whole = text[: text.rfind("\n") + 1]
    lines = csv.DictReader(io.StringIO(whole))
    # A file that a crash has spoilt counts as far as it can be read.
    with contextlib.suppress(csv.Error):
        for line in lines:
            yield {key: value for key, value in line.items() if key and isinstance(value, str)}


def _number(text: str | None) -> float:
    try:
        number = float(text or "nan")
    except ValueError:
        return math.nan
    return number if abs(number) < _LARGEST else math.nan
