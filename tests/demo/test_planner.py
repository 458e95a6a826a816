"""Who starts when and where: pure, so tested without a cluster."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_hpc.demo.slurm.inventory import standard
from jupyter_hpc.demo.slurm.jobs import Gpus, Request
from jupyter_hpc.demo.slurm.planner import Busy, place, possible

INVENTORY = standard("alice", 1000, 1000)
ONE = Request("x", "gpu", "research", "normal", 600)


def taken(request: Request, busy: list[Busy], now: float) -> list[Busy]:
    found = place(request, busy, now, INVENTORY)
    assert found is not None
    end = found.start + request.time_limit
    return [Busy(share, found.start, end) for share in found.shares]


def test_an_empty_node_starts_a_job_now() -> None:
    found = place(ONE, [], 100.0, INVENTORY)
    assert found is not None
    assert (found.start, [share.node for share in found.shares]) == (100.0, ["demo-gpu1"])


def test_a_gpu_is_held_by_one_job_and_the_next_waits_for_its_end() -> None:
    request = replace(ONE, gpus=Gpus(1, "a100"))
    busy = taken(request, [], 0.0)
    busy += taken(request, busy, 0.0)
    assert [entry.share.gpus for entry in busy] == [(0,), (1,)]
    third = place(request, busy, 10.0, INVENTORY)
    assert third is not None
    assert third.start == 600.0


def test_a_gpu_of_another_type_is_impossible() -> None:
    assert not possible(replace(ONE, gpus=Gpus(1, "h100")), INVENTORY)
    assert not possible(replace(ONE, gpus=Gpus(3)), INVENTORY)
    assert possible(replace(ONE, gpus=Gpus(2)), INVENTORY)


def test_an_exclusive_job_waits_for_an_empty_node_and_takes_all_of_it() -> None:
    busy = taken(ONE, [], 0.0)
    found = place(replace(ONE, exclusive=True), busy, 0.0, INVENTORY)
    assert found is not None
    assert found.start == 600.0
    assert found.shares[0].cpus == 8


def test_memory_counts_too() -> None:
    request = replace(ONE, memory_mb=20000)
    busy = taken(request, [], 0.0)
    found = place(request, busy, 0.0, INVENTORY)
    assert found is not None
    assert found.start == 600.0


requests = st.builds(
    lambda partition, cpus, gpus, nodes, limit: replace(
        ONE,
        partition=partition,
        cpus_per_task=cpus,
        gpus=Gpus(gpus) if gpus else None,
        nodes=nodes,
        tasks=nodes,
        time_limit=limit,
    ),
    st.sampled_from(["gpu", "cpu", "all"]),
    st.integers(1, 8),
    st.integers(0, 2),
    st.integers(1, 2),
    st.integers(60, 6000),
)


@given(st.lists(requests, max_size=12))
def test_no_node_ever_gives_more_than_it_has(wanted: list[Request]) -> None:
    busy: list[Busy] = []
    for request in wanted:
        if possible(request, INVENTORY):
            busy += taken(request, busy, 0.0)
    for moment in {entry.start for entry in busy}:
        for node in INVENTORY.nodes.values():
            shares = [
                entry.share
                for entry in busy
                if entry.share.node == node.name and entry.start <= moment < entry.end
            ]
            gpus = [gpu for share in shares for gpu in share.gpus]
            assert sum(share.cpus for share in shares) <= node.cpus
            assert sum(share.memory_mb for share in shares) <= node.memory_mb
            assert len(gpus) == len(set(gpus))
