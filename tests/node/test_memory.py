"""Memory against the job's real limit, from files as the kernel keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hpc.node.services.memory import read_memory

GIB = 1 << 30


class Kernel:
    """/proc/self and a cgroup tree in a folder."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.root = folder / "cgroup"
        self.proc.mkdir()
        self.root.mkdir()
        self.mounts: list[str] = []

    def v2(self, group: str, **values: dict[str, str]) -> None:
        self.mounts.append(f"1 2 0:3 / {self.root} rw - cgroup2 cgroup2 rw")
        self.write(f"0::{group}", values, self.root)

    def v1(self, group: str, mounted: str = "/", **values: dict[str, str]) -> None:
        point = self.root / "memory"
        self.mounts.append(f"1 2 0:3 {mounted} {point} rw - cgroup cgroup rw,memory")
        self.write(f"9:pids:/\n4:cpu,memory:{group}\n0::/", values, point)

    def write(self, line: str, values: dict[str, dict[str, str]], point: Path) -> None:
        (self.proc / "mountinfo").write_text("\n".join(self.mounts) + "\n")
        (self.proc / "cgroup").write_text(line + "\n")
        for folder, files in values.items():
            path = point / folder.replace("__", "/")
            path.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (path / name).write_text(text + "\n")


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def v2_files(used: int, limit: str, cache: int = 0) -> dict[str, str]:
    return {
        "memory.current": str(used),
        "memory.max": limit,
        "memory.stat": f"anon 5\ninactive_file {cache}\nslab 1",
    }


def v1_files(used: int, limit: int, cache: int = 0) -> dict[str, str]:
    return {
        "memory.usage_in_bytes": str(used),
        "memory.limit_in_bytes": str(limit),
        "memory.stat": f"cache 9\ninactive_file 1\ntotal_inactive_file {cache}",
    }


def test_cgroup_v2_takes_the_whole_job_not_the_step(kernel: Kernel) -> None:
    kernel.v2(
        "/slurm/job_7/step_0/user/task_0",
        slurm__job_7=v2_files(6 * GIB, str(32 * GIB), cache=GIB),
        slurm__job_7__step_0=v2_files(2 * GIB, str(32 * GIB)),
        slurm__job_7__step_0__user__task_0=v2_files(GIB, "max"),
    )
    memory = read_memory(proc=kernel.proc)
    assert memory is not None
    assert (memory.used, memory.limit, memory.source) == (5 * GIB, 32 * GIB, "cgroup v2")
    assert memory.scope == "this job on this node"


@pytest.mark.parametrize("scope", ["slurmstepd.scope", "gpu01_slurmstepd.scope"])
def test_the_job_of_a_newer_slurm_is_known_by_where_it_lies(kernel: Kernel, scope: str) -> None:
    """From 25.11 on its folder is named by the SLUID, and the step has a limit of its own."""
    job = f"system.slice/{scope}/sEKNKTV3WPV500"
    kernel.v2(
        f"/{job}/step_0/user/task_0",
        **{
            job.replace("/", "__"): v2_files(30 * GIB, str(64 * GIB)),
            f"{job}/step_0".replace("/", "__"): v2_files(10 * GIB, str(64 * GIB)),
            f"{job}/step_0/user/task_0".replace("/", "__"): v2_files(GIB, "max"),
        },
    )
    memory = read_memory(proc=kernel.proc)
    assert memory is not None
    assert (memory.used, memory.limit, memory.scope) == (
        30 * GIB,
        64 * GIB,
        "this job on this node",
    )


def test_cgroup_v2_without_a_job_takes_the_nearest_limit(kernel: Kernel) -> None:
    kernel.v2(
        "/user/one",
        user=v2_files(9 * GIB, str(16 * GIB)),
        user__one=v2_files(GIB, "max"),
    )
    memory = read_memory(proc=kernel.proc)
    assert memory is not None
    assert (memory.used, memory.limit) == (9 * GIB, 16 * GIB)
    assert memory.scope == "this session on this node"


def test_cgroup_v1_where_only_a_part_of_the_tree_is_mounted(kernel: Kernel) -> None:
    kernel.v1("/elsewhere/x")
    kernel.v1(
        "/host/slurm/uid_5/job_7/step_0",
        mounted="/host",
        slurm__uid_5__job_7=v1_files(3 * GIB, 8 * GIB, cache=GIB),
        slurm__uid_5__job_7__step_0=v1_files(GIB, 1 << 62),
    )
    memory = read_memory(proc=kernel.proc)
    assert memory is not None
    assert (memory.used, memory.limit, memory.source) == (2 * GIB, 8 * GIB, "cgroup v1")


def test_a_site_without_memory_limits_uses_the_scheduler_s(kernel: Kernel) -> None:
    kernel.v1("/job_7/step_0", job_7=v1_files(GIB, (1 << 63) - 4096))
    memory = read_memory(4 * GIB, proc=kernel.proc)
    assert memory is not None
    assert (memory.used, memory.limit, memory.source) == (GIB, 4 * GIB, "cgroup v1")


def test_no_limit_anywhere_counts_the_processes(kernel: Kernel) -> None:
    kernel.v2("/", **{".": {"memory.stat": ""}})
    memory = read_memory(proc=kernel.proc)
    assert memory is not None
    assert memory.source == "processes"
    assert "whole machine" in memory.scope
    assert 1 << 20 < memory.used < (memory.limit or 0)


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    memory = read_memory(2 * GIB, proc=tmp_path)
    assert memory is not None
    assert (memory.source, memory.limit) == ("processes", 2 * GIB)
    assert memory.scope == "this server and its kernels"
