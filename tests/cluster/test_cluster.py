"""The default cluster is what it says, and its handles do what they say."""

from __future__ import annotations

import re
import select
import signal
import socket
import subprocess
import time

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import CHATTER, NODES, user_named
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(300)


def test_it_says_how_long_it_took_to_start(cluster: Cluster) -> None:
    """A few seconds are the goal, and no limit for a busy machine."""
    print(f"up in {cluster.seconds_to_start:.2f} s")
    assert 0 < cluster.seconds_to_start < 60


def test_every_host_has_its_own_tmp_and_the_same_home(cluster: Cluster) -> None:
    cluster.run("gpu01", ["touch", "/tmp/here", "/home/alice/everywhere"], user="alice", check=True)
    assert (cluster.home("alice") / "everywhere").exists()
    home = cluster.run("login1", ["ls", "/home/alice"], user="alice").stdout
    assert "everywhere" in home.split()
    assert "here" not in cluster.run("login1", ["ls", "/tmp"]).stdout.split()
    assert "here" in cluster.run("gpu01", ["ls", "/tmp"]).stdout.split()


def test_no_host_can_change_a_file_of_this_machine(cluster: Cluster) -> None:
    tried = cluster.run("login1", ["touch", "/usr/written", "/root/written"])
    assert tried.stderr.count("Read-only file system") == 2


def test_the_cluster_lives_in_another_time_zone(cluster: Cluster) -> None:
    there = cluster.laptop().ssh("login1", "date +%z").stdout.strip()
    assert there != time.strftime("%z")


def test_users_have_their_shells(cluster: Cluster) -> None:
    for name, version in {"alice": "5.", "fiona": "3.", "tara": "tcsh"}.items():
        variable = "$BASH_VERSION" if name == "alice" else "$version"
        said = cluster.laptop(name).ssh("login1", f"echo {variable}")
        assert said.stdout.startswith(version), name


def test_one_user_s_shell_prints_whatever_it_is_asked(cluster: Cluster) -> None:
    said = cluster.laptop("chad").ssh("login1", "echo asked")
    assert said.stdout == f"{CHATTER}\nasked\n"
    assert CHATTER in said.stderr


def test_the_laptop_reaches_nodes_only_through_the_login_host(cluster: Cluster) -> None:
    laptop = cluster.laptop()
    for node in NODES:
        assert laptop.ssh(node, "hostname").stdout == f"{node}\n"
        with pytest.raises(OSError), socket.create_connection((cluster.slot.address(node), 22), 2):
            pass
    inside = cluster.run("login1", ["ssh", "gpu01", "hostname"], user="alice")
    assert inside.stdout == "gpu01\n"


def test_no_packet_for_a_test_address_leaves_the_machine(healed_cluster: Cluster) -> None:
    def way(address: str) -> str:
        shown = subprocess.run(["ip", "route", "get", address], capture_output=True, text=True)
        return shown.stdout + shown.stderr

    slot = healed_cluster.slot
    outside = [slot.address("gpu01"), f"10.88.{slot.number}.200"]
    for state in ("up", "down"):
        assert all("No route to host" in way(address) for address in outside), state
        for address in (
            slot.login_address,
            f"10.77.{slot.number}.200",
        ):
            assert f"dev {slot.laptop_link}" in way(address), state
        healed_cluster.cut("laptop")
    subprocess.run(["ip", "link", "set", slot.laptop_link, "down"], check=True)
    try:
        assert "No route to host" in way(slot.login_address)
    finally:
        subprocess.run(["ip", "link", "set", slot.laptop_link, "up"], check=True)


def test_a_user_gets_a_typed_gpu_and_no_other(healed_cluster: Cluster) -> None:
    script = "hostname; echo $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES; cat /dev/nvidia2 /dev/nvidia3"
    asked = ["srun", "-p", "gpu", "--gres=gpu:p4:1", "sh", "-c", script]
    answer = healed_cluster.run("login1", asked, user="alice")
    assert answer.stdout.split() == ["gpu01", "2", "0"]
    assert "/dev/nvidia2: No such device" in answer.stderr
    assert "/dev/nvidia3: Operation not permitted" in answer.stderr


def test_accounting_knows_who_may_do_what(healed_cluster: Cluster) -> None:
    def submit(user: str, *options: str) -> str:
        done = healed_cluster.run("login1", ["sbatch", *options, "--wrap=sleep 60"], user=user)
        return done.stdout + done.stderr

    assert "Invalid account" in submit("carol")
    assert "Invalid account" in submit("mallory", "--account=tiny")
    assert "Invalid qos" in submit("alice", "--qos=none")
    assert "Submitted" in submit("alice", "--account=tiny", "-c", "3", "--job-name=big")
    assert "Submitted" in submit("alice", "--qos=short", "--time=10", "--job-name=long")
    assert "Submitted" in submit("tara", "-p", "gpu", "--qos=gpu1", "--gpus=2", "--job-name=gpus")
    wanted = [
        "big AssocGrpCpuLimit",
        "gpus QOSMaxGRESPerUser",
        "long QOSMaxWallDurationPerJobLimit",
    ]
    queue = ["squeue", "-h", "-t", "PD", "-S", "j", "-o", "%j %r"]
    eventually(lambda: healed_cluster.run("login1", queue).stdout.splitlines() == wanted)
    past = ["sacct", "-X", "-n", "-P", "-o", "User"]
    eventually(lambda: "alice" in healed_cluster.run("login1", past, user="alice").stdout)


def test_a_job_that_takes_too_much_memory_is_killed(healed_cluster: Cluster) -> None:
    greedy = "b = bytearray(400 * 2**20)"
    asked = ["srun", "--mem=100M", "/usr/bin/python3", "-c", greedy]
    answer = healed_cluster.run("login1", asked, user="alice")
    assert "oom" in answer.stderr.lower(), answer.stderr
    queue = ["squeue", "-h", "-t", "all", "-o", "%T %u"]
    eventually(lambda: "OUT_OF_MEMORY alice" in healed_cluster.run("login1", queue).stdout)


def test_users_run_jupyterlab_and_this_checkout(cluster: Cluster) -> None:
    lines = "\n".join([*cluster.env_setup, "jupyter server extension list", "which python"])
    said = cluster.run("gpu01", ["bash", "-c", lines], user="mallory", timeout=60)
    listed = re.sub(r"\x1b\[\d+m", "", said.stdout + said.stderr)
    assert re.search(r"jupyterlab [\d.]+ OK", listed), listed
    assert re.search(r"jupyter_hpc enabled", listed), listed
    assert "/opt/hpc-env/bin/python\n" in listed


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
    healed_cluster.wait_until_idle()


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
