"""What a job costs, and has cost until now."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from jupyter_hpc.clusters import Profile
from jupyter_hpc.clusters.profile import build
from jupyter_hpc.clusters.schema import check_profile
from jupyter_hpc.slurm.cost import Rates, cost_of_time, cost_so_far, finished_cost, job_cost
from jupyter_hpc.slurm.models import GpuCount, Partition, Request
from jupyter_hpc.slurm.rates import HOURS
from tests.node.worlds import finished_job, job

#: Python 3.10 has it under its old name.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def test_costs_follow_the_rate_that_fits_best() -> None:
    request = Request(time="02:00:00", cpus=6, gpus=2, gpu_type="a100", nodes=2)
    assert str(job_cost(request, {"gpu_hour": 128, "cpu_hour": 1}, "SBU")) == "1024 SBU"
    assert str(job_cost(replace(request, gpu_flag="gpus"), {"gpu_hour": 10}, "h", 3)) == "120 h"
    assert str(job_cost(replace(request, gpus=0), {"cpu_hour": 1}, "CPUh")) == "24 CPUh"
    assert job_cost(request, {}, "SBU") is None
    assert job_cost(replace(request, time=None), {"gpu_hour": 1}, "") is None


def test_a_running_job_has_cost_what_it_used() -> None:
    running = job("7", state="RUNNING", gpus=2, gpu_type="a100", cpus=8, time_used=1800)
    assert str(cost_so_far(running, {"gpu_hour": 128, "cpu_hour": 1}, "SBU")) == "128 SBU"
    assert str(cost_so_far(running, {"cpu_hour": 1}, "CPUh")) == "4 CPUh"
    assert cost_so_far(running, {}, "SBU") is None
    assert cost_so_far(replace(running, time_used=None), {"gpu_hour": 1}, "") is None


def test_a_waiting_job_has_cost_nothing() -> None:
    waiting = job("7", state="PENDING", gpus=2, time_used=None)
    assert str(cost_so_far(waiting, {"gpu_hour": 1}, "SBU")) == "0 SBU"


@pytest.mark.parametrize("rate", HOURS)
def test_every_rate_that_a_profile_may_have_is_reckoned_with(rate: str) -> None:
    running = job("7", state="RUNNING", gpus=2, cpus=8, node_count=1, time_used=3600)
    assert cost_so_far(running, profile_rates(f"{rate} = 1"), "SBU") is not None


#: Snellius in 2026, with a partition whose parts of a GPU are cheaper.
SITE = """
cpu_hour = 1
gpu_hour = 100
[budget.rates.gpu_types]
a100 = 128
h100 = 192
[budget.rates.partitions.gpu_mig]
gpu_hour = 64
[budget.rates.partitions.fat]
node_hour = 256
cpu_hour = 1.5
"""


def profile_rates(text: str) -> Rates:
    """The rates of a profile as the schema reads them, also after a way through JSON."""
    table = tomllib.loads(f"[login]\nhost = 'h'\n[budget.rates]\n{text}")
    profile = build("site", "f", check_profile(table, "f"))
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.budget.rates == profile.budget.rates
    return profile.budget.rates


def a_partition(name: str, *types: str, default: bool = False) -> Partition:
    gpus = tuple(GpuCount(kind, 4) for kind in types)
    unlimited = (None, None, None)
    return Partition(name, default, True, "UP", *unlimited, 1, 4, 64, 64, 1000, gpus, gpus, "n1")


@pytest.mark.parametrize(
    ("changes", "amount"),
    [
        # by hand: 2 nodes x 2 GPUs x 2.5 h x 192
        ({"gpu_type": "h100"}, 1920),
        ({"gpu_type": "a100", "gpu_flag": "gpus"}, 640),
        ({"partition": "gpu_mig", "gpu_type": "h100"}, 640),
        ({"gpu_type": "l40s"}, 1000),  # a type without a price of its own
        ({}, 1920),  # any type: the dearest
        ({"partition": "gpu_a100"}, 1280),  # it has but one type
        ({"partition": "gpu_a100,gpu_h100"}, 1920),
        ({"gpus": 0, "tasks": 4}, 60),  # 4 x 6 CPUs x 2.5 h
        ({"gpus": 0, "tasks": 4, "partition": "fat"}, 90),
        ({"gpus": 0, "cpus": None, "tasks": None}, 5),  # one CPU on each node is Slurm's default
    ],
)
def test_a_request_costs_what_a_hand_calculation_says(
    changes: dict[str, Any], amount: float
) -> None:
    request = replace(Request(time="02:30:00", cpus=6, gpus=2, nodes=2), **changes)
    found = [
        a_partition("gpu_a100", "a100"), a_partition("gpu_h100", "h100"),
        a_partition("gpu_mig", "a100"), a_partition("fat"),
        a_partition("all", "a100", "h100", default=True),
    ]  # fmt: skip
    cost = job_cost(request, profile_rates(SITE), "SBU", partitions=found)
    assert cost is not None and cost.amount == amount


def test_cpus_that_are_left_to_the_cluster_cost_what_slurm_says() -> None:
    request = Request(time="01:00:00", gpus=1)
    assert job_cost(request, {"cpu_hour": 2}, "h") is None
    assert str(job_cost(request, {"cpu_hour": 2}, "h", cpus=18)) == "36 h"


def test_an_ended_run_costs_by_its_partition_and_gpus() -> None:
    ended = finished_job("7_1", partition="gpu_h100", gpus=4, gpu_type="h100", cpus=64, elapsed=900)
    assert str(finished_cost(ended, profile_rates(SITE), "SBU")) == "192 SBU"
    assert finished_cost(replace(ended, elapsed=None), profile_rates(SITE), "SBU") is None


def test_large_costs_are_written_out() -> None:
    assert str(job_cost(Request(time="1-00:00:00", gpus=1), {"gpu_hour": 51440.33}, "SBU")) == (
        "1234567.92 SBU"
    )


def test_a_stretch_of_time_has_a_cost_in_whatever_is_known() -> None:
    request = Request(name="x", gpus=2, nodes=2, gpu_flag="gres", cpus=8)
    assert str(cost_of_time(request, {"gpu_hour": 3}, "EUR", 900)) == "3 EUR"
    assert str(cost_of_time(request, {}, "EUR", 900)) == "1 GPU-hours"
    assert str(cost_of_time(Request(name="x", cpus=8), {}, "", 900)) == "2 CPU-hours"
    # A minute of one CPU is not nothing.
    assert str(cost_of_time(Request(name="x"), {"cpu_hour": 0.01}, "EUR", 60)) == "0.01 EUR"
