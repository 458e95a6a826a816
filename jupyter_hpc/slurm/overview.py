"""The values of a cluster at a glance: what is free, what is out of order, what is open to me."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuUse:
    """The GPUs of one type: all of them, those in use, and those that a job could get now."""

    type: str
    total: int
    used: int
    free: int


@dataclass(frozen=True)
class CpuUse:
    """CPUs as sinfo counts them; `other` are those of nodes that take no jobs."""

    allocated: int
    idle: int
    other: int
    total: int


@dataclass(frozen=True)
class PartitionUse:
    """What of a partition is free at this moment, beside its limits on time."""

    name: str
    default: bool
    state: str
    max_time: int | None  #: None: unlimited
    default_time: int | None
    max_nodes: int | None
    gpus: tuple[GpuUse, ...]
    cpus: CpuUse
    nodes: Mapping[str, int]  #: how many of each state


@dataclass(frozen=True)
class Unavailable:
    """Nodes that take no jobs, with the reason that somebody gave."""

    nodes: str
    count: int
    state: str
    reason: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class AccountUse:
    """An account of the user with what is open to it; None: no limit, or not known."""

    account: str
    default: bool
    partition: str  #: "" for all partitions
    qos: tuple[str, ...]
    default_qos: str
    max_wall: int | None
    max_jobs: int | None
    fair_share: float | None


@dataclass(frozen=True)
class Overview:
    """A cluster at a glance; `problems` say what could not be asked."""

    partitions: tuple[PartitionUse, ...]
    unavailable: tuple[Unavailable, ...]
    accounts: tuple[AccountUse, ...]
    problems: tuple[str, ...] = ()
