"""A job whose memory is full: the system ends a kernel or Jupyter, and the session says so."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.kernels import Kernel
from tests.connect.real.memory import (
    FILL,
    LIMIT_MB,
    end_jupyter_for_want_of_memory,
    needs_memory_groups,
)
from tests.connect.real.sessions import answers, connected, pids, run
from tests.waiting import eventually


@pytest.fixture
def laptop(cluster: Cluster) -> Laptop:
    fresh = cluster.laptop("alice", "memory")
    fresh.write_profile(
        "mini", {"slurm": {"poll_seconds": 2}, "allocation": {"memory": f"{LIMIT_MB}M"}}
    )
    return fresh


@needs_memory_groups
def test_a_kernel_and_jupyter_itself_run_out_of_memory(cluster: Cluster, laptop: Laptop) -> None:
    """The kernel is named; Jupyter comes back in the same job once, then the user is asked."""
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]
        kernel = Kernel(session.laptop)
        kernel.start("work.ipynb", FILL)
        lost = eventually(
            lambda: next((event for event in session.events if event.get("kernels")), None),
            lambda: f"no kernel was lost: {session.events}",
            seconds=40,
        )
        assert lost["kernels"] == ["work.ipynb"] and lost["limit"] == LIMIT_MB * 2**20
        assert f"the job's memory ({LIMIT_MB} MB) was full" in lost["text"]
        assert f"jupyter-hpc connect mini --mem {2 * LIMIT_MB}M" in lost["text"]
        assert "work.ipynb" in run(laptop, "status", "mini").stdout
        before = len(session.events)

        end_jupyter_for_want_of_memory(cluster, kernel)
        ready = session.wait_for("ready", after=before)
        (restarted,) = [event for event in session.events[before:] if "cause" in event]
        assert (restarted["event"], restarted["cause"]) == ("warning", "out_of_memory")
        assert "started again in the same job" in restarted["text"]
        assert ready["job_id"] == job
        answers(session)
        before = len(session.events)

        end_jupyter_for_want_of_memory(cluster, kernel)
        ended = session.wait_for("ended", after=before)
        assert (ended["cause"], ended["state"]) == ("out_of_memory", "RUNNING")
        assert f"Job {job} stays." in ended["text"]
        assert session.wait_exit() == 1
    with connected(laptop, "mini") as session:
        assert session.wait_for("ready")["job_id"] == job
        for pid in pids(cluster, "cpu01", "jupyter-lab"):
            cluster.run("cpu01", ["kill", "-9", pid], check=True)
        killed = eventually(
            lambda: next((event for event in session.events if "cause" in event), None),
            lambda: f"Jupyter's end was not told: {session.events}",
            seconds=30,
        )
        assert killed["cause"] == "failed" and "exit code 137" in killed["text"]
        assert run(laptop, "stop", "mini").returncode == 0
    eventually(lambda: cluster.jobs() == [], "no job is left")
