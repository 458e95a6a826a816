"""The simulated GPUs of the embedded cluster, from the file that it really writes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from jupyter_hpc.demo.gpus import VARIABLE, SimulatedGpus
from jupyter_hpc.demo.slurm.inventory import Node
from jupyter_hpc.errors import GpuUnavailable
from jupyter_hpc.gpu.choose import open_source
from jupyter_hpc.gpu.simulated import SIMULATED_VARIABLE, SimulatedSource


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    node = Node("demo-gpu1", 8, 32000, "a100", 2)
    gpus = SimulatedGpus(tmp_path, "marker", [node], list)
    await gpus.start()
    await gpus.stop()
    (written,) = tmp_path.glob("gpus-*.json")
    return written


def test_both_sides_call_the_variable_the_same() -> None:
    assert VARIABLE == SIMULATED_VARIABLE


async def test_the_gpus_of_the_job_are_read_and_labelled(path: Path) -> None:
    environ = {SIMULATED_VARIABLE: str(path), "CUDA_VISIBLE_DEVICES": "1"}
    source = open_source(environ, in_job=True)
    assert source.label == "simulated"
    (gpu,) = source.read().gpus
    assert gpu.name.startswith("Simulated")
    assert (gpu.index, gpu.kind, gpu.load) == (0, "gpu", 0.0)
    assert gpu.id.endswith("1")
    assert gpu.memory_total is not None and gpu.memory_total > 1 << 30
    assert None not in (gpu.power, gpu.power_limit, gpu.temperature, gpu.clock, gpu.memory_clock)


async def test_a_job_without_a_gpu_sees_none(path: Path) -> None:
    with pytest.raises(GpuUnavailable, match="This job has no GPU"):
        SimulatedSource(path, {}, in_job=True)
    with pytest.raises(GpuUnavailable, match="This job has no GPU"):
        SimulatedSource(path, {"CUDA_VISIBLE_DEVICES": "9"}).read()


async def test_processes_and_their_memory(path: Path) -> None:
    content = json.loads(path.read_text())
    content["gpus"][0]["processes"] = [{"pid": 7, "name": "python", "memory": 5}]
    path.write_text(json.dumps(content))
    process = SimulatedSource(path, {}).read().gpus[0].processes[0]
    assert (process.pid, process.memory) == (7, 5)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"gpus": 3}', '{"gpus": [{}], "time": 1}'])
def test_a_broken_file_is_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gpus.json"
    path.write_text(content)
    with pytest.raises(GpuUnavailable, match="do not answer"):
        SimulatedSource(path, {}).read()


async def test_a_demo_that_has_stopped_is_a_sentence(path: Path) -> None:
    source = SimulatedSource(path, {}, clock=lambda: time.time() + 60)
    with pytest.raises(GpuUnavailable, match="do not answer"):
        source.read()
