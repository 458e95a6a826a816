"""What tests of a session on two nodes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop

#: Slurm's order is that of names: Jupyter runs on cpu01, which has GPUs here.
FIRST, SECOND = "cpu01", "gpu01"


def laptop_for(cluster: Cluster, gpu_flag: str, *setup: str) -> Laptop:
    """A laptop of alice whose profile asks for GPUs with that flag."""
    laptop = cluster.laptop("alice", "nodes")
    values: dict[str, Mapping[str, Any]] = {
        "slurm": {"poll_seconds": 3, "gpu_flag": gpu_flag},
        "environment": {"setup": [*cluster.env_setup, *setup]},
    }
    laptop.write_profile("mini", values)
    return laptop


def asked_for(gpus: str, *more: str) -> list[str]:
    """What `connect` is given."""
    return ["mini", "--nodes", "2", "--partition", "wide", "--gpus", gpus, *more]


def nodes_of_steps(cluster: Cluster) -> list[str]:
    return cluster.run("login1", ["squeue", "-h", "-s", "-o", "%N"]).stdout.split()
