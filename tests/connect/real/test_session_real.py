"""connect on a real Slurm with real SSH, from the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.connect.real.sessions import connected, record, run
from tests.waiting import eventually


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    """A laptop of alice with a profile "mini"; her jobs are gone afterwards."""
    fresh = cluster.laptop("alice", "sessions")
    fresh.write_profile(
        "mini",
        {
            "allocation": {"partition": "gpu", "gpus": 1, "gpu_type": "a100"},
            "slurm": {"poll_seconds": 5},
        },
    )
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def _her_jobs(cluster: Cluster) -> list[str]:
    """A cancelled job is listed until its node is clean."""
    return cluster.run("login1", ["squeue", "--user=alice", "-h", "-o", "%i"]).stdout.split()


def test_a_session_opens_answers_and_leaves_its_job(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        ready = session.wait_for("ready")
        # Also on an idle cluster the scheduler may take its time.
        names = [name for name in session.names() if name != "pending"]
        assert names[:4] == ["authenticating", "running", "starting", "ready"]
        assert ready["node"] == "gpu01"
        assert ready["transport"] == "ssh"
        assert ready["url"] == f"http://localhost:{ready['port']}/lab"
        assert "token" not in json.dumps(session.events)
        status, _, _ = session.get("/api")
        assert status == 200
        assert session.get("/api/status")[0] == 403
        assert session.end(signal.SIGTERM) == 143
        assert f"Job {ready['job_id']} stays." in session.errors
    left = cluster.run("login1", ["squeue", "--user=alice", "-h", "-o", "%i %j %T"]).stdout
    assert left.split() == [ready["job_id"], "jupyter-hpc-mini", "RUNNING"]


def test_the_same_job_is_adopted_and_then_stopped(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        first = session.wait_for("ready")
        assert session.end(signal.SIGINT) == 130
    other = cluster.laptop("alice", "second")
    other.write_profile("mini", {"allocation": {"partition": "cpu"}})
    with connected(other, "mini") as session:
        again = session.wait_for("ready")
        assert again["job_id"] == first["job_id"]
        stopped = run(other, "stop", "mini")
        assert stopped.returncode == 0, stopped.stderr
        assert first["job_id"] in stopped.stdout
        assert session.wait_exit() == 0
        assert session.events[-1]["event"] == "ended"
        assert session.events[-1]["cause"] == "requested"
    eventually(lambda: _her_jobs(cluster) == [])


def test_commands_about_a_session(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        ready = session.wait_for("ready")
        listed = json.loads(run(laptop, "status", "--json").stdout)
        assert [entry["cluster"] for entry in listed] == ["mini"]
        entry = listed[0]
        assert entry["state"] == "ready"
        assert entry["pid"] == session.process.pid
        assert {"job_id", "node", "port", "url", "transport", "ends_at"} <= entry.keys()
        url = run(laptop, "url", "mini").stdout.strip()
        status, body, _ = session.get("/api/status?" + url.partition("?")[2])
        assert status == 200
        assert json.loads(body)["kernels"] == 0
        assert "ServerApp" in run(laptop, "logs", "mini").stdout
        again = run(laptop, "connect", "mini", "--json")
        assert json.loads(again.stdout)["job_id"] == ready["job_id"]
        left = run(laptop, "disconnect", "mini")
        assert left.returncode == 0, left.stderr
        assert session.wait_exit() == 0
    assert run(laptop, "status", "--json").stdout.strip() == "[]"
    missing = run(laptop, "disconnect", "mini")
    assert missing.returncode == 2
    assert "jupyter-hpc connect mini" in missing.stderr


def test_the_port_answers_while_the_job_waits(cluster: Cluster, laptop: Laptop) -> None:
    blocker = cluster.run(
        "login1",
        ["salloc", "--no-shell", "-p", "gpu", "--exclusive", "-t", "5", "-J", "blocker"],
        user="mallory",
    )
    assert blocker.returncode == 0, blocker.stderr
    try:
        with connected(laptop, "mini") as session:
            pending = session.wait_for("pending")
            assert pending["reason_text"]
            status, body, _ = session.get("/lab", {"Accept": "text/html"})
            assert status == 200
            assert b"Waiting in the queue" in body
            assert session.get("/api/kernels")[0] == 503
            cluster.run("login1", ["scancel", "--user=mallory"])
            session.wait_for("ready", 60)
            assert session.get("/api")[0] == 200
    finally:
        cluster.run("login1", ["scancel", "--user=mallory"])


def test_a_rejected_request_names_what_is_allowed(cluster: Cluster, laptop: Laptop) -> None:
    failed = run(laptop, "connect", "mini", "--partition", "nosuch")
    assert failed.returncode == 1
    assert "partition" in failed.stderr
    assert "gpu" in failed.stderr
    assert "cpu" in failed.stderr
    assert _her_jobs(cluster) == []


def test_nothing_of_ours_is_left_after_stop(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        assert run(laptop, "stop", "mini").returncode == 0
        session.wait_exit()
    hers, hosts = ["ps", "-u", "alice"], ("login1", "gpu01")
    eventually(lambda: all(cluster.run(host, hers).returncode == 1 for host in hosts))
    assert cluster.run("gpu01", ["sh", "-c", "ls -d /tmp/jh-* 2>/dev/null"]).stdout == ""
    assert not (laptop.home / ".local/share/jupyter/hpc/sessions/mini.json").exists()
    with pytest.raises(FileNotFoundError):
        record(laptop, "mini")


def test_two_connects_at_the_same_moment_make_one_session(cluster: Cluster, laptop: Laptop) -> None:
    other = cluster.laptop("alice", "second")
    other.write_profile("mini", {"allocation": {"partition": "gpu", "gpus": 1}})
    with connected(laptop, "mini") as one, connected(other, "mini") as two:
        jobs = {session.wait_for("ready", 60)["job_id"] for session in (one, two)}
        assert len(jobs) == 1
        assert _her_jobs(cluster) == list(jobs)
