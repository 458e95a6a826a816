"""Jobs, their parts and their places: the values that the controller changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_hpc.demo.spawner import Spawned

PENDING = "PENDING"
RUNNING = "RUNNING"
COMPLETED = "COMPLETED"
FAILED = "FAILED"
CANCELLED = "CANCELLED"
TIMEOUT = "TIMEOUT"
COMPLETING = "COMPLETING"

#: State words and the short codes of squeue's %t; also the list that squeue prints
#: when it is asked for a state that does not exist.
STATES: Mapping[str, str] = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "OUT_OF_MEMORY": "OOM",
    "COMPLETING": "CG",
    "CONFIGURING": "CF",
    "RESIZING": "RS",
    "RESV_DEL_HOLD": "RD",
    "REQUEUED": "RQ",
    "REQUEUE_FED": "RF",
    "REQUEUE_HOLD": "RH",
    "REVOKED": "RV",
    "SIGNALING": "SI",
    "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO",
    "STOPPED": "ST",
}


@dataclass(frozen=True)
class SignalRequest:
    """--signal=[B:]SIG[@seconds]: sent so long before the time limit."""

    number: int
    seconds: int
    batch_only: bool


@dataclass(frozen=True)
class Gpus:
    """GPUs asked for: how many, of which type, counted per what."""

    count: int
    type: str = ""
    per: str = "job"  #: "job", "node" or "task"


@dataclass(frozen=True)
class Request:
    """What salloc, sbatch or srun asked for."""

    name: str
    partition: str
    account: str
    qos: str
    time_limit: int  #: seconds
    nodes: int = 1
    tasks: int = 1
    tasks_given: bool = False
    tasks_per_node: int | None = None
    cpus_per_task: int = 1
    cpus_per_task_given: bool = False
    memory_mb: int | None = None  #: per node
    memory_per_cpu_mb: int | None = None
    gpus: Gpus | None = None
    gpu_words: tuple[str, str] = ("", "")  #: option and value as given: TresPerJob, TresPerNode
    nodelist: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    constraint: str = ""
    exclusive: bool = False
    comment: str = ""
    begin: float = 0.0
    dependency: str = ""
    hold: bool = False
    requeue: bool = True
    nice: int = 0
    signal: SignalRequest | None = None
    work_dir: str = "/"
    stdin: str = "/dev/null"
    stdout: str = ""
    stderr: str = ""
    append: bool = False
    command: str = ""
    arguments: tuple[str, ...] = ()
    immediate: float | None = None
    reservation: str = ""


@dataclass(frozen=True)
class Share:
    """What a job holds on one node."""

    node: str
    cpus: int
    memory_mb: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True)
class ArrayTask:
    """Where a task stands in its array."""

    job_id: int
    task: int
    count: int
    lowest: int
    highest: int
    step: int
    limit: int | None


@dataclass(eq=False)
class Step:
    """One step of a job: "batch", "extern", or a number given by srun."""

    job: Job
    id: str
    name: str
    tasks: int
    cpus: int
    nodes: tuple[str, ...]
    overlap: bool = False
    gpus: int | None = None  #: on each node; None: all that the job has there
    state: str = RUNNING
    start: float = 0.0
    end: float = 0.0
    exit: tuple[int, int] = (0, 0)
    #: What `state` becomes when a signal ends it.
    ends_as: str = CANCELLED
    processes: list[Spawned] = field(default_factory=list)
    cpu_seconds: float = 0.0
    memory_kib: int = 0  #: of its largest process
    #: Told with one line when the step is about to be ended.
    listeners: list[Callable[[str], None]] = field(default_factory=list)

    @property
    def full_id(self) -> str:
        return f"{self.job.id}.{self.id}"


@dataclass(eq=False)
class Job:
    """One job or one task of an array."""

    id: int
    request: Request
    submit: float = 0.0
    script: bytes | None = None
    environment: dict[str, str] = field(default_factory=dict)
    host: str = ""
    client_pid: int = 0
    submit_dir: str = "/"
    state: str = PENDING
    reason: str = "None"
    array: ArrayTask | None = None
    has_own_id: bool = True  #: a waiting array task shares its array's id
    eligible: float = 0.0
    start: float = 0.0
    end: float = 0.0
    planned: float = 0.0  #: when the planner expects it to start, 0 if unknown
    completing: bool = False
    goes_back: bool = False  #: to the queue, once its processes have ended
    shares: tuple[Share, ...] = ()
    exit: tuple[int, int] = (0, 0)  #: code and signal as accounting has them
    script_exit: tuple[int, int] | None = None  #: of the batch script, whatever ended the job
    cancelled_by: int | None = None
    steps: list[Step] = field(default_factory=list)
    next_step: int = 0
    restarts: int = 0
    held: str = ""  #: "JobHeldUser" or "JobHeldAdmin"
    signalled: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def shown_state(self) -> str:
        return COMPLETING if self.completing or self.goes_back else self.state

    @property
    def active(self) -> bool:
        """Whether it holds resources."""
        return self.state == RUNNING or self.completing

    @property
    def done(self) -> bool:
        over = self.state not in (PENDING, RUNNING) and not self.completing
        return over and not self.goes_back

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(share.node for share in self.shares)

    @property
    def cpus(self) -> int:
        if self.shares:
            return sum(share.cpus for share in self.shares)
        return max(self.request.tasks * self.request.cpus_per_task, self.request.nodes)

    @property
    def display_id(self) -> str:
        if self.array is None:
            return str(self.id)
        return f"{self.array.job_id}_{self.array.task}"

    @property
    def end_expected(self) -> float:
        return self.end or (self.start + self.request.time_limit if self.start else 0.0)

    def new_step(self, name: str, tasks: int, cpus: int, nodes: tuple[str, ...]) -> Step:
        """The next numbered step."""
        step = Step(self, str(self.next_step), name, tasks, cpus, nodes, start=time.time())
        self.next_step += 1
        self.steps.append(step)
        return step

    def notify(self) -> None:
        """Wake everyone who waits for a change of this job."""
        self.changed.set()
        self.changed = asyncio.Event()
