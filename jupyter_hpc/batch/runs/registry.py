"""Every run that was ever submitted: read from the run folders, with what Slurm still knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_hpc.batch.runtime import RUNS_FILE, shipped_source
from jupyter_hpc.batch.submit.runs import NOTES
from jupyter_hpc.errors import CommandFailed
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.cost import Cost
from jupyter_hpc.slurm.endings import explain_state
from jupyter_hpc.slurm.models import FinishedJob, Job, Phase

#: So many submits are looked through, the newest of them.
MAX_SUBMITS = 2000

#: A slow disk takes its time for a thousand folders.
_SECONDS = 60.0

#: The code of _LIST where no Python is new enough.
_NO_PYTHON = 77

#: Runs the program on stdin with the first Python that is new enough.
_LIST = f"""# list the runs
for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || continue
    exec "$python" -I -c "$1" "{NOTES}" "$2"
done
exit {_NO_PYTHON}
"""
_PROGRAM = (
    "import sys; exec(compile(sys.stdin.read(), 'runs', 'exec'), "
    "{'__name__': '__main__', '__file__': '/runs'})"
)

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
    #: The names of the parameters that differ between the runs of a sweep.
    swept: tuple[str, ...] = ()
    runs: tuple[RecordedRun, ...] = ()


async def submits(runner: Runner, most: int = MAX_SUBMITS) -> list[Submit]:
    """All submits whose notes are on the cluster, the newest first, as their folders tell."""
    source = shipped_source(RUNS_FILE).encode()
    argv = ["sh", "-c", _LIST, "sh", _PROGRAM, str(most)]
    done = await runner.run(argv, stdin=source, timeout=_SECONDS)
    if done.returncode == _NO_PYTHON:
        raise CommandFailed(
            "The runs cannot be listed: no Python 3.9 or newer is found on the login host.",
            "Load a module with one in your login files, or look into the folders hpc-batch "
            "beside your notebooks.",
        )
    if not done.ok:
        said = done.stderr.strip().rpartition("\n")[2]
        raise CommandFailed(f"The runs cannot be listed: {said}", "Is the home folder readable?")
    return [_submit(json.loads(line)) for line in done.stdout.splitlines() if line[:1] == "{"]


def _submit(found: Mapping[str, Any]) -> Submit:
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
    return str(Cost(round(amount * seconds / 3600, 2), str(hour.get("unit", ""))))


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
        return replace(run, state="unknown")
    last = max(records, key=lambda record: record.ended or 0)
    cause = explain_state(last.state, exit_code=last.exit_code, reason=last.reason).cause
    return replace(
        run,
        state=_BY_CAUSE.get(cause, "failed"),
        code=last.exit_code,
        seconds=run.seconds or sum(record.elapsed or 0 for record in records),
        ended=run.ended or last.ended,
    )
