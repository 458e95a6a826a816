"""Kernels that the system ended for want of memory: noticed, named, told once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_hpc.cgroup import Kills, read_kills
from jupyter_hpc.node.services import memory_kills
from jupyter_hpc.node.services.memory_kills import MemoryKill, MemoryKills, process_lives
from jupyter_hpc.node.services.notebooks import Notebook
from tests.node.test_memory import GIB, Kernel, kernel, v1_files, v2_files
from tests.waiting import eventually

__all__ = ["kernel"]

BIG = Notebook("work/big.ipynb", "big.ipynb", "k-big", "s-1")
SMALL = Notebook("small.ipynb", "small.ipynb", "k-small", "s-2")


class Server:
    """Kernels by process, and what a job's group has counted."""

    def __init__(self) -> None:
        self.kernels: dict[int, Notebook] = {1: BIG, 2: SMALL}
        self.kills: Kills | None = Kills(0, None)
        self.dead: set[int] = set()
        self.told: list[MemoryKill] = []
        self.looked = 0
        self.watch = MemoryKills(
            self.running, self.told.append, lambda: self.kills, lambda pid: pid not in self.dead
        )

    async def running(self) -> dict[int, Notebook]:
        self.looked += 1
        return dict(self.kernels)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(memory_kills, "DYING_SECONDS", 0.0)
    return Server()


async def test_a_kernel_that_was_ended_is_told_once(server: Server) -> None:
    await server.watch.look()
    server.dead, server.kills = {1}, Kills(1, GIB)
    await server.watch.look()
    await server.watch.look()
    (kill,) = server.told
    assert (kill.number, kill.limit, kill.kernels) == (1, GIB, (BIG,))
    assert server.watch.recent == (kill,)


async def test_a_kernel_that_was_started_again_meanwhile(server: Server) -> None:
    await server.watch.look()
    server.kernels, server.kills = {7: BIG, 2: SMALL}, Kills(1, None)
    await server.watch.look()
    assert [kill.kernels for kill in server.told] == [(BIG,)]


async def test_one_that_takes_a_moment_to_die(server: Server) -> None:
    await server.watch.look()
    server.kills, usual, looks = Kills(1, GIB), server.running, server.looked

    async def running() -> dict[int, Notebook]:
        server.dead = {2} if server.looked == looks + 2 else set()
        return await usual()

    server.watch = MemoryKills(
        running, server.told.append, lambda: server.kills, lambda pid: pid not in server.dead
    )
    await server.watch.look()
    assert [kill.kernels for kill in server.told] == [(SMALL,)]


async def test_another_process_is_no_kernel(server: Server) -> None:
    await server.watch.look()
    server.kills = Kills(3, GIB)
    await server.watch.look()
    assert [(kill.number, kill.kernels) for kill in server.told] == [(3, ())]


async def test_a_restart_by_the_user_is_nothing(server: Server) -> None:
    await server.watch.look()
    server.kernels = {7: BIG}
    await server.watch.look()
    assert server.told == []


async def test_without_a_count_nothing_is_looked_at(server: Server) -> None:
    server.kills = None
    server.watch.start()
    await server.watch.stop()
    assert server.looked == 0


def test_cgroup_v2_counts_in_the_group_of_the_task(kernel: Kernel) -> None:
    kernel.v2(
        "/slurm/job_7/step_0/user/task_0",
        slurm={"memory.events": "max 9\noom 9\noom_kill 9\noom_group_kill 0"},
        slurm__job_7={**v2_files(1, str(2 * GIB)), "memory.events": "max 4\noom_kill 5"},
        slurm__job_7__step_0__user__task_0={
            **v2_files(1, "max"),
            "memory.events": "max 0\noom 1\noom_kill 2\noom_group_kill 0",
        },
    )
    assert read_kills(kernel.proc) == Kills(2, 2 * GIB)


def test_cgroup_v1_whose_limit_was_never_reached(kernel: Kernel) -> None:
    kernel.v1(
        "/slurm/uid_5/job_7/step_0/task_0",
        slurm__uid_5__job_7={**v1_files(1, GIB), "memory.failcnt": "0"},
        slurm__uid_5__job_7__step_0__task_0={
            **v1_files(1, 1 << 62),
            "memory.failcnt": "0",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
        },
    )
    assert read_kills(kernel.proc) == Kills(1, None)


def test_a_group_that_is_not_a_job_s_counts_for_others_too(kernel: Kernel) -> None:
    kernel.v2("/user/one", user__one={"memory.events": "oom_kill 3"})
    assert read_kills(kernel.proc) is None


def test_whether_a_process_lives() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    try:
        eventually(lambda: not process_lives(child.pid), "it has ended and was not waited for")
    finally:
        child.wait(10)
    assert process_lives(os.getpid()) and not Path(f"/proc/{child.pid}").exists()
