"""What runs, and how it is ended: from another laptop, after a death, after an end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import connected, record, run
from tests.waiting import eventually

_PROFILE: dict[str, dict[str, Any]] = {
    "allocation": {"partition": "gpu", "gpus": 1, "gpu_type": "a100"},
    "slurm": {"poll_seconds": 5},
    "budget": {"unit": "SBU"},
    "budget.rates": {"gpu_hour": 1},
    # A second of one is one SBU.
    "budget.rates.gpu_types": {"a100": 3600, "p4": 36_000},
}


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "runs")
    fresh.write_profile("mini", _PROFILE)
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


@pytest.fixture
def other(cluster: Cluster) -> Laptop:
    """A second laptop of hers, with the same profile; it has never been connected."""
    fresh = cluster.laptop("alice", "runs-too")
    fresh.write_profile("mini", _PROFILE)
    return fresh


def _entries(laptop: Laptop, *words: str) -> list[dict[str, Any]]:
    done = run(laptop, "status", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _queue(cluster: Cluster) -> str:
    listed = ["squeue", "--user=alice", "-h", "-t", "PD,R", "-o", "%i"]
    return cluster.run("login1", listed).stdout.strip()


def test_another_laptop_sees_a_session_and_stops_it(
    cluster: Cluster, laptop: Laptop, other: Laptop
) -> None:
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]
        # One a100 for 30 minutes of an hour at 3600 SBU; not the dearer p4, nor any other GPU.
        assert session.wait_for("cost")["text"] == "The job costs at most 1800 SBU."
        assert _entries(other) == []
        (entry,) = _entries(other, "mini")
        assert (entry["cluster"], entry["state"], entry["here"]) == ("mini", "running", False)
        assert (entry["job_id"], entry["nodes"], entry["gpus"]) == (job, "gpu01", 1)
        assert entry["gpu_type"] == "a100" and entry["ends_at"] and entry["cost"] > 0
        words = run(other, "status", "--all").stdout
        assert f"mini: running, not connected here, job {job}, on gpu01, 1 a100 GPU" in words
        assert "SBU so far" in words
        assert "Come back: jupyter-hpc connect mini. End it: jupyter-hpc stop mini." in words
        (here,) = _entries(laptop, "--all")
        assert here["here"] and here["gpus"] == 1 and here["cost"] > 0
        asked = ["squeue", "--noheader", "--format=%M", f"--jobs={job}"]
        *_, minutes, seconds = map(int, cluster.run("login1", asked).stdout.strip().split(":"))
        assert entry["cost"] <= 60 * minutes + seconds + 1, "so many seconds, so many SBU"

        address = run(other, "url", "mini")
        assert address.returncode == 2 and f"its job {job} is running on gpu01" in address.stderr
        left = run(other, "disconnect", "mini")
        assert left.returncode == 2 and "Nothing is to be left" in left.stderr
        assert "ServerApp" in run(other, "logs", "mini", "-n", "50").stdout
        opened = run(other, "open", "mini")
        assert opened.returncode == 0 and "It is being connected here" in opened.stderr
        assert f"Job {job} stays." in run(other, "disconnect", "mini").stdout

        stopped = run(other, "stop", "mini")
        assert stopped.returncode == 0, stopped.stderr
        assert stopped.stdout.strip() == f"mini: Job {job} was cancelled, as asked."
        assert session.wait_for("ended")["cause"] == "cancelled"
    assert _queue(cluster) == ""
    assert _entries(other, "mini") == []
    again = run(other, "stop", "mini")
    assert again.returncode == 2 and "neither on this laptop nor on its cluster" in again.stderr


def test_a_waiting_session_and_one_of_an_unknown_profile_are_listed(
    cluster: Cluster, laptop: Laptop
) -> None:
    def waiting(name: str) -> str:
        words = ["sbatch", "--parsable", "-H", "-p", "gpu", "--gpus=a100:1", "-t", "5", "-J", name]
        return cluster.run("login1", [*words, "--wrap", "true"], user="alice").stdout.strip()

    ours, foreign = waiting("jupyter-hpc-mini-2"), waiting("jupyter-hpc-nowhere")
    waiting("notebook")
    laptop.write_profile("wrong", {"login": {"hots": "x"}})
    mini, nowhere, wrong = _entries(laptop, "--all")
    assert (wrong["cluster"], wrong["state"]) == ("wrong", "not asked")
    assert "hots" in wrong["problem"]
    assert (mini["cluster"], mini["state"], mini["job_id"]) == ("mini-2", "pending", ours)
    assert mini["cost"] == 0 and mini["reason"] and mini["ends_at"] is None
    assert (nowhere["cluster"], nowhere["connect"]) == ("nowhere", None)
    assert nowhere["stop"] == f"jupyter-hpc cancel {foreign} --on mini"
    assert run(laptop, *nowhere["stop"].split()[1:]).returncode == 0
    assert run(laptop, "stop", "mini-2").returncode == 0
    assert [entry["cluster"] for entry in _entries(laptop, "--all")] == ["wrong"]


def test_a_session_whose_program_was_killed_is_found_and_stopped(
    cluster: Cluster, laptop: Laptop
) -> None:
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]
        assert session.end(signal.SIGKILL) == -signal.SIGKILL
    (entry,) = _entries(laptop)
    assert (entry["state"], entry["job_id"], entry["here"]) == ("left", job, False)
    (asked,) = _entries(laptop, "mini")
    assert (asked["state"], asked["job_id"]) == ("running", job)
    assert "has died" in asked["problem"]
    assert run(laptop, "stop", "mini").stdout == f"mini: Job {job} was cancelled, as asked.\n"
    assert _queue(cluster) == ""
    assert _entries(laptop) == []


def test_a_session_that_is_over_stands_in_nobodys_way(cluster: Cluster, laptop: Laptop) -> None:
    done = run(laptop, "connect", "mini", "--detach", "--json", timeout=120)
    assert done.returncode == 0, done.stderr
    manager = record(laptop, "mini")["pid"]
    try:
        cluster.run("login1", ["scancel", json.loads(done.stdout.splitlines()[-1])["job_id"]])
        eventually(lambda: _entries(laptop)[0]["state"] == "ended", seconds=60)
        listed = run(laptop, "jobs", "--on", "mini")
        assert listed.returncode == 0, listed.stderr
        left = run(laptop, "disconnect", "mini")
        assert left.returncode == 0, left.stderr
    finally:
        if os.path.exists(f"/proc/{manager}"):
            os.kill(manager, signal.SIGKILL)
