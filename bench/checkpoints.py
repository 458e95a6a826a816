"""What checkpoints of a training cost: a model of 500 MB on the CPU, in a temporary folder.

    python -m bench checkpoints

stall       s that the loop stands still for a checkpoint, beside a blocking torch.save and fsync
run         ms of a step of a training that writes a checkpoint each minute, beside one that writes
            none; in turns of JUPYTER_HPC_BENCH_CHECKPOINTS_SECONDS (60; 0: not), each twice
resume      s from `with Run` to the first step, beside torch.load and load_state_dict
step        µs that run.batches adds to a step

JUPYTER_HPC_BENCH_CHECKPOINTS (5) is how often stall and resume are measured. Versions: torch's is
printed.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_hpc.training import Run
from tests.training.site import torch_site
from tests.waiting import eventually

ROUNDS = int(os.environ.get("JUPYTER_HPC_BENCH_CHECKPOINTS", "5"))
SECONDS = float(os.environ.get("JUPYTER_HPC_BENCH_CHECKPOINTS_SECONDS", "60"))
STEPS = 200_000


def main() -> None:
    sys.path.append(str(torch_site()))
    import torch

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        blocking, stall = stalls(torch, folder)
        ratio("stall", stall, blocking, "blocking torch.save and fsync", "s", 0.35)
        loading, resume = resumes(torch, folder)
        ratio("resume", resume, loading, "torch.load", "s", 1.3)
    print(f"step     {step_overhead():.2f} µs a step (bar 20)")
    if SECONDS:
        without, with_them = whole_runs(torch)
        ratio("run", with_them, without, "without checkpoints", "ms a step", 1.02)
    print(f"load     {os.getloadavg()[0]:.1f}; torch {torch.__version__}")


def ratio(name: str, ours: float, other: float, what: str, unit: str, bar: float) -> None:
    shown = f"{ours:.3f} {unit}, {what} {other:.3f}"
    print(f"{name:8} {shown}: {ours / other:.3f} (bar {bar})", flush=True)


def model_of(torch: Any, megabytes: int = 500) -> Any:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(1024, 1024, bias=False) for _ in range(megabytes // 4)]
    return torch.nn.Sequential(*layers)


def stalls(torch: Any, folder: Path) -> tuple[float, float]:
    """Medians of a blocking save, and of the time that the loop stands still."""
    model = model_of(torch)
    blocking, stall = [], []
    with quiet(), Run(model=model, folder=folder / "run", every="1 h") as run:
        ended = 0.0
        for epoch in run.epochs(ROUNDS + 1):
            if ended:
                stall.append(time.perf_counter() - ended)
            for _ in run.batches([0]):
                if epoch:  # in turns, so that both see the same disk
                    wait_written(folder / "run", epoch)
                    blocking.append(_save(torch, model, folder / "blocking.pt"))
            ended = time.perf_counter()
    return statistics.median(blocking), statistics.median(stall)


def wait_written(folder: Path, epoch: int) -> None:
    """Until the checkpoint of the end of the epoch before is there."""
    made = folder / f"step-{epoch:09d}-{epoch:05d}.json"
    eventually(made.exists, f"{made} is written", seconds=120)


def _save(torch: Any, model: Any, path: Path) -> float:
    started = time.perf_counter()
    with open(path, "wb") as file:
        torch.save({"model": model.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - started


def resumes(torch: Any, folder: Path) -> tuple[float, float]:
    """Medians of torch.load, and of the time to the first step of a run that goes on."""
    model = model_of(torch)
    loading, resume = [], []
    for number in range(ROUNDS):
        started = time.perf_counter()
        content = torch.load(folder / "blocking.pt", map_location="cpu", weights_only=True)
        model.load_state_dict(content["model"])
        loading.append(time.perf_counter() - started)
        del content
        started = time.perf_counter()
        with quiet(), Run(model=model, folder=folder / "run", every="1 h") as run:
            for _ in run.epochs(ROUNDS + 2 + number):
                for _ in run.batches([0]):
                    resume.append(time.perf_counter() - started)
    return statistics.median(loading), statistics.median(resume)


def step_overhead() -> float:
    batches = list(range(STEPS))
    with tempfile.TemporaryDirectory() as folder, quiet():
        started = time.perf_counter()
        for _ in batches:
            pass
        plain = time.perf_counter() - started
        with Run(folder=folder, every="1 h", each_epoch=False) as run:
            started = time.perf_counter()
            for _ in run.batches(batches):
                pass
            return (time.perf_counter() - started - plain) / STEPS * 1e6


def whole_runs(torch: Any) -> tuple[float, float]:
    """ms of a step, without and with checkpoints; each turn of the latter begins with one."""
    model = model_of(torch)
    rows = torch.ones(64, 1024)
    spent, steps = [0.0, 0.0], [0, 0]
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        quiet(),
        Run(model=model, folder=folder, every=SECONDS) as run,
    ):
        batches = run.batches(iter(int, 1))
        for kind in (0, 1, 0, 1):
            started = time.perf_counter()
            while time.perf_counter() - started < SECONDS:
                if kind:
                    next(batches)
                model(rows)
                steps[kind] += 1
            spent[kind] += time.perf_counter() - started
        written = len(list(Path(folder).glob("step-*.json")))
        assert written == 2, f"{written} checkpoints"
    return spent[0] / steps[0] * 1e3, spent[1] / steps[1] * 1e3


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.redirect_stderr(nothing):
        yield
