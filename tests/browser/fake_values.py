"""What the server extension would answer, made up for a test."""

from __future__ import annotations

import time
from typing import Any

Json = dict[str, Any]


def dated(age: float = 0.0) -> Json:
    return {"taken_at": time.time() - age, "age": age}


def a_session(minutes_left: float = 145, **changes: Any) -> Json:
    """As the server said it a second later, so that a time left is right for a minute."""
    now = time.time()
    left = 60 * minutes_left
    job = {
        "id": "4711",
        "name": "jupyter",
        "partition": "gpu",
        "account": "physics",
        "qos": "normal",
        "nodes": ["gpu01"],
        "cpus": 16,
        "memory_mb": 131072,
        "gpus": 2,
        "gpu_type": "a100",
        "started": now - 95 * 60,
        "ends": now + left,
        "time_left": left,
        "ends_from": "environment",
        **dated(),
    }
    return {
        "host": "gpu01",
        "user": "alice",
        "cluster": {"name": "ulysses", "title": "Ulysses", "docs": "https://example.org/docs"},
        "job": job,
        "problem": None,
        "memory": {
            "used": 23_400_000_000,
            "limit": 137_438_953_472,
            "source": "cgroup v2",
            "scope": "this job on this node",
            **dated(),
        },
        "memory_kills": [],
        "features": {
            "gpus": True,
            "jobs": True,
            "job_actions": True,
            "logs": True,
            "storage": True,
            "batch": True,
        },
        "now": now + 1,
        **changes,
    }


def some_gpus(count: int, *, idle_minutes: float | None = None, **changes: Any) -> Json:
    gib = 1024**3
    notebook = {"path": "train.ipynb", "name": "train.ipynb", "kernel_id": "k1", "session_id": "s1"}
    return {
        "source": "nvml",
        "simulated": False,
        "driver": "560.35",
        "stale": False,
        "problem": None,
        "interval": 1.0,
        "gpus": [
            {
                "id": f"GPU-{index}",
                "index": index,
                "name": "NVIDIA A100-SXM4-80GB",
                "kind": "gpu",
                "load": 0.0 if idle_minutes else 97.0 - 9 * index,
                "memory_used": (71 - 6 * index) * gib,
                "memory_total": 80 * gib,
                "power": 388.0 - 20 * index,
                "power_limit": 400.0,
                "temperature": 67.0 - index,
                "clock": 1410.0,
                "clock_max": 1410.0,
                "memory_clock": 1593.0,
                "processes": [
                    {"pid": 100, "name": "python", "memory": 60 * gib, "notebook": notebook},
                    {"pid": 200, "name": "python3", "memory": 4 * gib, "notebook": None},
                ]
                if index == 0
                else [],
                "idle_since": time.time() - 60 * idle_minutes if idle_minutes else None,
                "problem": None,
            }
            for index in range(count)
        ],
        **dated(),
        **changes,
    }


