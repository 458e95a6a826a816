"""One sample type for every kind of GPU, and what a source of samples has to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a GPU; `memory` is None where it cannot be had."""

    pid: int
    memory: int | None


@dataclass(frozen=True)
class GpuReading:
    """One GPU, or one MIG instance, at one moment. None means: cannot be had here.

    Sizes are bytes, power is in watts, temperature in degrees Celsius, clocks in
    MHz, load in per cent. A MIG instance shows the power, temperature and clocks of
    its board, because there are no others.
    """

    id: str
    index: int
    name: str
    kind: str = "gpu"
    load: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    clock: float | None = None
    clock_max: float | None = None
    memory_clock: float | None = None
    processes: tuple[GpuProcess, ...] = ()
    #: A sentence when the driver refuses to speak about this GPU.
    failure: str | None = None


@dataclass(frozen=True)
class Sample:
    """All GPUs of this job at one moment."""

    taken_at: float
    gpus: tuple[GpuReading, ...]


class GpuSource(Protocol):
    """Gives samples. Its calls block, and may hang in a broken driver.

    All methods are called from the sampler's thread only.
    """

    #: "nvml", "amd" or "simulated".
    label: str
    #: The driver's version, where there is one.
    driver: str | None

    def read(self) -> Sample:
        """Take one sample; raises GpuUnavailable when there is nothing to sample."""
        ...

    def close(self) -> None:
        """Give back what the source holds."""
        ...
