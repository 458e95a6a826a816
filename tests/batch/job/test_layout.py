"""How tasks are spread over nodes and GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jupyter_hpc.batch.job.layout import laid_out
from jupyter_hpc.batch.job.model import DEFAULT_REQUEST
from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.options import request_options


def spread(*, distributed: bool = False, node_cpus: int | None = None, **asked: Any) -> list[str]:
    request = laid_out(
        replace(DEFAULT_REQUEST, **asked), distributed=distributed, node_cpus=node_cpus
    )
    about = ("--nodes", "--ntasks", "--gpu", "--gres", "--cpus", "--ntasks-per-node")
    return [word for word in request_options(request) if word.startswith(about)]


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"gpus": 1}, "--cpus-per-task=6 --gpus-per-node=1"),
        (
            {"nodes": 2, "gpus": 2},
            "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=6 --gpus-per-node=2",
        ),
        (
            {"nodes": 4, "gpus": 8, "gpu_flag": "gpus"},
            "--nodes=4 --ntasks=8 --ntasks-per-node=2 --cpus-per-task=6 --gpus-per-node=2",
        ),
        (
            {"nodes": 2, "gpus": 2, "gpu_flag": "gres", "gpu_type": "a40"},
            "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=6 --gres=gpu:a40:2",
        ),
        (
            {"nodes": 2, "gpus": 0},
            "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=6",
        ),
        ({"gpus": 2}, "--cpus-per-task=6 --gpus-per-node=2"),
        (
            {"gpus": 2, "distributed": True},
            "--nodes=1 --ntasks=2 --ntasks-per-node=2 --cpus-per-task=6 --gpus-per-node=2",
        ),
        (
            {"nodes": 2, "tasks": 4, "gpus": 0},
            "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=6",
        ),
        ({"nodes": 2, "tasks": 3, "gpus": 0}, "--nodes=2 --ntasks=3 --cpus-per-task=6"),
        (
            {"tasks_per_node": 3, "gpus": 0},
            "--nodes=1 --ntasks=3 --ntasks-per-node=3 --cpus-per-task=6",
        ),
        (
            {"tasks": 4, "gpus": 0, "extra": ("--ntasks-per-node=2",)},
            "--nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=6",
        ),
        (
            {"nodes": 2, "gpus": 4, "node_cpus": 32},
            "--nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=8 --gpus-per-node=4",
        ),
        ({"gpus": 1, "cpus": None}, "--gpus-per-node=1"),
    ],
)
def test_tasks_are_spread_evenly(asked: dict[str, Any], options: str) -> None:
    assert spread(**asked) == options.split()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"nodes": 2, "gpus": 3, "gpu_flag": "gpus"}, "Ask for 2 or 4"),
        ({"nodes": 4, "gpus": 2, "gpu_flag": "gpus"}, "Ask for 4."),
        ({"nodes": 2, "tasks": 3, "tasks_per_node": 2}, "3 tasks are not 2 on each of 2 nodes"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        spread(**asked)
    assert words in str(caught.value)
