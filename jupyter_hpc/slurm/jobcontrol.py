"""scancel and scontrol's verbs on jobs that exist."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_hpc.slurm.ids import job_ids


def cancel_argv(ids: Sequence[str]) -> list[str]:
    """scancel for jobs or array tasks."""
    return ["scancel", *job_ids(ids)]


def hold_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "hold", ",".join(job_ids(ids))]


def release_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "release", ",".join(job_ids(ids))]


def requeue_argv(ids: Sequence[str]) -> list[str]:
    return ["scontrol", "requeue", ",".join(job_ids(ids))]
