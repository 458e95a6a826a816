"""The handles of the cluster do what they say."""

from __future__ import annotations

import select
import signal
import subprocess
import time

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import user_named
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)


def test_a_command_on_a_host_ends_with_its_caller(cluster: Cluster) -> None:
    process = cluster.popen("cpu01", ["sleep", "4711"], user="alice")
    eventually(lambda: _runs(cluster, "cpu01", "sleep 4711"))
    process.kill()
    process.wait()
    eventually(lambda: not _runs(cluster, "cpu01", "sleep 4711"))
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run("cpu01", ["sh", "-c", "sleep 4712 & wait"], timeout=0.3)
    eventually(lambda: not _runs(cluster, "cpu01", "sleep 4712"))


def _runs(cluster: Cluster, host: str, line: str) -> bool:
    return any(" ".join(process.argv) == line for process in cluster.hosts[host].processes())


@pytest.mark.parametrize("fault", ["cut", "black hole"])
def test_a_fault_of_its_cable_stops_the_laptop_and_nothing_else(
    healed_cluster: Cluster, fault: str
) -> None:
    laptop = healed_cluster.laptop()
    if fault == "cut":
        healed_cluster.cut("laptop")
    else:
        healed_cluster.black_hole()
    assert laptop.ssh("login1", "true", options=["ConnectTimeout=1"]).returncode == 255
    assert healed_cluster.run("login1", ["ssh", "gpu01", "true"], user="alice").returncode == 0
    if fault == "cut":
        healed_cluster.restore("laptop")
    else:
        healed_cluster.fill_hole()
    # The first packets may still find the neighbour unknown.
    eventually(lambda: laptop.ssh("login1", "true").returncode == 0)


