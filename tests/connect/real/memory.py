"""Memory that is full: how a test fills it, and whom the system takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.connect.real.kernels import Kernel
from tests.connect.real.sessions import pids
from tests.waiting import eventually

LIMIT_MB = 700

#: More than the job has.
FILL = f"keep = b'x' * {2 * LIMIT_MB * 2**20}"

needs_memory_groups = pytest.mark.skipif(
    not Path("/sys/fs/cgroup/memory/memory.oom_control").exists(),
    reason="this kernel has no memory controller of version 1",
)

_WHEN_TOLD = "import os, time\nwhile not os.path.exists('fill'): time.sleep(0.1)\n"


def end_jupyter_for_want_of_memory(cluster: Cluster, kernel: Kernel) -> None:
    """A kernel fills the memory of the job, and the system takes Jupyter first."""
    servers = pids(cluster, "cpu01", "jupyter-lab")
    fill = cluster.home("alice") / "fill"
    fill.unlink(missing_ok=True)
    kernel.start("big.ipynb", _WHEN_TOLD + FILL)
    for pid in servers:
        cluster.run("cpu01", ["sh", "-c", f"echo 1000 > /proc/{pid}/oom_score_adj"], check=True)
    fill.touch()
    gone = lambda: not set(servers) & set(pids(cluster, "cpu01", "jupyter-lab"))  # noqa: E731
    eventually(gone, "Jupyter was ended", seconds=30)
