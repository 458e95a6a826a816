"""A further job like one that exists, from what real clusters said of that one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jupyter_hpc.slurm.models import JobDetail, Request
from jupyter_hpc.slurm.options import request_options
from jupyter_hpc.slurm.shape import same_shape
from jupyter_hpc.slurm.showjob import read_details
from tests.slurm.runners import recording

#: What the profile and the command line would ask for: nothing of it is the job's.
OTHERWISE = Request(
    name="next", partition="cpu", account="other", qos="low", constraint="old", time="1:00:00",
    nodes=1, cpus=8, memory="32G", gpus=1, gpu_type="a100", gpu_flag="gpus",
    extra=("--export=NIL",),
)  # fmt: skip
SHAPE = dataclasses.replace(
    OTHERWISE, partition="gpu", account="research", qos="normal", constraint=None, time="00:10:00",
    cpus=1, memory="1G", gpus=2, gpu_type="p4",
)  # fmt: skip


def detail(*changes: tuple[str, str]) -> JobDetail:
    """A job of one node that asked for two GPUs, with other words in its record."""
    text = recording("scontrol-details").stdout
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (found,) = read_details(text)
    return found


def test_what_slurm_says_counts() -> None:
    assert same_shape(detail(), OTHERWISE) == SHAPE
    assert "--gpus=p4:2" in request_options(SHAPE)


@pytest.mark.parametrize(
    ("changes", "otherwise", "shape"),
    [
        # the memory and the CPUs of each CPU or GPU are a rule of the site's
        ([], {"memory": None}, {"memory": None}),
        ([("MinMemoryCPU=1G", "MinMemoryNode=4G")], {"memory": None}, {"memory": "4G"}),
        ([("MinMemoryCPU=1G", "MinMemoryNode=0")], {}, {"memory": "0"}),
        ([("MinMemoryCPU=1G", "MinMemoryNode=0")], {"memory": None}, {"memory": None}),
        ([("TresPerJob", "MemPerTres=gres:gpu:9\n   TresPerJob")], {}, {"memory": None}),
        ([("TresPerJob", "CpusPerTres=gres:gpu:9\n   TresPerJob")], {}, {"cpus": None}),
        # a core has two threads, or the job has a whole node
        ([("NumCPUs=1", "NumCPUs=8"), ("CPUs/Task=1", "CPUs/Task=4")], {}, {"cpus": 4}),
        ([("NumCPUs=1", "NumCPUs=8")], {}, {"cpus": 8}),
        # of several partitions that may be named it is one; and some sites choose themselves
        ([], {"partition": "cpu,gpu"}, {"partition": "cpu,gpu"}),
        ([], {"partition": None}, {}),
        ([], {"partition": None, "routed": True}, {"partition": None, "routed": True}),
        ([("QOS=normal", "QOS=(null)"), ("Account=research", "Account=(null)")],
         {}, {"qos": "low", "account": "other"}),
        ([("Features=(null)", "Features=a100&ib")], {}, {"constraint": "a100&ib"}),
        ([("TimeLimit=00:10:00", "TimeLimit=1-02:00:00")], {}, {"time": "1-02:00:00"}),
        ([("TimeLimit=00:10:00", "TimeLimit=UNLIMITED")], {}, {"time": "UNLIMITED"}),
        ([("TimeLimit=00:10:00", "TimeLimit=Partition_Limit")], {}, {"time": "1:00:00"}),
        # options of their own name them already
        ([], {"extra": ("--gres=gpu:2",), "gpus": 0, "gpu_type": None},
         {"extra": ("--gres=gpu:2",), "gpus": 0, "gpu_type": None}),
    ],
)  # fmt: skip
def test_each_part(
    changes: list[tuple[str, str]], otherwise: dict[str, Any], shape: dict[str, Any]
) -> None:
    wanted = dataclasses.replace(OTHERWISE, **otherwise)
    assert same_shape(detail(*changes), wanted) == dataclasses.replace(SHAPE, **shape)


def test_a_type_of_gpu_that_was_not_asked_for_is_none_that_the_next_job_needs() -> None:
    asked = recording("scontrol-details").stdout.rpartition("TresPerJob=")[2].split()[0]
    (untyped,) = (read_details(recording("scontrol-details").stdout.replace(
        f"TresPerJob={asked}", f"TresPerJob={asked.replace(':p4', '')}"
    )))  # fmt: skip
    shape = same_shape(untyped, OTHERWISE)
    assert (shape.gpus, shape.gpu_type) == (2, None)


@pytest.mark.parametrize(("flag", "gpus"), [("gpus", 4), ("gpus-per-node", 2), ("gres", 2)])
def test_on_several_nodes_gpus_are_counted_as_the_site_asks_for_them(flag: str, gpus: int) -> None:
    text = recording("scontrol-details").stdout.replace("TresPerJob=", "TresPerNode=")
    text = text.replace("NumNodes=1 NumCPUs=1 NumTasks=1", "NumNodes=2 NumCPUs=2 NumTasks=2")
    (two,) = read_details(text.replace("MinMemoryCPU=1G", "MinMemoryNode=3G"))
    shape = same_shape(two, dataclasses.replace(OTHERWISE, gpu_flag=flag))
    assert (shape.nodes, shape.cpus, shape.memory, shape.gpus) == (2, 1, "3G", gpus)


def test_a_job_that_has_its_node_to_itself_asks_for_no_cpus_of_it() -> None:
    text = recording("scontrol-details").stdout.replace("NumCPUs=1", "NumCPUs=64")
    text = text.replace("OverSubscribe=OK", "OverSubscribe=NO").replace(
        "Exclusive=NO", "Exclusive=NODE"
    )
    (alone,) = read_details(text)
    assert same_shape(alone, OTHERWISE).cpus == 1


def test_a_record_that_says_nothing_changes_little() -> None:
    (bare,) = read_details("JobId=5 JobName=x\n   JobState=RUNNING Reason=None")
    wanted = dataclasses.replace(OTHERWISE, constraint=None, gpus=0, gpu_type=None)
    assert same_shape(bare, OTHERWISE) == wanted
