"""The tables of a cluster profile as frozen values; their members follow keys.py."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_hpc.clusters.values import CLUSTER, duration_seconds
from jupyter_hpc.slurm.rates import Rates


@dataclass(frozen=True)
class Login:
    """How to reach the cluster; None means: as ssh would choose it."""

    host: tuple[str, ...] = ()
    user: str | None = None
    port: int | None = None
    jump: tuple[str, ...] = ()
    ssh_config: str | None = None
    network: str = ""
    credential: tuple[str, ...] = ()
    lifetime: str | None = None
    renew: tuple[str, ...] = ()
    renew_note: str = ""
    max_attempts: int | None = None
    refused: str = ""

    @property
    def expiring(self) -> bool:
        """Whether the site takes something that ends: a certificate or a ticket."""
        return bool({"certificate", "kerberos"}.intersection(self.credential))


@dataclass(frozen=True)
class Allocation:
    """What to ask Slurm for; None leaves the choice to the cluster."""

    partition: str | None = None
    account: str | None = None
    cpu_account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    time: str | None = None
    nodes: int | None = None
    tasks_per_node: int | None = None
    cpus: int | Literal["cluster"] | None = None  #: None: nobody has said
    memory: str | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    gres: tuple[str, ...] = ()
    local_disk: str | None = None
    extra: tuple[str, ...] = ()


def decided(value: Any) -> Any:
    """A value for Slurm: None where the choice is left to the cluster."""
    return None if value == CLUSTER else value


@dataclass(frozen=True)
class Preset(Allocation):
    """An allocation with a name; the members that it adds say what it may be used for."""

    use: str = "any"
    max_time: str | None = None
    max_nodes: int | None = None
    max_gpus: int | None = None


@dataclass(frozen=True)
class PartitionRules:
    """What goes with one partition."""

    qos: str | None = None
    account: str | None = None
    max_time: str | None = None
    max_nodes: int | None = None
    max_gpus: int | None = None
    gpu_types: tuple[str, ...] = ()
    gpu_counts: tuple[str, ...] = ()
    whole_nodes: bool = False
    note: str = ""


@dataclass(frozen=True)
class Limits:
    """What holds for every job of the cluster."""

    min_time: str | None = None
    max_time: str | None = None
    max_nodes: int | None = None
    max_gpus: int | None = None
    gpu_types: tuple[str, ...] = ()
    gpu_counts: tuple[str, ...] = ()
    whole_nodes: bool = False
    max_jobs: int | None = None


@dataclass(frozen=True)
class SlurmSettings:
    """How this site's Slurm wants to be spoken to."""

    gpu_flag: str = "gpus"
    partition_rule: str = "optional"
    account_rule: str = "optional"
    account_prefix: str | None = None
    poll_seconds: int = 60
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """What has to happen in a shell before Python is the right one."""

    setup: tuple[str, ...] = ()
    jupyter_setup: tuple[str, ...] = ()
    job_setup: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    shell: str = "plain"
    style: str = "any"
    wheels: str = ""
    unset: tuple[str, ...] = ()
    internet: str = "unknown"

    @property
    def for_jupyter(self) -> tuple[str, ...]:
        """The shell lines of a session, modules included."""
        return (*self._loads, *self.setup, *self.jupyter_setup)

    @property
    def for_jobs(self) -> tuple[str, ...]:
        """The shell lines of a batch job, modules included."""
        return (*self._loads, *self.setup, *self.job_setup)

    @property
    def _loads(self) -> tuple[str, ...]:
        return tuple(f"module load {shlex.quote(name)}" for name in self.modules)


@dataclass(frozen=True)
class JupyterSettings:
    """How JupyterLab is started and reached."""

    port: int | None = None
    root_dir: str | None = None
    command: tuple[str, ...] = ("jupyter", "lab")
    launch: str = "salloc"
    transport: str = "auto"
    idle_release: str | None = None
    carry_each: str = "256M"
    carry_total: str = "1G"

    @property
    def idle_release_seconds(self) -> int | None:
        """`idle_release` in seconds; None when idle jobs are kept."""
        return duration_seconds(self.idle_release) if self.idle_release else None


@dataclass(frozen=True)
class BatchSettings:
    """Where the runs of batch jobs are kept, and what they get of the notebook's folder."""

    run_dir: str = ""
    small_kilobytes: int = 1000
    data_files: int = 100
    data_megabytes: int = 20
    written_megabytes: int = 2000


@dataclass(frozen=True)
class Storage:
    """One storage area of the cluster."""

    path: str
    kind: str = "work"
    shared: bool = True
    size: str | None = None
    files: int | None = None
    purge_days: int | None = None
    backup: bool = False
    read_only: bool = False
    ram: bool = False
    size_option: str = ""
    quota_command: tuple[str, ...] = ()
    quota_format: str = "text"
    note: str = ""


@dataclass(frozen=True)
class Budget:
    """How the site counts what is used."""

    command: tuple[str, ...] = ()
    unit: str = ""
    rates: Rates = field(default_factory=dict)
    remaining: str | None = None
    warn_below: float | None = None


@dataclass(frozen=True)
class Transfer:
    """Where large files travel."""

    host: tuple[str, ...] | None = None
    note: str = ""
