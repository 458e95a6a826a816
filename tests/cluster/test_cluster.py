"""The default cluster is what it says."""

from __future__ import annotations

import re
import socket
import subprocess
import time

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.layout import CHATTER, NODES
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
