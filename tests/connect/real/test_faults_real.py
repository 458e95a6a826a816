"""What laptops and clusters do to a session, on a real Slurm with real SSH.

What a session simply outlives is in test_outlives_real.py, with one session for all of it.

Short forms; the long ones are marked `faults` and run by `make faults`. In each: no
hang, a true sentence, nothing orphaned, and where the job lives, the session comes
back by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import Laptop
from tests.cluster.layout import user_named
from tests.connect.fault_proxy import FaultProxy
from tests.connect.real.sessions import answers, connected, pids, run
from tests.waiting import eventually, throughout


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "faults")
    fresh.write_profile("mini", {"slurm": {"poll_seconds": 3}})
    yield fresh
    cluster.heal()  # a node that cannot end frozen processes in time is drained by Slurm


def test_the_manager_is_killed_and_connect_run_again(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        first = session.wait_for("ready")
        session.process.kill()
        session.wait_exit()
    with connected(laptop, "mini") as session:
        again = session.wait_for("ready")
        assert (again["job_id"], again["port"]) == (first["job_id"], first["port"])
        answers(session)
        assert len(pids(cluster, "cpu01", "jupyter-lab")) == 1


def test_the_job_is_cancelled_elsewhere(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]
        cluster.run("login1", ["scancel", job], user="alice")
        ended = session.wait_for("ended", 30)
        assert ended["cause"] == "cancelled"
        assert "you" in ended["text"]
        assert session.wait_exit() == 1


def test_a_suspended_job_is_said_to_be_one(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]

        def told() -> str:
            return "\n".join(event["text"] for event in session.events)

        cluster.run("login1", ["scontrol", "suspend", job], check=True)
        eventually(lambda: f"suspended job {job}" in told(), told)
        cluster.run("login1", ["scontrol", "resume", job], check=True)
        eventually(lambda: "resumed" in told(), told)
        eventually(lambda: session.get("/api")[0] == 200)


def test_warnings_are_given_again_once_the_time_limit_was_extended(
    cluster: Cluster, laptop: Laptop
) -> None:
    laptop.write_profile("mini", {"slurm": {"poll_seconds": 1}})
    with connected(laptop, "mini") as session:
        job = session.wait_for("ready")["job_id"]

        def told() -> list[str]:
            return [event["text"] for event in session.events if event["event"] == "warning"]

        def limit(minutes: int, said: str) -> None:
            before = len(told())
            changed = ["scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}"]
            cluster.run("login1", changed, check=True)
            eventually(lambda: any(said in text for text in told()[before:]), lambda: str(told()))

        limit(9, "The job's time limit comes in ")
        limit(90, "The job's time limit was extended: it ends in ")
        limit(9, "The job's time limit comes in ")


@pytest.mark.faults
def test_the_time_limit_is_reached(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini", "--time", "1") as session:
        session.wait_for("ready")
        assert "minute" in session.wait_for("warning", 30)["text"]
        ended = session.wait_for("ended", 150)
        assert ended["cause"] == "time_limit"
        assert session.wait_exit() == 1


@pytest.mark.faults
@pytest.mark.parametrize("poll_seconds", [3, 60])
def test_the_node_is_lost(cluster: Cluster, laptop: Laptop, poll_seconds: int) -> None:
    """Also where the session asks what is wrong before Slurm knows: it is no end of Jupyter."""
    laptop.write_profile("mini", {"slurm": {"poll_seconds": poll_seconds}})
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        cluster.cut("cpu01")
        try:
            ended = session.wait_for("ended", 150)
            assert ended["cause"] == "node_failure" and "A node of the job failed" in ended["text"]
            told = [event["text"] for event in session.events]
            assert not any("Jupyter ended" in text for text in told), told
            assert session.names().count("starting") == 1
        finally:
            cluster.restore("cpu01")
            cluster.run("login1", ["scontrol", "update", "nodename=cpu01", "state=resume"])


@contextlib.contextmanager
def occupied(cluster: Cluster) -> Iterator[None]:
    """Another user has all that a job of ours could run on."""
    cluster.run(
        "login1",
        ["salloc", "--no-shell", "-p", "cpu", "--exclusive", "-t", "5"],
        user="mallory",
    )
    try:
        yield
    finally:
        cluster.run("login1", ["scancel", "--user=mallory"])


def test_a_pending_allocation_survives_a_cut(cluster: Cluster, laptop: Laptop) -> None:
    with occupied(cluster), connected(laptop, "mini") as session:
        job = session.wait_for("pending")["job_id"]
        cluster.black_hole()
        try:
            throughout(lambda: session.process.poll() is None, seconds=6)
            cluster.run("login1", ["scancel", "--user=mallory"])
            state = ["squeue", "-h", "-j", job, "-o", "%T"]
            eventually(lambda: cluster.run("login1", state).stdout.strip() == "RUNNING")
            throughout(lambda: "ready" not in session.names(), seconds=2)
        finally:
            cluster.fill_hole()
        ready = session.wait_for("ready", 60)
        assert ready["job_id"] == job


def test_a_pending_allocation_that_somebody_stops_meanwhile_is_not_asked_for_again(
    cluster: Cluster, laptop: Laptop
) -> None:
    with occupied(cluster), connected(laptop, "mini") as session:
        job = session.wait_for("pending")["job_id"]
        cluster.black_hole()
        try:
            cluster.run("login1", ["scancel", "--user=alice"], user="alice", check=True)
            cluster.run("login1", ["scancel", "--user=mallory"])
            state = ["squeue", "-h", "-j", job, "-o", "%T"]
            eventually(lambda: not cluster.run("login1", state).stdout.strip())
            assert cluster.kill_sessions("login1", "alice")
        finally:
            cluster.fill_hole()
        assert session.wait_exit(60) == 1
        assert "cancelled by you" in session.errors and "warning" not in session.names()
        assert cluster.jobs() == []


def test_a_pending_allocation_that_ends_with_the_connection_is_asked_for_again(
    cluster: Cluster,
) -> None:
    laptop = cluster.laptop("alice", "ended-salloc")  # it learns something about the cluster
    laptop.write_profile("mini")
    with occupied(cluster), connected(laptop, "mini") as session:
        job = session.wait_for("pending")["job_id"]
        cluster.black_hole()
        try:
            cluster.run("login1", ["pkill", "-TERM", "-x", "salloc"], user="alice")
            assert cluster.kill_sessions("login1", "alice")
        finally:
            cluster.fill_hole()
        said = session.wait_for("warning", 60)["text"]
        assert said.startswith(f"The request for job {job} did not outlive the lost connection")
        cluster.run("login1", ["scancel", "--user=mallory"])
        assert session.wait_for("ready", 90)["job_id"] != job


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_the_home_folder_cannot_be_written(cluster: Cluster, laptop: Laptop, state: str) -> None:
    if state == "full":
        cluster.homes.fill("alice")
    else:
        cluster.homes.lock("alice")
    # One that Slurm had to kill in an earlier test may have left its own.
    before = _folders(cluster, "cpu01")
    try:
        with connected(laptop, "mini") as session:
            ready = session.wait_for("ready", 60)
            assert ready["node"] == "cpu01"
            said = [event["text"] for event in session.events if event["event"] == "warning"]
            assert any("home folder" in text for text in said)
            answers(session)
            session.end()
        with connected(laptop, "mini") as session:
            assert session.wait_for("ready")["job_id"] == ready["job_id"]
        cluster.run("login1", ["scancel", "--user=alice"])
        cluster.wait_until_idle()
        assert _folders(cluster, ready["node"]) <= before, "what this session has made is gone"
    finally:
        cluster.homes.restore("alice")


def _folders(cluster: Cluster, node: str) -> set[str]:
    """What sessions have made on the node."""
    found = cluster.run(node, ["find", "/tmp", "-user", "alice", "-name", "j*h*"])
    return set(found.stdout.split())


def test_a_first_login_host_that_is_silent_or_no_ssh_server(
    cluster: Cluster, laptop: Laptop
) -> None:
    """The second one is used, and comes first from then on; alone, it is called what it is."""
    with FaultProxy(cluster.slot.login_address, 22) as network:
        other = f"Host first\n  HostName 127.0.0.1\n  Port {network.port}\n  HostKeyAlias login1\n"
        laptop.ssh_config.write_text(other + laptop.ssh_config.read_text())
        network.mode = "portal"
        laptop.write_profile("mini", {"login": {"host": ["first"]}})
        failed = run(laptop, "connect", "mini")
        assert failed.returncode == 1 and "a web server answers, not an SSH server" in failed.stderr
        laptop.write_profile("mini", {"login": {"host": ["first", "login1"]}})
        network.mode = "stall"
        with connected(laptop, "mini") as session:
            session.wait_for("ready", 30)
            made, before = network.accepted, len(session.events)
            assert cluster.kill_sessions("login1", "alice")
            assert session.wait_for("reconnected", 15, after=before)["seconds"] < 5
            answers(session)
            assert network.accepted == made, "the one that worked is asked first"


def test_the_port_is_taken(cluster: Cluster, laptop: Laptop) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        failed = run(laptop, "connect", "mini", "--port", str(port))
    assert failed.returncode == 1
    assert f"Port {port}" in failed.stderr
    assert "--port" in failed.stderr
    assert cluster.jobs() == []


@pytest.mark.faults
def test_a_node_that_hangs_does_not_make_us_log_in_for_ever(
    cluster: Cluster, laptop: Laptop
) -> None:
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        before = cluster.authentications()
        node = cluster.hosts["cpu01"]
        frozen = [
            process.pid
            for process in node.processes()
            if process.uid == user_named("alice").uid or process.argv[0].startswith("sshd")
        ]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            session.wait_for("reconnecting", 10)
            throughout(lambda: "reconnected" not in session.names(), seconds=70)
        finally:
            for pid in frozen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        session.wait_for("reconnected", 60)
        answers(session)
        assert cluster.authentications() - before <= 2


@pytest.mark.faults
def test_a_host_that_ends_every_connection_is_not_stormed(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        before = cluster.authentications()
        deadline = time.monotonic() + 40
        while time.monotonic() < deadline:
            cluster.kill_sessions("login1", "alice")
            throughout(lambda: session.process.poll() is None, seconds=0.3)
        assert 2 <= cluster.authentications() - before <= 25
        session.wait_for("reconnected", 150, after=len(session.events))
        answers(session)
