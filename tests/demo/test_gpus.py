"""Simulated GPUs: they follow the processes of the job, and never look real."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from jupyter_hpc.demo import gpus as gpus_module
from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.gpu.simulated import SimulatedSource
from tests.demo.hosts import Host, open_node
from tests.waiting import until

BUSY = "python3 -c 'while True: pass'"


async def read(login: Host, job: int) -> list[dict[str, Any]]:
    """What the node's file says, found as a program in the job finds it."""
    path = await login.good(
        f"srun --jobid={job} --overlap -n1 sh -c 'echo $JUPYTER_HPC_SIMULATED_GPUS'"
    )
    content = json.loads(Path(path).read_text())
    assert content["simulated"] is True
    assert content["host"] == "demo-gpu1"
    gpus: list[dict[str, Any]] = content["gpus"]
    return gpus


async def test_load_follows_the_processes_of_the_job_that_holds_the_gpu(
    login: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus_module, "USES_AFTER_SECONDS", 0.5)
    idle = await login.allocate("-p gpu --gpus=1")
    busy = await login.allocate("-p gpu --gpus=1")
    gpus = await read(login, busy)
    assert [gpu["load"] for gpu in gpus] == [0.0, 0.0]
    await login.good(
        f"setsid srun --jobid={busy} --overlap -n1 --input=none {BUSY} >/dev/null 2>&1 </dev/null &"
    )

    async def loaded() -> str:
        nonlocal gpus
        gpus = await read(login, busy)
        first, second = gpus
        assert first["load"] == 0.0
        ready = second["load"] > 10 and second["processes"] and second["memory_used"] > 400 << 20
        return "yes" if ready else ""

    await until(loaded)
    first, second = gpus
    assert (first["job"], second["job"]) == (idle, busy)
    assert second["power"] > first["power"] + 10
    assert second["clock"] > first["clock"]
    assert second["processes"][0]["name"].startswith("python")
    await login.good(f"scancel {busy}")

    async def idle_again() -> str:
        gpu = (await read(login, idle))[1]
        return "yes" if gpu["load"] < 5 and gpu["memory_used"] == 0 and gpu["job"] is None else ""

    await until(idle_again)


async def test_a_process_that_was_seen_before_it_became_python_counts(login: Host) -> None:
    job = await login.allocate("-p gpu --gpus=1")
    script = f"until [ -e go ]; do sleep 0.1; done; exec {BUSY}"
    await login.good(
        f"setsid srun --jobid={job} --overlap -n1 --input=none sh -c {shlex.quote(script)} "
        ">/dev/null 2>&1 </dev/null & sleep 3; touch go"
    )

    async def loaded() -> str:
        return "yes" if (await read(login, job))[0]["load"] > 5 else ""

    await until(loaded)


async def test_names_say_that_they_are_simulated_wherever_they_are_shown(login: Host) -> None:
    job = await login.allocate("-p gpu --gpus=2")
    assert all(gpu["name"].startswith("Simulated ") for gpu in await read(login, job))
    async with open_node(login, "demo-gpu1") as node:
        for command in ("nvidia-smi", "nvidia-smi -L"):
            assert "Simulated A100 40GB" in await node.good(command)


async def test_the_server_extensions_source_reads_the_same_file(
    login: Host, cluster: DemoCluster
) -> None:
    await login.allocate("-p gpu --gpus=1")
    path = cluster.host_environment("demo-gpu1")["JUPYTER_HPC_SIMULATED_GPUS"]
    sample = SimulatedSource(Path(path), {"CUDA_VISIBLE_DEVICES": "1"}, in_job=True).read()
    assert [gpu.name for gpu in sample.gpus] == ["Simulated A100 40GB"]
    assert sample.gpus[0].memory_total == 40 << 30


async def test_nvidia_smi_answers_the_recorders_query(login: Host) -> None:
    async with open_node(login, "demo-gpu1") as node:
        query = "nvidia-smi --query-gpu=index,name,utilization.gpu,memory.used,power.limit"
        assert await node.good(f"{query} --format=csv,noheader,nounits") == (
            "0, Simulated A100 40GB, 0, 0, 400.00\n1, Simulated A100 40GB, 0, 0, 400.00"
        )
        assert await node.good(f"{query} --format=csv -i 1") == (
            "index, name, utilization.gpu [%], memory.used [MiB], power.limit [W]\n"
            "1, Simulated A100 40GB, 0 %, 0 MiB, 400.00 W"
        )
        repeated = "nvidia-smi --query-gpu=index --format=csv,noheader -lms 200"
        async with node.connection.create_process(f"timeout 60 {repeated}") as process:
            assert [await process.stdout.readline() for _ in range(6)] == ["0\n", "1\n"] * 3


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ("--foo", 6, "ERROR: Option --foo is not recognized. Please run 'nvidia-smi -h'."),
        ("--query-gpu=foo --format=csv", 2, 'Field "foo" is not a valid field to query.'),
    ],
)
async def test_nvidia_smi_refuses_what_it_does_not_know(
    login: Host, arguments: str, code: int, error: str
) -> None:
    async with open_node(login, "demo-gpu1") as node:
        answer = await node.run(f"nvidia-smi {arguments}")
    assert (answer.code, answer.err.splitlines()[0]) == (code, error)


async def test_a_host_without_gpus_has_no_driver(login: Host) -> None:
    answer = await login.run("nvidia-smi")
    assert answer.code == 9
    assert "couldn't communicate with the NVIDIA driver" in answer.out
