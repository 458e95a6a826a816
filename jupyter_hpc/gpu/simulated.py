"""Simulated GPUs of the embedded cluster, read from the file that it keeps up to date."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.sample import GpuProcess, GpuReading, Sample
from jupyter_hpc.gpu.visible import no_gpu_in_job, wanted_devices

SIMULATED_VARIABLE = "JUPYTER_HPC_SIMULATED_GPUS"


#: The file is written each second; an older one is of a demo that has been stopped.
OLDEST_SECONDS = 10.0


class SimulatedSource:
    """Reads {"time": …, "gpus": [{"index": 0, "name": …, "load": …}]} at each sample."""

    label = "simulated"
    driver: str | None = None

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        *,
        in_job: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._clock = clock
        self._wanted = wanted_devices(environ, ("CUDA_VISIBLE_DEVICES",), in_job=in_job)

    def read(self) -> Sample:
        """The GPUs of this job as the embedded cluster describes them now."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            gpus = {str(gpu["index"]): gpu for gpu in content["gpus"]}
            taken_at = float(content["time"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _silent() from error
        if self._clock() - taken_at > OLDEST_SECONDS:
            raise _silent()
        entries = list(gpus) if self._wanted.everything else self._wanted.entries
        shown = [gpus[entry] for entry in entries if entry in gpus]
        if not shown:
            raise no_gpu_in_job()
        return Sample(taken_at, tuple(_reading(index, gpu) for index, gpu in enumerate(shown)))

    def close(self) -> None:
        """Nothing is held open."""


def _silent() -> GpuUnavailable:
    return GpuUnavailable(
        "The simulated GPUs of the demo cluster do not answer.",
        "The demo may have been stopped; start it again.",
    )


def _reading(index: int, gpu: Mapping[str, Any]) -> GpuReading:
    return GpuReading(
        id=str(gpu.get("uuid") or f"simulated-{gpu['index']}"),
        index=index,
        name=str(gpu.get("name") or "Simulated GPU"),
        load=_number(gpu.get("load")),
        memory_used=_whole(gpu.get("memory_used")),
        memory_total=_whole(gpu.get("memory_total")),
        power=_number(gpu.get("power")),
        power_limit=_number(gpu.get("power_limit")),
        temperature=_number(gpu.get("temperature")),
        clock=_number(gpu.get("clock")),
        clock_max=_number(gpu.get("clock_max")),
        memory_clock=_number(gpu.get("memory_clock")),
        processes=tuple(
            GpuProcess(int(process["pid"]), _whole(process.get("memory")))
            for process in gpu.get("processes") or ()
        ),
    )


def _number(value: object) -> float | None:
    known = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
