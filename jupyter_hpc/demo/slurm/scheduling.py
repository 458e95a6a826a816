"""One look at the queue: which waiting jobs start now, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jupyter_hpc.demo.slurm.admission import must_wait
from jupyter_hpc.demo.slurm.inventory import Inventory
from jupyter_hpc.demo.slurm.jobs import PENDING, Job, Request, Share
from jupyter_hpc.demo.slurm.planner import MAX_JOBS_PLANNED, Busy, place


def priority(job: Job, inventory: Inventory) -> int:
    if job.held:
        return 0
    top = max(qos.priority for qos in inventory.qos.values())
    return 100 + 1000 * inventory.qos[job.request.qos].priority // top - job.request.nice


def waiting(jobs: Sequence[Job], inventory: Inventory) -> list[Job]:
    """The jobs in the queue: higher priority first, then older, then the lower number."""

    def order(job: Job) -> tuple[int, float, int, int]:
        task = job.array.task if job.array else 0
        return (-priority(job, inventory), job.submit, job.id, task)

    return sorted((job for job in jobs if job.state == PENDING), key=order)


def look_at_queue(
    jobs: Sequence[Job],
    inventory: Inventory,
    now: float,
    start: Callable[[Job, tuple[Share, ...]], None],
) -> float:
    """`start` what can run now; tell the others, in `reason` and `planned`, why they wait.

    Returns when to look again; 0 if only a change of some job can help.
    """
    busy = running(jobs, now)
    blocked: set[str] = set()
    # Tasks of one array are alike: where one has to wait, so do those behind it.
    same: dict[int, str] = {}
    moments = []
    for index, job in enumerate(waiting(jobs, inventory)):
        array = job.array.job_id if job.array and not job.has_own_id else -1
        reason = same.get(array) or must_wait(job, jobs, inventory, now)
        job.planned = 0.0
        if reason is None and index < MAX_JOBS_PLANNED:
            found = place(job.request, busy, now, inventory)
            if found is not None:
                busy += reserved(job.request, found.shares, found.start)
                if found.start <= now:
                    start(job, found.shares)
                    continue
                job.planned = found.start
                reason = "Priority" if job.request.partition in blocked else "Resources"
                blocked.add(job.request.partition)
        job.reason = reason or "Priority"
        if array >= 0:
            same[array] = job.reason
        if job.eligible > now and not job.held:
            moments.append(job.eligible)
    return min(moments, default=0.0)


def expected(
    request: Request, jobs: Sequence[Job], inventory: Inventory, now: float
) -> tuple[float, tuple[Share, ...]] | None:
    """Where and when the request would run behind everything that waits now."""
    busy = running(jobs, now)
    for job in waiting(jobs, inventory)[:MAX_JOBS_PLANNED]:
        if not must_wait(job, jobs, inventory, now):
            found = place(job.request, busy, now, inventory)
            if found is not None:
                busy += reserved(job.request, found.shares, found.start)
    placed = place(request, busy, max(now, request.begin), inventory)
    return None if placed is None else (placed.start, placed.shares)


def running(jobs: Sequence[Job], now: float) -> list[Busy]:
    """What is held now; a job past its limit is about to give it back."""
    return [
        Busy(share, job.start, max(job.start + job.request.time_limit, now + 1.0))
        for job in jobs
        if job.active
        for share in job.shares
    ]


def reserved(request: Request, shares: Sequence[Share], start: float) -> list[Busy]:
    return [Busy(share, start, start + request.time_limit) for share in shares]
