"""What a job used of what it asked for, and which line to change next time.

A job that still runs is judged by what it has used so far, and the words say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jupyter_hpc.slurm.models import FinishedJob, Phase
from jupyter_hpc.slurm.units import format_memory, format_walltime
from jupyter_hpc.text import memory_size

#: Shorter runs say little about the next one: most of them start up and fail.
SILENT_SECONDS = 300

_GIB = 1024


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
class Advice:
    """A sentence, and the line of the script as it should read."""

    message: str
    line: str | None = None


def efficiency(job: FinishedJob, gpu_load: float | None = None) -> Efficiency:
    """Compare use and request; `gpu_load` is the mean load of a recording, in per cent."""
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
    load = gpu_load if gpu_load is not None else usage.gpu_utilization if usage else None
    if job.gpus and load is not None:
        gpu = Ratio(round(load, 1), f"{load:.0f} % load", f"{job.gpus} {_gpus(job.gpus)}")
    if job.time_limit and job.elapsed is not None:
        time = Ratio(
            _percent(job.elapsed, job.time_limit),
            format_walltime(job.elapsed),
            format_walltime(job.time_limit),
        )
    return Efficiency(cpu, memory, gpu, time)


def advise(
    job: FinishedJob, gpu_load: float | None = None, gpu_flag: str = "gpus-per-node"
) -> list[Advice]:
    """What to change next time, the most useful first; nothing for short runs."""
    if (job.elapsed or 0) < SILENT_SECONDS and job.state != "OUT_OF_MEMORY":
        return []
    found = efficiency(job, gpu_load)
    advices = (
        _memory_advice(job, found.memory),
        _gpu_advice(job, found.gpu, gpu_flag),
        _cpu_advice(job, found.cpu),
        _time_advice(job, found.time),
    )
    return [advice for advice in advices if advice is not None]


def _memory_advice(job: FinishedJob, memory: Ratio | None) -> Advice | None:
    nodes = max(1, job.node_count)
    if job.state == "OUT_OF_MEMORY" and job.memory_mb:
        return Advice(
            f"The job ran out of its {memory_size(job.memory_mb)} of memory; ask for more.",
            f"#SBATCH --mem={format_memory(_round_up(job.memory_mb / nodes * 1.5))}",
        )
    if memory is None or memory.percent >= 50 or not job.memory_mb or not job.usage:
        return None
    wanted = _round_up(max(_GIB, (job.usage.max_memory_mb or 0) * 1.3) / nodes)
    if wanted * nodes > job.memory_mb * 0.75 or job.memory_mb - wanted * nodes < 2 * _GIB:
        return None
    return Advice(
        f"{_it(job)} used at most {memory.used} of {memory.requested} of memory; "
        "with less the next one can start sooner.",
        f"#SBATCH --mem={format_memory(wanted)}",
    )


def _gpu_advice(job: FinishedJob, gpu: Ratio | None, gpu_flag: str) -> Advice | None:
    if gpu is None or gpu.percent >= 40:
        return None
    the_gpus = f"{_the(job)} {_gpus(job.gpus)}"
    if gpu.percent < 3:
        return Advice(
            f"{the_gpus} did nearly nothing ({gpu.used}): check that the program moves its "
            "work to the GPU, or ask for none and leave this line out.",
            _gpu_line(job, job.gpus, gpu_flag),
        )
    needed = max(1, math.ceil(job.gpus * gpu.percent / 100 * 1.3))
    if needed >= job.gpus:
        return Advice(
            f"{the_gpus} mostly waited ({gpu.used} on average): a larger batch "
            "size or more workers that load data may help; keep the CPUs for them."
        )
    return Advice(
        f"{_the(job)} {job.gpus} GPUs had {gpu.used} on average; {needed} would do the same work.",
        _gpu_line(job, needed, gpu_flag),
    )


def _cpu_advice(job: FinishedJob, cpu: Ratio | None) -> Advice | None:
    if cpu is None or cpu.percent >= 50 or job.cpus < 3 or not job.usage or not job.elapsed:
        return None
    # CPUs come in tasks, and the record does not say how many: one task is the common case.
    used = (job.usage.cpu_seconds or 0) / job.elapsed
    wanted = max(1, math.ceil(used * 1.2))
    if wanted > job.cpus * 0.75 or job.node_count > 1:
        return None
    return Advice(
        f"{_it(job)} used {cpu.used} of {cpu.requested} on average; "
        "with fewer the next one can start sooner.",
        f"#SBATCH --cpus-per-task={wanted}",
    )


def _time_advice(job: FinishedJob, time: Ratio | None) -> Advice | None:
    if job.state == "TIMEOUT" and job.time_limit:
        return Advice(
            "The job was ended by its time limit; ask for more time, or save checkpoints and "
            "continue in a second job.",
            f"#SBATCH --time={_time(job.time_limit * 1.5)}",
        )
    if time is None or job.state != "COMPLETED" or time.percent >= 50 or not job.time_limit:
        return None
    wanted = _time((job.elapsed or 0) * 1.5)
    if job.time_limit < 3600:
        return None
    return Advice(
        f"It was done after {time.used} of {time.requested}; a shorter limit can start sooner.",
        f"#SBATCH --time={wanted}",
    )


def _gpu_line(job: FinishedJob, count: int, gpu_flag: str) -> str:
    kind = f"{job.gpu_type}:" if job.gpu_type and "," not in job.gpu_type else ""
    each = max(1, math.ceil(count / max(1, job.node_count)))
    if gpu_flag == "gres":
        return f"#SBATCH --gres=gpu:{kind}{each}"
    if gpu_flag == "gpus":
        return f"#SBATCH --gpus={kind}{count}"
    return f"#SBATCH --gpus-per-node={kind}{each}"


def _it(job: FinishedJob) -> str:
    return "It" if job.phase is Phase.ENDED else "So far it"


def _the(job: FinishedJob) -> str:
    return "The" if job.phase is Phase.ENDED else "So far the"


def _percent(used: float, requested: float) -> float:
    return round(100 * used / requested, 1)


def _gpus(count: int) -> str:
    return "GPU" if count == 1 else "GPUs"


def _round_up(megabytes: float) -> int:
    """Whole GiB, above 16 GiB in steps of 4."""
    step = _GIB if megabytes <= 16 * _GIB else 4 * _GIB
    return math.ceil(megabytes / step) * step


def _time(seconds: float) -> str:
    """Rounded up to a quarter of an hour."""
    return format_walltime(math.ceil(seconds / 900) * 900)
