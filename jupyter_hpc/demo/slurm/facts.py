"""What the commands print about jobs: TRES, memory, times, ids, in Slurm's words."""

from __future__ import annotations

import time

from jupyter_hpc.demo.slurm.inventory import Inventory, Node
from jupyter_hpc.demo.slurm.jobs import PENDING, Job
from jupyter_hpc.demo.slurm.planner import demands
from jupyter_hpc.demo.slurm.units import fold_numbers, write_memory

#: squeue cuts the list of waiting array tasks after so many characters.
MAX_TASKS_CHARACTERS = 64


def gpu_total(job: Job, inventory: Inventory) -> int:
    if job.shares:
        return sum(len(share.gpus) for share in job.shares)
    return sum(len(share.gpus) for share in demands(job.request, job.request.nodes, inventory))


def memory_total(job: Job, inventory: Inventory) -> int:
    if job.shares:
        return sum(share.memory_mb for share in job.shares)
    return sum(share.memory_mb for share in demands(job.request, job.request.nodes, inventory))


def tres_parts(job: Job, inventory: Inventory) -> dict[str, str]:
    """cpu, mem, node, billing and GPUs in the controller's order."""
    parts = {
        "cpu": str(job.cpus),
        "mem": write_memory(memory_total(job, inventory)),
        "node": str(len(job.shares) or job.request.nodes),
        "billing": str(job.cpus),
    }
    gpus = gpu_total(job, inventory)
    if gpus:
        parts["gres/gpu"] = str(gpus)
        kind = job.request.gpus.type if job.request.gpus else ""
        if job.shares and not kind:
            kind = next((inventory.nodes[s.node].gpu_type for s in job.shares if s.gpus), "")
        if kind:
            parts[f"gres/gpu:{kind}"] = str(gpus)
    return parts


def tres(job: Job, inventory: Inventory) -> str:
    """As squeue and scontrol write it."""
    return ",".join(f"{name}={value}" for name, value in tres_parts(job, inventory).items())


def tres_sorted(job: Job, inventory: Inventory) -> str:
    """As sacct writes it: by name, with a typed GPU before the plain one."""
    parts = tres_parts(job, inventory)
    names = sorted(parts, key=lambda name: name.replace("gres/gpu:", "gres/gpu!"))
    return ",".join(f"{name}={parts[name]}" for name in names)


def tres_per(job: Job, what: str) -> str:
    """The GPU request in the words of tres-per-job, -node and -task; N/A for the others."""
    option, value = job.request.gpu_words
    belongs = {"gpus": "job", "gpus-per-node": "node", "gres": "node", "gpus-per-task": "task"}
    if belongs.get(option) != what:
        return "N/A"
    return f"gres:{value}" if option == "gres" else f"gres:gpu:{value}"


def minimum_memory(job: Job, inventory: Inventory) -> str:
    request = job.request
    if request.memory_mb is not None:
        return write_memory(request.memory_mb)
    return write_memory(request.memory_per_cpu_mb or inventory.memory_per_cpu_mb)


def waiting_tasks(jobs: list[Job]) -> str:
    """The waiting tasks of one array as "2-4%1"."""
    text = fold_numbers([job.array.task for job in jobs if job.array])
    if len(text) > MAX_TASKS_CHARACTERS:
        text = text[: text.rindex(",", 0, MAX_TASKS_CHARACTERS)] + ",..."
    limit = jobs[0].array.limit if jobs[0].array else None
    return f"{text}%{limit}" if limit else text


def run_time(job: Job) -> int:
    """Whole seconds, from second to second: end minus start must give the same."""
    if job.state == PENDING or not job.start:
        return 0
    return int(job.end or time.time()) - int(job.start)


def time_left(job: Job) -> int:
    return job.request.time_limit - run_time(job)


def shown_start(job: Job) -> float:
    """When it started, or when it may or is expected to."""
    if job.state != PENDING:
        return job.start
    return job.planned or (0.0 if job.held else job.request.begin)


def shown_end(job: Job) -> float:
    if job.state == PENDING:
        start = shown_start(job)
        return start + job.request.time_limit if start else 0.0
    return job.end_expected


def node_use(node: Node, jobs: list[Job]) -> tuple[int, int, set[int]]:
    """CPUs, MiB and GPU numbers that jobs hold on the node."""
    shares = [
        share for job in jobs if job.active for share in job.shares if share.node == node.name
    ]
    return (
        sum(share.cpus for share in shares),
        sum(share.memory_mb for share in shares),
        {gpu for share in shares for gpu in share.gpus},
    )


def node_state(node: Node, jobs: list[Job]) -> str:
    cpus, _, _ = node_use(node, jobs)
    if any(job.completing and node.name in job.node_names for job in jobs):
        return "completing"
    if cpus == 0:
        return "idle"
    return "allocated" if cpus >= node.cpus else "mixed"
