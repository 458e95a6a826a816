"""Runs that go for good: what would go, and the delete, of nothing but what was named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_hpc.batch.runs.program import ask_runs
from jupyter_hpc.errors import AlreadyRunning
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Job, Phase

#: Many files on a slow disk take their time, and half a delete helps nobody.
_DELETE_SECONDS = 600.0


@dataclass(frozen=True)
class Holding:
    """What goes with one run: all of its folder, or of a sweep's run its part of it."""

    #: Of a job, or of one run of a sweep, such as 4711_3.
    id: str
    run_dir: str = ""
    files: int = 0
    bytes: int = 0
    #: The largest files, as {path, bytes}.
    largest: tuple[dict[str, Any], ...] = ()
    #: By this it is known again.
    mark: str = ""
    #: Why it cannot be deleted; empty where it can.
    message: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Named:
    """A run as somebody has agreed to delete it."""

    id: str
    run_dir: str
    mark: str


async def holdings(runner: Runner, client: SlurmClient, ids: Sequence[str]) -> list[Holding]:
    """What would go with each of these runs, or why it cannot go.

    Raises what Slurm refuses: without its queue nobody knows whether a run still writes.
    """
    living = await client.my_jobs()
    answer = await ask_runs(runner, "The runs cannot be read", "holds", *ids)
    found = []
    for row in map(json.loads, answer.splitlines()):
        holding = Holding(**{**row, "largest": tuple(row.get("largest", ()))})
        if not holding.message and _lives(holding.id, living):
            problem = _living(holding.id)
            holding = replace(holding, message=problem.message, hint=problem.hint)
        found.append(holding)
    return found


async def delete(runner: Runner, client: SlurmClient, named: Sequence[Named]) -> list[Holding]:
    """Delete these runs; one that is left has the reason in its `message`.

    Raises AlreadyRunning before anything is deleted if one of them is in the queue.
    """
    living = await client.my_jobs()
    for each in named:
        if _lives(each.id, living):
            raise _living(each.id)
    words = [word for each in named for word in (each.id, each.run_dir, each.mark)]
    answer = await ask_runs(
        runner, "The runs cannot be deleted", "remove", *words, seconds=_DELETE_SECONDS
    )
    return [Holding(**row) for row in map(json.loads, answer.splitlines())]


def _lives(run_id: str, living: Sequence[Job]) -> bool:
    return any(job.phase is not Phase.ENDED and job.holds(run_id) for job in living)


def _living(run_id: str) -> AlreadyRunning:
    return AlreadyRunning(
        f"Run {run_id} is in the queue or runs.", "Cancel it first, then delete what it has left."
    )
