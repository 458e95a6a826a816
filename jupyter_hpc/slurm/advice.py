"""What a cluster allows, said about one request: what is wrong with it, what would fit.

Pure: the client fetches partitions and accounts, this compares and words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_hpc.slurm.models import Association, GpuCount, Partition, Qos, Request
from jupyter_hpc.slurm.refusals import Option
from jupyter_hpc.slurm.units import format_memory, format_walltime, parse_memory, parse_walltime
from jupyter_hpc.text import printable

#: Lists in a sentence end after so many entries.
_MAX_WORDS_SHOWN = 12


@dataclass(frozen=True)
class Problem:
    """One part of a request that cannot work, before Slurm is asked."""

    option: Option
    text: str
    advice: str


def _list(words: Iterable[str]) -> str:
    unique = [printable(word, 60) for word in dict.fromkeys(words) if word]
    more = f" and {len(unique) - _MAX_WORDS_SHOWN} more" if len(unique) > _MAX_WORDS_SHOWN else ""
    return ", ".join(unique[:_MAX_WORDS_SHOWN]) + more


def _gpus(gpus: Iterable[GpuCount]) -> str:
    return _list(gpu.type or "gpu (no type)" for gpu in gpus)


def chosen_partitions(request: Request, partitions: Sequence[Partition]) -> list[Partition]:
    """The partitions the request may run in: those it names, else the default one.

    Where the site routes jobs by what they ask for, it may be any of them.
    """
    if request.partition:
        names = request.partition.split(",")
        return [partition for partition in partitions if partition.name in names]
    if request.routed:
        return list(partitions)
    return [partition for partition in partitions if partition.default]


def may_be_lifted(found: Iterable[Problem]) -> bool:
    """Whether a QOS could set one of these limits aside."""
    return any(problem.option in _LIFTING for problem in found)


def qos_in_use(request: Request, associations: Sequence[Association]) -> str:
    """The QOS that the job will have: the one it names, else the default of its account."""
    if request.qos:
        return request.qos
    names = (request.partition or "").split(",")
    mine = [
        each
        for each in associations
        if (each.account == request.account if request.account else each.default)
        and each.partition in ("", *names)
    ]
    # One that is made for the partition goes before one that is for all.
    return next((each.default_qos for each in sorted(mine, key=lambda a: not a.partition)), "")


def problems(
    request: Request,
    partitions: Sequence[Partition],
    qos: Sequence[Qos] = (),
    associations: Sequence[Association] = (),
) -> list[Problem]:
    """What the partitions' limits already rule out; the job's QOS may lift two of them.

    `sbatch --test-only` accepts a time over the limit where the site does not enforce
    it at submission, and the job then waits for ever; this says so before.
    """
    if not partitions:
        return []
    chosen = chosen_partitions(request, partitions)
    if not chosen:
        asked = request.partition or ""
        text = (
            f"There is no partition {printable(asked, 60)!r}."
            if asked
            else ("This cluster has no default partition, and none was named.")
        )
        return [Problem("partition", text, allowed("partition", request, partitions))]
    found: list[Problem] = []
    seconds = parse_walltime(request.time) if request.time else None
    longest = _largest(partition.max_time for partition in chosen)
    if seconds is not None and longest is not None and (seconds > longest or seconds == 0):
        names = _list(partition.name for partition in chosen)
        asked = printable(request.time or "", 40)
        # Such a job would wait for ever.
        asked = asked if seconds else f"No limit ({asked})"
        found.append(
            Problem(
                "time",
                f"{asked} is longer than partition {names} allows ({format_walltime(longest)}).",
                f"Ask for at most {format_walltime(longest)}.",
            )
        )
    found += _gpu_problems(request, chosen, partitions)
    found += _size_problems(request, chosen)
    used = qos_in_use(request, associations)
    lifted = {flag.lower() for each in qos if used and each.name == used for flag in each.flags}
    return [each for each in found if _LIFTING.get(each.option) not in lifted]


#: Flags of a QOS that set a limit of the partition aside.
_LIFTING: dict[Option, str] = {"time": "partitiontimelimit", "nodes": "partitionmaxnodes"}


def partition_limits(request: Request, partitions: Sequence[Partition]) -> list[str]:
    """The limits of each partition that the request may run in, one line each."""
    return [_limits(each) for each in chosen_partitions(request, partitions)]


def _limits(partition: Partition) -> str:
    nodes = partition.max_nodes or partition.node_count
    return printable(
        f"{partition.name}: at most {format_walltime(partition.max_time).lower()} and {nodes} "
        f"node{'' if nodes == 1 else 's'} for a job; a node has up to "
        f"{', '.join(_node_parts(partition)) or 'what nobody says'}."
    )


def _gpu_problems(
    request: Request, chosen: Sequence[Partition], partitions: Sequence[Partition]
) -> list[Problem]:
    if not request.gpus:
        return []
    kinds = [gpu for partition in chosen for gpu in partition.gpus]
    here = _list(partition.name for partition in chosen)
    if not kinds:
        return [
            Problem(
                "gpus",
                f"Partition {here} has no GPUs.",
                allowed("gpus", request, partitions),
            )
        ]
    if request.gpu_type and all(gpu.type != request.gpu_type for gpu in kinds):
        same = next(
            (gpu.type for gpu in kinds if gpu.type.lower() == request.gpu_type.lower()), None
        )
        return [
            Problem(
                "gpus",
                f"Partition {here} has no GPUs called {printable(request.gpu_type, 60)!r}.",
                f"Write {same}: upper and lower case matter."
                if same
                else f"It has: {_gpus(kinds)}.",
            )
        ]
    return _too_many_gpus(request, chosen)


def _too_many_gpus(request: Request, chosen: Sequence[Partition]) -> list[Problem]:
    """More than a node has, or than the partition where they may be on several nodes."""
    spread = request.gpu_flag == "gpus" and request.nodes != 1
    where, of = ("the partition has", "in all") if spread else ("one node has", "per node")
    most = max((_gpu_count(request, each, spread) for each in chosen), default=0)
    if not most or (request.gpus or 0) <= most:
        return []
    kind = f" {printable(request.gpu_type, 60)}" if request.gpu_type else ""
    return [
        Problem(
            "gpus",
            f"{request.gpus}{kind} GPUs are more than {where} ({most}).",
            f"Ask for at most {most} {of}.",
        )
    ]


def _gpu_count(request: Request, partition: Partition, spread: bool) -> int:
    gpus = partition.gpus if spread else partition.node_gpus
    return sum(gpu.count for gpu in gpus if request.gpu_type in (None, "", gpu.type))


def _size_problems(request: Request, chosen: Sequence[Partition]) -> list[Problem]:
    found: list[Problem] = []
    memory = parse_memory(request.memory) if request.memory else 0
    most = _largest(
        partition.max_memory_mb_per_node or partition.memory_mb_per_node for partition in chosen
    )
    if most is not None and memory > most:
        found.append(
            Problem(
                "memory",
                f"{printable(request.memory or '', 40)} is more memory than a node of the "
                f"partition has ({format_memory(most)}).",
                f"Ask for at most {format_memory(most)}.",
            )
        )
    cpus = _largest(partition.cpus_per_node for partition in chosen)
    if cpus is not None and (request.cpus or 0) > cpus:
        found.append(
            Problem(
                "cpus",
                f"{request.cpus} CPUs per task are more than a node of the partition has ({cpus}).",
                f"Ask for at most {cpus}.",
            )
        )
    nodes = _largest(partition.max_nodes or partition.node_count for partition in chosen)
    if nodes is not None and (request.nodes or 0) > nodes:
        found.append(
            Problem(
                "nodes",
                f"{request.nodes} nodes are more than the partition gives to a job ({nodes}).",
                f"Ask for at most {nodes}.",
            )
        )
    return found


def _largest(values: Iterable[int | None]) -> int | None:
    """The highest limit; None if any of them is unlimited or unknown."""
    known = list(values)
    return (
        max((value for value in known if value is not None), default=None)
        if None not in known
        else None
    )


def allowed(
    option: Option,
    request: Request,
    partitions: Sequence[Partition] = (),
    associations: Sequence[Association] = (),
    qos: Sequence[Qos] = (),
) -> str:
    """One sentence with what this cluster allows for `option`; "" if nothing is known."""
    chosen = chosen_partitions(request, partitions) or list(partitions)
    if option == "partition" and partitions:
        return f"Partitions here: {_list(each.name for each in partitions)}."
    if option == "account" and associations:
        return f"Your accounts: {_list(each.account for each in associations)}."
    if option == "qos" and associations:
        mine = [each for each in associations if request.account in (None, "", each.account)]
        return f"Open to you: {_list(name for each in mine for name in each.qos)}."
    if option == "constraint" and chosen:
        features = _list(name for each in chosen for name in each.features)
        return f"Features here: {features}." if features else "The nodes here have no features."
    if option == "gpus" and partitions:
        where = [each for each in chosen if each.gpus] or [each for each in partitions if each.gpus]
        kinds = [f"{each.name}: {_gpus(each.gpus)}" for each in where]
        return f"GPUs here: {_list(kinds)}." if kinds else "This cluster shows no GPUs."
    if option == "time" and chosen:
        return f"Longest times: {_list(_time_limit(each) for each in chosen)}."
    if option == "limits":
        limits = [limit for each in qos if (limit := _qos_limits(each, request))]
        return f"Limits: {_list(limits)}." if limits else ""
    if option in ("memory", "cpus", "nodes", "request") and chosen:
        return f"A node has at most: {_list(_node_size(each) for each in chosen)}."
    return ""


def _time_limit(partition: Partition) -> str:
    return f"{partition.name} {format_walltime(partition.max_time).lower()}"


def _node_size(partition: Partition) -> str:
    parts = _node_parts(partition)
    return f"{partition.name} ({', '.join(parts)})" if parts else partition.name


def _node_parts(partition: Partition) -> list[str]:
    parts = []
    if partition.cpus_per_node:
        parts.append(f"{partition.cpus_per_node} CPUs")
    if partition.memory_mb_per_node:
        parts.append(format_memory(partition.memory_mb_per_node))
    return parts + [f"{gpu.count} {gpu.type or 'GPUs'}" for gpu in partition.node_gpus]


def _qos_limits(qos: Qos, request: Request) -> str:
    if request.qos and qos.name != request.qos:
        return ""
    parts = [
        f"{qos.max_jobs_per_user} running jobs" if qos.max_jobs_per_user is not None else "",
        f"{qos.max_submit_per_user} queued jobs" if qos.max_submit_per_user is not None else "",
        format_walltime(qos.max_wall) if qos.max_wall is not None else "",
        f"{qos.max_tres_per_user} per user" if qos.max_tres_per_user else "",
        f"{qos.max_tres_per_job} per job" if qos.max_tres_per_job else "",
    ]
    limits = "; ".join(part for part in parts if part)
    return f"{qos.name} {limits}" if limits else ""
