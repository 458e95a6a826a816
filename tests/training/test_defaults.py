"""What people forget: workers, threads, the size of a batch; and what is said without torch."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from jupyter_hpc.errors import UsageError
from jupyter_hpc.training import defaults
from jupyter_hpc.training.common import processors

pytestmark = pytest.mark.timeout(400)


def test_the_kit_says_where_torch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match="needs PyTorch"):
        defaults.device()


def test_a_loader_has_a_worker_for_each_cpu(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert processors() == 2
    options = defaults.loader_options(batch_size=4)
    assert (options["num_workers"], options["persistent_workers"]) == (2, True)
    torch.utils.data.DataLoader([1, 2], **options)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert defaults.loader_options()["num_workers"] == 0


@pytest.mark.parametrize(("fits", "limit", "least"), [(100, 65_536, 94), (7, 64, 7), (999, 64, 64)])
def test_the_largest_batch_is_found(torch: Any, fits: int, limit: int, least: int) -> None:
    def step(size: int) -> None:
        if size > fits:
            raise RuntimeError("CUDA out of memory. Tried to allocate")

    assert least <= defaults.largest_batch(step, limit=limit) <= min(fits, limit)


def test_another_failure_is_not_taken_for_memory(torch: Any) -> None:
    def step(size: int) -> None:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes"):
        defaults.largest_batch(step)
