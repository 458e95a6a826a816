"""What the GPUs did: a ring buffer of 30 minutes at 1 s, then 12 hours at 30 s.

Each tier is a set of columns of equal length, one of times and one for each GPU and
quantity, in which the oldest row is overwritten. Columns are packed arrays: eight
GPUs take half a megabyte. Not a number stands for "no value".
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from threading import Lock

from jupyter_hpc.gpu.sample import GpuReading, Sample

FINE_SECONDS = 30 * 60.0
COARSE_SECONDS = 12 * 3600.0
COARSE_STEP_SECONDS = 30.0

QUANTITIES = ("load", "memory_used", "power", "temperature")

#: A GPU below this load does nothing that anybody would wait for.
IDLE_LOAD_PERCENT = 2.0

_NAN = float("nan")

#: (GPU id, quantity)
Column = tuple[str, str]


@dataclass(frozen=True)
class GpuColumns:
    """The series of one GPU; every list is as long as the history's times."""

    id: str
    index: int
    name: str
    memory_total: int | None
    load: list[float | None]
    memory_used: list[float | None]
    power: list[float | None]
    temperature: list[float | None]


@dataclass(frozen=True)
class HistoryView:
    """A piece of history, ready to be drawn."""

    times: list[float]
    gpus: list[GpuColumns]


class _Ring:
    """Rows of equal columns; the newest row replaces the oldest."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._next = 0
        self._length = 0
        self._times = array("d", bytes(8 * capacity))
        self._columns: dict[Column, array[float]] = {}

    def append(self, time: float, values: dict[Column, float]) -> None:
        self._times[self._next] = time
        for key in values.keys() - self._columns.keys():
            self._columns[key] = array("d", [_NAN]) * self._capacity
        for key, column in self._columns.items():
            column[self._next] = values.get(key, _NAN)
        self._next = (self._next + 1) % self._capacity
        self._length = min(self._length + 1, self._capacity)

    def since(self, start: float) -> tuple[list[float], dict[Column, list[float]]]:
        """All rows at or after `start`, the oldest first."""
        order = [
            (self._next - self._length + step) % self._capacity for step in range(self._length)
        ]
        order = [row for row in order if self._times[row] >= start]
        return (
            [self._times[row] for row in order],
            {key: [column[row] for row in order] for key, column in self._columns.items()},
        )


class History:
    """Filled by the sampler's thread, read by everybody else."""

    def __init__(self, interval: float = 1.0) -> None:
        self._lock = Lock()
        self._fine = _Ring(max(2, math.ceil(FINE_SECONDS / interval)))
        self._coarse = _Ring(math.ceil(COARSE_SECONDS / COARSE_STEP_SECONDS))
        self._bucket: list[dict[Column, float]] = []
        self._bucket_start: float | None = None
        self._gpus: dict[str, GpuReading] = {}
        self._idle_since: dict[str, float] = {}

    def append(self, sample: Sample) -> None:
        """Add a sample to both tiers."""
        values = {
            (gpu.id, quantity): float(value)
            for gpu in sample.gpus
            for quantity in QUANTITIES
            if (value := getattr(gpu, quantity)) is not None
        }
        with self._lock:
            for gpu in sample.gpus:
                self._gpus[gpu.id] = gpu
                if gpu.load is not None and gpu.load < IDLE_LOAD_PERCENT:
                    self._idle_since.setdefault(gpu.id, sample.taken_at)
                else:
                    self._idle_since.pop(gpu.id, None)
            self._fine.append(sample.taken_at, values)
            self._fill_bucket(sample.taken_at, values)

    def _fill_bucket(self, time: float, values: dict[Column, float]) -> None:
        if self._bucket_start is not None and time - self._bucket_start >= COARSE_STEP_SECONDS:
            self._coarse.append(self._bucket_start, _mean_rows(self._bucket))
            self._bucket = []
            self._bucket_start = None
        if self._bucket_start is None:
            self._bucket_start = time
        self._bucket.append(values)

    def idle_since(self, gpu_id: str) -> float | None:
        """Since when that GPU has been idle without a break, or None."""
        with self._lock:
            return self._idle_since.get(gpu_id)

    def view(self, seconds: float, points: int, now: float) -> HistoryView:
        """The last `seconds` in at most `points` rows; neighbours are averaged."""
        start = now - seconds
        with self._lock:
            fine_times, fine = self._fine.since(start)
            coarse_times, coarse = self._coarse.since(start)
            gpus = sorted(self._gpus.values(), key=lambda gpu: gpu.index)
        # The coarse tier only fills in what the fine one no longer holds.
        first_fine = fine_times[0] if fine_times else math.inf
        older = sum(1 for time in coarse_times if time + COARSE_STEP_SECONDS <= first_fine)
        times = coarse_times[:older] + fine_times
        columns = {
            key: (coarse.get(key) or [_NAN] * len(coarse_times))[:older]
            + (fine.get(key) or [_NAN] * len(fine_times))
            for key in fine.keys() | coarse.keys()
        }
        return thin(times, columns, gpus, points)


def thin(
    times: list[float], columns: dict[Column, list[float]], gpus: list[GpuReading], points: int
) -> HistoryView:
    """At most `points` rows: time is cut into equal spans and each is averaged."""
    spans = _spans(times, points)

    def series(gpu: GpuReading, quantity: str) -> list[float | None]:
        column = columns.get((gpu.id, quantity))
        if column is None:
            return [None] * len(spans)
        return [_mean(column[first:last]) for first, last in spans]

    return HistoryView(
        times=[round(times[first], 3) for first, _ in spans],
        gpus=[
            GpuColumns(
                id=gpu.id,
                index=gpu.index,
                name=gpu.name,
                memory_total=gpu.memory_total,
                load=series(gpu, "load"),
                memory_used=series(gpu, "memory_used"),
                power=series(gpu, "power"),
                temperature=series(gpu, "temperature"),
            )
            for gpu in gpus
        ],
    )


def _spans(times: list[float], points: int) -> list[tuple[int, int]]:
    """[first, last) row numbers of each span of time that holds rows."""
    if len(times) <= points:
        return [(row, row + 1) for row in range(len(times))]
    width = (times[-1] - times[0]) / points or 1.0
    spans: list[tuple[int, int]] = []
    first = 0
    for row in range(1, len(times) + 1):
        done = row == len(times)
        if done or int((times[row] - times[0]) / width) != int((times[first] - times[0]) / width):
            spans.append((first, row))
            first = row
    # The newest row falls on the last border; it joins the span before it.
    if len(spans) > points:
        (start, _), (_, end) = spans[-2:]
        spans[-2:] = [(start, end)]
    return spans


def _mean(values: list[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return round(sum(known) / len(known), 2) if known else None


def _mean_rows(rows: list[dict[Column, float]]) -> dict[Column, float]:
    keys = {key for row in rows for key in row}
    return {
        key: sum(known) / len(known)
        for key in keys
        if (known := [row[key] for row in rows if key in row])
    }
