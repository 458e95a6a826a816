"""A session on two nodes with GPUs, over each transport and with each way to ask for GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import ClusterFactory
from tests.cluster.laptop import Laptop
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import Session, connected

#: Slurm's order is that of names: Jupyter runs on cpu01, which has GPUs here.
FIRST, SECOND = "cpu01", "gpu01"

LOOK = """
import os, subprocess
gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
hosts = subprocess.run(["srun", "hostname"], capture_output=True, text=True, timeout=30)
print(os.uname().nodename, len(gpus), *sorted(hosts.stdout.split()), hosts.stderr)
"""


@pytest.fixture
def wide(cluster_with: ClusterFactory) -> Iterator[Cluster]:
    cluster = cluster_with(accounting=False, two_gpu_nodes=True)
    yield cluster
    cluster.heal()


def _laptop(cluster: Cluster, gpu_flag: str) -> Laptop:
    laptop = cluster.laptop("alice", "nodes")
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 3, "gpu_flag": gpu_flag}})
    return laptop


def _asked(gpus: str, *more: str) -> list[str]:
    return ["mini", "--nodes", "2", "--partition", "wide", "--gpus", gpus, *more]


def _steps(cluster: Cluster) -> list[str]:
    return cluster.run("login1", ["squeue", "-h", "-s", "-o", "%N"]).stdout.split()


def _ready(session: Session) -> dict[str, object]:
    ready = session.wait_for("ready", 60)
    assert session.get("/api")[0] == 200
    return ready


@pytest.mark.parametrize("transport", ["ssh", "login-ssh", "srun"])
@pytest.mark.parametrize(("flag", "gpus"), [("gpus", "4"), ("gpus-per-node", "2"), ("gres", "2")])
def test_two_nodes(wide: Cluster, transport: str, flag: str, gpus: str) -> None:
    laptop = _laptop(wide, flag)
    with connected(laptop, *_asked(gpus, "--via", transport)) as session:
        ready = _ready(session)
        assert ready["transport"] == transport
        assert set(_steps(wide)) == {FIRST}, "what is ours runs where Jupyter runs"
        # Slurm spreads 4 job-wide GPUs as 3 and 1, and Jupyter has all of its node.
        on_first = 3 if flag == "gpus" else 2
        assert Kernel(session).run(LOOK).split() == [FIRST, str(on_first), FIRST, SECOND]
        session.end()
    if flag != "gpus":
        return
    with connected(laptop, "mini", "--via", transport) as session:
        assert _ready(session)["job_id"] == ready["job_id"], "the same job and server again"
