"""The variables with which a kernel of a job can start torch.distributed alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.factory import KernelProvisionerFactory

from jupyter_hpc.node import kernels
from jupyter_hpc.node.kernels import JobKernel, free_port, single_process, use_for_kernels

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "gpu01", "SLURMD_NODENAME": "gpu01"}
FIVE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def test_a_process_alone() -> None:
    added = single_process(JOB)
    assert tuple(added) == FIVE
    assert list(added.values())[:4] == ["0", "1", "0", "127.0.0.1"]
    wide = single_process({**JOB, "SLURM_JOB_NODELIST": "gpu[01-02]"})
    assert wide["MASTER_ADDR"] == "gpu01", "what srun starts on gpu02 has to find it"


@pytest.mark.parametrize("name", FIVE)
def test_what_is_set_already_is_not_mixed_with_ours(name: str) -> None:
    assert single_process({**JOB, name: "3"}) == {}


def test_outside_a_job_nothing_is_added() -> None:
    assert single_process({}) == {}


def test_a_port_that_somebody_has_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        free = free_port()
        monkeypatch.setattr("random.sample", lambda ports, count: [port, free])
        assert free_port() == free


def test_a_site_that_has_its_own_provisioner_keeps_it() -> None:
    factory = KernelProvisionerFactory(default_provisioner_name="of-the-site")
    use_for_kernels(factory, JOB)
    assert factory.default_provisioner_name == "of-the-site"
    factory = KernelProvisionerFactory()
    use_for_kernels(factory, {})
    assert factory.default_provisioner_name == kernels.USUAL
    use_for_kernels(factory, JOB)
    assert factory.provisioners[factory.default_provisioner_name].load() is JobKernel


async def test_each_kernel_has_a_port_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "kernels/mine"
    folder.mkdir(parents=True)
    spec = {"argv": [sys.executable, "-c", "0"], "display_name": "mine", "language": "x"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
    ports = []
    for _ in range(2):
        manager = AsyncKernelManager(
            kernel_spec_manager=specs, kernel_name="mine", connection_file=str(tmp_path / "c.json")
        )
        provisioner = JobKernel(
            kernel_id="k", kernel_spec=specs.get_kernel_spec("mine"), parent=manager
        )
        prepared = await provisioner.pre_launch(env=dict(JOB))
        ports.append(prepared["env"]["MASTER_PORT"])
        assert prepared["env"]["LOCAL_RANK"] == "0" and prepared["env"]["SLURM_JOB_ID"] == "7"
    assert ports[0] != ports[1]


async def test_a_kernel_keeps_its_local_rank_for_itself(tmp_path: Path) -> None:
    """Lightning in `!python train.py` would take it for the sign of somebody else's processes."""
    manager = AsyncKernelManager(connection_file=str(tmp_path / "c.json"))
    manager.provisioner = JobKernel(kernel_id="k", kernel_spec=manager.kernel_spec, parent=manager)
    prepared = await manager.provisioner.pre_launch(env={**os.environ, **JOB})
    assert prepared["cmd"][-1] == kernels.KEEP_LOCAL_RANK
    kernel = subprocess.Popen(prepared["cmd"], env=prepared["env"])
    try:
        manager.load_connection_file()
        seen = '__import__("os").environ.get("LOCAL_RANK"), __import__("os").environ["RANK"]'
        assert await kernels.evaluate(manager, seen, 60) == "('0', '0')"
        inherited = '__import__("subprocess").getoutput("echo $LOCAL_RANK-$RANK-$MASTER_ADDR")'
        assert await kernels.evaluate(manager, inherited, 60) == "'-0-127.0.0.1'"
    finally:
        kernel.kill()
        kernel.wait()
