"""Which notebook holds the memory of a GPU: real processes, and a real kernel."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_hpc.gpu.sample import GpuProcess, GpuReading, Sample
from jupyter_hpc.node.services import gpus as gpus_module
from jupyter_hpc.node.services.notebooks import Notebooks
from tests.node.conftest import Ask
from tests.node.schema import check

SESSIONS = [{"id": "s1", "path": "work/train.ipynb", "name": "", "kernel": {"id": "k1"}}]


def notebooks(pids: Mapping[str, int], sessions: list[dict[str, Any]] = SESSIONS) -> Notebooks:
    async def list_sessions() -> list[Mapping[str, Any]]:
        return list(sessions)

    return Notebooks(list_sessions, pids.get)


async def test_a_kernel_and_what_it_started_belong_to_its_notebook() -> None:
    script = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    kernel = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert kernel.stdout is not None
        child = int(kernel.stdout.readline())
        owners = await notebooks({"k1": kernel.pid}).owners({kernel.pid, child, os.getpid()})
        for pid in (kernel.pid, child):
            notebook = owners[pid].notebook
            assert notebook is not None
            assert (notebook.path, notebook.name) == ("work/train.ipynb", "train.ipynb")
            assert (notebook.kernel_id, notebook.session_id) == ("k1", "s1")
        assert owners[child].name == "sleep"
        assert owners[os.getpid()].notebook is None
        os.kill(child, 9)
    finally:
        kernel.kill()
        kernel.wait()


async def test_a_process_that_cannot_be_seen_has_a_number() -> None:
    owners = await notebooks({}).owners({4_000_000})
    assert owners[4_000_000].name == "process 4000000"
    assert owners[4_000_000].notebook is None


async def test_a_session_without_a_kernel_is_no_trouble() -> None:
    sessions: list[dict[str, Any]] = [{"id": "s", "path": "x", "kernel": None}, {}]
    assert await notebooks({}, sessions).owners({os.getpid()})


async def test_the_server_names_the_notebook_of_a_kernel(
    ask: Ask, jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = jp_serverapp.session_manager
    session = await manager.create_session(
        path="folder/big.ipynb", name="big.ipynb", type="notebook", kernel_name="echo"
    )
    kernel_id = session["kernel"]["id"]
    pid = jp_serverapp.kernel_manager.get_kernel(kernel_id).provisioner.pid

    class Source:
        label, driver = "nvml", "1"

        def read(self) -> Sample:
            reading = GpuReading("g", 0, "X", processes=(GpuProcess(pid, 5 << 30),))
            return Sample(time.time(), (reading,))

        def close(self) -> None:
            pass

    monkeypatch.setattr(gpus_module, "FIRST_SAMPLE_SECONDS", 60.0)
    services = jp_serverapp.web_app.settings["jupyter_hpc_services"]
    monkeypatch.setattr(services, "_open_gpus", Source)
    status, gpus = await ask("gpus")
    assert status == 200
    check(gpus, "Gpus")
    (process,) = gpus["gpus"][0]["processes"]
    assert (process["pid"], process["memory"]) == (pid, 5 << 30)
    assert process["notebook"] == {
        "path": "folder/big.ipynb",
        "name": "big.ipynb",
        "kernel_id": kernel_id,
        "session_id": session["id"],
    }
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id, now=True)
    await asyncio.sleep(0)
