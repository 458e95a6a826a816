"""What people forget: workers, threads, the size of a batch; and what is said without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jupyter_hpc import training
from jupyter_hpc.errors import UsageError
from jupyter_hpc.training import defaults
from jupyter_hpc.training.common import processors

pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize("use", ["device", "loader_options", "prepare", "distributed", "Run"])
def test_the_kit_says_where_torch_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, use: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"needs PyTorch.*pip install 'jupyter-hpc\[torch\]'"):
        if use in ("Run", "distributed"):
            options = {"folder": tmp_path / "run"} if use == "Run" else {}
            getattr(training, use)(**options).__enter__()
        else:
            getattr(training, use)()
    assert not (tmp_path / "run").exists()


def test_the_kit_is_imported_without_torch() -> None:
    code = "import sys, jupyter_hpc.training; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_loader_has_a_worker_for_each_cpu(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert processors() == 2
    options = defaults.loader_options(batch_size=4)
    assert (options["num_workers"], options["persistent_workers"]) == (2, True)
    torch.utils.data.DataLoader([1, 2], **options)
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert defaults.loader_options()["num_workers"] == 0


def test_what_is_prepared_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], torch: Any
) -> None:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    for name in defaults.OFFLINE:
        monkeypatch.setenv(name, "")  # given back after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    try:
        assert defaults.prepare() == torch.device("cpu") == defaults.device()
        assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (3, precision)
        assert "HF_HUB_OFFLINE" not in os.environ and "TF32" not in capsys.readouterr().err
        defaults.prepare(tf32=True, offline=True)
        assert torch.get_float32_matmul_precision() == "high"
        assert os.environ["HF_HUB_OFFLINE"] == "1" and os.environ["WANDB_MODE"] == "disabled"
        assert "cpu, 3 threads, TF32 on: faster, 10 bits" in (said := capsys.readouterr().err)
        assert "hubs offline" in said
        defaults.prepare(tf32=False)
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize(("fits", "limit", "least"), [(100, 65_536, 94), (7, 64, 7), (999, 64, 64)])
def test_the_largest_batch_is_found(torch: Any, fits: int, limit: int, least: int) -> None:
    def step(size: int) -> None:
        if size > fits:
            raise RuntimeError("CUDA out of memory. Tried to allocate")

    assert least <= defaults.largest_batch(step, limit=limit) <= min(fits, limit)


def test_trials_of_a_batch_draw_no_random_numbers(
    torch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(3)
    expected = torch.rand(4).tolist()
    torch.manual_seed(3)
    defaults.largest_batch(lambda size: torch.rand(size), limit=8)
    assert torch.rand(4).tolist() == expected
    assert "have trained their model, so make it anew" in capsys.readouterr().err


def test_hubs_that_were_imported_before_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], torch: Any
) -> None:
    threads = torch.get_num_threads()
    for name in defaults.OFFLINE:
        monkeypatch.setenv(name, "")
    monkeypatch.setitem(sys.modules, "huggingface_hub", ModuleType("huggingface_hub"))
    try:
        for words in ("hubs offline, but huggingface_hub was imported before", "hubs offline\n"):
            for name in defaults.OFFLINE if "but" in words else ():
                monkeypatch.delenv(name)
            defaults.prepare(offline=True)
            assert words in capsys.readouterr().err
    finally:
        torch.set_num_threads(threads)


def test_another_failure_is_not_taken_for_memory(torch: Any) -> None:
    def step(size: int) -> None:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes"):
        defaults.largest_batch(step)
