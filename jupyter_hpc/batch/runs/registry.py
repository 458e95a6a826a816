"""Every run that was ever submitted: read from the run folders, with what Slurm still knows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from jupyter_hpc.batch.job.files import stem
from jupyter_hpc.batch.runs.program import ask_runs
from jupyter_hpc.errors import HpcError
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.cost import Cost
from jupyter_hpc.slurm.endings import explain_state
from jupyter_hpc.slurm.models import FinishedJob, Job, Phase

#: So many submits are looked through, the newest of them.
MAX_SUBMITS = 2000

#: Accounting is asked about so many jobs at once.
_MAX_ASKED = 200

#: States of a run that is not over as far as its folder tells.
_OPEN = ("waiting", "running", "goes on")

#: How an ending is called among the states of runs.
_BY_CAUSE = {
    "completed": "done",
    "time_limit": "stopped",
    "cancelled": "cancelled",
    "preempted": "stopped",
}


@dataclass(frozen=True)
class RecordedRun:
    """One run: a submit that is no sweep, a whole chain, or one run of a sweep.

    `state` is waiting, running, goes on, held, done, incomplete, stopped, cancelled, failed, or
    unknown where neither the folder nor Slurm tells.
    """

    #: The number in the sweep; empty without one.
    task: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: str = "unknown"
    code: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    figures: int = 0
    #: So many are told of in the logs, which say "epoch 3" or the like.
    epochs: int | None = None
    #: Of all parts together, as far as they have come to their end.
    seconds: int | None = None
    ended: int | None = None
    part: int | None = None
    #: Why the rest of a chain is not run, in a sentence.
    rest: str = ""
    gpu_load: float | None = None
    cost: str = ""


@dataclass(frozen=True)
class Submit:
    """What was sent off at once: one run, a chain, or a sweep."""

    job_id: str
    notebook: str
    run_dir: str
    submitted: int
    #: Whether the run folder is still there.
    is_there: bool
    is_sweep: bool
    #: The parts of a chain; None without one.
    parts: int | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    #: The folder of the notebook; empty of runs of older releases.
    folder: str = ""
    #: What was chosen in the dialog; empty if it was submitted in another way.
    choices: Mapping[str, Any] = field(default_factory=dict)
    #: The Python, packages and modules that it was made for, as far as they were seen.
    environment: Mapping[str, Any] = field(default_factory=dict)
    #: The git commit of its folder, and whether files there differed from it, where git told.
    code: Mapping[str, Any] = field(default_factory=dict)
    #: The names of the parameters that differ between the runs of a sweep.
    swept: tuple[str, ...] = ()
    runs: tuple[RecordedRun, ...] = ()


async def submits(runner: Runner, most: int = MAX_SUBMITS) -> list[Submit]:
    """All submits whose notes are on the cluster, the newest first, as their folders tell."""
    listed = await ask_runs(runner, "The runs cannot be listed", "list", str(most))
    return [submit_of(json.loads(line)) for line in listed.splitlines() if line[:1] == "{"]


async def all_runs(
    runner: Runner, client: SlurmClient, most: int = MAX_SUBMITS
) -> tuple[list[Submit], HpcError | None]:
    """All submits with what Slurm knows better, and why it could not be asked, if so."""
    found = await submits(runner, most)
    open_jobs = unsettled(found)
    if not open_jobs:
        return found, None
    living = None
    finished: list[FinishedJob] = []
    problem: HpcError | None = None
    try:
        living = await client.my_jobs()
    except HpcError as error:
        problem = error
    gone = [job for job in open_jobs if not any(each.holds(job) for each in living or ())]
    with contextlib.suppress(HpcError):  # no accounting here: their end is not known
        finished = await client.finished(gone[:_MAX_ASKED], steps=False) if gone else []
    return settled(found, living, finished), problem


def is_of(submit: Submit, notebook: str) -> bool:
    """Whether it is one of a notebook or script that goes by this name, with or without folder."""
    return stem(submit.notebook) == stem(PurePath(notebook).name)


def submit_of(found: Mapping[str, Any]) -> Submit:
    """A submit as the program describes it; see batch/runtime/runs/collect.py."""
    asked = found["asked"]
    hour = asked.get("hour") or {}
    return Submit(
        job_id=found["job"],
        notebook=str(asked.get("notebook") or ""),
        run_dir=found["run_dir"],
        submitted=found["submitted"],
        is_there=found["there"],
        is_sweep=found["sweep"],
        parts=asked.get("parts"),
        request=asked.get("request") or {},
        folder=str(asked.get("folder") or ""),
        choices=asked.get("choices") or {},
        environment=asked.get("environment") or {},
        code=asked.get("code") or {},
        swept=tuple(asked.get("swept") or _differing(found["runs"])),
        runs=tuple(RecordedRun(**row, cost=_cost(row["seconds"], hour)) for row in found["runs"]),
    )


def _differing(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """The parameters that have several values among these runs."""
    names = dict.fromkeys(name for row in rows for name in row["parameters"])
    for name in names:
        if len({json.dumps(row["parameters"].get(name)) for row in rows}) > 1:
            yield name


def _cost(seconds: int | None, hour: Mapping[str, Any]) -> str:
    amount = hour.get("amount")
    if not isinstance(amount, (int, float)) or not seconds:
        return ""
    return str(Cost(amount * seconds / 3600, str(hour.get("unit", ""))))


def unsettled(found: Iterable[Submit]) -> list[str]:
    """The jobs of which some run is not over as far as its folder tells."""
    return [each.job_id for each in found if any(run.state in _OPEN for run in each.runs)]


def settled(
    found: Iterable[Submit], living: Sequence[Job] | None, finished: Sequence[FinishedJob]
) -> list[Submit]:
    """The submits with the states that Slurm knows better.

    `living` is my queue, None where Slurm does not answer; `finished` is what accounting says
    of jobs that are not in it.
    """
    return [
        replace(each, runs=tuple(_settled(each, run, living, finished) for run in each.runs))
        for each in found
    ]


def _never_began(submit: Submit, run: RecordedRun, finished: Sequence[FinishedJob]) -> bool:
    """Whether the run was cancelled while it waited, alone: of such a task Slurm keeps no record.

    Seen with 22.05. Others of the array are recorded, so that accounting has come that far.
    """
    others = any(each.phase is Phase.ENDED and each.holds(submit.job_id) for each in finished)
    return run.state == "waiting" and run.task != "" and others


def _settled(
    submit: Submit,
    run: RecordedRun,
    living: Sequence[Job] | None,
    finished: Sequence[FinishedJob],
) -> RecordedRun:
    if run.state not in _OPEN or living is None:
        return run
    job_id = f"{submit.job_id}_{run.task}" if run.task else submit.job_id
    rows = [job for job in living if job.phase is not Phase.ENDED and job.holds(job_id)]
    if any(job.phase is not Phase.PENDING for job in rows):
        return replace(run, state="running")
    if rows:
        return replace(run, state="goes on" if run.state == "goes on" else "waiting")
    records = [each for each in finished if each.phase is Phase.ENDED and each.holds(job_id)]
    if not records:
        return replace(run, state="cancelled" if _never_began(submit, run, finished) else "unknown")
    last = max(records, key=lambda record: record.ended or 0)
    cause = explain_state(last.state, exit_code=last.exit_code, reason=last.reason).cause
    return replace(
        run,
        state=_BY_CAUSE.get(cause, "failed"),
        code=last.exit_code,
        seconds=run.seconds or sum(record.elapsed or 0 for record in records),
        ended=run.ended or last.ended,
    )
