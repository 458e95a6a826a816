"""What a job costs in the budget of its cluster, where the profile knows the rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.units import parse_walltime


@dataclass(frozen=True)
class Cost:
    """An amount in the unit of the budget, which may be unnamed."""

    amount: float
    unit: str

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit}".strip()


def job_cost(request: Request, rates: Mapping[str, float], unit: str, runs: int = 1) -> Cost | None:
    """The cost of all runs if each takes all of its time; None where no rate fits."""
    seconds = parse_walltime(request.time) if request.time else None
    nodes, gpus = request.nodes or 1, request.gpus or 0
    if request.gpu_flag != "gpus":
        gpus *= nodes
    cpus = (request.cpus or 1) * (request.tasks or 1)
    hourly = _hourly(rates, gpus, cpus, nodes)
    if hourly is None or seconds is None:
        return None
    return Cost(round(hourly * seconds / 3600 * runs, 2), unit)


def cost_so_far(job: Job, rates: Mapping[str, float], unit: str) -> Cost | None:
    """What a job has cost until now, nothing while it waits; None where no rate fits."""
    hourly = _hourly(rates, job.gpus, job.cpus, job.node_count)
    if hourly is None:
        return None
    seconds = 0 if job.phase is Phase.PENDING else job.time_used
    return None if seconds is None else Cost(round(hourly * seconds / 3600, 2), unit)


def _hourly(rates: Mapping[str, float], gpus: int, cpus: int, nodes: int) -> float | None:
    """The price of one hour of all of it, by the first rate that fits (clusters/values.py)."""
    used = {**({"gpu_hour": gpus} if gpus else {}), "cpu_hour": cpus, "node_hour": nodes}
    return next((rates[name] * count for name, count in used.items() if name in rates), None)
