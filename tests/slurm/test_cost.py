"""What a job costs, and has cost until now."""

from __future__ import annotations

from dataclasses import replace

from jupyter_hpc.clusters.values import RATES
from jupyter_hpc.slurm.cost import cost_so_far, job_cost
from jupyter_hpc.slurm.models import Request
from tests.node.worlds import job


def test_costs_follow_the_rate_that_fits_best() -> None:
    request = Request(time="02:00:00", cpus=6, gpus=2, gpu_type="a100", nodes=2)
    assert str(job_cost(request, {"gpu_hour": 128, "cpu_hour": 1}, "SBU")) == "1024 SBU"
    assert str(job_cost(replace(request, gpu_flag="gpus"), {"gpu_hour": 10}, "h", 3)) == "120 h"
    assert str(job_cost(replace(request, gpus=0), {"cpu_hour": 1}, "CPUh")) == "12 CPUh"
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


def test_every_rate_that_a_profile_may_have_is_reckoned_with() -> None:
    running = job("7", state="RUNNING", gpus=2, cpus=8, node_count=1, time_used=3600)
    for rate in RATES:
        assert cost_so_far(running, {rate: 1}, "SBU") is not None
