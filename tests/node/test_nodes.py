"""The GPUs of further nodes: samplers that run while somebody looks, and end with that."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_hpc.errors import HpcError, SlurmUnavailable
from jupyter_hpc.node.services import nodes as nodes_module
from jupyter_hpc.node.services.node_sampler import read_line
from jupyter_hpc.node.services.nodes import NodesService
from jupyter_hpc.slurm.job_environment import read_job_environment
from tests.node.schema import check
from tests.waiting import until

#: Runs what a step would run, in an environment that tells which GPUs are simulated.
SRUN = """#!/bin/sh
while case $1 in --*) true ;; *) false ;; esac; do
    case $1 in --nodelist=*) node=${1#*=} ;; esac
    echo "$1" >>"$SRUN_LOG"
    shift
done
echo "$$" >>"$SRUN_LOG.pids"
[ "$node" != broken ] || { echo "srun: error: no such node" >&2; exit 1; }
JUPYTER_HPC_SIMULATED_GPUS=$GPUS/$node.json CUDA_VISIBLE_DEVICES=0,1 exec "$@"
"""


class Slurm:
    """The answers of a client; `error` is raised instead."""

    def __init__(self) -> None:
        self.gpus = {"one": 2, "two": 2, "three": 0, "broken": 1}
        self.release = (22, 5)
        self.error: HpcError | None = None

    async def version(self) -> tuple[int, int]:
        if self.error:
            raise self.error
        return self.release

    async def node_gpus(self, job_id: str) -> dict[str, int]:
        return self.gpus


class World:
    """A job on some nodes whose srun runs here."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.slurm = Slurm()
        self.log = folder / "log"
        program = folder / "srun"
        program.write_text(SRUN, encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("SRUN_LOG", str(self.log))
        monkeypatch.setenv("GPUS", str(folder))
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        self.services: list[NodesService] = []

    def write(self, node: str, load: float = 50.0) -> None:
        gpus = [
            {"index": n, "name": f"Simulated {n}", "load": load, "memory_used": 1,
             "memory_total": 2, "processes": [{"pid": os.getpid(), "memory": 5}]}
            for n in range(2)
        ]  # fmt: skip
        text = json.dumps({"time": 4e9, "gpus": gpus})
        (self.folder / f"{node}.json").write_text(text, encoding="utf-8")

    def service(self, nodes: str = "one,two") -> NodesService:
        job = read_job_environment({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": nodes})
        client: Any = self.slurm
        made = NodesService(job, "one", client)
        self.services.append(made)
        return made

    @property
    def processes(self) -> list[psutil.Process]:
        try:
            pids = (self.folder / "log.pids").read_text(encoding="utf-8").split()
        except OSError:
            return []
        return [psutil.Process(int(pid)) for pid in pids if psutil.pid_exists(int(pid))]


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    made = World(tmp_path, monkeypatch)
    yield made
    for service in made.services:
        await service.stop()


async def read(service: NodesService, position: int = 0) -> dict[str, Any]:
    answer: dict[str, Any] = await service.read()
    check(answer, "Nodes")
    found: dict[str, Any] = answer["nodes"][position]
    return found


async def known(service: NodesService, position: int = 0) -> dict[str, Any]:
    """What is said of a node once something is said of it."""

    async def look() -> bool:
        found.update(await read(service, position))
        return bool(found["gpus"] or found["problem"])

    found: dict[str, Any] = {}
    await until(look, "nothing is said of the node")
    return found


async def test_the_gpus_of_a_further_node(world: World) -> None:
    world.write("two")
    service = world.service()
    first = await read(service)
    assert first == {"name": "two", "gpus": None, "problem": None}, "it does not wait for a step"
    node = await known(service)
    assert node["problem"] is None and node["gpus"]["simulated"]
    gpu = node["gpus"]["gpus"][1]
    assert (gpu["name"], gpu["load"], gpu["index"]) == ("Simulated 1", 50.0, 1)
    assert gpu["processes"][0]["name"] == psutil.Process().name()[:15]
    options = set(world.log.read_text().splitlines())
    wanted = {"--jobid=7", "--overlap", "--nodes=1", "--nodelist=two", "--gpus=2"}
    assert wanted <= options and "--input=none" not in options


async def test_a_sampler_ends_when_nobody_looks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "LEASE_SECONDS", 0.5)
    world.write("two")
    service = world.service()
    await known(service)
    (process,) = world.processes
    await until(lambda: not process.is_running() or process.status() == "zombie")
    assert (await read(service))["gpus"] is None, "old values are not shown as new ones"
    await known(service)


async def test_a_sampler_ends_with_the_server(world: World) -> None:
    world.write("two")
    service = world.service()
    await known(service)
    (process,) = world.processes
    await service.stop()
    assert not process.is_running() or process.status() == "zombie"


async def test_a_node_that_cannot_be_read_says_why(world: World) -> None:
    world.write("two")
    service = world.service("one,broken,three,two")
    broken = await known(service)
    assert broken["problem"]["message"] == (
        "The GPUs of broken cannot be read: srun: error: no such node."
    )
    assert (await known(service, 1))["problem"]["message"] == "This node has no GPU of the job."
    assert (await known(service, 2))["gpus"] is not None
    assert len(world.processes) == 1, "a node without GPUs has no step"


async def test_simulated_gpus_that_do_not_answer_are_a_sentence(world: World) -> None:
    node = await known(world.service())
    assert node["gpus"] is None and "do not answer" in node["problem"]["message"]


async def test_a_slurm_that_does_not_share_gpus_is_left_alone(world: World) -> None:
    world.slurm.release = (21, 8)
    node = await known(world.service())
    assert node["problem"]["message"].startswith("Slurm 21.08 does not share GPUs")
    assert world.processes == []


async def test_a_silent_slurm_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "RETRY_SECONDS", 0.1)
    world.write("two")
    world.slurm.error = SlurmUnavailable("The controller does not answer.", "Wait.")
    service = world.service()
    assert (await known(service))["problem"]["message"] == "The controller does not answer."
    world.slurm.error = None

    async def recovered() -> bool:
        return (await read(service))["gpus"] is not None

    await until(recovered)


async def test_one_node_has_no_further_ones(world: World) -> None:
    assert await world.service("one").read() == {"nodes": []}
    await asyncio.sleep(0)  # a task that was started by mistake would begin now
    assert world.processes == []


@pytest.mark.parametrize("line", [b"Welcome to mini!", b"", b"[1]", b'{"problem": 3}', b"null"])
def test_lines_of_something_else_are_no_samples(line: bytes) -> None:
    assert read_line(line) is None
