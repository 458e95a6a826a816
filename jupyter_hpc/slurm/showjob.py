"""`scontrol show job`: all that Slurm knows of a living job.

The form with several lines is asked for, not the one-line form: each free text
(name, command, comment, paths) is then the last entry of its own line, so blanks
and "=" inside it are no riddle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jupyter_hpc.slurm import hostlist
from jupyter_hpc.slurm.fields import (
    command,
    count,
    epoch,
    job_ids,
    number,
    optional,
    read_records,
    text,
)
from jupyter_hpc.slurm.models import GpuCount, JobDetail
from jupyter_hpc.slurm.states import canonical_state
from jupyter_hpc.slurm.units import gpu_counts, read_gres, read_memory_mb, read_tres, read_walltime


def show_job_argv(job_id: str) -> list[str]:
    """scontrol for one job, array task, array or het component."""
    return command("scontrol", "show", "job", *job_ids([job_id]))


def show_nodes_argv(job_id: str) -> list[str]:
    """scontrol for one job with what it has on each of its nodes."""
    return command("scontrol", "--details", "show", "job", *job_ids([job_id]))


#: "     Nodes=n[1-2] CPU_IDs=0-1 Mem=2048 GRES=gpu:a100:2(IDX:0-1),gpu:p4:0(IDX:)"
_ON_NODES = re.compile(r" {4,}Nodes=(?P<nodes>\S+) CPU_IDs=.* GRES=(?P<gres>.*)")


def read_node_gpus(stdout: str) -> dict[str, int]:
    """How many GPUs the job has on each node, in Slurm's order of them."""
    found: dict[str, int] = {}
    for line in stdout.split("\n"):
        known = _ON_NODES.fullmatch(line.rstrip())
        if known:
            gpus = sum(gpu.count for gpu in gpu_counts(read_gres(known["gres"])))
            found.update(dict.fromkeys(hostlist.expand(known["nodes"]), gpus))
    return found


def read_details(stdout: str) -> list[JobDetail]:
    """Every record in the answer: one per array task or het component."""
    return [_detail(fields) for fields in read_records(stdout, "JobId")]


def _detail(fields: Mapping[str, str]) -> JobDetail:
    def get(key: str) -> str:
        return text(fields.get(key, ""))

    array_id, array_task = optional(get("ArrayJobId")), optional(get("ArrayTaskId"))
    tres = read_tres(get("AllocTRES") or get("TRES") or get("ReqTRES"))
    gpus = tres.gpus or requested_gpus(fields)
    code, _, signal = get("ExitCode").partition(":")
    het_id = optional(get("HetJobId"))
    return JobDetail(
        id=f"{array_id}_{array_task}"
        if array_id and (array_task or "").isdigit()
        else get("JobId"),
        name=fields.get("JobName", ""),
        user=get("UserId").partition("(")[0],
        state=canonical_state(get("JobState")),
        reason=get("Reason"),
        partition=get("Partition"),
        account=get("Account"),
        qos=get("QOS"),
        nodes=get("NodeList"),
        node_count=count(get("NumNodes")),
        cpus=count(get("NumCPUs")),
        memory_mb=tres.memory_mb
        if tres.memory_mb is not None
        else read_memory_mb(get("MinMemoryNode")),
        gpus=sum(gpu.count for gpu in gpus),
        gpu_type=",".join(gpu.type for gpu in gpus if gpu.type),
        time_limit=read_walltime(get("TimeLimit")),
        run_time=read_walltime(get("RunTime")),
        submitted=epoch(get("SubmitTime")),
        eligible=epoch(get("EligibleTime")),
        started=epoch(get("StartTime")),
        ends=epoch(get("EndTime")),
        array_id=array_id,
        array_task=array_task,
        het_id=het_id,
        exit_code=number(code),
        signal=number(signal),
        restarts=count(get("Restarts")),
        requeue=get("Requeue") == "1",
        batch_host=get("BatchHost"),
        constraint=get("Features"),
        dependency=get("Dependency"),
        command=get("Command"),
        work_dir=get("WorkDir"),
        stdin=get("StdIn"),
        stdout=get("StdOut"),
        # 26.05 names it only where --error was given; else both go to one file.
        stderr=get("StdErr") or get("StdOut"),
        comment=get("Comment"),
        fields=dict(fields),
    )


def requested_gpus(fields: Mapping[str, str]) -> tuple[GpuCount, ...]:
    """The GPUs that were asked for, of the whole job; sites may not track those given."""
    nodes = max(1, count(fields.get("NumNodes", "")))
    tasks = max(1, count(fields.get("NumTasks", "")))
    for key, times in (("TresPerJob", 1), ("TresPerNode", nodes), ("TresPerTask", tasks)):
        found = gpu_counts(read_gres(fields.get(key, "")))
        if found:
            return tuple(GpuCount(gpu.type, gpu.count * times) for gpu in found)
    return ()
