"""What a job costs in the budget of its cluster, where the profile knows the rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.units import parse_walltime


@dataclass(frozen=True)
class Cost:
    """An upper limit: the job may end before its time is over."""

    amount: float
    unit: str

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit}".strip()


def job_cost(request: Request, rates: Mapping[str, float], unit: str, runs: int = 1) -> Cost | None:
    """The cost of all runs; None where no rate fits.

    A rate is the price of one hour of: a GPU type in the cluster's spelling, a
    partition, "gpu", "cpu" or "node", looked for in this order.
    """
    seconds = parse_walltime(request.time) if request.time else None
    if not rates or seconds is None:
        return None
    nodes, gpus = request.nodes or 1, request.gpus or 0
    if request.gpu_flag != "gpus":
        gpus *= nodes
    cpus = (request.cpus or 1) * (request.tasks or 1)
    amounts = {
        **({request.gpu_type: gpus} if request.gpu_type and gpus else {}),
        **({request.partition: max(gpus, 1)} if request.partition else {}),
        **({"gpu": gpus} if gpus else {}),
        "cpu": cpus,
        "node": nodes,
    }
    for name, count in amounts.items():
        if name in rates:
            return Cost(round(rates[name] * count * seconds / 3600 * runs, 2), unit)
    return None
