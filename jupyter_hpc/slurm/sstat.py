"""sstat: what the steps of a running job have used so far.

It answers for the caller's own jobs, from the daemons on the job's nodes, so it is
asked when a person looks at one job, never in a list. Unlike sacct it knows no
--delimiter; none of these columns holds free text, so "|" is safe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.slurm.accounting import usage_of
from jupyter_hpc.slurm.fields import Field, FieldTable, command, count, job_ids
from jupyter_hpc.slurm.models import FinishedJob, JobDetail, Usage
from jupyter_hpc.slurm.units import read_seconds, read_used_memory_mb

STEPS = FieldTable(
    (
        Field("JobID", "id"),
        Field("NTasks", "tasks", count),
        Field("AveCPU", "average_cpu", read_seconds),
        Field("MaxRSS", "max_rss", read_used_memory_mb),
        Field("TRESUsageInAve", "used_average"),
        Field("TRESUsageInTot", "used_total"),
    ),
    starts=re.compile(r"\d+(?:\+\d+)?\.\w+"),
)


def usage_argv(job_id: str) -> list[str]:
    """sstat for every step of the job with this plain number."""
    return command(
        "sstat",
        "--noheader",
        "--parsable",
        "--allsteps",
        f"--jobs={','.join(job_ids([job_id]))}",
        f"--format={STEPS.list_format()}",
    )


def read_usage(stdout: str, job_id: str) -> Usage | None:
    """What the job has used so far; None before its first step.

    Asked for one task of an array, sstat may answer for all of them.
    """
    rows = [
        {**row, "total_cpu": _total(row)}
        for row in STEPS.rows(stdout, "|")
        if row["id"].partition(".")[0] == job_id
    ]
    return usage_of(rows) if rows else None


def _total(row: Mapping[str, Any]) -> float | None:
    """CPU seconds of all tasks: sstat tells their average."""
    average: float | None = row["average_cpu"]
    return None if average is None else average * max(1, row["tasks"])


def record_so_far(detail: JobDetail, usage: Usage | None) -> FinishedJob:
    """A job of the controller in the form of a finished one, so that both are judged alike."""
    return FinishedJob(
        id=detail.id,
        job_id=detail.fields.get("JobId") or detail.id,
        name=detail.name,
        user=detail.user,
        state=detail.state,
        cancelled_by=None,
        exit_code=detail.exit_code,
        signal=detail.signal,
        reason=detail.reason,
        partition=detail.partition,
        account=detail.account,
        qos=detail.qos,
        nodes=detail.nodes,
        node_count=detail.node_count,
        cpus=detail.cpus,
        memory_mb=detail.memory_mb,
        gpus=detail.gpus,
        gpu_type=detail.gpu_type,
        time_limit=detail.time_limit,
        elapsed=detail.run_time,
        submitted=detail.submitted,
        started=detail.started,
        ended=None,
        work_dir=detail.work_dir,
        comment=detail.comment,
        usage=usage,
    )
