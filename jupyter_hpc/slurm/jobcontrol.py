"""scancel and scontrol's verbs on jobs that exist."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_hpc.slurm.fields import job_ids


def cancel_argv(ids: Sequence[str]) -> list[str]:
    """scancel for jobs or array tasks."""
    return ["scancel", *job_ids(ids)]


def hold_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "hold", ",".join(job_ids(ids))]


def release_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "release", ",".join(job_ids(ids))]


def rename_argv(job_id: str, name: str) -> list[str]:
    """Give a job of one's own another name, waiting or running."""
    return ["scontrol", "update", *(f"JobId={one}" for one in job_ids([job_id])), f"JobName={name}"]


def requeue_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "requeue", ",".join(job_ids(ids))]
