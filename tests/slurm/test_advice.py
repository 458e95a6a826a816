"""What a cluster allows, compared with a request."""

from __future__ import annotations

import dataclasses

import pytest

from jupyter_hpc.slurm import associations, inventory
from jupyter_hpc.slurm.advice import allowed, partition_limits, problems
from jupyter_hpc.slurm.models import Association, Partition, Qos, Request
from tests.slurm.runners import recording


@pytest.fixture(scope="module")
def partitions() -> list[Partition]:
    return inventory.read_partitions(
        recording("scontrol-partition").stdout, recording("sinfo-groups").stdout
    )


GOOD = Request(
    partition="gpu", time="04:00:00", gpus=2, gpu_type="a100", cpus=8, memory="30G", nodes=1
)


@pytest.mark.parametrize(
    ("change", "option", "words"),
    [
        ({}, None, ""),
        ({"gpus": 0, "gpu_type": None, "partition": None}, None, ""),
        ({"partition": "gpu,cpu", "time": "20:00:00"}, None, ""),
        ({"time": "UNLIMITED"}, None, ""),
        ({"time": "04:00:01"}, "time", "longer than partition gpu allows (04:00:00)"),
        ({"time": "0"}, "time", "No limit (0) is longer than partition gpu allows (04:00:00)"),
        ({"partition": "nope"}, "partition", "no partition 'nope'"),
        ({"partition": "cpu"}, "gpus", "cpu has no GPUs"),
        ({"gpu_type": "A100"}, "gpus", "no GPUs called 'A100'"),
        ({"gpu_type": "h100"}, "gpus", "no GPUs called 'h100'"),
        ({"gpus": 3}, "gpus", "3 a100 GPUs are more than one node has (2)"),
        ({"gpus": 5, "gpu_type": None}, "gpus", "5 GPUs are more than one node has (4)"),
        ({"gpus": 2, "gpu_flag": "gpus", "nodes": None}, None, ""),
        (
            {"gpus": 3, "gpu_flag": "gpus", "nodes": None},
            "gpus",
            "3 a100 GPUs are more than the partition has (2)",
        ),
        ({"memory": "40G"}, "memory", "more memory than a node"),
        ({"cpus": 9}, "cpus", "9 CPUs"),
        ({"nodes": 2}, "nodes", "2 nodes"),
    ],
)
def test_problems(
    partitions: list[Partition], change: dict[str, object], option: str | None, words: str
) -> None:
    request = dataclasses.replace(GOOD, **change)  # type: ignore[arg-type]
    found = problems(request, partitions)
    assert [problem.option for problem in found] == ([option] if option else [])
    if found:
        assert words in found[0].text
        assert found[0].advice.endswith(".")


def test_a_typo_in_a_type_is_corrected(partitions: list[Partition]) -> None:
    (problem,) = problems(dataclasses.replace(GOOD, gpu_type="A100"), partitions)
    assert problem.advice == "Write a100: upper and lower case matter."


def test_no_default_partition(partitions: list[Partition]) -> None:
    without = [dataclasses.replace(each, default=False) for each in partitions]
    (problem,) = problems(Request(), without)
    assert "no default partition" in problem.text
    assert problem.advice == "Partitions here: gpu, cpu."


def test_nothing_known_is_no_problem() -> None:
    assert problems(Request(partition="x"), []) == []
    for option in ("partition", "account", "qos", "gpus", "time", "limits", "memory"):
        assert allowed(option, Request()) == ""


def test_what_is_allowed(partitions: list[Partition]) -> None:
    mine = associations.read_associations(recording("sacctmgr-associations").stdout)
    qos = associations.read_qos(recording("sacctmgr-qos").stdout)
    assert allowed("partition", GOOD, partitions) == "Partitions here: gpu, cpu."
    assert set(allowed("account", GOOD, associations=mine).split(": ")[1].strip(".").split(", ")) \
        == {"research", "tiny"}  # fmt: skip
    assert "short" in allowed("qos", GOOD, associations=mine)
    assert allowed("gpus", Request(partition="cpu"), partitions) == "GPUs here: gpu: a100, p4."
    assert allowed("time", GOOD, partitions) == "Longest times: gpu 04:00:00."
    assert allowed("constraint", GOOD, partitions) == "Features here: a100, p4."
    assert "2 queued" not in allowed("limits", Request(qos="short"), qos=qos)
    assert "4 queued jobs" in allowed("limits", Request(qos="short"), qos=qos)
    assert "gpu (8 CPUs, 32000M, 2 a100, 2 p4)" in allowed("memory", GOOD, partitions)


def test_long_lists_are_cut(partitions: list[Partition]) -> None:
    many = [dataclasses.replace(partitions[0], name=f"p{number}") for number in range(30)]
    assert allowed("partition", Request(), many).endswith("p11 and 18 more.")


def test_hostile_names_are_cleaned(partitions: list[Partition]) -> None:
    named = [dataclasses.replace(partitions[0], name="p\x1b[31m")]
    assert "\x1b" not in allowed("partition", Request(), named)
    (problem,) = problems(Request(partition="x\x1b[31m"), named)
    assert "\x1b" not in problem.text + problem.advice


def test_a_qos_may_set_limits_of_the_partition_aside(partitions: list[Partition]) -> None:
    request = dataclasses.replace(GOOD, qos="long", time="99:00:00", nodes=9)
    plain = Qos("long", 0, None, None, None, "", "", "", ())
    lifting = dataclasses.replace(plain, flags=("PartitionTimeLimit", "PartitionMaxNodes"))
    assert {problem.option for problem in problems(request, partitions, [plain])} == {
        "time",
        "nodes",
    }
    assert problems(request, partitions, [lifting]) == []
    other = dataclasses.replace(lifting, name="other")
    assert len(problems(request, partitions, [other])) == 2


@pytest.mark.parametrize(
    ("account", "lifted"), [(None, True), ("mine", True), ("other", False), ("gone", False)]
)
def test_the_default_qos_of_the_account_counts_as_well(
    partitions: list[Partition], account: str | None, lifted: bool
) -> None:
    request = dataclasses.replace(GOOD, qos=None, account=account, time="99:00:00")
    long = Qos("long", 0, None, None, None, "", "", "", ("PartitionTimeLimit",))
    mine = Association("mine", "ada", "", ("long",), "long", None, None, None, "", "", True)
    other = dataclasses.replace(mine, account="other", default_qos="normal", default=False)
    assert (problems(request, partitions, [long], [other, mine]) == []) is lifted
    here = dataclasses.replace(mine, partition=GOOD.partition or "", default_qos="normal")
    assert problems(request, partitions, [long], [mine, here]), "the partition's own goes first"


def test_the_limits_of_a_partition_are_one_line(partitions: list[Partition]) -> None:
    assert partition_limits(GOOD, partitions) == [
        "gpu: at most 04:00:00 and 1 node for a job; a node has up to 8 CPUs, 32000M, 2 a100, 2 p4."
    ]


def test_where_the_site_routes_jobs_any_partition_may_take_it(partitions: list[Partition]) -> None:
    asked = Request(gpus=1, gpu_type="a100")
    assert problems(asked, partitions), "the default partition has no GPUs"
    assert not problems(dataclasses.replace(asked, routed=True), partitions)
    (problem,) = problems(Request(gpus=1, gpu_type="h100", routed=True), partitions)
    assert "no GPUs called 'h100'" in problem.text
