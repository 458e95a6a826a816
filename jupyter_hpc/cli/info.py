"""`jupyter-hpc info`: what is free on a cluster now, and what is mine there."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.slurm.overview import AccountUse, Overview, PartitionUse

#: Words in a list of QOS that are shown.
_MAX_QOS = 8


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def info(name: str, as_json: bool) -> int:
    """Show what is free on the cluster NAME: partitions, GPUs, CPUs, limits, and my accounts.

    A session of this computer is asked through its connection; else one login is made.
    """
    found = asyncio.run(_ask(name))
    if as_json:
        taken = {"cluster": name, "taken_at": round(time.time(), 1)}
        click.echo(json.dumps({**taken, **dataclasses.asdict(found)}))
        return 0
    for line in lines(found):
        click.echo(printable(line, 500))
    return 0


async def _ask(name: str) -> Overview:
    from jupyter_hpc.cli.hosts import SlurmPrefix, open_cluster
    from jupyter_hpc.connect.job.request import find_profile
    from jupyter_hpc.slurm.client import SlurmClient

    profile, _ = find_profile(name)
    profile.check_usable()
    async with open_cluster(profile) as runner:
        return await SlurmClient(SlurmPrefix(runner, profile.slurm.prefix)).overview()


def lines(found: Overview) -> list[str]:
    """The cluster in words, what is free first."""
    rows = [("partition", "GPUs free", "CPUs free", "nodes", "at most")]
    rows += [_row(each) for each in found.partitions]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    shown = [
        "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if found.unavailable:
        shown += ["", "Out of order:"]
        shown += [
            f"  {each.nodes} ({', '.join(each.partitions)}): {each.state}"
            + (f", {each.reason}" if each.reason else "")
            for each in found.unavailable
        ]
    if found.accounts:
        shown += ["", "Your accounts:"]
        shown += [f"  {_account(each)}" for each in found.accounts]
    shown += [f"Not known: {problem}" for problem in found.problems]
    return shown


def _row(partition: PartitionUse) -> tuple[str, str, str, str, str]:
    from jupyter_hpc.slurm.units import format_walltime

    gpus = [f"{gpu.type or 'gpu'} {gpu.free} of {gpu.total}" for gpu in partition.gpus]
    cpus = partition.cpus
    nodes = [f"{number} {state}" for state, number in partition.nodes.items()]
    star = " (default)" if partition.default else ""
    shut = "" if partition.state == "UP" else f" ({partition.state.lower()})"
    return (
        f"{printable(partition.name, 40)}{star}{shut}",
        ", ".join(gpus) or "-",
        f"{cpus.idle} of {cpus.total}",
        ", ".join(nodes) or "-",
        format_walltime(partition.max_time).lower(),
    )


def _account(account: AccountUse) -> str:
    words = [account.account + (" (default)" if account.default else "")]
    if account.partition:
        words.append(f"in {account.partition}")
    if account.fair_share is not None:
        words.append(f"fair share {account.fair_share:.2f}")
    if account.qos:
        words.append(f"QOS {_listed(account.qos)}")
    if account.max_jobs is not None:
        words.append(f"at most {account.max_jobs} jobs")
    return ", ".join(words)


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - _MAX_QOS} more" if len(words) > _MAX_QOS else ""
    return " ".join(words[:_MAX_QOS]) + more
