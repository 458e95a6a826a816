"""Forwarding, idle release, several sessions and the pending log, on the real cluster."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.laptop import ENV_SETUP, Laptop
from tests.connect.real.sessions import connected, record, run
from tests.node.boards import write_standin
from tests.waiting import eventually


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[Laptop]:
    fresh = cluster.laptop("alice", "extras")
    fresh.write_profile("mini", {"slurm": {"poll_seconds": 600}})
    yield fresh
    cluster.run("login1", ["scancel", "--user=alice"])
    cluster.wait_until_idle(60)


def _get(port: int, path: str = "/") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("localhost", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_port_of_the_node_is_forwarded(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        words = ["-m", "http.server", "0", "--bind", "127.0.0.1", "-d", "/etc/slurm"]
        server = cluster.popen(
            "cpu01", ["python3", "-u", *words], user="alice", stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            remote = server.stdout.readline().split()[5].decode()  # Serving HTTP on HOST port PORT
            local = record(laptop, "mini")["port"] - 10000  # the system gives this one to nobody
            done = run(laptop, "forward", "mini", remote, "--port", str(local))
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == f"http://localhost:{local}"
            status, body = _get(local, "/slurm.conf")
            assert status == 200
            assert b"ClusterName" in body
            assert done.stderr == ""
            listed = run(laptop, "forward", "mini").stdout
            shown = f"http://localhost:{local}: port {remote} of the node; something listens there"
            assert listed.strip() == shown
        finally:
            server.kill()
            server.communicate()
        again = run(laptop, "forward", "mini", remote, "--port", str(local))
        assert again.returncode == 0 and "nothing listens there yet" in again.stderr
        ended = run(laptop, "forward", "mini", remote, "--end")
        assert ended.stdout.strip() == f"http://localhost:{local} is closed."
        with pytest.raises(ConnectionRefusedError):
            _get(local)
        assert "forwards nothing" in run(laptop, "forward", "mini").stdout
        twice = run(laptop, "forward", "mini", remote, "--end")
        assert twice.returncode == 2 and "is not forwarded" in twice.stderr
        wrong = run(laptop, "forward", "mini", "login1:22")
        assert wrong.returncode == 2
        assert "neither a port" in wrong.stderr


def test_tensorboard_opens_without_a_port_of_the_node(cluster: Cluster, laptop: Laptop) -> None:
    home = cluster.home("alice")
    write_standin(home / "packages")
    (home / "my runs").mkdir(exist_ok=True)
    setup = [*ENV_SETUP, "export PYTHONPATH=/home/alice/packages:$PYTHONPATH"]
    laptop.write_profile("mini", {"environment": {"setup": setup}})
    with connected(laptop, "mini") as session:
        session.wait_for("ready")
        before = cluster.run("cpu01", ["ss", "-Hltn"]).stdout
        words = ("tensorboard", "mini", "my runs", "--no-browser")
        opened = run(laptop, *words)
        assert opened.returncode == 0, opened.stderr
        address = opened.stdout.strip()
        port = int(address.rpartition(":")[2].strip("/"))
        assert _get(port) == (200, b"TensorBoard of /home/alice/my runs")
        assert cluster.run("cpu01", ["ss", "-Hltn"]).stdout == before
        assert run(laptop, *words).stdout.strip() == address
        assert "something listens there" in run(laptop, "forward", "mini").stdout
        missing = run(laptop, "tensorboard", "mini", "no such folder")
        assert missing.returncode == 2
        assert "There is no folder /home/alice/no such folder here" in missing.stderr
        assert run(laptop, "stop", "mini").returncode == 0
    mine = ["pgrep", "-u", "alice", "-f", "tensorboard_socket"]
    eventually(lambda: cluster.run("cpu01", mine).returncode == 1)


def test_an_idle_session_is_released(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini", "--idle-release", "4s") as session:
        job = session.wait_for("ready")["job_id"]
        ended = session.wait_for("ended")
        assert ended["cause"] == "requested"
        assert "released" in ended["text"]
        assert session.wait_exit() == 0
    states = cluster.run("login1", ["squeue", "-h", "-j", job, "-o", "%T"]).stdout
    assert "RUNNING" not in states


def test_new_makes_a_second_session_beside_the_first(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as one, connected(laptop, "mini", "--new") as two:
        first, second = one.wait_for("ready"), two.wait_for("ready", 60)
        assert first["job_id"] != second["job_id"]
        assert first["port"] != second["port"]
        assert second["cluster"] == "mini-2"
        names = [entry["cluster"] for entry in json.loads(run(laptop, "status", "--json").stdout)]
        assert names == ["mini", "mini-2"]
        assert run(laptop, "stop", "mini-2").returncode == 0
        assert two.wait_exit() == 0
        eventually(lambda: cluster.jobs() == [first["job_id"]])


def test_new_is_called_as_its_job_is(cluster: Cluster, laptop: Laptop) -> None:
    """Sessions that only the cluster knows, left or of another laptop, keep their names."""
    with connected(laptop, "mini", "--new") as session:
        left = session.wait_for("ready")
        assert session.end() == 143
    with connected(laptop, "mini", "--new") as session:
        ready = session.wait_for("ready")
        assert ready["cluster"] == "mini-3" and ready["port"] != left["port"]
        (entry,) = json.loads(run(laptop, "status", "--json").stdout)
        assert (entry["cluster"], entry["port"]) == ("mini-3", ready["port"])
        assert session.end() == 143
    for name, known in (("mini-2", left), ("mini-3", ready)):
        with connected(laptop, name) as session:
            again = session.wait_for("ready")
            assert (again["job_id"], again["port"]) == (known["job_id"], known["port"])


def test_an_adopted_pending_job_starts_without_waiting_for_a_poll(
    cluster: Cluster, laptop: Laptop
) -> None:
    """With ten minutes between two polls, only salloc's log can tell this soon."""
    cluster.run(
        "login1", ["salloc", "--no-shell", "-p", "cpu", "--exclusive", "-t", "5"], user="mallory"
    )
    other = cluster.laptop("alice", "second")
    other.write_profile("mini", {"slurm": {"poll_seconds": 600}})
    try:
        with connected(laptop, "mini") as one, connected(other, "mini") as two:
            job = one.wait_for("pending")["job_id"]
            assert two.wait_for("pending")["job_id"] == job
            cluster.run("login1", ["scancel", "--user=mallory"])
            assert one.wait_for("ready")["job_id"] == job
            assert two.wait_for("ready")["job_id"] == job
    finally:
        cluster.run("login1", ["scancel", "--user=mallory"])


def test_a_job_that_could_not_be_cancelled_is_named(cluster: Cluster, laptop: Laptop) -> None:
    with connected(laptop, "mini") as session:
        job_id = session.wait_for("ready")["job_id"]
        cluster.black_hole()
        try:
            session.wait_for("reconnecting")
            failed = run(laptop, "stop", "mini")
        finally:
            cluster.fill_hole()
        assert failed.returncode == 1
        assert f"Job {job_id} could not be cancelled" in failed.stderr
    assert cluster.jobs() == [job_id]
