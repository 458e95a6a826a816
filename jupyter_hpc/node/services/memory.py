"""Memory used against the job's real limit: cgroup v2, cgroup v1, else the processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from jupyter_hpc.cgroup import PROC, read_group


@dataclass(frozen=True)
class Memory:
    """Bytes used and allowed, and in words what the two are about."""

    used: int
    limit: int | None
    source: str
    scope: str
    taken_at: float


def read_memory(job_limit: int | None = None, proc: Path = PROC) -> Memory | None:
    """The memory of this job on this node; None where nothing can be read.

    `job_limit` is the limit that the scheduler knows, in bytes, for sites that do
    not set it as a cgroup limit. Blocks shortly; call it off the event loop.
    """
    group = read_group(job_limit, proc)
    if group is None:
        return _processes(job_limit)
    scope = "this job on this node" if group.of_job else "this session on this node"
    return Memory(group.used, group.limit, group.version, scope, time.time())


def _processes(job_limit: int | None) -> Memory | None:
    """The memory of this server and its kernels, for machines without cgroups."""
    try:
        import psutil
    except ImportError:
        return None
    used = 0
    me = psutil.Process(os.getpid())
    for process in (me, *me.children(recursive=True)):
        try:
            used += process.memory_info().rss
        except psutil.Error:
            continue
    return Memory(
        used,
        job_limit or int(psutil.virtual_memory().total),
        "processes",
        "this server and its kernels"
        + ("" if job_limit else ", against the memory of the whole machine"),
        time.time(),
    )
