"""The demo's notebooks where PyTorch is installed: run as jobs on its two nodes."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jupyter_hpc.demo.cluster import DemoCluster
from jupyter_hpc.demo.examples import bring_notebooks
from tests.demo.conftest import cluster, folder, login
from tests.demo.hosts import Host
from tests.tools import ROOT
from tests.training.site import torch_site
from tests.waiting import until

__all__ = ["cluster", "folder", "login"]
pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("torch"), pytest.mark.timeout(300)]


@pytest.fixture
async def home(cluster: DemoCluster) -> AsyncIterator[Path]:
    home = cluster.folder / "home"
    bring_notebooks(home)
    yield home


async def submitted(login: Host, home: Path, notebook: str, *words: str) -> str:
    """Submit a notebook, wait for its end; what it printed."""
    path = f"PYTHONPATH={ROOT}:{torch_site()}"
    command = f"{path} {sys.executable} -m jupyter_hpc submit {notebook} {' '.join(words)}"
    await login.good(command, timeout=120)

    def logs() -> str:
        found = (home / "hpc-batch" / notebook.partition(".")[0] / "runs").glob("*/logs/*.out")
        return "\n".join(each.read_text(errors="replace") for each in sorted(found))

    async def is_over() -> bool:
        return not await login.good("squeue --noheader")

    await until(is_over, logs, seconds=200)
    return logs()


async def test_two_nodes_train_together(login: Host, home: Path) -> None:
    words = ["--partition", "all", "--nodes", "2", "--tasks", "2", "--gpus", "0"]
    text = await submitted(login, home, "two-nodes.ipynb", *words, "--time", "5", "--mem", "1G")
    assert {*re.findall(r"process (\d of 2) on demo-", text)} == {"0 of 2", "1 of 2"}, text
    assert re.findall(r"^epoch (\d+) loss", text, re.M) == [str(n) for n in range(10)], text
    assert "ended with code 0" in text, text


async def test_the_training_with_torch_goes_on_as_well(login: Host, home: Path) -> None:
    words = ["--partition", "cpu", "--gpus", "0", "--chain", "3", "--time", "5", "--mem", "1G"]
    text = await submitted(login, home, "train-and-resume.ipynb", *words)
    assert re.findall(r"begins at epoch (\d+)", text) == ["0", "10", "20"], text
    assert "all 5 epochs were done before" in text and "Not here" not in text, text
