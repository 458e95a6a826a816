"""What the GPUs of a run did, in the numbers that advice is made of."""

from __future__ import annotations

from pathlib import Path

from jupyter_hpc.gpu.recording import RecordedUse, recorded_use
from jupyter_hpc.slurm.efficiency import GpuUse
from jupyter_hpc.text import memory_size


def gpu_use(path: Path) -> GpuUse | None:
    """Of a recording; None where it holds no load."""
    return in_words(recorded_use(path))


def in_words(recorded: RecordedUse) -> GpuUse | None:
    """The same of a recording that has been read."""
    used, total = recorded.memory_mib, recorded.memory_total_mib
    if not recorded.loads:
        return None
    if used is None or not total:
        return GpuUse(tuple(recorded.loads.values()))
    words = f"{memory_size(used)} of {memory_size(total)}"
    return GpuUse(tuple(recorded.loads.values()), round(100 * used / total, 1), words)
