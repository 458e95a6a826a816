"""A session on two nodes with GPUs, over each transport and with each way to ask for GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_hpc.slurm.releases import shares_gpus
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.laptop import Laptop
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import Session, connected
from tests.connect.real.two_nodes import FIRST, SECOND, asked_for, laptop_for, nodes_of_steps
from tests.waiting import eventually

RANKS = """
import os
print(*(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")))
print("MASTER_PORT" in os.environ, "SLURM_NTASKS" in os.environ, os.environ["SLURM_NNODES"])
"""
LOOK = """
import os, subprocess
gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
hosts = subprocess.run(COMMAND, capture_output=True, text=True, timeout=30)
print(os.uname().nodename, len(gpus), *sorted(hosts.stdout.split()), hosts.stderr)
"""


def _shares_gpus(cluster: Cluster) -> bool:
    return shares_gpus(cluster.switches.root.slurm)


def _check_cell(cluster: Cluster, laptop: Laptop, gpus: int) -> None:
    """A cell has the GPUs of its node; its srun runs on both, unless it waits for these GPUs."""
    shared = _shares_gpus(cluster)
    command = ["srun", "hostname"] if shared else ["true"]
    seen = Kernel(laptop).run(f"COMMAND = {command}{LOOK}").split()
    assert seen == [FIRST, str(gpus), *((FIRST, SECOND) if shared else ())]


@pytest.fixture
def wide(cluster_with: ClusterFactory) -> Iterator[Cluster]:
    cluster = cluster_with(accounting=False, two_gpu_nodes=True)
    yield cluster
    cluster.heal()


def _ready(session: Session) -> dict[str, object]:
    ready = session.wait_for("ready", 60)
    assert session.get("/api")[0] == 200
    return ready


_FLAGS = (("gpus", "4"), ("gpus-per-node", "2"), ("gres", "2"))


@pytest.mark.parametrize(
    ("transport", "flag", "gpus"),
    [
        *((transport, *each) for each in _FLAGS for transport in ("ssh", "login-ssh", "srun")),
        ("direct", *_FLAGS[1]),
    ],
)
def test_two_nodes(wide: Cluster, transport: str, flag: str, gpus: str) -> None:
    laptop = laptop_for(wide, flag)
    with connected(laptop, *asked_for(gpus, "--via", transport)) as session:
        ready = _ready(session)
        assert ready["transport"] == transport
        assert set(nodes_of_steps(wide)) == {FIRST}, "what is ours runs where Jupyter runs"
        # Slurm spreads 4 job-wide GPUs as 3 and 1, and Jupyter has all of its node.
        on_first = 3 if flag == "gpus" else 2
        _check_cell(wide, session.laptop, on_first)
        session.end()
    if flag != "gpus":
        return
    with connected(laptop, "mini", "--via", transport) as session:
        assert _ready(session)["job_id"] == ready["job_id"], "the same job and server again"


def test_the_gpus_of_the_second_node_while_somebody_looks(wide: Cluster) -> None:
    gpus = [{"index": number, "name": f"Simulated {number}", "load": 7} for number in range(4)]
    numbers = json.dumps({"time": 4e9, "gpus": gpus})
    (wide.home("alice") / "gpus.json").write_text(numbers, encoding="utf-8")
    setup = "export JUPYTER_HPC_SIMULATED_GPUS=/home/alice/gpus.json"
    with connected(laptop_for(wide, "gpus", setup), *asked_for("4")) as session:
        _ready(session)
        kernel = Kernel(session.laptop)
        job = kernel.get("/jupyter-hpc/session")["job"]
        assert (job["nodes"], job["gpus"]) == ([FIRST, SECOND], 4)
        assert len(kernel.get("/jupyter-hpc/gpus")["gpus"]) == 3

        def second() -> list[dict[str, Any]] | None:
            (node,) = kernel.get("/jupyter-hpc/nodes")["nodes"]
            assert node["name"] == SECOND and node["problem"] is None, node
            return list(node["gpus"]["gpus"]) if node["gpus"] else None

        if _shares_gpus(wide):
            assert [gpu["load"] for gpu in eventually(second) or ()] == [7.0]
            assert set(nodes_of_steps(wide)) == {FIRST, SECOND}
        else:
            problem = eventually(lambda: kernel.get("/jupyter-hpc/nodes")["nodes"][0]["problem"])
            assert "does not share GPUs between steps" in problem["message"]
        _check_cell(wide, session.laptop, 3)  # srun goes on
        assert kernel.run(RANKS).split() == ["0", "1", "0", FIRST, "True", "False", "2"]
        eventually(lambda: set(nodes_of_steps(wide)) == {FIRST}, "the sampler stays", seconds=60)
