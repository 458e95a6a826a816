"""The memory of this process's control group: cgroup v2, else v1.

Stands by itself, for a Python of 3.9: it is also shipped to the node, where the script around
Jupyter runs it as a program to learn whether the system has ended something.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc/self")

#: Kernels say "no limit" with a number near 2**63 in cgroup v1.
_NO_LIMIT = 1 << 60

_JOB = re.compile(r"job_\d+")
#: The folder with those of the jobs in cgroup v2: "slurmstepd.scope", "NODE_slurmstepd.scope".
#: Since Slurm 25.11 a job's is named by its SLUID ("sEKNKTV3WPV500"), not by its number.
_ALL_JOBS = "slurmstepd.scope"


@dataclass(frozen=True)
class Version:
    """Where the two versions of cgroups keep the same things."""

    name: str
    filesystem: str
    controller: str
    used: str
    limit: str
    droppable: str  #: of memory.stat: file cache that can be dropped at once
    kills: str  #: the file that counts what was ended (oom_kill)


V2 = Version(
    "cgroup v2",
    "cgroup2",
    "",
    "memory.current",
    "memory.max",
    "inactive_file",
    "memory.events",
)
V1 = Version(
    "cgroup v1",
    "cgroup",
    "memory",
    "memory.usage_in_bytes",
    "memory.limit_in_bytes",
    "total_inactive_file",
    "memory.oom_control",
)


@dataclass(frozen=True)
class GroupMemory:
    """Memory of one group in bytes."""

    version: str
    used: int
    limit: int
    of_job: bool  #: the group is that of the whole job


@dataclass(frozen=True)
class Kills:
    """How many processes of ours were ended for want of memory, and what there was of it.

    `limit` is the job's in bytes; None if it was never reached: then the node had none left.
    """

    count: int
    limit: int | None


def read_group(job_limit: int | None = None, proc: Path = PROC) -> GroupMemory | None:
    """The group of the whole job, else the nearest group above this process with a limit.

    `job_limit` stands in for the job's where none is set.
    """
    for version in (V2, V1):
        folders = _folders(proc, version)
        jobs = _jobs(folders)
        for folder in (*jobs, *folders):
            used, limit = number(folder / version.used), _limit(folder, version)
            if limit is None and folder in jobs:
                limit = job_limit
            if used is not None and limit is not None:
                used -= statistic(folder / "memory.stat", version.droppable) or 0
                return GroupMemory(version.name, max(0, used), limit, folder in jobs)
    return None


def read_kills(proc: Path = PROC) -> Kills | None:
    """What was ended in this process's group since it was made.

    None where nothing counts, and outside of a job's group: what happens there is not ours.
    """
    for version in (V2, V1):
        folders = _folders(proc, version)
        jobs = _jobs(folders)
        own = folders[: folders.index(jobs[-1]) + 1] if jobs else []
        counts = [statistic(folder / version.kills, "oom_kill") for folder in own]
        count = next((count for count in counts if count is not None), None)
        if count is not None:
            limits = [_limit(folder, version) for folder in own if _was_full(folder, version)]
            return Kills(count, min((limit for limit in limits if limit), default=None))
    return None


def _limit(folder: Path, version: Version) -> int | None:
    limit = number(folder / version.limit)
    return None if limit is None or limit >= _NO_LIMIT else limit


def _was_full(folder: Path, version: Version) -> bool:
    """Whether the group has ever come to its limit."""
    if version is V2:
        return bool(statistic(folder / version.kills, "max"))
    return bool(number(folder / "memory.failcnt"))


def _jobs(folders: list[Path]) -> list[Path]:
    return [
        folder
        for folder in folders
        if _JOB.fullmatch(folder.name) or folder.parent.name.endswith(_ALL_JOBS)
    ]


def _folders(proc: Path, version: Version) -> list[Path]:
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


def _mount(proc: Path, version: Version) -> tuple[str, Path] | None:
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
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(",") and (controller or hierarchy == "0"):
            return path
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def number(path: Path) -> int | None:
    """The number in a cgroup file; "max", and a missing file, are None."""
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def statistic(path: Path, key: str) -> int | None:
    """One line of a file such as memory.stat, None where there is none."""
    found = re.search(rf"^{key} (\d+)$", "\n".join(_lines(path)), re.M)
    return int(found[1]) if found else None


if __name__ == "__main__":
    killed = read_kills()
    if killed is not None:
        sys.stdout.write(f"killed={killed.count}\nlimit={killed.limit or ''}\n")
