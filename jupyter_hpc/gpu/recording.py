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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jupyter_hpc.gpu.history import QUANTITIES, Column, HistoryView, thin
from jupyter_hpc.gpu.sample import GpuReading

FILE_NAME = "gpu-usage.csv"

_MIB = 1024 * 1024

#: No reading, not even a time, is as large as this; infinity is none either.
_LARGEST = 1e15

_COLUMNS = (
    *("time", "host", "gpu", "name", "load", "memory_mib", "memory_total_mib", "power_w"),
    "temperature_c",
)

#: Between two samples of one part of a job there is never so long a time.
_MAX_GAP_SECONDS = 60.0

#: A recording is read up to this size; at one line a second that is over a week of 8 GPUs.
MAX_CHARACTERS = 256 * _MIB


class Reading(NamedTuple):
    """One line: a GPU at one moment. What was not recorded is not a number."""

    time: float
    #: "host:number", or the number alone where no host is named.
    id: str
    gpu: str
    name: str
    load: float
    memory_mib: float
    memory_total_mib: float
    power: float
    temperature: float


def read_recording(path: Path, points: int = 600) -> HistoryView:
    """The recording as columns, in at most `points` rows."""
    return recording_of(readings(_text(path)), points)


def recording_of(found: Iterable[Reading], points: int) -> HistoryView:
    """The same of a recording that has been read."""
    times: list[float] = []
    gpus: dict[str, GpuReading] = {}
    #: Of each GPU the rows that it has, and its values in them.
    own: dict[str, tuple[list[int], tuple[list[float], ...]]] = {}
    rows: dict[int, int] = {}
    for each in found:
        time, gpu = each.time, each.id
        if time != time:  # not a number
            continue
        if gpu not in gpus:
            total = each.memory_total_mib
            gpus[gpu] = GpuReading(
                id=gpu,
                index=len(gpus),
                name=each.name or f"GPU {each.gpu}",
                memory_total=None if math.isnan(total) else int(total * _MIB),
            )
            own[gpu] = [], ([], [], [], [])
        # Samples of several GPUs and nodes share a row when they are of the same second.
        row = rows.setdefault(round(time), len(times))
        if row == len(times):
            times.append(time)
        places, (load, memory, power, temperature) = own[gpu]
        places.append(row)
        load.append(each.load)
        memory.append(each.memory_mib * _MIB)
        power.append(each.power)
        temperature.append(each.temperature)
    columns: dict[Column, list[float]] = {}
    for gpu, (places, series) in own.items():
        for quantity, values in zip(QUANTITIES, series, strict=True):
            column = columns[gpu, quantity] = [math.nan] * len(times)
            for row, value in zip(places, values, strict=True):
                column[row] = value
    order = sorted(range(len(times)), key=times.__getitem__)
    return thin(
        [times[row] for row in order],
        {key: [column[row] for row in order] for key, column in columns.items()},
        list(gpus.values()),
        points,
    )


@dataclass(frozen=True)
class RecordedUse:
    """What a recording comes to."""

    #: The mean load of each GPU that has one, in per cent.
    loads: dict[str, float]
    #: The most memory that one GPU had in use, of how much, in MiB; None if not recorded.
    memory_mib: float | None
    memory_total_mib: float | None
    #: The energy of all GPUs, in watt hours; None where no power was recorded.
    energy_wh: float | None


def recorded_use(path: Path) -> RecordedUse:
    """The whole recording in a few numbers."""
    return use_of(readings(_text(path)))


def use_of(found: Iterable[Reading]) -> RecordedUse:
    """The same of a recording that has been read."""
    loads: dict[str, list[float]] = {}
    memory: tuple[float, float, float] | None = None  # share, used, total
    energy, last = 0.0, dict[str, float]()
    for each in found:
        if not math.isnan(each.load):
            loads.setdefault(each.id, []).append(each.load)
        if each.memory_total_mib > 0 and each.memory_mib >= 0:
            share = each.memory_mib / each.memory_total_mib
            if memory is None or share > memory[0]:
                memory = share, each.memory_mib, each.memory_total_mib
        if not math.isnan(each.power) and not math.isnan(each.time):
            # What is missing for longer was not drawn: the job was away.
            passed = max(0.0, each.time - last.get(each.id, each.time))
            energy += each.power * min(passed, _MAX_GAP_SECONDS) / 3600
            last[each.id] = each.time
    return RecordedUse(
        {name: sum(values) / len(values) for name, values in loads.items()},
        memory[1] if memory else None,
        memory[2] if memory else None,
        round(energy, 1) if last else None,
    )


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return file.read(MAX_CHARACTERS)


def readings(text: str) -> Iterator[Reading]:
    """Its lines, as far as they are whole."""
    lines = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))
    # A file that a crash has spoilt counts as far as it can be read.
    with contextlib.suppress(csv.Error):
        header = next(lines, [])
        places = [header.index(name) if name in header else -1 for name in _COLUMNS]
        for line in lines:
            if len(line) < len(header):  # what is missing reads as empty
                line += [""] * (len(header) - len(line))
            time, host, gpu, name, *numbers = (line[at] if at >= 0 else "" for at in places)
            gpu = gpu or "0"
            yield Reading(
                _number(time), f"{host}:{gpu}" if host else gpu, gpu, name, *map(_number, numbers)
            )


def _number(text: str) -> float:
    try:
        number = float(text or "nan")
    except ValueError:
        return math.nan
    return number if abs(number) < _LARGEST else math.nan
