"""scancel and scontrol's verbs on jobs that exist."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_hpc.slurm.ids import job_ids
from jupyter_hpc.slurm.units import format_walltime


def cancel_argv(ids: Sequence[str], *, signal: str | None = None, batch: bool = False) -> list[str]:
    """scancel for jobs or array tasks; with `signal` it is sent instead.

    `batch` sends the signal to the batch script alone.
    """
    words = ["scancel"]
    if signal is not None:
        words.append(f"--signal={signal}")
    if batch:
        words.append("--batch")
    return [*words, *job_ids(ids)]


def hold_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "hold", ",".join(job_ids(ids))]


def release_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "release", ",".join(job_ids(ids))]


def requeue_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "requeue", ",".join(job_ids(ids))]


def time_limit_argv(job_id: str, seconds: int) -> list[str]:
    """Change a job's time limit; people may shorten it, most sites let only
    administrators make it longer."""
    (checked,) = job_ids([job_id])
    return ["scontrol", "update", f"JobId={checked}", f"TimeLimit={format_walltime(seconds)}"]
