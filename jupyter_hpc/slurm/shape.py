"""A further job of the shape that a living one has, from what Slurm says of that one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jupyter_hpc.slurm.fields import count, number
from jupyter_hpc.slurm.models import GpuCount, JobDetail, Request
from jupyter_hpc.slurm.showjob import requested_gpus
from jupyter_hpc.slurm.units import format_memory, format_walltime, read_memory_mb

#: A core is given whole, with so many CPUs: a job may have that much more than it asked for.
_THREADS_PER_CORE = 2


def same_shape(detail: JobDetail, otherwise: Request) -> Request:
    """What the job was asked for; `otherwise` has what Slurm does not say, and how GPUs are asked.

    What was asked for counts, and what was given only where nobody knows better: the next job is
    given more than is asked for by the same rules as this one.
    """
    gpus, gpu_type = _gpus(detail, otherwise)
    return replace(
        otherwise,
        partition=_partition(detail, otherwise),
        account=detail.account or otherwise.account,
        qos=detail.qos or otherwise.qos,
        constraint=detail.constraint or None,
        time=_time(detail) or otherwise.time,
        nodes=detail.node_count or otherwise.nodes,
        cpus=_cpus(detail, otherwise),
        memory=_memory(detail, otherwise),
        gpus=gpus,
        gpu_type=gpu_type,
    )


def _partition(detail: JobDetail, otherwise: Request) -> str | None:
    """Its own; one of several that may be named stays one of them, and a site may choose."""
    named = otherwise.partition
    if not named and otherwise.routed:
        return None
    if not detail.partition or detail.partition in (named or "").split(","):
        return named
    return detail.partition


def _time(detail: JobDetail) -> str | None:
    if detail.time_limit is not None:
        return format_walltime(detail.time_limit)
    return "UNLIMITED" if detail.fields.get("TimeLimit") == "UNLIMITED" else None


def _cpus(detail: JobDetail, otherwise: Request) -> int | None:
    """For each task; None where the site counts them by the GPU."""
    fields = detail.fields
    each = number(fields.get("CPUs/Task", ""))
    if "CpusPerTres" in fields:
        return None
    if not detail.cpus or each is None:
        return otherwise.cpus
    nodes = max(1, detail.node_count)
    asked = each * max(nodes, count(fields.get("NumTasks", "")))
    if _exclusive(fields) or detail.cpus <= asked * _THREADS_PER_CORE:
        return each
    return detail.cpus // nodes  # a rule of the site has made it more


def _exclusive(fields: Mapping[str, str]) -> bool:
    """Whether the job has its nodes to itself, and so all their CPUs."""
    if "Exclusive" in fields:  # 26.05, which says OverSubscribe=NO of other jobs as well
        return fields["Exclusive"] != "NO"
    return fields.get("OverSubscribe") == "NO"


def _memory(detail: JobDetail, otherwise: Request) -> str | None:
    """On each node; None where nobody asks for it and the site counts it by CPU or GPU."""
    fields = detail.fields
    asked = read_memory_mb(fields.get("MinMemoryNode", ""))
    if "MemPerTres" in fields:
        return None
    if asked:
        return format_memory(asked)
    if asked == 0:
        return otherwise.memory and "0"
    if otherwise.memory is None or detail.memory_mb is None:
        return otherwise.memory
    return format_memory(detail.memory_mb // max(1, detail.node_count))


def _gpus(detail: JobDetail, otherwise: Request) -> tuple[int | None, str | None]:
    """As many as the request counts, of the type that was asked for if there is one."""
    if any("gpu" in option for option in otherwise.extra):
        return otherwise.gpus, otherwise.gpu_type  # they are part of an option of its own
    given = (GpuCount(detail.gpu_type, detail.gpus),) if detail.gpus else ()
    found = requested_gpus(detail.fields) or given
    total, kinds = sum(gpu.count for gpu in found), {gpu.type for gpu in found}
    if otherwise.gpu_flag != "gpus":
        total = -(-total // max(1, detail.node_count))
    kind = kinds.pop() if len(kinds) == 1 else ""
    return total, kind if kind and "," not in kind else None
