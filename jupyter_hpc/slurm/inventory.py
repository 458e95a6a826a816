"""sinfo and `scontrol show partition`: what the cluster has and how it is divided."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jupyter_hpc.slurm.fields import (
    Field,
    FieldTable,
    command,
    count,
    number,
    read_records,
    text,
    words,
)
from jupyter_hpc.slurm.models import GpuCount, Partition
from jupyter_hpc.slurm.units import read_gpus, read_memory_mb, read_tres, read_walltime

# Nodes with the same values share one row, so this stays small on large clusters.
GROUPS = FieldTable(
    (
        Field("PartitionName", "partition"),
        Field("StateLong", "state"),
        Field("Nodes", "nodes", count),
        Field("CPUs", "cpus", number),
        Field("Memory", "memory_mb", number),
        Field("Gres", "gpus", read_gpus),
        Field("Features", "features", words),
    ),
    starts=re.compile(r"\S+"),
)


def partitions_argv() -> list[str]:
    """The partitions with their limits."""
    return command("scontrol", "show", "partition")


def groups_argv() -> list[str]:
    """The kinds of nodes in each partition."""
    return command("sinfo", "--noheader", f"--Format={GROUPS.long_format()}")


def read_partitions(partitions: str, groups: str) -> list[Partition]:
    """Partitions, from the answers of `partitions_argv` and `groups_argv`."""
    rows = list(GROUPS.rows(groups))
    return [
        _partition(fields, [row for row in rows if row["partition"] == fields["PartitionName"]])
        for fields in read_records(partitions, "PartitionName")
    ]


def _partition(fields: Mapping[str, str], groups: list[Mapping[str, Any]]) -> Partition:
    def allowed(key: str) -> tuple[str, ...] | None:
        return None if fields.get(key, "ALL") in ("ALL", "(null)", "") else words(fields[key])

    gpus, node_gpus = _all_gpus(groups), _most_gpus(groups)
    accounts, qos = allowed("AllowAccounts"), allowed("AllowQos")
    # UNLIMITED and NONE are no numbers.
    max_nodes, max_cpus = (number(fields.get(key, "")) for key in ("MaxNodes", "MaxCPUsPerNode"))
    state = fields.get("State", "")
    return Partition(
        name=fields["PartitionName"],
        default=fields.get("Default") == "YES",
        available=state == "UP",
        state=state,
        max_time=read_walltime(fields.get("MaxTime", "")),
        default_time=read_walltime(fields.get("DefaultTime", "")),
        max_nodes=max_nodes,
        min_nodes=count(fields.get("MinNodes", "")),
        node_count=count(fields.get("TotalNodes", "")),
        cpus=count(fields.get("TotalCPUs", "")),
        cpus_per_node=max((row["cpus"] or 0 for row in groups), default=None),
        memory_mb_per_node=max((row["memory_mb"] or 0 for row in groups), default=None),
        gpus=gpus or read_tres(fields.get("TRES", "")).gpus,
        node_gpus=node_gpus,
        nodes=text(fields.get("Nodes", "")),
        features=tuple(dict.fromkeys(word for row in groups for word in row["features"])),
        idle_nodes=sum(row["nodes"] for row in groups if row["state"] == "idle"),
        allow_accounts=accounts,
        deny_accounts=words(fields.get("DenyAccounts", "")),
        allow_qos=qos,
        deny_qos=words(fields.get("DenyQos", "")),
        allow_groups=allowed("AllowGroups"),
        max_memory_mb_per_node=read_memory_mb(fields.get("MaxMemPerNode", "")),
        max_cpus_per_node=max_cpus,
        default_memory_mb_per_cpu=read_memory_mb(fields.get("DefMemPerCPU", "")),
        qos=text(fields.get("QoS", "")),
    )


def _all_gpus(groups: list[Mapping[str, Any]]) -> tuple[GpuCount, ...]:
    totals: dict[str, int] = {}
    for row in groups:
        for gpu in row["gpus"]:
            totals[gpu.type] = totals.get(gpu.type, 0) + gpu.count * row["nodes"]
    return tuple(GpuCount(kind, amount) for kind, amount in totals.items())


def _most_gpus(groups: list[Mapping[str, Any]]) -> tuple[GpuCount, ...]:
    most: dict[str, int] = {}
    for row in groups:
        for gpu in row["gpus"]:
            most[gpu.type] = max(gpu.count, most.get(gpu.type, 0))
    return tuple(GpuCount(kind, amount) for kind, amount in most.items())
