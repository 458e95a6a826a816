"""What a job costs in the budget of its cluster, where the profile knows the rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jupyter_hpc.slurm.advice import chosen_partitions
from jupyter_hpc.slurm.models import FinishedJob, Job, Partition, Request
from jupyter_hpc.slurm.rates import GPU_TYPES, HOURS, PARTITIONS
from jupyter_hpc.slurm.rates import Rates as Rates
from jupyter_hpc.slurm.states import Phase
from jupyter_hpc.slurm.units import parse_walltime


@dataclass(frozen=True)
class Cost:
    """An amount in the unit of the budget, which may be unnamed."""

    amount: float
    unit: str

    def __str__(self) -> str:
        amount = f"{self.amount:.2f}".rstrip("0").rstrip(".")
        if self.amount > 0 and amount == "0":
            amount = "under 0.01"
        return f"{amount} {self.unit}".strip()


def job_cost(
    request: Request,
    rates: Rates,
    unit: str,
    runs: int = 1,
    *,
    partitions: Sequence[Partition] = (),
    cpus: int | None = None,
) -> Cost | None:
    """The most that all runs can cost, each taking all of its time; None where it is not known.

    Where the request leaves partition or GPU type open, the dearest that it may get counts.
    `cpus` are those of the whole job where Slurm has said it.
    """
    seconds = parse_walltime(request.time) if request.time else None
    hourly = _dearest(request, rates, partitions, cpus)
    if hourly is None or seconds is None:
        return None
    return Cost(round(hourly * seconds / 3600 * runs, 2), unit)


def cost_of_time(request: Request, rates: Rates, unit: str, seconds: float) -> Cost:
    """The most that so many seconds of such a job cost; in hours of GPUs or CPUs without a rate."""
    hourly = _dearest(request, rates, (), None)
    if hourly is None:
        gpus = _gpus(request)
        cpus = (request.cpus or 1) * (request.tasks or 1)
        hourly, unit = (gpus, "GPU-hours") if gpus else (cpus, "CPU-hours")
    # A minute of one CPU is not nothing.
    return Cost(max(0.01, round(hourly * seconds / 3600, 2)), unit)


def _gpus(request: Request) -> int:
    """The GPUs of all nodes."""
    per_node = request.gpu_flag != "gpus"
    return (request.gpus or 0) * ((request.nodes or 1) if per_node else 1)


def _dearest(
    request: Request, rates: Rates, partitions: Sequence[Partition], cpus: int | None
) -> float | None:
    """The price of an hour of the request at the most; see job_cost."""
    nodes, gpus = request.nodes or 1, _gpus(request)
    tasks = request.tasks or (request.tasks_per_node or 1) * nodes
    if request.cpus is not None:
        cpus = request.cpus * tasks
    elif cpus is None and not gpus:
        cpus = tasks  # Slurm's own default; with GPUs a site may have another one
    hourly = [
        price
        for partition, kinds in _possible(request, rates, partitions)
        if (price := _hourly(rates, partition, kinds, gpus, cpus, nodes)) is not None
    ]
    return max(hourly, default=None)


def cost_so_far(job: Job, rates: Rates, unit: str) -> Cost | None:
    """What a job has cost until now, nothing while it waits; None where no rate fits."""
    return _spent(job, 0 if job.phase is Phase.PENDING else job.time_used, rates, unit)


def finished_cost(job: FinishedJob, rates: Rates, unit: str) -> Cost | None:
    """What a job, or one run of an array, has cost in all; None where no rate fits."""
    return _spent(job, job.elapsed, rates, unit)


def flat(rates: Rates) -> dict[str, float]:
    """All prices by one name each: `gpu_hour`, `gpu_types.a100`, `partitions.gpu.gpu_hour`."""
    found: dict[str, float] = {}
    for name, value in rates.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": price for inner, price in flat(value).items()}
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[str(name)] = float(value)
    return found


class _Placed(Protocol):
    """What of a job has a price."""

    @property
    def partition(self) -> str: ...
    @property
    def gpus(self) -> int: ...
    @property
    def gpu_type(self) -> str: ...
    @property
    def cpus(self) -> int: ...
    @property
    def node_count(self) -> int: ...


def _spent(job: _Placed, seconds: int | None, rates: Rates, unit: str) -> Cost | None:
    kinds = [kind for kind in job.gpu_type.split(",") if kind]
    hourly = _hourly(rates, job.partition, kinds, job.gpus, job.cpus, job.node_count)
    if hourly is None or seconds is None:
        return None
    return Cost(round(hourly * seconds / 3600, 2), unit)


def _possible(
    request: Request, rates: Rates, partitions: Sequence[Partition]
) -> Iterable[tuple[str, list[str]]]:
    """The partitions that the job may run in, each with the GPU types that it may get there."""
    named = [request.gpu_type] if request.gpu_type else []
    chosen = chosen_partitions(request, partitions)
    for partition in chosen:
        yield partition.name, named or [gpu.type for gpu in partition.gpus if gpu.type]
    if not chosen:
        anything = named or list(rates.get(GPU_TYPES, {}))
        for name in (request.partition or "").split(","):
            yield name, anything


def _hourly(
    rates: Rates,
    partition: str,
    gpu_types: Sequence[str],
    gpus: int,
    cpus: int | None,
    nodes: int,
) -> float | None:
    """The price of one hour of all of it, by the first of HOURS that has one."""
    own: Mapping[str, float] = rates.get(PARTITIONS, {}).get(partition, {})
    typed: Mapping[str, float] = rates.get(GPU_TYPES, {})
    by_type = [typed[kind] for kind in gpu_types if kind in typed]
    general: dict[str, float] = {name: rates[name] for name in HOURS if name in rates}
    if by_type:
        general["gpu_hour"] = max(by_type)
    prices = {**general, **own}
    used = {"gpu_hour": gpus or None, "cpu_hour": cpus, "node_hour": nodes}
    if "cpu_hour" in prices and cpus is None and not (gpus and "gpu_hour" in prices):
        return None  # it is charged by its CPUs, and nobody knows how many
    for name in HOURS:
        count = used[name]
        if name in prices and count is not None:
            return prices[name] * count
    return None
