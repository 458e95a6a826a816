"""Partitions, accounts and QOS, read from what a real cluster answered."""

from __future__ import annotations

from jupyter_hpc.slurm import associations, inventory
from jupyter_hpc.slurm.models import GpuCount
from tests.slurm.runners import recording


def test_the_recorded_commands_are_the_ones_we_build() -> None:
    assert recording("scontrol-partition").argv == tuple(inventory.partitions_argv())
    assert recording("sinfo-groups").argv == tuple(inventory.groups_argv())
    argv = associations.associations_argv("alice")
    assert recording("sacctmgr-associations").argv == tuple(argv)
    assert recording("sacctmgr-qos").argv == tuple(associations.qos_argv())
    assert recording("sshare").argv == tuple(associations.shares_argv())


def test_partitions_with_their_limits_and_gpus() -> None:
    gpu, cpu = inventory.read_partitions(
        recording("scontrol-partition").stdout, recording("sinfo-groups").stdout
    )
    assert (gpu.name, gpu.default, gpu.available) == ("gpu", False, True)
    assert (gpu.max_time, gpu.default_time, gpu.max_nodes) == (14400, 600, None)
    assert gpu.gpus == gpu.node_gpus == (GpuCount("a100", 2), GpuCount("p4", 2))
    assert (gpu.cpus_per_node, gpu.memory_mb_per_node) == (8, 32000)
    assert gpu.features == ("a100", "p4")
    assert (gpu.allow_accounts, gpu.allow_qos, gpu.allow_groups) == (None, None, None)
    assert (cpu.name, cpu.default, cpu.max_time, cpu.gpus) == ("cpu", True, 86400, ())


def test_limits_of_a_stricter_partition() -> None:
    text = (
        recording("scontrol-partition")
        .stdout.replace("AllowAccounts=ALL", "AllowAccounts=a,b", 1)
        .replace("AllowQos=ALL", "DenyQos=slow", 1)
        .replace("MaxNodes=UNLIMITED", "MaxNodes=4", 1)
        .replace("MaxTime=04:00:00", "MaxTime=UNLIMITED", 1)
        .replace("State=UP", "State=DRAIN", 1)
        .replace("MaxMemPerNode=UNLIMITED", "MaxMemPerNode=30000", 1)
    )
    gpu = inventory.read_partitions(text, "")[0]
    assert (gpu.allow_accounts, gpu.deny_qos) == (("a", "b"), ("slow",))
    assert (gpu.max_nodes, gpu.max_time, gpu.available) == (4, None, False)
    assert gpu.max_memory_mb_per_node == 30000
    assert gpu.gpus == (GpuCount("a100", 2), GpuCount("p4", 2))  # from the partition's TRES
    assert (gpu.cpus_per_node, gpu.node_gpus) == (None, ())


def test_accounts() -> None:
    found = {
        each.account: each
        for each in associations.read_associations(recording("sacctmgr-associations").stdout)
    }
    assert set(found) == {"research", "tiny"}
    assert found["research"].default and not found["tiny"].default
    assert set(found["research"].qos) == {"normal", "short", "gpu1"}
    assert found["research"].default_qos == "normal"
    assert associations.read_associations(recording("sacctmgr-stranger").stdout) == []


def test_qos() -> None:
    found = {each.name: each for each in associations.read_qos(recording("sacctmgr-qos").stdout)}
    short = found["short"]
    assert (short.max_wall, short.max_jobs_per_user, short.max_submit_per_user) == (300, 2, 4)
    assert found["gpu1"].max_tres_per_user == "gres/gpu=1"
    assert found["normal"].max_wall is None


def test_shares() -> None:
    found = {each.account: each for each in associations.read_shares(recording("sshare").stdout)}
    assert set(found) == {"research", "tiny"}
    research = found["research"]
    assert research.user == "alice"
    assert research.tres_minutes_used["cpu"] >= 0
    assert research.fair_share is not None
    assert associations.read_shares(recording("none-sshare").stdout) == []
