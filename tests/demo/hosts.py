"""Talking to the hosts of an embedded cluster with a plain SSH client."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from unittest import mock

import asyncssh

from jupyter_hpc.demo import processes
from jupyter_hpc.demo.cluster import DemoCluster
from tests.waiting import until

#: A part of command lines, so that no other test run's processes are taken for ours.
OURS = str(os.getpid())


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it printed."""

    code: int | None
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Host:
    """One SSH connection to one host."""

    connection: asyncssh.SSHClientConnection
    cluster: DemoCluster

    async def run(self, command: str, *, stdin: str = "", timeout: float = 60) -> Answer:
        done = await self.connection.run(command, input=stdin, timeout=timeout)
        return Answer(done.returncode, str(done.stdout), str(done.stderr))

    async def good(self, command: str, *, stdin: str = "", timeout: float = 60) -> str:
        """What the command prints; it must succeed."""
        answer = await self.run(command, stdin=stdin, timeout=timeout)
        assert answer.code == 0, (command, answer)
        return answer.out.strip()

    async def allocate(self, options: str = "--partition=cpu --time=5") -> int:
        """An allocation without a shell; its job id."""
        answer = await self.run(f"salloc --no-shell {options}")
        assert answer.code == 0, answer
        return int(answer.err.split("Granted job allocation ")[1].split()[0])

    async def submit(self, body: str, options: str = "") -> int:
        """A batch job of these lines; its id."""
        script = f"#!/bin/bash\n{body}\n"
        return int(await self.good(f"sbatch --parsable {options}", stdin=script))

    async def state(self, job: int | str) -> str:
        """The state in squeue, or in sacct once it has left the queue."""
        out = await self.good(f"squeue --noheader --jobs={job} --states=all --format=%T")
        return out.splitlines()[0] if out else ""

    async def until_state(self, job: int | str, *states: str, timeout: float = 60) -> str:
        state = ""

        async def reached() -> bool:
            nonlocal state
            state = await self.state(job)
            return state in states

        await until(reached, lambda: f"job {job} is {state}, not {states}", seconds=timeout)
        return state


@contextlib.contextmanager
def patient_kill() -> Iterator[None]:
    """Jobs that end inside of this are not killed before its end: their last words can be seen."""
    kill, allowed = processes.kill_step, threading.Event()

    def kill_later(step: str) -> None:
        allowed.wait(60)
        kill(step)

    with mock.patch.object(processes, "kill_step", kill_later):
        try:
            yield
        finally:
            allowed.set()


@contextlib.asynccontextmanager
async def open_login(cluster: DemoCluster) -> AsyncIterator[Host]:
    async with asyncssh.connect(cluster.login, config=str(cluster.ssh_config)) as connection:
        yield Host(connection, cluster)


@contextlib.asynccontextmanager
async def open_node(login: Host, node: str) -> AsyncIterator[Host]:
    """A node, through the login host's connection."""
    async with asyncssh.connect(
        node, tunnel=login.connection, config=str(login.cluster.ssh_config)
    ) as connection:
        yield Host(connection, login.cluster)
