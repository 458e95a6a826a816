"""What a job used of what it asked for."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_hpc.slurm.models import FinishedJob
from jupyter_hpc.slurm.units import format_walltime
from jupyter_hpc.text import memory_size


@dataclass(frozen=True)
class Ratio:
    """Used against requested, each in words with its unit."""

    percent: float
    used: str
    requested: str


@dataclass(frozen=True)
class Efficiency:
    """Each is None where it was not measured."""

    cpu: Ratio | None
    memory: Ratio | None
    gpu: Ratio | None
    time: Ratio | None


@dataclass(frozen=True)
class GpuUse:
    """What a recording tells of the GPUs of a job."""

    #: The mean load of each GPU, in per cent.
    loads: tuple[float, ...]
    #: The highest share of a GPU's memory that was in use, in per cent; None if not recorded.
    memory_percent: float | None = None
    #: The same in words, "9.1 GB of 80 GB".
    memory: str = ""

    @property
    def load(self) -> float:
        """The mean over all of them."""
        return sum(self.loads) / len(self.loads)


def efficiency(job: FinishedJob, gpus: GpuUse | None = None) -> Efficiency:
    """Compare use and request; without a recording, a site may still know the GPUs' load."""
    usage = job.usage
    cpu = memory = gpu = time = None
    if usage and usage.cpu_seconds is not None and job.elapsed and job.cpus:
        cores = usage.cpu_seconds / job.elapsed
        cpu = Ratio(_percent(cores, job.cpus), f"{cores:.1f} CPUs", f"{job.cpus} CPUs")
    if usage and usage.max_memory_mb is not None and job.memory_mb:
        memory = Ratio(
            _percent(usage.max_memory_mb, job.memory_mb),
            memory_size(usage.max_memory_mb),
            memory_size(job.memory_mb),
        )
    load = gpus.load if gpus is not None else usage.gpu_utilization if usage else None
    if job.gpus and load is not None:
        gpu = Ratio(round(load, 1), f"{load:.0f} % load", f"{job.gpus} {gpus_word(job.gpus)}")
    if job.time_limit and job.elapsed is not None:
        time = Ratio(
            _percent(job.elapsed, job.time_limit),
            format_walltime(job.elapsed),
            format_walltime(job.time_limit),
        )
    return Efficiency(cpu, memory, gpu, time)


def _percent(used: float, requested: float) -> float:
    return round(100 * used / requested, 1)


def gpus_word(count: int) -> str:
    return "GPU" if count == 1 else "GPUs"
