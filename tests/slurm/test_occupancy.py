"""What sinfo says of the nodes, as what is free, in use and out of order."""

from __future__ import annotations

import pytest

from jupyter_hpc.cli.info import lines
from jupyter_hpc.slurm import inventory
from jupyter_hpc.slurm.fields import SEPARATOR
from jupyter_hpc.slurm.models import Association, Share
from jupyter_hpc.slurm.occupancy import read_overview
from jupyter_hpc.slurm.overview import Overview


def row(*columns: str) -> str:
    return "".join(column + SEPARATOR for column in columns) + "\n"


def shown(*rows: str, names: tuple[str, ...] = ("gpu",)) -> Overview:
    text = "\n".join(f"PartitionName={name} State=UP MaxTime=1-00:00:00\n" for name in names)
    return read_overview("".join(rows), inventory.read_partitions(text, ""), (), (), ())


def test_free_gpus_are_those_of_nodes_that_take_jobs() -> None:
    seen = shown(
        row("gpu", "mixed", "3", "12/12/0/24", "gpu:a100:4", "gpu:a100:1(IDX:0)", "g[1-3]", "none"),
        row("gpu", "draining", "1", "4/0/4/8", "gpu:a100:4", "gpu:a100:2(IDX:0-1)", "g4", "fan"),
        row("gpu", "idle*", "2", "0/0/16/16", "gpu:h100:8(S:0-1)", "gpu:h100:0", "g[5-6]", "none"),
    )
    (gpu,) = seen.partitions
    assert [(each.type, each.total, each.used, each.free) for each in gpu.gpus] == [
        ("a100", 16, 5, 9),
        ("h100", 16, 0, 0),
    ]
    assert (gpu.cpus.allocated, gpu.cpus.idle, gpu.cpus.other, gpu.cpus.total) == (16, 12, 20, 48)
    assert gpu.nodes == {"mixed": 3, "draining": 1, "not responding": 2}
    assert [(each.nodes, each.state, each.reason) for each in seen.unavailable] == [
        ("g4", "draining", "fan"),
        ("g[5-6]", "not responding", ""),
    ]


def test_a_node_of_many_partitions_is_out_of_order_once() -> None:
    names = tuple(f"p{number}" for number in range(300))
    bad = [
        row(name, "down", "1", "0/0/8/8", "(null)", "gpu:0", "n1", "x\x1b[31my") for name in names
    ]
    seen = shown(*bad, names=names)
    assert len(seen.partitions) == 300 and len(seen.unavailable) == 1
    assert len(seen.unavailable[0].partitions) == 300 and "\x1b" not in seen.unavailable[0].reason
    text = lines(seen)
    assert len(text) > 300 and max(map(len, text)) < 6000


@pytest.mark.parametrize("cpus", ["", "1/2", "a/b/c/d", "n/a", "1/2/3/4/5"])
def test_what_cannot_be_read_counts_as_nothing(cpus: str) -> None:
    (gpu,) = shown(row("gpu", "odd_state+", "1", cpus, "(null)", "(null)", "n1", "")).partitions
    assert gpu.cpus.total == 0 and gpu.nodes == {"odd_state": 1} and gpu.gpus == ()


def test_accounts_have_their_fair_share_and_a_cluster_without_them_is_fine() -> None:
    mine = Association("research", "ada", "", ("normal",), "normal", None, None, None, "", "", True)
    other = Association("tiny", "ada", "", (), "", None, 2, None, "", "")
    share = Share("research", "ada", "1", 5, 0.1, 0.25)
    seen = read_overview("", [], [mine, other], [share], ["Slurm's database does not answer."])
    assert [each.fair_share for each in seen.accounts] == [0.25, None]
    text = "\n".join(lines(seen))
    assert "research (default), fair share 0.25, QOS normal" in text
    assert "tiny, at most 2 jobs" in text and "Not known: Slurm's database" in text
    assert "accounts" not in "\n".join(lines(shown()))
