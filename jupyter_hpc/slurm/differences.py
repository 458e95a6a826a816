"""Whether a job that exists is what is asked for now: the differences, in words."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.slurm.units import format_memory, format_walltime, parse_memory, parse_walltime
from jupyter_hpc.text import printable

#: (what the job has, what is asked for), or None where they agree or nobody can tell
_Pair = tuple[str, str] | None


def differences(asked: Collection[str], request: Request, job: Job) -> list[str]:
    """Each member of `request` named in `asked` that the job does not have as it is asked for.

    Only what can be told for sure counts: Slurm gives whole cores, whole minutes, and on
    some sites does not say which type of GPU or which QOS a job has.
    """
    found = []
    for member, (word, compare) in _COMPARED.items():
        pair = compare(request, job) if member in asked else None
        if pair is not None:
            has, wanted = (printable(text, 60) for text in pair)
            found.append(f"{word} {has} instead of {wanted}")
    return found


def _partition(request: Request, job: Job) -> _Pair:
    wanted = (request.partition or "").split(",")
    same = not request.partition or set(job.partition.split(",")) <= set(wanted)
    return None if same else (job.partition, request.partition or "")


def _word(member: str, request: Request, job: Job) -> _Pair:
    """A name that Slurm compares without regard to case, and may keep to itself."""
    wanted, has = getattr(request, member), getattr(job, member)
    return None if not wanted or not has or wanted.lower() == has.lower() else (has, wanted)


def _constraint(request: Request, job: Job) -> _Pair:
    wanted = request.constraint or ""
    same = wanted.replace(" ", "") == job.constraint.replace(" ", "")
    return None if same else (job.constraint or "none", wanted)


def _time(request: Request, job: Job) -> _Pair:
    wanted = parse_walltime(request.time) if request.time else None
    if wanted is None or job.time_limit is None:
        return None
    minutes = -(-wanted // 60)  # Slurm rounds up
    same = minutes == -(-job.time_limit // 60)
    return None if same else (format_walltime(job.time_limit), format_walltime(wanted))


def _nodes(request: Request, job: Job) -> _Pair:
    wanted = request.nodes or job.node_count
    return None if wanted == job.node_count else (str(job.node_count), str(wanted))


def _cpus(request: Request, job: Job) -> _Pair:
    if not request.cpus:
        return None
    nodes = request.nodes or 1
    wanted = request.cpus * (request.tasks or nodes)
    # a core is given whole: with two threads in it, one CPU more on each node
    same = wanted <= job.cpus <= wanted + nodes
    return None if same else (str(job.cpus), str(wanted))


def _memory(request: Request, job: Job) -> _Pair:
    wanted = parse_memory(request.memory) if request.memory else 0
    if not wanted or job.memory_mb is None:
        return None
    # of the whole job once it runs, of one node before
    same = job.memory_mb in (wanted, wanted * (request.nodes or 1))
    return None if same else (format_memory(job.memory_mb), format_memory(wanted))


def _gpus(request: Request, job: Job) -> _Pair:
    per_job = request.gpu_flag == "gpus"
    wanted = (request.gpus or 0) * (1 if per_job else request.nodes or 1)
    return None if wanted == job.gpus else (str(job.gpus), str(wanted))


def _gpu_type(request: Request, job: Job) -> _Pair:
    wanted = request.gpu_type
    known = {kind for kind in job.gpu_type.split(",") if kind}
    same = not wanted or not known or known == {wanted}
    return None if same else (job.gpu_type, wanted or "")


#: Members of Request, with the word that the command line has for each.
_COMPARED: dict[str, tuple[str, Callable[[Request, Job], _Pair]]] = {
    "time": ("time", _time),
    "nodes": ("nodes", _nodes),
    "gpus": ("GPUs", _gpus),
    "gpu_type": ("GPU type", _gpu_type),
    "cpus": ("CPUs", _cpus),
    "memory": ("memory", _memory),
    "partition": ("partition", _partition),
    "account": ("account", partial(_word, "account")),
    "qos": ("QOS", partial(_word, "qos")),
    "constraint": ("constraint", _constraint),
}
