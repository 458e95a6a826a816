"""Rows of the job table: encoded once, and sent again only when they change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jupyter_hpc.slurm.models import FinishedJob, Job, Phase
from jupyter_hpc.slurm.reasons import explain_reason, explain_state
from jupyter_hpc.text import printable

#: So many rows are encoded before the event loop gets its turn.
ROWS_PER_TURN = 100

#: What a row shows of a job. Values that change by themselves while nothing happens
#: (time left, priority) are left out: they would make every row new at each look.
_QUEUED = (
    *("id", "name", "state", "reason", "partition", "account", "qos", "nodes", "node_count"),
    *("cpus", "memory_mb", "gpus", "gpu_type", "time_limit", "submitted", "started", "ends"),
    *("estimated_start", "array_id", "array_tasks", "het_id", "het_offset", "over_time"),
)
_FINISHED = (
    *("id", "name", "state", "reason", "partition", "account", "qos", "nodes", "node_count"),
    *("cpus", "memory_mb", "gpus", "gpu_type", "time_limit", "submitted", "started", "ended"),
    *("elapsed", "exit_code", "signal"),
)


_JUST_ENDED = (
    "The job has just ended: it was last seen in this state, and has left the queue.",
    "How it ended is shown as soon as Slurm's database knows.",
)


@dataclass(frozen=True)
class Rows:
    """The encoded rows of one moment, by id, and how they differ from the rows before."""

    version: int = 0
    encoded: dict[str, bytes] = field(default_factory=dict)
    base: int = -1
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def all(self) -> bytes:
        """Every row, as a JSON array."""
        return b"[" + b",".join(self.encoded.values()) + b"]"

    def difference(self) -> bytes:
        """The rows that are new or different since version `base`, as a JSON array."""
        return b"[" + b",".join(self.encoded[row] for row in self.changed) + b"]"


async def next_rows(before: Rows, jobs: Sequence[Job | FinishedJob]) -> Rows:
    """Encode `jobs`; the version grows when anything differs from the rows before.

    Gives way to the event loop between chunks, so that ten thousand jobs are no pause.
    """
    encoded: dict[str, bytes] = {}
    for position, job in enumerate(jobs):
        row = queued_row(job) if isinstance(job, Job) else finished_row(job)
        encoded[job.id] = json.dumps(row, separators=(",", ":")).encode()
        if position % ROWS_PER_TURN == ROWS_PER_TURN - 1:
            await asyncio.sleep(0)
    changed = tuple(row for row, text in encoded.items() if before.encoded.get(row) != text)
    removed = tuple(row for row in before.encoded if row not in encoded)
    if not changed and not removed:
        return before
    return Rows(before.version + 1, encoded, before.version, changed, removed)


def queued_row(job: Job) -> dict[str, Any]:
    """A waiting or running job as the table shows it."""
    row = {name: getattr(job, name) for name in _QUEUED}
    row["name"] = clean(job.name)
    row["phase"] = job.phase.value
    row["target"] = job.target
    waits = job.phase is Phase.PENDING and job.reason
    row["reason_text"], row["reason_advice"] = _reason(job.reason) if waits else (None, None)
    return row


def finished_row(job: FinishedJob) -> dict[str, Any]:
    """A finished job as the table shows it."""
    row = {name: getattr(job, name) for name in _FINISHED}
    row["name"] = clean(job.name)
    if job.phase not in (Phase.ENDED, Phase.UNKNOWN):
        # It was last seen like this, and is not in the queue any more.
        row["phase"] = Phase.ENDING.value
        row["state_text"], row["state_advice"] = _JUST_ENDED
        return row
    row["phase"] = job.phase.value
    ending = explain_state(
        job.state,
        exit_code=job.exit_code,
        signal=job.signal,
        reason=job.reason,
        cancelled_by=None,
    )
    row["state_text"], row["state_advice"] = ending.text, ending.advice
    return row


def clean(text: str) -> str:
    """The text without characters that could deceive; most texts have none."""
    return text if text.isprintable() else printable(text)


@lru_cache(maxsize=500)
def _reason(code: str) -> tuple[str, str]:
    explained = explain_reason(code)
    return explained.text, explained.advice
