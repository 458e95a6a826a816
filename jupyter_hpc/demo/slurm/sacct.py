"""sacct: what accounting knows of jobs and their steps."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jupyter_hpc.demo.slurm import facts
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import CANCELLED, PENDING, RUNNING, STATES, Job, Step
from jupyter_hpc.demo.slurm.listing import Field, fields_of, listing
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.units import (
    read_moment,
    write_hostlist,
    write_limit,
    write_memory,
    write_moment,
    write_span,
)
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "allocations": "X",
        "allusers": "a",
        "delimiter": ":",
        "endtime": "E:",
        "format": "o:",
        "jobs": "j:",
        "name": ":",
        "noheader": "n",
        "parsable": "p",
        "parsable2": "P",
        "partition": "r:",
        "starttime": "S:",
        "state": "s:",
        "user": "u:",
        "version": "V",
    }
)
DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"


@dataclass(frozen=True)
class Row:
    """One line: a job, the waiting rest of an array, or a step."""

    job: Job
    step: Step | None
    group: tuple[Job, ...]
    controller: Controller
    time_format: str | None

    @property
    def id(self) -> str:
        job = self.job
        name = job.display_id
        if job.array is not None and not job.has_own_id:
            name = f"{job.array.job_id}_[{facts.waiting_tasks(list(self.group))}]"
        return f"{name}.{self.step.id}" if self.step else name

    def moment(self, value: float, unknown: str = "Unknown") -> str:
        return write_moment(value, self.time_format, unknown)

    @property
    def start(self) -> float:
        return self.step.start if self.step else self.job.start

    @property
    def end(self) -> float:
        return self.step.end if self.step else self.job.end

    @property
    def elapsed(self) -> int:
        if self.job.state == PENDING or not self.start:
            return 0
        return int(self.end or time.time()) - int(self.start)


def _state(row: Row) -> str:
    if row.step is not None:
        return row.step.state
    if row.job.state == CANCELLED and row.job.cancelled_by is not None:
        return f"{CANCELLED} by {row.job.cancelled_by}"
    return row.job.state


def _exit(row: Row) -> str:
    code, number = row.step.exit if row.step else row.job.exit
    return f"{code}:{number}"


def _derived(row: Row) -> str:
    """The highest exit code of the steps that srun started."""
    code, number = max((s.exit for s in row.job.steps if s.id != "batch"), default=(0, 0))
    return f"{code}:{number}"


def _job_only(read: Callable[[Row], str]) -> Callable[[Row], str]:
    return lambda row: "" if row.step else read(row)


def _start(row: Row) -> str:
    if row.job.state == PENDING:
        return "Unknown"
    return row.moment(row.start, "None") if row.job.shares or row.step else "None"


def _reason(row: Row) -> str:
    """What it waited for, as far as accounting keeps it: what ended it is not told."""
    return row.job.reason if row.job.state == CANCELLED and not row.job.shares else "None"


def _cpu_seconds(row: Row) -> float:
    if row.step:
        return row.step.cpu_seconds
    return sum(step.cpu_seconds for step in row.job.steps)


def _cpu_time(row: Row) -> str:
    seconds = _cpu_seconds(row)
    if not seconds:
        return "00:00:00"
    whole = int(seconds)
    hours = f"{whole // 3600:02}:" if whole >= 3600 else ""
    return f"{hours}{whole % 3600 // 60:02}:{seconds % 60:06.3f}"


def _ended_step(read: Callable[[Step], str]) -> Callable[[Row], str]:
    return lambda row: read(row.step) if row.step and row.step.end else ""


def _usage(step: Step, tasks: int) -> str:
    cpu = write_span(step.cpu_seconds * tasks / max(1, step.tasks), full=True)
    return f"cpu={cpu},energy=0,fs/disk=0,mem={step.memory_kib * tasks}K,pages=0,vmem=0"


def _tres(row: Row) -> str:
    if row.step is None:
        return facts.tres_sorted(row.job, row.controller.inventory) if row.job.shares else ""
    parts = facts.tres_parts(row.job, row.controller.inventory)
    parts.pop("billing")
    parts["cpu"] = str(row.step.cpus)
    return ",".join(f"{name}={parts[name]}" for name in sorted(parts))


def _cpus(row: Row) -> str:
    return str(row.step.cpus if row.step else row.job.cpus)


def _memory(row: Row) -> str:
    return write_memory(facts.memory_total(row.job, row.controller.inventory))


def _nodes(row: Row) -> str:
    names = row.step.nodes if row.step else row.job.node_names
    return write_hostlist(names) or "None assigned"


_FIELDS: tuple[tuple[str, int, Callable[[Row], str]], ...] = (
    ("Account", 10, lambda r: r.job.request.account),
    ("AdminComment", 14, lambda r: ""),
    ("AllocCPUS", 10, _cpus),
    ("AllocNodes", 10, lambda r: str(len(r.job.shares))),
    ("AllocTRES", 10, _tres),
    ("Cluster", 10, lambda r: r.controller.inventory.name),
    ("Comment", 14, _job_only(lambda r: r.job.request.comment)),
    ("CPUTimeRAW", 10, lambda r: str(r.elapsed * int(_cpus(r)))),
    ("DerivedExitCode", 15, _job_only(_derived)),
    ("Elapsed", 10, lambda r: write_span(r.elapsed, full=True)),
    ("ElapsedRaw", 10, lambda r: str(r.elapsed)),
    ("End", 19, lambda r: r.moment(r.end)),
    ("ExitCode", 8, _exit),
    ("JobID", -12, lambda r: r.id),
    ("JobIDRaw", -12, lambda r: r.step.full_id if r.step else str(r.job.id)),
    ("JobName", 10, lambda r: r.step.name if r.step else r.job.request.name),
    ("MaxRSS", 10, _ended_step(lambda s: f"{s.memory_kib}K")),
    ("NCPUS", 10, _cpus),
    ("NNodes", 8, lambda r: str(len(r.job.shares) or r.job.request.nodes)),
    ("NodeList", 15, _nodes),
    ("NTasks", 8, _ended_step(lambda s: str(s.tasks))),
    ("Partition", 10, _job_only(lambda r: r.job.request.partition)),
    ("QOS", 10, _job_only(lambda r: r.job.request.qos)),
    ("Reason", 22, _job_only(_reason)),
    ("ReqCPUS", 8, lambda r: str(r.job.cpus)),
    ("ReqMem", 10, _job_only(_memory)),
    (
        "ReqTRES",
        10,
        _job_only(lambda r: facts.tres_sorted(r.job, r.controller.inventory)),
    ),
    ("Start", 19, _start),
    ("State", 10, _state),
    ("Submit", 19, lambda r: r.moment(r.step.start if r.step else r.job.submit)),
    ("Timelimit", 10, _job_only(lambda r: write_limit(r.job.request.time_limit, full=True))),
    ("TotalCPU", 10, _cpu_time),
    ("TRESUsageInAve", 14, _ended_step(lambda s: _usage(s, 1))),
    ("TRESUsageInTot", 14, _ended_step(lambda s: _usage(s, s.tasks))),
    ("User", 9, _job_only(lambda r: r.controller.inventory.user)),
    ("WorkDir", 22, _job_only(lambda r: r.job.request.work_dir)),
)
FIELDS: Mapping[str, Field[Row]] = {
    name.lower(): Field(name, width, read) for name, width, read in _FIELDS
}


async def sacct(call: Call, controller: Controller) -> int:
    """Print accounting records."""
    pairs, words = parse("sacct", call.arguments, OPTIONS, help_line=False)
    options = dict(pairs)
    if words:
        lines = [f"sacct: error:  {word}" for word in words]
        raise BadCommand("sacct: error: Unknown arguments:", *lines)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    fields = fields_of("sacct", options, DEFAULT, FIELDS)
    jobs = _select(options, controller)
    rows = _rows(jobs, controller, call, steps="allocations" not in options)
    call.out(listing(fields, rows, options))
    return 0


def _select(options: Mapping[str, str], controller: Controller) -> list[Job]:
    now = time.time()
    user = options.get("user")
    if user is not None and user not in (controller.inventory.user, str(controller.inventory.uid)):
        raise BadCommand(f"sacct: error: Invalid user id: {user}")
    jobs = list(controller.jobs)
    if "jobs" in options:
        for text in options["jobs"].split(","):
            if not re.match(r"\d", text):
                raise BadCommand(f"sacct: fatal: Bad job/step specified: {text}")
        named = {
            job
            for text in options["jobs"].split(",")
            for job in controller.jobs.find(text.partition(".")[0])
        }
        jobs = [job for job in jobs if job in named]
    else:
        day = time.localtime(now)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        begin = _moment(options.get("starttime"), now, midnight)
        end = _moment(options.get("endtime"), now, now)
        jobs = [job for job in jobs if job.submit <= end and (not job.end or job.end >= begin)]
    if "state" in options:
        short = {code: name for name, code in STATES.items()}
        wanted = [short.get(word, word) for word in options["state"].upper().split(",")]
        for word in wanted:
            if word not in STATES:
                raise BadCommand(f"sacct: fatal: unrecognized job state value '{word}'")
        jobs = [job for job in jobs if job.state in wanted]
    if "name" in options:
        jobs = [job for job in jobs if job.request.name in options["name"].split(",")]
    if "partition" in options:
        jobs = [job for job in jobs if job.request.partition in options["partition"].split(",")]
    return jobs


def _moment(text: str | None, now: float, usual: float) -> float:
    if text is None:
        return usual
    moment = read_moment(text, now)
    if moment is None:
        raise BadCommand(f"Invalid time specification (pos=0): {text}")
    return moment


def _rows(jobs: list[Job], controller: Controller, call: Call, *, steps: bool) -> list[Row]:
    form = call.environment.get("SLURM_TIME_FORMAT")
    rows = []
    seen: set[int] = set()
    for job in jobs:
        group: tuple[Job, ...] = (job,)
        if job.array is not None and not job.has_own_id:
            if job.array.job_id in seen:
                continue
            seen.add(job.array.job_id)
            family = controller.jobs.family(job.array.job_id)
            group = tuple(other for other in family if not other.has_own_id)
        rows.append(Row(job, None, group, controller, form))
        if steps and (job.state == RUNNING or job.steps):
            rows += [Row(job, step, group, controller, form) for step in job.steps]
    return rows
