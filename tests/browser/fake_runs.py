"""Runs as the server tells of them: any number, of any kind."""

from __future__ import annotations

import time
from typing import Any

from tests.browser.fake_values import dated

Json = dict[str, Any]


def a_run(run_id: str, **changes: Any) -> Json:
    """One run that ended well."""
    return {
        "id": run_id,
        "task": run_id.partition("_")[2],
        "parameters": {"lr": 0.01, "layers": 4},
        "state": "done",
        "code": 0,
        "metrics": {"loss": 0.0831, "accuracy": 0.94},
        "figures": 2,
        "epochs": 30,
        "seconds": 5400,
        "ended": time.time() - 3600,
        "part": None,
        "rest": "",
        "gpu_load": 88.0,
        "cost": "96 SBU",
    } | changes


def a_submit(job: int, *runs: Json, **changes: Any) -> Json:
    """What was sent off at once; one run unless there are others."""
    stamp = f"20261119-10{job // 60 % 60:02}{job % 60:02}-0a1b"
    return {
        "job_id": str(job),
        "notebook": "train.ipynb",
        "path": "train.ipynb",
        "run_dir": f"/home/alice/project/hpc-batch/train/runs/{stamp}",
        "run_path": f"hpc-batch/train/runs/{stamp}",
        "submitted": time.time() - 60 * (5000 - job),
        "is_there": True,
        "is_sweep": len(runs) > 1,
        "parts": None,
        "swept": ["lr"] if len(runs) > 1 else [],
        "runs": list(runs) or [a_run(str(job))],
    } | changes


def a_sweep(job: int, count: int, **changes: Any) -> Json:
    """A sweep over the learning rate, of which one run did badly."""
    runs = [
        a_run(
            f"{job}_{task}",
            parameters={"lr": 10.0**-task, "layers": 4},
            metrics={"loss": 0.014 * task if task != 3 else 8.7, "accuracy": 0.97 - 0.01 * task},
            gpu_load=88.0 if task != 3 else 12.0,
        )
        for task in range(1, count + 1)
    ]
    return a_submit(job, *runs, **changes)


def some_runs(count: int = 5) -> Json:
    """A sweep of six, a chain, a failure, one that runs, one that is gone, and plain ones."""
    first = [
        a_sweep(4999, 6),
        a_submit(
            4998,
            a_run("4998", state="running", seconds=None, ended=None, code=None, cost=""),
            notebook="night-run.ipynb",
        ),
        a_submit(4997, a_run("4997", state="failed", code=137, metrics={}), notebook="large.ipynb"),
        a_submit(4996, a_run("4996", state="goes on", part=2), notebook="long.ipynb", parts=4),
        a_submit(4995, is_there=False, run_path=None, notebook="old.ipynb") | {"runs": []},
    ]
    more = [
        a_submit(job, a_run(str(job), metrics={"loss": job / 1000}))
        for job in range(4994, 4999 - count, -1)
    ]
    metrics = [{"name": "loss", "better": "less"}, {"name": "accuracy", "better": "more"}]
    return {"submits": [*first, *more][:count], "metrics": metrics, "problem": None} | dated()


def some_curves(ids: list[str]) -> Json:
    """A loss that falls, for each run at a pace of its own."""
    lines = [
        {"run": run, "points": [[epoch, 2.0 / (1 + epoch / (number + 2))] for epoch in range(30)]}
        for number, run in enumerate(ids)
    ]
    return {"curves": [{"name": "loss", "x": "epoch", "better": "less", "lines": lines}]}


def a_holding(run_id: str, **changes: Any) -> Json:
    """What would go with a run."""
    return {
        "id": run_id,
        "run_dir": "/home/alice/project/hpc-batch/train/runs/20261119-102319-0a1b",
        "files": 42,
        "bytes": 3_400_000_000,
        "largest": [{"path": "output/checkpoints/last.pt", "bytes": 3_100_000_000}],
        "mark": "0a1b",
        "message": "",
        "hint": "",
    } | changes
