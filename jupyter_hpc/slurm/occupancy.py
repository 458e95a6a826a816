"""sinfo: what of each partition is free, in use or out of order at this moment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_hpc.slurm.fields import Field, FieldTable, command, count, text
from jupyter_hpc.slurm.models import Association, Partition, Share
from jupyter_hpc.slurm.overview import (
    AccountUse,
    CpuUse,
    GpuUse,
    Overview,
    PartitionUse,
    Unavailable,
)
from jupyter_hpc.slurm.units import gpu_counts, read_gres
from jupyter_hpc.text import printable

#: Signs behind a state: powered down, booting, planned and the like; "*" for no answer.
_SIGNS = "*~#!%$@^+-"

#: Nodes of these states take no jobs.
_CLOSED = frozenset(
    (
        *("down", "drain", "drained", "draining", "drng", "fail", "failing", "error", "unknown"),
        *("maint", "future", "inval", "blocked", "perfctrs"),
    )
)


def _cpus(value: str) -> CpuUse:
    """ "3/5/0/8": allocated, idle, other, total."""
    numbers = [count(part) for part in value.split("/")]
    return CpuUse(*numbers) if len(numbers) == 4 else CpuUse(0, 0, 0, 0)


# Nodes with the same values share one row, so this stays small on large clusters.
USE = FieldTable(
    (
        Field("PartitionName", "partition"),
        Field("StateLong", "state"),
        Field("Nodes", "nodes", count),
        Field("CPUsState", "cpus", _cpus),
        Field("Gres", "gres", read_gres),
        Field("GresUsed", "used", read_gres),
        Field("NodeList", "names", text),
        Field("Reason", "reason", text),
    ),
    starts=re.compile(r"\S+"),
)


def use_argv() -> list[str]:
    """What each partition has, by state of its nodes."""
    return command("sinfo", "--noheader", f"--Format={USE.long_format()}")


def read_overview(
    use: str,
    partitions: Sequence[Partition],
    accounts: Sequence[Association],
    shares: Sequence[Share],
    problems: Sequence[str],
) -> Overview:
    """A cluster at a glance, from the answer of `use_argv` and what else is known of it."""
    rows = list(USE.rows(use))
    return Overview(
        tuple(
            _partition(each, [row for row in rows if row["partition"] == each.name])
            for each in partitions
        ),
        tuple(_unavailable(rows)),
        tuple(_account(each, shares) for each in accounts),
        tuple(problems),
    )


def _partition(partition: Partition, rows: Sequence[Mapping[str, Any]]) -> PartitionUse:
    states: dict[str, int] = {}
    for row in rows:
        state = _state(row["state"])
        states[state] = states.get(state, 0) + row["nodes"]
    cpus = [row["cpus"] for row in rows]
    return PartitionUse(
        partition.name,
        partition.default,
        partition.state,
        partition.max_time,
        partition.default_time,
        partition.max_nodes,
        _gpus(rows),
        CpuUse(
            sum(each.allocated for each in cpus),
            sum(each.idle for each in cpus),
            sum(each.other for each in cpus),
            sum(each.total for each in cpus),
        ),
        states,
    )


def _gpus(rows: Sequence[Mapping[str, Any]]) -> tuple[GpuUse, ...]:
    found: dict[str, list[int]] = {}
    for row in rows:
        used = {gpu.type: gpu.count for gpu in gpu_counts(row["used"])}
        for gpu in gpu_counts(row["gres"]):
            sums = found.setdefault(gpu.type, [0, 0, 0])
            taken = min(used.get(gpu.type, 0), gpu.count)
            left = gpu.count - taken
            sums[0] += gpu.count * row["nodes"]
            sums[1] += taken * row["nodes"]
            sums[2] += (0 if _is_closed(row["state"]) else left) * row["nodes"]
    return tuple(GpuUse(kind, total, used, free) for kind, (total, used, free) in found.items())


def _state(said: str) -> str:
    """The word for a node that takes no jobs though its state sounds well: it does not answer."""
    word = printable(said.rstrip(_SIGNS).lower(), 40)
    return "not responding" if "*" in said and word not in _CLOSED else word


def _is_closed(said: str) -> bool:
    return "*" in said or said.rstrip(_SIGNS).lower() in _CLOSED


def _unavailable(rows: Sequence[Mapping[str, Any]]) -> list[Unavailable]:
    """Nodes that take no jobs, once each however many partitions they are in."""
    found: dict[tuple[str, str, str], Unavailable] = {}
    for row in rows:
        if not _is_closed(row["state"]):
            continue
        reason, names = printable(row["reason"], 300), printable(row["names"], 300)
        key = (names, row["state"], reason)
        before = found.get(key)
        partitions = (*(before.partitions if before else ()), row["partition"])
        found[key] = Unavailable(names, row["nodes"], _state(row["state"]), reason, partitions)
    return list(found.values())


def _account(account: Association, shares: Sequence[Share]) -> AccountUse:
    share = next((each for each in shares if each.account == account.account and each.user), None)
    return AccountUse(
        account.account,
        account.default,
        account.partition,
        account.qos,
        account.default_qos,
        account.max_wall,
        account.max_jobs,
        share.fair_share if share else None,
    )
