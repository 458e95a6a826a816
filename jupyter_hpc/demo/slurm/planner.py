"""Who starts when and where, and why the others wait. Pure: values in, a plan out.

Jobs are placed in order of priority, each at the earliest moment at which its
resources are free for its whole time limit, beside the running jobs and those
placed before it. What can start now starts (so small jobs fill gaps without
delaying anyone); the first that has to wait in a partition waits for Resources,
the ones behind it for their Priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_hpc.demo.slurm.inventory import Inventory, Node
from jupyter_hpc.demo.slurm.jobs import Request, Share

#: Jobs per pass that get a place in the future; later ones only learn that they wait.
MAX_JOBS_PLANNED = 100


@dataclass(frozen=True)
class Busy:
    """Something that holds a share of a node from `start` to `end`."""

    share: Share
    start: float
    end: float


@dataclass(frozen=True)
class Placement:
    """Where and when a job can run."""

    start: float
    shares: tuple[Share, ...]


def candidates(request: Request, inventory: Inventory) -> list[Node]:
    """The nodes that the request may use at all."""
    partition = inventory.partitions[request.partition]
    nodes = [inventory.nodes[name] for name in partition.nodes]
    if request.nodelist:
        nodes = [node for node in nodes if node.name in request.nodelist]
    nodes = [node for node in nodes if node.name not in request.exclude]
    if request.constraint:
        wanted = request.constraint.replace("|", "&").split("&")
        match = any if "|" in request.constraint else all
        nodes = [node for node in nodes if match(word in node.features for word in wanted)]
    return nodes


def demands(request: Request, node_count: int, inventory: Inventory) -> list[Share]:
    """What the request takes on each of `node_count` nodes (names left empty)."""
    per_node = request.tasks_per_node or -(-request.tasks // node_count)
    left = request.tasks
    shares = []
    gpus_left = _total_gpus(request, node_count)
    for index in range(node_count):
        tasks = max(1, min(per_node, left - (node_count - index - 1)))
        left -= tasks
        cpus = tasks * request.cpus_per_task
        memory = request.memory_mb
        if memory is None:
            memory = (request.memory_per_cpu_mb or inventory.memory_per_cpu_mb) * cpus
        gpus = gpus_left // (node_count - index)
        gpus_left -= gpus
        shares.append(Share("", cpus, memory, tuple(range(gpus))))
    return shares


def _total_gpus(request: Request, node_count: int) -> int:
    if request.gpus is None:
        return 0
    factor = {"job": 1, "node": node_count, "task": request.tasks}[request.gpus.per]
    return request.gpus.count * factor


def fits_node(node: Node, demand: Share, request: Request) -> bool:
    """Whether an empty `node` could hold `demand`."""
    if request.gpus and request.gpus.type and demand.gpus and node.gpu_type != request.gpus.type:
        return False
    return (
        demand.cpus <= node.cpus
        and demand.memory_mb <= node.memory_mb
        and len(demand.gpus) <= node.gpus
    )


def possible(request: Request, inventory: Inventory) -> bool:
    """Whether the request could run on the empty cluster."""
    return _place_at(0.0, request, [], inventory) is not None


def place(
    request: Request, busy: Sequence[Busy], now: float, inventory: Inventory
) -> Placement | None:
    """The earliest placement, now or when something ends; None if there is none at all."""
    moments = [now, *sorted({entry.end for entry in busy if entry.end > now})]
    for moment in moments:
        shares = _place_at(moment, request, busy, inventory)
        if shares is not None:
            return Placement(moment, shares)
    return None


def _place_at(
    start: float, request: Request, busy: Iterable[Busy], inventory: Inventory
) -> tuple[Share, ...] | None:
    nodes = candidates(request, inventory)
    wanted = demands(request, request.nodes, inventory)
    if len(nodes) < len(wanted):
        return None
    end = start + request.time_limit
    overlapping = [entry for entry in busy if entry.start < end and entry.end > start]
    taken: list[Share] = []
    free_nodes = list(nodes)
    for demand in wanted:
        for node in free_nodes:
            share = _on_node(node, demand, request, overlapping)
            if share is not None:
                taken.append(share)
                free_nodes.remove(node)
                break
        else:
            return None
    return tuple(sorted(taken, key=lambda share: share.node))


def _on_node(node: Node, demand: Share, request: Request, busy: Iterable[Busy]) -> Share | None:
    """`demand` on `node` beside everything that ever overlaps with it, or None."""
    if not fits_node(node, demand, request):
        return None
    here = [entry.share for entry in busy if entry.share.node == node.name]
    cpus = node.cpus - sum(share.cpus for share in here)
    memory = node.memory_mb - sum(share.memory_mb for share in here)
    used = {gpu for share in here for gpu in share.gpus}
    gpus = [gpu for gpu in range(node.gpus) if gpu not in used]
    if request.exclusive:
        return Share(node.name, node.cpus, demand.memory_mb, tuple(gpus)) if not here else None
    if demand.cpus > cpus or demand.memory_mb > memory or len(demand.gpus) > len(gpus):
        return None
    return Share(node.name, demand.cpus, demand.memory_mb, tuple(gpus[: len(demand.gpus)]))
