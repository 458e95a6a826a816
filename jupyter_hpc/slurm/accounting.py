"""sacct: jobs that have ended, and what they used.

sacct lags a few seconds behind and may be absent; it answers only for the caller's
own jobs unless told otherwise, and nothing here tells it otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jupyter_hpc.slurm.fields import (
    SEPARATOR,
    Field,
    FieldTable,
    command,
    count,
    decimal,
    epoch,
    job_ids,
    number,
    text,
)
from jupyter_hpc.slurm.models import FinishedJob, FinishedStep, Usage
from jupyter_hpc.slurm.states import canonical_state, telling_state
from jupyter_hpc.slurm.units import (
    read_memory_mb,
    read_seconds,
    read_tres,
    read_used_memory_mb,
    read_walltime,
)

#: "17", "35_3", "35_[2-4%1]", "12+0", and steps: "17.0", "17.batch", "12+0.extern"
RECORD_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?(?:\.\w+)?")

RECORDS = FieldTable(
    (
        Field("JobID", "id"),
        Field("JobIDRaw", "job_id"),
        Field("User", "user", text),
        Field("State", "state_text"),
        Field("ExitCode", "exit"),
        Field("Reason", "reason", text),
        Field("Partition", "partition", text),
        Field("Account", "account", text),
        Field("QOS", "qos", text),
        Field("NodeList", "node_text"),
        Field("NNodes", "node_count", count),
        Field("NCPUS", "cpus", count),
        Field("ReqMem", "req_mem"),
        Field("ReqTRES", "req_tres", read_tres),
        Field("AllocTRES", "alloc_tres", read_tres),
        Field("Timelimit", "time_limit", read_walltime),
        Field("ElapsedRaw", "elapsed", number),
        Field("Submit", "submitted", epoch),
        Field("Start", "started", epoch),
        Field("End", "ended", epoch),
        Field("TotalCPU", "total_cpu", read_seconds),
        Field("MaxRSS", "max_rss", read_used_memory_mb),
        Field("NTasks", "tasks", count),
        Field("TRESUsageInTot", "used_total"),
        Field("TRESUsageInAve", "used_average"),
        Field("WorkDir", "work_dir", text),
        Field("Comment", "comment", text),
        Field("JobName", "name"),
    ),
    starts=RECORD_ID,
)


def _argv(*filters: str) -> list[str]:
    # --parsable closes the last column too, which is how a line break inside a name
    # is told from the end of a row; --parsable2 does not
    return command(
        "sacct",
        "--noheader",
        "--parsable",
        f"--delimiter={SEPARATOR}",
        *filters,
        f"--format={RECORDS.list_format()}",
    )


def history_argv(seconds: int) -> list[str]:
    """The caller's jobs of the last `seconds`, one row each.

    The start is relative: an absolute one would be read in the cluster's time zone.
    """
    return _argv("--allocations", f"--starttime=now-{seconds}seconds")


def finished_argv(ids: Sequence[str], *, steps: bool = True) -> list[str]:
    """These jobs; with `steps` also the rows that tell what they used."""
    filters = [f"--jobs={','.join(job_ids(ids))}"]
    return _argv(*filters) if steps else _argv("--allocations", *filters)


def read_finished(stdout: str) -> list[FinishedJob]:
    """Jobs with the usage of their steps, in sacct's order.

    Jobs that still wait or run are in the list as well; look at `phase`.
    """
    rows = list(RECORDS.rows(stdout))
    steps: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        job, dot, _ = row["id"].partition(".")
        if dot:
            steps.setdefault(job, []).append(row)
    return [_finished(row, steps.get(row["id"])) for row in rows if "." not in row["id"]]


def read_steps(stdout: str) -> list[FinishedStep]:
    """The steps of the jobs in sacct's order, those that run as well."""
    return [
        FinishedStep(row["id"], row["name"], canonical_state(row["state_text"]))
        for row in RECORDS.rows(stdout)
        if "." in row["id"]
    ]


def _finished(row: Mapping[str, Any], steps: list[Mapping[str, Any]] | None) -> FinishedJob:
    tres = row["alloc_tres"] if row["alloc_tres"].cpus is not None else row["req_tres"]
    code, _, signal = row["exit"].partition(":")
    by = re.search(r"\bby (\S+)", row["state_text"])
    nodes = "" if row["node_text"].startswith("None") else text(row["node_text"])
    return FinishedJob(
        id=row["id"],
        job_id=row["job_id"],
        name=row["name"],
        user=row["user"],
        state=canonical_state(row["state_text"]),
        cancelled_by=by[1] if by else None,
        exit_code=number(code),
        signal=number(signal),
        reason=row["reason"],
        partition=row["partition"],
        account=row["account"],
        qos=row["qos"],
        nodes=nodes,
        node_count=row["node_count"],
        cpus=row["cpus"],
        memory_mb=tres.memory_mb if tres.memory_mb is not None else _requested_memory(row),
        gpus=tres.gpu_count,
        gpu_type=tres.gpu_types,
        time_limit=row["time_limit"],
        elapsed=row["elapsed"],
        submitted=row["submitted"],
        # a job that never ran is recorded as started at its end, without nodes
        started=row["started"] if nodes else None,
        ended=row["ended"],
        work_dir=row["work_dir"],
        comment=row["comment"],
        usage=usage_of(steps) if steps else None,
        step_state=telling_state(step["state_text"] for step in steps or ()),
    )


def _requested_memory(row: Mapping[str, Any]) -> int | None:
    """ReqMem for the whole job; before 21.08 it ends in "c" (per CPU) or "n" (per node)."""
    amount = read_memory_mb(row["req_mem"])
    if amount is None:
        return None
    each: dict[str, int] = {"c": row["cpus"], "n": row["node_count"]}
    return amount * max(1, each.get(row["req_mem"][-1:], 1))


def usage_of(steps: Iterable[Mapping[str, Any]]) -> Usage:
    """What these rows of steps say together."""
    rows = list(steps)
    cpu = [row["total_cpu"] for row in rows if row["total_cpu"] is not None]
    memory = [amount for row in rows if (amount := _step_memory(row)) is not None]
    return Usage(
        cpu_seconds=sum(cpu) if cpu else None,
        max_memory_mb=max(memory) if memory else None,
        gpu_utilization=_highest(rows, "used_average", "gres/gpuutil", decimal),
        gpu_memory_mb=_highest(rows, "used_total", "gres/gpumem", read_used_memory_mb),
    )


def _step_memory(row: Mapping[str, Any]) -> float | None:
    """What all tasks of a step used together; MaxRSS alone is only its largest task."""
    total = _value(row["used_total"], "mem")
    if total is not None:
        return read_used_memory_mb(total)
    largest: float | None = row["max_rss"]
    return None if largest is None else largest * max(1, row["tasks"])


def _highest(rows: list[Mapping[str, Any]], column: str, key: str, read: Any) -> float | None:
    found = [_value(row[column], key) for row in rows]
    values = [value for text_ in found if text_ is not None and (value := read(text_)) is not None]
    return max(values) if values else None


def _value(tres: str, key: str) -> str | None:
    """One entry of a usage list such as "cpu=00:00:01,mem=1024K"."""
    for part in tres.split(","):
        name, _, value = part.partition("=")
        if name == key:
            return value
    return None