def test_an_open_connection_survives_a_short_black_hole(healed_cluster: Cluster) -> None:
    command = [*healed_cluster.laptop().ssh_command("login1"), "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as echo:
        assert echo.stdin is not None and echo.stdout is not None
        for text, silent in ((b"before\n", False), (b"within\n", True)):
            if silent:
                healed_cluster.black_hole()
            echo.stdin.write(text)
            echo.stdin.flush()
            arrived, _, _ = select.select([echo.stdout], [], [], 1 if silent else 60)
            assert bool(arrived) != silent
            healed_cluster.fill_hole()
            assert echo.stdout.readline() == text
        echo.stdin.close()


def test_a_cut_node_is_lost_to_the_cluster(healed_cluster: Cluster) -> None:
    def reach(patience: int) -> int:
        tried = ["ssh", "-o", f"ConnectTimeout={patience}", "gpu01", "true"]
        return healed_cluster.run("login1", tried, user="alice").returncode

    healed_cluster.cut("gpu01")
    assert reach(1) == 255
    healed_cluster.restore("gpu01")
    # The first packets may still find the neighbour unknown.
    eventually(lambda: reach(30) == 0)


def test_daemons_stop_and_start(healed_cluster: Cluster) -> None:
    for host, daemon in (("gpu01", "slurmd"), ("login1", "slurmctld"), ("login1", "slurmdbd")):
        healed_cluster.stop(host, daemon, signal.SIGKILL)
        assert healed_cluster.hosts[host].daemon(daemon) is None
        healed_cluster.start(host, daemon)
        assert healed_cluster.hosts[host].daemon(daemon) is not None
    # A controller that was killed knows jobs as they were seconds ago, when it last saved them:
    # one that an earlier test ended since then would be waited for as if it ran.
    left = eventually(lambda: (jobs := _listed_jobs(healed_cluster)) is not None and [jobs])[0]
    if left:
        healed_cluster.run("login1", ["scancel", *left])
    healed_cluster.wait_until_idle()


def _listed_jobs(cluster: Cluster) -> list[str] | None:
    """The jobs that the controller lists; None while it does not answer."""
    listed = cluster.run("login1", ["squeue", "-h", "-o", "%A"])
    return None if listed.returncode else listed.stdout.split()


def test_ssh_sessions_can_be_killed_one_by_one(healed_cluster: Cluster) -> None:
    # Sessions of earlier tests may still be about to close.
    eventually(lambda: healed_cluster.kill_sessions("login1") == 0)
    before = healed_cluster.authentications(user="alice")
    open_ones = {
        user: subprocess.Popen(
            [*healed_cluster.laptop(user).ssh_command("login1"), "echo in; exec sleep 600"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for user in ("alice", "mallory")
    }  # fmt: skip
    try:
        for process in open_ones.values():
            assert process.stdout is not None
            assert process.stdout.readline() == b"in\n"
        assert healed_cluster.authentications(user="alice") == before + 1
        assert healed_cluster.kill_sessions("login1", "alice") == 1
        assert open_ones["alice"].wait(60) == 255
        assert open_ones["mallory"].poll() is None
        healed_cluster.stop("login1", "sshd")
        assert open_ones["mallory"].poll() is None
        assert healed_cluster.laptop().ssh("login1", "true").returncode == 255
        healed_cluster.start("login1", "sshd")
        assert healed_cluster.laptop().ssh("login1", "true").returncode == 0
    finally:
        for process in open_ones.values():
            process.kill()
            process.communicate()


def test_a_crashed_node_comes_back(healed_cluster: Cluster) -> None:
    healed_cluster.run("login1", ["salloc", "--no-shell", "-p", "gpu"], user="alice", check=True)
    healed_cluster.crash("gpu01")
    assert healed_cluster.hosts["gpu01"].processes() == []
    healed_cluster.heal()
    asked = ["srun", "-p", "gpu", "hostname"]
    assert healed_cluster.run("login1", asked, user="alice").stdout == "gpu01\n"


def test_a_home_can_be_full_or_read_only_everywhere(healed_cluster: Cluster) -> None:
    def write(host: str, user: str) -> str:
        script = "cat ~/kept; head -c 100000 /dev/zero > ~/new"
        done = healed_cluster.run(host, ["sh", "-c", script], user=user)
        return done.stdout + done.stderr

    for user in ("alice", "mallory"):
        healed_cluster.run("login1", ["sh", "-c", "echo kept > ~/kept"], user=user, check=True)
    for change, complaint in (
        (healed_cluster.homes.fill, "No space left on device"),
        (healed_cluster.homes.lock, "Read-only file system"),
    ):
        change("alice")
        for host in healed_cluster.hosts:
            assert write(host, "alice").startswith("kept\n")
            assert complaint in write(host, "alice")
            assert write(host, "mallory") == "kept\n"
        healed_cluster.homes.restore("alice")
        assert write("gpu01", "alice") == "kept\n"
        assert write("login1", "alice") == "kept\n"


def test_a_slow_laptop_waits_for_every_round_trip(cluster: Cluster) -> None:
    with cluster.slow_laptop(milliseconds=100) as laptop:
        command = [*laptop.ssh_command("login1"), "cat"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as echo:
            assert echo.stdin is not None and echo.stdout is not None
            trips = []
            for _ in range(3):
                began = time.monotonic()
                echo.stdin.write(b"x\n")
                echo.stdin.flush()
                assert echo.stdout.readline() == b"x\n"
                trips.append(time.monotonic() - began)
            echo.stdin.close()
    assert 0.2 <= min(trips) < 10


def test_a_changed_host_key_is_noticed(healed_cluster: Cluster) -> None:
    laptop = healed_cluster.laptop()
    for host in ("login1", "gpu01"):
        with healed_cluster.changed_host_key(host):
            assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in laptop.ssh(host, "true").stderr
        assert laptop.ssh(host, "true").returncode == 0


def test_a_laptop_can_lack_the_nodes_host_keys(cluster: Cluster) -> None:
    laptop = cluster.laptop(name="second", knows=["login1"])
    assert laptop.ssh("login1", "true").returncode == 0
    assert "Host key verification failed" in laptop.ssh("gpu01", "true").stderr


def test_listeners_are_seen_with_their_owner(cluster: Cluster) -> None:
    script = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0));"
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    server = cluster.popen(
        "cpu01", ["/usr/bin/python3", "-c", script], user="mallory",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    port = int(server.stdout.readline())
    seen = cluster.hosts["cpu01"].listeners("mallory")
    assert [(each.address, each.port) for each in seen] == [("127.0.0.1", port)]
    assert seen[0].uid == user_named("mallory").uid
    assert cluster.hosts["cpu01"].listeners("alice") == []
    server.communicate()
    assert cluster.hosts["cpu01"].listeners("mallory") == []


def test_a_profile_says_how_to_connect(cluster: Cluster) -> None:
    laptop = cluster.laptop()
    path = laptop.write_profile("mini", {"allocation": {"partition": "gpu", "gpus": 1}})
    assert path.is_relative_to(laptop.environment["JUPYTER_CONFIG_DIR"])
    text = path.read_text()
    assert 'partition = "gpu"\n' in text and "gpus = 1\n" in text
    assert f'ssh_config = "{laptop.ssh_config}"' in text
