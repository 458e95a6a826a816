"""A job that exists, beside what is asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jupyter_hpc.slurm.differences import differences
from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.slurm.queue import read_jobs
from tests.slurm.runners import recording

EVERYTHING = [field.name for field in dataclasses.fields(Request)]


def job(**values: Any) -> Job:
    plain: dict[str, Any] = {
        "partition": "gpu", "account": "research", "qos": "normal", "constraint": "",
        "time_limit": 3600, "node_count": 1, "cpus": 4, "memory_mb": 16384, "gpus": 1,
        "gpu_type": "a100",
    }  # fmt: skip
    return dataclasses.replace(read_jobs(recording("squeue-one").stdout)[0], **{**plain, **values})


SAME = Request(
    partition="gpu", account="research", qos="normal", time="1:00:00", nodes=1, cpus=4,
    memory="16G", gpus=1, gpu_type="a100",
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        ({}, {}),
        ({"partition": "cpu,gpu"}, {}),
        ({"account": "Research"}, {}),
        ({"qos": "high"}, {"qos": ""}),  # sites without accounting tell none
        ({"time": "59:30"}, {}),  # Slurm rounds up to minutes
        ({"time": "UNLIMITED"}, {}),
        ({"time": "5:00"}, {"time_limit": None}),
        ({"cpus": 3}, {}),  # a core has two threads
        ({"memory": "0"}, {}),
        (
            {"nodes": 2, "memory": "16G"},
            {"node_count": 2, "memory_mb": 32768, "cpus": 8, "gpus": 2},
        ),
        ({"nodes": 2, "gpus": 4}, {"node_count": 2, "gpus": 8, "cpus": 8}),
        ({"nodes": 2, "gpus": 4, "gpu_flag": "gpus"}, {"node_count": 2, "gpus": 4, "cpus": 8}),
        ({"gpu_type": "h100"}, {"gpu_type": ""}),  # nor does every site tell the type
        ({"constraint": "a & b"}, {"constraint": "a&b"}),
    ],
)
def test_what_agrees(asked: dict[str, Any], has: dict[str, Any]) -> None:
    assert differences(EVERYTHING, dataclasses.replace(SAME, **asked), job(**has)) == []


@pytest.mark.parametrize(
    ("asked", "has", "said"),
    [
        ({"time": "4:00:00"}, {}, "time 01:00:00 instead of 04:00:00"),
        ({"partition": "cpu"}, {}, "partition gpu instead of cpu"),
        ({"account": "other"}, {}, "account research instead of other"),
        ({"qos": "high"}, {}, "QOS normal instead of high"),
        ({"gpus": 2}, {}, "GPUs 1 instead of 2"),
        ({"gpus": 0}, {}, "GPUs 1 instead of 0"),
        ({"gpu_type": "h100"}, {}, "GPU type a100 instead of h100"),
        ({"cpus": 8}, {}, "CPUs 4 instead of 8"),
        ({"cpus": 1}, {}, "CPUs 4 instead of 1"),
        ({"memory": "32G"}, {}, "memory 16G instead of 32G"),
        ({"constraint": "big"}, {}, "constraint none instead of big"),
        ({"nodes": 2}, {"gpus": 2, "cpus": 8}, "nodes 1 instead of 2"),
    ],
)
def test_what_differs(asked: dict[str, Any], has: dict[str, Any], said: str) -> None:
    assert differences(EVERYTHING, dataclasses.replace(SAME, **asked), job(**has)) == [said]


def test_what_was_not_asked_for_does_not_differ() -> None:
    assert differences([], Request(time="9:00:00", gpus=8), job()) == []
    assert differences(["time"], Request(time="9:00:00", gpus=8), job()) != []
    hostile = differences(["account"], SAME, job(account="\x1b[31mx"))
    assert "\x1b" not in hostile[0]
