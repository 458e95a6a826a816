"""Which line of a job to change next time, with the numbers that say so.

A job that still runs is judged by what it has used so far, and the words say so. Where nothing
was measured nothing is said, and no two advices of one job contradict each other: what a GPU
waits for keeps its CPUs. The limits stand here and, for users, in docs/users/batch.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jupyter_hpc.slurm.efficiency import Efficiency, GpuUse, Ratio, efficiency, gpus_word
from jupyter_hpc.slurm.models import FinishedJob, Phase
from jupyter_hpc.slurm.units import format_memory, format_walltime
from jupyter_hpc.text import memory_size

#: Shorter runs say little about the next one: most of them start up and fail.
SILENT_SECONDS = 300
#: Below this share of what was asked for, less would do: memory, CPUs, time.
LITTLE_PERCENT = 50
#: A GPU with less load does nothing; with less than the second number it mostly waits.
IDLE_GPU_PERCENT, WAITING_GPU_PERCENT = 3, 40
#: With so little of its memory in use a GPU is larger than it has to be.
LITTLE_GPU_MEMORY_PERCENT = 50
#: CPUs that are busier than this are what the GPU waits for.
BUSY_CPU_PERCENT = 80
#: More CPUs for each GPU would seldom feed it better.
MANY_CPUS = 8
#: So many CPUs are busy where one process does all of the work.
ONE_CORE = 1.3
#: What is asked for again has so much to spare: memory and CPUs, time.
SPARE, SPARE_TIME = 1.3, 1.5
#: Shorter limits are not worth a change.
LONG_LIMIT_SECONDS = 3600

_GIB = 1024


@dataclass(frozen=True)
class Advice:
    """A sentence, and the line of the script as it should read."""

    message: str
    line: str | None = None


def advise(
    job: FinishedJob, gpus: GpuUse | None = None, gpu_flag: str = "gpus-per-node"
) -> list[Advice]:
    """What to change next time, the most useful first; nothing for short runs."""
    if (job.elapsed or 0) < SILENT_SECONDS and job.state != "OUT_OF_MEMORY":
        return []
    found = efficiency(job, gpus)
    waits = found.gpu is not None and IDLE_GPU_PERCENT <= found.gpu.percent < WAITING_GPU_PERCENT
    advices = (
        _memory_advice(job, found.memory),
        _gpu_advice(job, found, gpus, gpu_flag),
        _gpu_memory_advice(job, found.gpu, gpus),
        None if waits else _cpu_advice(job, found.cpu),
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
    if memory is None or memory.percent >= LITTLE_PERCENT or not job.memory_mb or not job.usage:
        return None
    wanted = _round_up(max(_GIB, (job.usage.max_memory_mb or 0) * SPARE) / nodes)
    if wanted * nodes > job.memory_mb * 0.75 or job.memory_mb - wanted * nodes < 2 * _GIB:
        return None
    return Advice(
        f"{_it(job)} used at most {memory.used} of {memory.requested} of memory; "
        "with less the next one can start sooner.",
        f"#SBATCH --mem={format_memory(wanted)}",
    )


def _gpu_advice(
    job: FinishedJob, found: Efficiency, gpus: GpuUse | None, gpu_flag: str
) -> Advice | None:
    gpu = found.gpu
    if gpu is None:
        return None
    if gpu.percent < IDLE_GPU_PERCENT:
        return Advice(
            f"{_the(job)} {gpus_word(job.gpus)} did nearly nothing ({gpu.used}): check that the "
            "program moves its work to the GPU, or ask for none and leave this line out.",
            _gpu_line(job, job.gpus, gpu_flag),
        )
    if unused := _unused(job, gpus):
        return Advice(
            f"{unused} of the {job.gpus} GPUs did nothing{_so_far(job)}: start a process for each "
            f"GPU, or ask for {job.gpus - unused}.",
            _gpu_line(job, job.gpus - unused, gpu_flag),
        )
    return _waiting_advice(job, gpu, found.cpu, gpu_flag) if _waits(gpu) else None


def _waiting_advice(job: FinishedJob, gpu: Ratio, cpu: Ratio | None, gpu_flag: str) -> Advice:
    """The GPU has work, and waits for it most of the time."""
    what = f"{_the(job)} {gpus_word(job.gpus)} mostly waited ({gpu.used} on average)"
    few = job.node_count == 1 and job.cpus <= MANY_CPUS * job.gpus
    if cpu is not None and job.cpus > 2 and _cores(job) <= ONE_CORE:
        return Advice(
            f"{what} while {cpu.used} of {cpu.requested} were busy: more workers that load data, "
            f"such as num_workers={job.cpus - 1}, would use the others."
        )
    if cpu is not None and cpu.percent >= BUSY_CPU_PERCENT and few:
        return Advice(
            f"{what} while the CPUs were busy ({cpu.used} of {cpu.requested}): more CPUs and as "
            "many workers that load data may feed it.",
            f"#SBATCH --cpus-per-task={2 * max(2, job.cpus)}",
        )
    needed = max(1, math.ceil(job.gpus * gpu.percent / 100 * SPARE))
    if needed < job.gpus:
        return Advice(
            f"{_the(job)} {job.gpus} GPUs had {gpu.used} on average; {needed} would do the same "
            "work.",
            _gpu_line(job, needed, gpu_flag),
        )
    return Advice(f"{what}: a larger batch size or more workers that load data may help.")


def _gpu_memory_advice(job: FinishedJob, gpu: Ratio | None, gpus: GpuUse | None) -> Advice | None:
    if gpu is None or gpu.percent < IDLE_GPU_PERCENT or gpus is None or not gpus.memory:
        return None
    if gpus.memory_percent is None or gpus.memory_percent >= LITTLE_GPU_MEMORY_PERCENT:
        return None
    way = (
        "a smaller GPU, or a slice of one where the site has them, would do"
        if _waits(gpu)
        else "a larger batch size would fit, or the same work on a smaller GPU"
    )
    return Advice(f"{_it(job)} used at most {gpus.memory} of a GPU's memory: {way}.")


def _cpu_advice(job: FinishedJob, cpu: Ratio | None) -> Advice | None:
    if cpu is None or cpu.percent >= LITTLE_PERCENT or job.cpus < 3:
        return None
    # CPUs come in tasks, and the record does not say how many: one task is the common case.
    wanted = max(1, math.ceil(_cores(job) * 1.2))
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
            f"#SBATCH --time={_time(job.time_limit * SPARE_TIME)}",
        )
    if time is None or job.state != "COMPLETED" or time.percent >= LITTLE_PERCENT:
        return None
    if (job.time_limit or 0) < LONG_LIMIT_SECONDS:
        return None
    return Advice(
        f"It was done after {time.used} of {time.requested}; a shorter limit can start sooner.",
        f"#SBATCH --time={_time((job.elapsed or 0) * SPARE_TIME)}",
    )


def _waits(gpu: Ratio) -> bool:
    return gpu.percent < WAITING_GPU_PERCENT


def _unused(job: FinishedJob, gpus: GpuUse | None) -> int:
    """How many GPUs did nothing, where the recording has all of them and others worked."""
    if gpus is None or len(gpus.loads) != job.gpus:
        return 0
    return sum(load < IDLE_GPU_PERCENT for load in gpus.loads)


def _cores(job: FinishedJob) -> float:
    """How many CPUs were busy on average."""
    return (job.usage.cpu_seconds or 0) / job.elapsed if job.usage and job.elapsed else 0.0


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


def _so_far(job: FinishedJob) -> str:
    return "" if job.phase is Phase.ENDED else " so far"


def _the(job: FinishedJob) -> str:
    return "The" if job.phase is Phase.ENDED else "So far the"


def _round_up(megabytes: float) -> int:
    """Whole GiB, above 16 GiB in steps of 4."""
    step = _GIB if megabytes <= 16 * _GIB else 4 * _GIB
    return math.ceil(megabytes / step) * step


def _time(seconds: float) -> str:
    """Rounded up to a quarter of an hour."""
    return format_walltime(math.ceil(seconds / 900) * 900)
