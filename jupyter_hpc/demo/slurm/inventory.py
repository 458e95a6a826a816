"""What the embedded cluster consists of, and what its user may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jupyter_hpc.demo.slurm.version import DEFAULT_RELEASE

HOUR = 3600
DAY = 24 * HOUR


@dataclass(frozen=True)
class Node:
    """One compute host with what it claims to have."""

    name: str
    cpus: int
    memory_mb: int
    gpu_type: str = ""
    gpus: int = 0
    features: tuple[str, ...] = ()

    @property
    def gres(self) -> str:
        return f"gpu:{self.gpu_type}:{self.gpus}" if self.gpus else "(null)"


@dataclass(frozen=True)
class Partition:
    """A queue and its limits, in seconds."""

    name: str
    nodes: tuple[str, ...]
    max_time: int
    default_time: int
    default: bool = False


@dataclass(frozen=True)
class Qos:
    """A quality of service; None means no limit."""

    name: str
    priority: int
    max_wall: int | None = None
    max_jobs_per_user: int | None = None
    max_submit_per_user: int | None = None
    max_gpus_per_user: int | None = None


@dataclass(frozen=True)
class Account:
    """An account that the user may charge; `max_cpus` is what all its jobs may hold at once."""

    name: str
    max_cpus: int | None = None


@dataclass(frozen=True)
class Inventory:
    """The whole cluster."""

    name: str
    user: str
    uid: int
    gid: int
    nodes: Mapping[str, Node]
    partitions: Mapping[str, Partition]
    qos: Mapping[str, Qos]
    accounts: Mapping[str, Account]
    default_account: str
    default_qos: str
    login: str = "demo-login"
    memory_per_cpu_mb: int = 512
    #: Seconds between the polite signal and the one that cannot be refused.
    kill_wait: float = 5.0
    #: Seconds for which a finished job still shows in squeue -t all and scontrol.
    min_job_age: float = 300.0
    #: Seconds that every job waits at least, to make the queue visible.
    queue_delay: float = 0.0
    #: The release of Slurm whose answers it gives; see version.py.
    slurm: str = DEFAULT_RELEASE

    @property
    def default_partition(self) -> str:
        return next(p.name for p in self.partitions.values() if p.default)


def standard(
    user: str,
    uid: int,
    gid: int,
    *,
    queue_delay: float = 0.0,
    kill_wait: float = 5.0,
    slurm: str = DEFAULT_RELEASE,
) -> Inventory:
    """The cluster that `jupyter-hpc demo` starts."""
    nodes = [
        Node("demo-cpu1", 8, 32000),
        Node("demo-gpu1", 8, 32000, "a100", 2, ("a100",)),
    ]
    partitions = [
        Partition("gpu", ("demo-gpu1",), 4 * HOUR, 600),
        Partition("cpu", ("demo-cpu1",), DAY, 600, default=True),
        Partition("all", ("demo-cpu1", "demo-gpu1"), 2 * HOUR, 600),
    ]
    qos = [
        Qos("normal", 10),
        Qos("short", 100, max_wall=300, max_jobs_per_user=2, max_submit_per_user=4),
        Qos("gpu1", 50, max_gpus_per_user=1),
    ]
    accounts = [Account("research"), Account("tiny", max_cpus=2)]
    return Inventory(
        name="demo",
        user=user,
        uid=uid,
        gid=gid,
        nodes={node.name: node for node in nodes},
        partitions={partition.name: partition for partition in partitions},
        qos={entry.name: entry for entry in qos},
        accounts={account.name: account for account in accounts},
        default_account="research",
        default_qos="normal",
        queue_delay=queue_delay,
        kill_wait=kill_wait,
        slurm=slurm,
    )
