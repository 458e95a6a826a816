"""`scontrol show job`: all that Slurm knows of a living job.

The form with several lines is asked for, not the one-line form: each free text
(name, command, comment, paths) is then the last entry of its own line, so blanks
and "=" inside it are no riddle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jupyter_hpc.slurm import hostlist
from jupyter_hpc.slurm.fields import command, count, epoch, number, optional, text
from jupyter_hpc.slurm.ids import job_ids
from jupyter_hpc.slurm.models import GpuCount, JobDetail
from jupyter_hpc.slurm.states import canonical_state
from jupyter_hpc.slurm.units import gpu_counts, read_gres, read_memory_mb, read_tres, read_walltime

_ENTRY = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9_/:.]*)=")
#: Keys whose value runs to the end of the line, whatever it holds.
_FREE = frozenset(
    {
        *("JobName", "Command", "WorkDir", "StdErr", "StdIn", "StdOut", "SubmitLine"),
        *("Comment", "AdminComment", "SystemComment", "Extra", "Dependency"),
    }
)
#: Whose job it is. A name or comment can hold a line that looks like one of Slurm's own, so
#: where two lines disagree about this, the owner is not known.
_OWNER = "UserId"


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


def read_records(stdout: str, first_key: str) -> Iterator[dict[str, str]]:
    """Records of `scontrol show`, each starting with a line "FIRST_KEY=…"."""
    record: dict[str, str] = {}
    open_key: str | None = None
    for line in stdout.split("\n"):
        starts = line.startswith(f"{first_key}=")
        if starts and record:
            yield record
            record = {}
        if starts or (line.startswith("   ") and _ENTRY.match(line, 3)):
            open_key = _read_line(line.strip(" "), record)
        elif open_key and line.strip():
            record[open_key] += "\n" + line  # a line break inside a name or comment
    if record:
        yield record


def _read_line(line: str, record: dict[str, str]) -> str | None:
    """Add the entries of one line; returns the free one that may go on below."""
    position = 0
    while found := _ENTRY.match(line, position):
        key = found["key"]
        if key in _FREE:
            record.setdefault(key, line[found.end() :])
            return key
        following = re.compile(rf" +(?={_ENTRY.pattern})").search(line, found.end())
        end = following.start() if following else len(line)
        value = line[found.end() : end]
        if record.setdefault(key, value) != value and key == _OWNER:
            record[key] = ""
        position = following.end() if following else len(line)
    return None


def _detail(fields: Mapping[str, str]) -> JobDetail:
    def get(key: str) -> str:
        return text(fields.get(key, ""))

    array_id, array_task = optional(get("ArrayJobId")), optional(get("ArrayTaskId"))
    tres = read_tres(get("AllocTRES") or get("TRES") or get("ReqTRES"))
    gpus = tres.gpus or _requested(fields)
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


def _requested(fields: Mapping[str, str]) -> tuple[GpuCount, ...]:
    """GPUs from the request, for sites that do not track gres/gpu as TRES."""
    nodes = max(1, count(fields.get("NumNodes", "")))
    tasks = max(1, count(fields.get("NumTasks", "")))
    for key, times in (("TresPerJob", 1), ("TresPerNode", nodes), ("TresPerTask", tasks)):
        found = gpu_counts(read_gres(fields.get(key, "")))
        if found:
            return tuple(GpuCount(gpu.type, gpu.count * times) for gpu in found)
    return ()
