"""What a connect would ask for, without asking for it."""

from __future__ import annotations

import pytest

from jupyter_hpc.cli.connect import plan_lines
from jupyter_hpc.connect.job.plan import plan
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.errors import SubmitRejected
from tests.connect.job.world import FakeJob, World, profile

PROFILE = profile(
    allocation={"partition": "gpu", "time": "2:00:00", "gpus": 2},
    budget={"unit": "credits", "rates": {"gpu_hour": 3}},
)
ASKED = {"squeue", "scontrol", "sinfo", "sbatch"}


async def test_a_plan_asks_and_queues_nothing(world: World) -> None:
    made = await plan(PROFILE, ConnectOptions("mini", overrides={"time": "1:00:00"}), world)
    assert set(world.programs()) == ASKED
    assert all("--test-only" in words for words in world.ran if words[0] == "sbatch")
    lines = plan_lines(made)
    assert lines[0] == "mini: nothing was asked for (--dry-run). It would be:"
    assert lines[1] == (
        "  request  --job-name=jupyter-hpc-mini --partition=gpu --time=1:00:00 --gpus=2"
    )
    assert lines[2].startswith("  limits   gpu: at most 04:00:00")
    assert lines[3].startswith("  start    Slurm estimates ")
    assert lines[4:] == ["  cost     at most 6 credits."]
    assert made.to_json()["estimated_start"].endswith("Z") and made.to_json()["cost"] == "6 credits"


async def test_what_the_site_ties_to_a_partition_is_said(world: World) -> None:
    site = profile(
        allocation={"partition": "guess", "time": "1:00:00", "gpus": 4},
        partitions={"gpu": {"note": "Two GPUs in a node.", "qos": "fast"}},
        limits={"gpu_counts": ["1", "4n"], "whole_nodes": True},
        confidence={"allocation.partition": "unsure"},
    )
    made = await plan(
        site, ConnectOptions("mini", overrides={"partition": "gpu", "gpus": 1}), world
    )
    assert "--qos=fast" in made.to_json()["options"]
    assert "gpu: Two GPUs in a node." in made.limits
    assert "mini takes jobs with 1 or a multiple of 4 GPUs." in made.limits
    with pytest.raises(SubmitRejected) as caught:
        await plan(site, ConnectOptions("mini"), world)
    assert "guess" not in str(caught.value), "what is only guessed and not there is not sent"


async def test_a_job_that_exists_is_named(world: World) -> None:
    world.jobs = [FakeJob("7", "jupyter-hpc-mini", ["RUNNING"])]
    made = await plan(PROFILE, ConnectOptions("mini"), world)
    assert plan_lines(made)[-1] == "Job 7 of this session exists and would be used."
    made = await plan(PROFILE, ConnectOptions("mini", overrides={"gpus": 1}), world)
    assert plan_lines(made)[-1] == (
        "Job 7 of this session exists and you would be asked about it. It is not what is asked "
        "for: GPUs 0 instead of 1."
    )
    assert made.to_json()["differences"] == ["GPUs 0 instead of 1"]
    further = await plan(PROFILE, ConnectOptions("mini", new=True), world)
    assert further.existing is None


async def test_what_the_cluster_does_not_allow_is_refused(world: World) -> None:
    with pytest.raises(SubmitRejected, match="longer than partition gpu allows"):
        await plan(PROFILE, ConnectOptions("mini", overrides={"time": "99:00:00"}), world)
