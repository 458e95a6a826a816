"""How the processes of a job are spread: one for each GPU, as many on each node as on the others.

Lightning and torch take each process for one GPU, and Lightning refuses a job whose
`--ntasks` stands alone; so every job of several tasks says how many a node gets.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.models import Request

#: Options of sbatch that say the same as members of Request.
_SAME = {
    "--nodes": "nodes",
    "-N": "nodes",
    "--ntasks": "tasks",
    "-n": "tasks",
    "--ntasks-per-node": "tasks_per_node",
    "--tasks-per-node": "tasks_per_node",
}
_NUMBERED = re.compile(r"(?P<option>--[a-z-]+(?==)|-[nN])=?(?P<number>\d+)")


def laid_out(request: Request, *, distributed: bool, node_cpus: int | None = None) -> Request:
    """The same with its tasks spread evenly over its nodes.

    Nobody having said how many: one task per GPU where there are several nodes, or where the
    program is `distributed` (its processes find each other); else one. `node_cpus` are the CPUs
    that a profile gives to each node: its tasks share them. Raises UsageError for numbers that
    contradict each other.
    """
    request = _with_options(request)
    request = _gpus_on_each_node(request)
    nodes, tasks, per_node = request.nodes, request.tasks, request.tasks_per_node
    if tasks and per_node:
        nodes = nodes or -(-tasks // per_node)
        if tasks != nodes * per_node:
            raise UsageError(
                f"{tasks} tasks are not {per_node} on each of {nodes} nodes.",
                "Give --nodes with either --tasks or --tasks-per-node.",
            )
    elif tasks:
        nodes = nodes or 1
        per_node = tasks // nodes if tasks % nodes == 0 else None  # uneven, as was asked for
    elif per_node is None and ((nodes or 1) > 1 or distributed):
        per_node = request.gpus or 1
    if per_node:
        tasks = per_node * (nodes or 1)
    if tasks is None or tasks == 1:
        return replace(request, tasks=tasks, cpus=node_cpus or request.cpus)
    share = per_node or -(-tasks // (nodes or 1))
    cpus = max(1, node_cpus // share) if node_cpus else request.cpus
    return replace(request, nodes=nodes or 1, tasks=tasks, tasks_per_node=per_node, cpus=cpus)


def _with_options(request: Request) -> Request:
    """What `--option=--ntasks-per-node=2` says is what `--tasks-per-node 2` says."""
    members: dict[str, Any] = {}
    others: list[str] = []
    for word in request.extra:
        found = _NUMBERED.fullmatch(word)
        if found and found["option"] in _SAME:
            members[_SAME[found["option"]]] = int(found["number"])
        else:
            others.append(word)
    return replace(request, extra=tuple(others), **members) if members else request


def _gpus_on_each_node(request: Request) -> Request:
    """GPUs of the whole job as GPUs of each node: Slurm would give 3 to one and 1 to another."""
    nodes, gpus = request.nodes or 1, request.gpus or 0
    if request.gpu_flag != "gpus" or nodes == 1 or not gpus:
        return request
    if gpus % nodes:
        fewer, more = gpus // nodes * nodes, (gpus // nodes + 1) * nodes
        amounts = f"{fewer} or {more}" if fewer else str(more)
        raise UsageError(
            f"{gpus} GPUs cannot be spread evenly over {nodes} nodes; this cluster counts the GPUs "
            "of the whole job.",
            f"Ask for {amounts}.",
        )
    return replace(request, gpus=gpus // nodes, gpu_flag="gpus-per-node")
