"""Memory used against the job's real limit: cgroup v2, cgroup v1, else the processes."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

#: Kernels say "no limit" with a number near 2**63 in cgroup v1.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Memory:
    """Bytes used and allowed, and in words what the two are about."""

    used: int
    limit: int | None
    source: str
    scope: str
    taken_at: float


def read_memory(job_limit: int | None = None, proc: Path = Path("/proc/self")) -> Memory | None:
    """The memory of this job on this node; None where nothing can be read.

    `job_limit` is the limit that the scheduler knows, in bytes, for sites that do
    not set it as a cgroup limit. Blocks shortly; call it off the event loop.
    """
    return _cgroup(proc, _V2, job_limit) or _cgroup(proc, _V1, job_limit) or _processes(job_limit)


@dataclass(frozen=True)
class _Version:
    """Where the two versions of cgroups keep the same things."""

    name: str
    filesystem: str
    controller: str
    used: str
    limit: str
    droppable: str


_V2 = _Version("cgroup v2", "cgroup2", "", "memory.current", "memory.max", "inactive_file")
_V1 = _Version(
    "cgroup v1",
    "cgroup",
    "memory",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "total_inactive_file",
)


def _cgroup(proc: Path, version: _Version, job_limit: int | None) -> Memory | None:
    """The group of the whole job, else the nearest group above this process with a limit."""
    folders = _folders(proc, version)
    jobs = [folder for folder in folders if re.fullmatch(r"job_\d+", folder.name)]
    for folder in (*jobs, *folders):
        used, limit = _number(folder / version.used), _number(folder / version.limit)
        if limit is not None and limit >= _NO_LIMIT:
            limit = None
        if limit is None and folder in jobs:
            limit = job_limit
        if used is not None and limit is not None:
            used -= _statistic(folder / "memory.stat", version.droppable)
            scope = "this job on this node" if folder in jobs else "this session on this node"
            return Memory(max(0, used), limit, version.name, scope, time.time())
    return None


def _folders(proc: Path, version: _Version) -> list[Path]:
    """The folder of this process's group and all those above it, the nearest first."""
    group = _group(proc, version.controller)
    mount = _mount(proc, version)
    if group is None or mount is None:
        return []
    root, point = mount
    # A host in a container sees a part of the tree: its mount starts at `root`.
    inside = group[len(root) :] if root != "/" and group.startswith(root) else group
    folder = point / inside.strip("/")
    return [step for step in (folder, *folder.parents) if step == point or point in step.parents]


def _mount(proc: Path, version: _Version) -> tuple[str, Path] | None:
    """(which part of the tree, where it is mounted) for the memory controller.

    The last such line counts: a later mount hides an earlier one at the same place.
    """
    for line in reversed(_lines(proc / "mountinfo")):
        head, _, kind = line.partition(" - ")
        words, (filesystem, *options) = head.split(), kind.split() or [""]
        if filesystem != version.filesystem or len(words) < 5:
            continue
        if not version.controller or version.controller in ",".join(options[1:]).split(","):
            return words[3], Path(words[4])
    return None


def _group(proc: Path, controller: str) -> str | None:
    for line in _lines(proc / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(",") and (controller or number == "0"):
            return path
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


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


def _number(path: Path) -> int | None:
    """The number in a cgroup file; "max", and a missing file, are None."""
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _statistic(path: Path, key: str) -> int:
    """One line of memory.stat. File cache that can be dropped at once is not in use."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(rf"^{key} (\d+)$", text, re.M)
    return int(found[1]) if found else 0