def a_history(gpus: Json) -> Json:
    """Ten minutes that look like training: bursts with pauses for validation."""
    now = gpus["taken_at"]
    times = [now - 600 + 2 * step for step in range(300)]
    return {
        "source": gpus["source"],
        "simulated": gpus["simulated"],
        "taken_at": now,
        "times": times,
        "gpus": [
            {
                "id": gpu["id"],
                "index": gpu["index"],
                "name": gpu["name"],
                "memory_total": gpu["memory_total"],
                "load": [
                    12.0 if (step // 12 + gpu["index"]) % 5 == 0 else 88 + 10 * (step % 3) / 3
                    for step in range(300)
                ],
                "memory_used": [
                    min(gpu["memory_used"], gpu["memory_used"] * step / 60) for step in range(300)
                ],
                "power": [250 + 100 * (step % 7) / 7 for step in range(300)],
                "temperature": [60 + step % 5 for step in range(300)],
            }
            for gpu in gpus["gpus"]
        ],
    }


def a_job(job_id: str, **changes: Any) -> Json:
    now = time.time()
    return {
        "id": job_id,
        "target": job_id,
        "name": f"train-{job_id}",
        "state": "RUNNING",
        "phase": "running",
        "reason": "None",
        "reason_text": None,
        "reason_advice": None,
        "partition": "gpu",
        "account": "physics",
        "qos": "normal",
        "nodes": "gpu01",
        "node_count": 1,
        "cpus": 8,
        "memory_mb": 65536,
        "gpus": 1,
        "gpu_type": "a100",
        "time_limit": 14400,
        "submitted": now - 7200,
        "started": now - 3600,
        "ends": now + 10800,
        "estimated_start": None,
        "array_id": None,
        "array_tasks": None,
        "het_id": None,
        "het_offset": None,
        "over_time": False,
        **changes,
    }


def a_waiting_job(job_id: str, **changes: Any) -> Json:
    waiting: Json = {
        "state": "PENDING",
        "phase": "pending",
        "reason": "Priority",
        "reason_text": "Jobs with a higher priority are ahead of it.",
        "reason_advice": "Wait; a shorter time limit may let it start earlier.",
        "nodes": "",
        "started": None,
        "ends": None,
        "estimated_start": time.time() + 5400,
    }
    return a_job(job_id, **waiting | changes)


def a_finished_job(job_id: str, **changes: Any) -> Json:
    now = time.time()
    job = a_job(job_id)
    dropped = ("target", "reason_text", "reason_advice", "ends", "estimated_start", "array_id")
    dropped_too = ("array_tasks", "het_id", "het_offset", "over_time")
    finished = {key: value for key, value in job.items() if key not in dropped + dropped_too}
    ending = {
        "state": "COMPLETED",
        "phase": "ended",
        "state_text": "It ended well.",
        "state_advice": "",
        "ended": now - 600,
        "elapsed": 3000,
        "exit_code": 0,
        "signal": 0,
    }
    return finished | ending | changes


def some_jobs(count: int, *, finished: int = 2, **changes: Any) -> Json:
    jobs = [
        a_job(str(1000 + index)) if index % 3 == 0 else a_waiting_job(str(1000 + index))
        for index in range(count)
    ]
    return {
        "version": 1,
        "jobs": jobs,
        "problem": None,
        "next_poll": 60.0,
        "finished": {
            "jobs": [a_finished_job(str(900 - index)) for index in range(finished)],
            "since": time.time() - 259200,
            "problem": None,
            **dated(30),
        },
        **dated(12),
        **changes,
    }


def a_job_view(job_id: str, **changes: Any) -> Json:
    return {
        "job": a_job(job_id)
        | {"exit_code": None, "signal": None, "fields": {"JobId": job_id, "Requeue": "1"}},
        "finished": False,
        "state_text": "It runs.",
        "state_advice": "",
        "reason": None,
        "estimated_start": None,
        "cost": "",
        "efficiency": None,
        "advice": [],
        "script": "#!/bin/bash\n#SBATCH --gpus=1\nsrun python train.py\n",
        "files": {
            "stdout": f"/home/alice/slurm-{job_id}.out",
            "stderr": f"/home/alice/slurm-{job_id}.out",
            "work_dir": "/home/alice",
            "contents_path": "",
            "run_dir": None,
            "run_path": None,
            "recording": True,
            "inputs": [],
        },
        "problem": None,
        **dated(),
        **changes,
    }


def an_overview(job_id: str, **changes: Any) -> Json:
    """Of a job that is no run of ours, and prints no numbers."""
    return {
        "job_id": job_id,
        "is_run": False,
        "is_sweep": False,
        "runs": [],
        "decided_by": "",
        "better": None,
        "ended": False,
        "progress": None,
        "curves": [],
        "figures": [],
        "more_figures": 0,
        "log": "",
        "taken_at": time.time(),
        **changes,
    }


def a_shown_run(run_id: str, **changes: Any) -> Json:
    return {
        "id": run_id,
        "parameters": {},
        "state": "running",
        "code": None,
        "metrics": {},
        "best": None,
        "seconds": None,
        **changes,
    }


def a_training(job_id: str, epochs: int, *, figures: int = 0, **changes: Any) -> Json:
    """The overview of one run that is at work."""
    curves = [
        a_curve("val_loss", {job_id: 0.9}, epochs),
        a_curve("accuracy", {job_id: -0.4}, epochs) | {"better": "more"},
        a_curve("lr", {job_id: 0.5}, epochs),
    ]
    progress = {"unit": "epoch", "done": epochs, "of": 90, "ends": time.time() + 4300}
    return an_overview(
        job_id,
        is_run=True,
        runs=[a_shown_run(job_id, best=curves[0]["lines"][0]["points"][-1][1])],
        decided_by="val_loss",
        better="less",
        progress=progress,
        curves=curves,
        figures=some_figures(job_id, figures),
        log="".join(f"epoch {n}/90 val_loss: {0.9**n:.4f}\n" for n in range(1, epochs + 1)),
        **changes,
    )


def a_sweep(job_id: str, runs: int, epochs: int) -> Json:
    """The overview of a sweep; all its runs but the last two are over."""
    rates = {f"{job_id}_{task}": 0.55 + 0.4 * task / runs for task in range(runs)}
    curve = a_curve("loss", rates, epochs)
    rows = [
        a_shown_run(
            run_id,
            parameters={"lr": 10.0**-task, "batch": 32 * (1 + task % 2), "seed": 1},
            state="waiting" if task == runs - 1 else "running" if task == runs - 2 else "done",
            best=None if task == runs - 1 else curve["lines"][task]["points"][-1][1],
            seconds=1800 + 60 * task if task < runs - 2 else None,
        )
        for task, run_id in enumerate(rates)
    ]
    curve["lines"].pop()
    return an_overview(
        job_id,
        is_run=True,
        is_sweep=True,
        runs=rows,
        decided_by="loss",
        better="less",
        progress={"unit": "run", "done": runs - 2, "of": runs, "ends": None},
        curves=[curve],
        figures=[
            figure for task in range(runs - 1) for figure in some_figures(f"{job_id}_{task}", 1)
        ],
        log="epoch 3 loss: 0.4\n",
    )


def a_curve(name: str, rates: dict[str, float], epochs: int) -> Json:
    """A number that shrinks, or grows towards 1, by these rates."""
    lines = [
        {
            "run": run,
            "points": [
                [n, rate**n if rate > 0 else 1 - (-rate) ** (n / 10)] for n in range(1, epochs + 1)
            ],
        }
        for run, rate in rates.items()
    ]
    return {"name": name, "x": "epoch", "better": "less", "lines": lines}


def some_figures(run: str, count: int) -> list[Json]:
    """So many pictures, and a table where there are several."""
    task = run.partition("_")[2]
    below = f"{task}/" if task else ""
    names = [(f"figures/cell{n:02}_1.svg", "figure", "image/svg+xml") for n in range(1, count + 1)]
    if count > 1:
        names.append(("displays/cell99_1.html", "display", "text/html"))
    return [
        {
            "run": run,
            "name": below + name,
            "kind": kind,
            "type": shown_as,
            "size": 1000,
            "modified": 1.0,
            "path": f"runs/1/output/{below}{name}",
        }
        for name, kind, shown_as in names
    ]


def a_cluster() -> Json:
    def partition(name: str, gpus: list[Json], idle: int, nodes: Json) -> Json:
        return {
            "name": name,
            "default": name == "cpu",
            "state": "UP",
            "max_time": 86_400,
            "default_time": 3600,
            "max_nodes": None,
            "gpus": gpus,
            "cpus": {"allocated": 512 - idle, "idle": idle, "other": 0, "total": 512},
            "nodes": nodes,
        }

    a100 = {"type": "a100", "total": 64, "used": 50, "free": 12}
    h100 = {"type": "h100", "total": 16, "used": 16, "free": 0}
    return {
        "partitions": [
            partition("gpu", [a100, h100], 96, {"mixed": 14, "allocated": 5, "drained": 1}),
            partition("cpu", [], 480, {"idle": 30, "mixed": 2}),
        ],
        "unavailable": [
            {
                "nodes": "gpu07",
                "count": 1,
                "state": "drained",
                "reason": "broken fan",
                "partitions": ["gpu"],
            }
        ],
        "accounts": [
            {
                "account": "physics",
                "default": True,
                "partition": "",
                "qos": ["normal", "long"],
                "default_qos": "normal",
                "max_wall": None,
                "max_jobs": None,
                "fair_share": 0.412,
            }
        ],
        "problems": [],
        "taken_at": 1_700_000_000.0,
        "age": 12.0,
        "problem": None,
    }


def a_storage_report() -> Json:
    gib = 1024**3
    area = {
        "kind": "home",
        "source": "lfs quota",
        "label": "your quota",
        "used": 171 * gib,
        "limit": 200 * gib,
        "files_used": 943_210,
        "files_limit": 1_000_000,
        "report": None,
        "purge_days": None,
        "backup": True,
        "note": None,
        "problem": None,
    }
    scratch = {
        "source": "file system",
        "label": "the whole file system, not your quota",
        "used": 410_000 * gib,
        "limit": 1_000_000 * gib,
        "files_used": None,
        "files_limit": None,
        "purge_days": 30,
        "backup": False,
    }
    return {
        "places": [
            {"name": "home", "path": "/home/alice", **area},
            {"name": "scratch", "path": "/scratch/alice", **area, **scratch, "kind": "scratch"},
        ],
        "budget": {
            "source": "sshare",
            "unit": None,
            "rates": {},
            "accounts": [
                {
                    "account": "physics",
                    "usage": 8_640_000,
                    "fairshare": 0.412,
                    "limits": [{"resource": "gres/gpu", "used": 41_000, "limit": 60_000}],
                }
            ],
            "remaining": None,
            "low": False,
            "report": None,
            "problem": None,
        },
        "problem": None,
        **dated(120),
    }
