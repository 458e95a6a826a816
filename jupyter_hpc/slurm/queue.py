"""squeue: which jobs wait and run.

One table builds the format and reads the rows. Filters only narrow what the
controller sends; nothing here asks for other people's jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jupyter_hpc.slurm.fields import (
    Field,
    FieldTable,
    command,
    count,
    epoch,
    job_ids,
    number,
    optional,
    text,
)
from jupyter_hpc.slurm.models import Estimate, FinishedJob, GpuCount, Job
from jupyter_hpc.slurm.states import Phase, canonical_state, phase_of
from jupyter_hpc.slurm.units import read_gpus, read_memory_mb, read_tres, read_walltime

#: No more tasks than these are looked for that were never seen to run.
MAX_UNSEEN_TASKS = 500

JOBS = FieldTable(
    (
        Field("JobID", "job_id"),
        Field("JobArrayID", "id"),
        Field("ArrayJobID", "array_id"),
        Field("ArrayTaskID", "array_tasks", optional),
        Field("HetJobID", "het_id", optional),
        Field("HetJobOffset", "het_offset", number),
        Field("UserName", "user"),
        Field("State", "state", canonical_state),
        Field("Partition", "partition"),
        Field("Account", "account", text),
        Field("QOS", "qos", text),
        Field("NodeList", "nodes", text),
        Field("NumNodes", "node_count", count),
        Field("NumCPUs", "cpus", count),
        Field("NumTasks", "tasks", count),
        Field("MinMemory", "min_memory", read_memory_mb),
        Field("tres-alloc", "tres", read_tres),
        Field("tres-per-job", "gres_job", read_gpus),
        Field("tres-per-node", "gres_node", read_gpus),
        Field("tres-per-task", "gres_task", read_gpus),
        Field("TimeLimit", "time_limit", read_walltime),
        Field("TimeLeft", "time_left_text"),
        Field("TimeUsed", "time_used", read_walltime),
        Field("SubmitTime", "submitted", epoch),
        Field("StartTime", "started", epoch),
        Field("EndTime", "ends", epoch),
        Field("PriorityLong", "priority", number),
        Field("RestartCnt", "restarts", count),
        Field("Dependency", "dependency", text),
        Field("Feature", "constraint", text),
        Field("Reason", "reason", text),
        Field("WorkDir", "work_dir", text),
        Field("Comment", "comment", text),
        Field("Name", "name"),
    ),
    starts=re.compile(r"\d+"),
)

STARTS = FieldTable(
    (
        Field("JobID", "job_id"),
        Field("State", "state", canonical_state),
        Field("StartTime", "start", epoch),
        Field("SchedNodes", "nodes", text),
    ),
    starts=re.compile(r"\d+"),
)


def jobs_argv(
    *,
    name: str | None = None,
    ids: Sequence[str] = (),
    every_task: bool = False,
    ended: bool = False,
) -> list[str]:
    """squeue for the caller's own jobs, all of them or those with a name or ids.

    `every_task` gives each waiting array task a row of its own; with `ended` there are also
    those that have ended and that the controller still remembers (MinJobAge).
    """
    filters = ["--me"]
    if name is not None:
        filters.append(f"--name={name}")
    if ids:
        filters.append(f"--jobs={','.join(job_ids(ids))}")
    if every_task:
        filters.append("--array")
    if ended:
        filters.append("--states=all")
    return command("squeue", "--noheader", *filters, f"--Format={JOBS.long_format()}")


def read_jobs(stdout: str) -> list[Job]:
    """The rows of `jobs_argv`."""
    return [_job(dict(row)) for row in JOBS.rows(stdout)]


def left_queue(job: Job, ended: int | None = None) -> FinishedJob:
    """A job that has ended, as far as the queue knows it; its state may be the last one seen."""
    return FinishedJob(
        id=job.id,
        job_id=job.job_id,
        name=job.name,
        user=job.user,
        state=job.state,
        cancelled_by=None,
        exit_code=None,
        signal=None,
        reason=job.reason,
        partition=job.partition,
        account=job.account,
        qos=job.qos,
        nodes=job.nodes,
        node_count=job.node_count,
        cpus=job.cpus,
        memory_mb=job.memory_mb,
        gpus=job.gpus,
        gpu_type=job.gpu_type,
        time_limit=job.time_limit,
        elapsed=job.time_used,
        submitted=job.submitted,
        started=job.started,
        ended=job.ends if ended is None else ended,
        work_dir=job.work_dir,
        comment=job.comment,
    )


def unseen_tasks(before: Iterable[Job], now: Sequence[Job]) -> list[Job]:
    """Array tasks that waited in `before` and are nowhere in `now`.

    They have started and ended in between, or were cancelled while they waited, so they
    never had a row of their own.
    """
    rows = {job.id for job in now}
    waiting = [job for job in now if "[" in job.id]
    gone: list[Job] = []
    for job in before:
        if job.id in rows or "[" not in job.id:
            continue
        rests = [row for row in waiting if row.array_id == job.array_id]
        gone += [
            replace(job, id=task, array_tasks=task.partition("_")[2])
            for task in job.task_ids(MAX_UNSEEN_TASKS)
            if task not in rows and not any(row.holds(task) for row in rests)
        ]
    return gone[:MAX_UNSEEN_TASKS]


def start_argv(ids: Sequence[str]) -> list[str]:
    """squeue for when and where the scheduler expects these jobs to begin.

    Without --start, which prints columns of its own whatever --Format says (22.05);
    the start time of a waiting job is the same estimate.
    """
    jobs = f"--jobs={','.join(job_ids(ids))}"
    return command("squeue", "--noheader", "--me", jobs, f"--Format={STARTS.long_format()}")


def read_starts(stdout: str) -> dict[str, Estimate]:
    """Estimates by plain job number, of the jobs that wait and have one."""
    return {
        row["job_id"]: Estimate(row["start"], nodes=row["nodes"])
        for row in STARTS.rows(stdout)
        if phase_of(row["state"]) is Phase.PENDING and row["start"] is not None
    }


def _job(row: dict[str, Any]) -> Job:
    tres = row.pop("tres")
    gpus = tres.gpus or _requested_gpus(row)
    for key in ("gres_job", "gres_node", "gres_task"):
        del row[key]
    minimum = row.pop("min_memory")
    left = row.pop("time_left_text")
    pending = phase_of(row["state"]) is Phase.PENDING
    started, ends = row.pop("started"), row.pop("ends")
    if row["array_tasks"] is None:
        row["array_id"] = None
    return Job(
        **row,
        # min_memory is per node or per CPU, whichever was asked for; the total is certain
        memory_mb=minimum if tres.memory_mb is None else tres.memory_mb,
        gpus=sum(gpu.count for gpu in gpus),
        gpu_type=",".join(gpu.type for gpu in gpus if gpu.type),
        time_left=read_walltime(left),
        over_time=left.strip().upper() == "INVALID",
        started=None if pending else started,
        ends=None if pending else ends,
        estimated_start=started if pending else None,
    )


def _requested_gpus(row: Mapping[str, Any]) -> tuple[GpuCount, ...]:
    """GPUs from the request, for sites that do not track gres/gpu as TRES."""
    for key, times in (
        ("gres_job", 1),
        ("gres_node", row["node_count"]),
        ("gres_task", row["tasks"]),
    ):
        found = row[key]
        if found:
            return tuple(GpuCount(gpu.type, gpu.count * max(1, times)) for gpu in found)
    return ()
