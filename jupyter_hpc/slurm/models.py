"""The values that Slurm's commands are read into, and the request that is sent.

Texts are kept exactly as Slurm gave them, hostile ones included: cleaning is done
where they are shown (`jupyter_hpc.text.printable`). Times are epoch seconds, spans
are seconds, memory is in MiB; None means that Slurm did not say, or said "none".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

from jupyter_hpc.slurm.states import Phase as Phase
from jupyter_hpc.slurm.states import Stated


@dataclass(frozen=True)
class GpuCount:
    """So many GPUs of one type; type "" where Slurm names none."""

    type: str
    count: int


@dataclass(frozen=True)
class Job(Stated):
    """One row of squeue: a job, an array task, or the waiting rest of an array."""

    id: str  #: as squeue shows it: "123", "35_3", "35_[2-4%1]", "12+0"
    job_id: str  #: the plain number that Slurm keeps inside
    name: str
    user: str
    state: str
    reason: str
    partition: str
    account: str
    qos: str
    nodes: str  #: hostlist text, "" while pending
    node_count: int
    tasks: int
    cpus: int
    memory_mb: int | None
    gpus: int
    gpu_type: str  #: "" when unnamed, several joined by ","
    time_limit: int | None
    time_left: int | None
    time_used: int | None
    submitted: int | None
    started: int | None  #: of a pending job: None, see `estimated_start`
    ends: int | None
    estimated_start: int | None
    array_id: str | None  #: "35" for every part of that array
    array_tasks: str | None  #: "3", or "2-4%1" for the waiting rest
    het_id: str | None
    het_offset: int | None
    priority: int | None
    restarts: int
    dependency: str
    constraint: str
    work_dir: str
    comment: str
    over_time: bool = False  #: past its time limit and about to be ended

    @property
    def target(self) -> str:
        """What scancel and scontrol take for exactly this row.

        The waiting rest of an array is named by its ids without the "%k" throttle,
        which those commands refuse.
        """
        if self.array_id and self.array_tasks and not self.array_tasks.isdigit():
            tasks = self.array_tasks.partition("%")[0]
            return self.array_id if "..." in tasks else f"{self.array_id}_[{tasks}]"
        return self.id

    def task_ids(self, most: int) -> list[str]:
        """The ids of the array tasks that this row stands for, at most so many of them.

        Empty for a plain job; a list that Slurm has cut ends where it is cut.
        """
        if self.array_id is None or self.array_tasks is None:
            return []
        tasks = self.array_tasks.partition("%")[0]
        numbers = chain.from_iterable(_task_numbers(part) for part in tasks.split(","))
        return [f"{self.array_id}_{number}" for number in islice(numbers, most)]

    def holds(self, job_id: str) -> bool:
        """Whether a person who writes that id means this row, or a part of it."""
        number, _, task = job_id.partition("_")
        if number != (self.array_id or self.job_id) or not task:
            return job_id in (self.id, self.array_id or self.job_id)
        return _names_task(self.array_tasks or "", task)


def _names_task(tasks: str, task: str) -> bool:
    """Whether a task is one of "3", "1,4-6%2" or a list of them that Slurm has cut."""
    tasks = tasks.partition("%")[0]
    if not task.isdigit() or "..." in tasks:  # several tasks, or a list that Slurm has cut
        return bool(tasks)
    return any(int(task) in _task_numbers(part) for part in tasks.split(",") if part)


def _task_numbers(text: str) -> range:
    """The task numbers of "3", "2-4" or "1-9:2"; none for anything else."""
    found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", text)
    if not found:
        return range(0)
    return range(int(found[1]), int(found[2] or found[1]) + 1, int(found[3] or 1) or 1)


@dataclass(frozen=True)
class JobDetail(Stated):
    """`scontrol show job`: everything Slurm remembers of one living job."""

    id: str
    name: str
    user: str
    state: str
    reason: str
    partition: str
    account: str
    qos: str
    nodes: str
    node_count: int
    cpus: int
    memory_mb: int | None
    gpus: int
    gpu_type: str
    time_limit: int | None
    run_time: int | None
    submitted: int | None
    eligible: int | None
    started: int | None
    ends: int | None
    array_id: str | None
    array_task: str | None
    het_id: str | None
    exit_code: int | None
    signal: int | None
    restarts: int
    requeue: bool
    batch_host: str
    constraint: str
    dependency: str
    command: str
    work_dir: str
    stdin: str
    stdout: str
    stderr: str
    comment: str
    fields: Mapping[str, str] = field(default_factory=dict)  #: every key as Slurm wrote it


@dataclass(frozen=True)
class FinishedStep:
    """One sacct record of a step; `id` is 17.0 or 17.batch."""

    id: str
    name: str
    state: str


@dataclass(frozen=True)
class FinishedJob(Stated):
    """One sacct record of a job, with what its steps used where that was asked for."""

    id: str
    job_id: str
    name: str
    user: str
    state: str
    cancelled_by: str | None  #: user id, of "CANCELLED by 1000"
    exit_code: int | None
    signal: int | None
    reason: str
    partition: str
    account: str
    qos: str
    nodes: str
    node_count: int
    cpus: int
    memory_mb: int | None  #: of the whole job
    gpus: int
    gpu_type: str
    time_limit: int | None
    elapsed: int | None
    submitted: int | None
    started: int | None
    ended: int | None
    work_dir: str
    comment: str
    usage: Usage | None = None
    step_state: str = ""  #: of the step that explains most, where steps were asked for

    def holds(self, job_id: str) -> bool:
        """Whether this is the record of that job or task, or of one of its tasks.

        Tasks that never started have one record together, such as 17_[2-3%1].
        """
        number, _, task = job_id.partition("_")
        own, _, tasks = self.id.partition("_")
        return number == own and (not task or _names_task(tasks.strip("[]"), task))


@dataclass(frozen=True)
class Usage:
    """What the steps of a finished or running job used, added up."""

    cpu_seconds: float | None  #: user and system time of all steps
    max_memory_mb: float | None  #: highest sum over the tasks of one step, as sampled
    gpu_utilization: float | None = None  #: percent; only where the site gathers it
    gpu_memory_mb: float | None = None


@dataclass(frozen=True)
class Partition:
    """One partition with its limits."""

    name: str
    default: bool
    available: bool
    state: str
    max_time: int | None  #: None: unlimited
    default_time: int | None
    max_nodes: int | None
    min_nodes: int
    node_count: int
    cpus: int
    cpus_per_node: int | None
    memory_mb_per_node: int | None
    gpus: tuple[GpuCount, ...]  #: per type, over the whole partition
    node_gpus: tuple[GpuCount, ...]  #: the most of each type that one node has
    nodes: str
    features: tuple[str, ...] = ()
    idle_nodes: int | None = None
    allow_accounts: tuple[str, ...] | None = None  #: None: all
    deny_accounts: tuple[str, ...] = ()
    allow_qos: tuple[str, ...] | None = None
    deny_qos: tuple[str, ...] = ()
    allow_groups: tuple[str, ...] | None = None
    max_memory_mb_per_node: int | None = None
    max_cpus_per_node: int | None = None
    default_memory_mb_per_cpu: int | None = None
    qos: str = ""


@dataclass(frozen=True)
class Association:
    """One account the user may charge, with the limits set on it."""

    account: str
    user: str
    partition: str  #: "" for all partitions
    qos: tuple[str, ...]
    default_qos: str
    max_wall: int | None
    max_jobs: int | None
    max_submit: int | None
    max_tres: str
    group_tres: str
    default: bool = False


@dataclass(frozen=True)
class Qos:
    """One quality of service with the limits that people run into."""

    name: str
    priority: int
    max_wall: int | None
    max_jobs_per_user: int | None
    max_submit_per_user: int | None
    max_tres_per_user: str
    max_tres_per_job: str
    min_tres_per_job: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Share:
    """sshare's line for one account of the user."""

    account: str
    user: str
    raw_shares: str
    raw_usage: int
    effective_usage: float | None
    fair_share: float | None
    tres_minutes_used: Mapping[str, int] = field(default_factory=dict)
    tres_minutes_limit: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What is asked of salloc or sbatch; None and "" mean "let the site decide".

    `time` and `memory` stay in Slurm's own spelling, so that a script shows what
    the person wrote. `gpu_flag` is the site's way to ask for GPUs: "gpus",
    "gpus-per-node" or "gres". `extra` holds further options, one argument each.
    """

    name: str = ""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    time: str | None = None
    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus: int | None = None  #: per task
    memory: str | None = None  #: per node
    gpus: int | None = None
    gpu_type: str | None = None
    gpu_flag: str = "gpus-per-node"
    routed: bool = False  #: the site chooses the partition by what is asked for
    reservation: str | None = None
    comment: str | None = None
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """When and where Slurm expects a job to start; it moves as other jobs do."""

    start: int | None
    nodes: str
    partition: str = ""
    cpus: int | None = None


@dataclass(frozen=True)
class Submitted:
    """What `sbatch --parsable` answered."""

    job_id: str
    cluster: str = ""
    messages: tuple[str, ...] = ()  #: what the site said on stderr
