"""What a person looks at first of a job: state, progress, curves, figures, last lines."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_hpc.batch.runs.advance import all_epochs
from jupyter_hpc.batch.runs.following import FollowedRun, FollowedRuns
from jupyter_hpc.batch.runs.registry import RecordedRun, Submit, settled
from jupyter_hpc.batch.runtime.job.run_table import RunRow, logs_of
from jupyter_hpc.errors import JobNotFound, PermissionRefused, UsageError
from jupyter_hpc.metrics import deciding, less_is_better
from jupyter_hpc.node.services.curves import (
    Curve,
    CurveService,
    RunFolders,
    check_points,
    curves_of,
    number_and_task,
    run_id,
    tasks_of,
)
from jupyter_hpc.node.services.figures import Figure, figures_of
from jupyter_hpc.node.services.job_details import JobDetails
from jupyter_hpc.node.services.jobs import JobsService, parse_id
from jupyter_hpc.node.services.log_files import NotALog, read_piece
from jupyter_hpc.slurm.models import Job, Phase

#: The list of jobs says how runs are while it is not older.
FRESH_SECONDS = 120.0
#: So much of the end of a log is shown.
LOG_END_BYTES = 16 * 1024
#: States of a run that is under way or comes.
_OPEN = ("waiting", "running", "goes on")


@dataclass(frozen=True)
class ShownRun:
    """A run in the table of its job."""

    id: str
    parameters: Mapping[str, Any]
    #: As in the list of all runs.
    state: str
    code: int | None
    metrics: Mapping[str, float]
    #: The best value that a curve has of the number that decides.
    best: float | None
    seconds: int | None


@dataclass(frozen=True)
class Progress:
    """How much is done. `unit` is epoch, percent or run; `of` and `ends` may not be known."""

    unit: str
    done: float
    of: float | None
    ends: float | None


@dataclass(frozen=True)
class _Seen:
    """What the folder of a job shows."""

    is_sweep: bool
    rows: Sequence[RunRow]
    #: Those of the run that is looked at; of all without one.
    looked_at: Mapping[str, FollowedRun]
    curves: Sequence[Curve]
    figures: Sequence[Figure]
    more_figures: int
    log: str


class OverviewService:
    """Puts together what the first page of a job shows; Slurm is not asked for it."""

    def __init__(
        self,
        details: JobDetails,
        jobs: JobsService,
        folders: RunFolders,
        curves: CurveService,
        *,
        contents_root: str | None = None,
        enabled: bool = True,
    ) -> None:
        self._contents_root = contents_root
        self._details = details
        self._jobs = jobs
        self._folders = folders
        self._curves = curves
        self._enabled = enabled

    async def read(self, text: str, points: int, run: str | None = None) -> dict[str, object]:
        """The overview of a job or of a task; of a sweep that of all runs, or of the run `run`."""
        if not self._enabled:
            raise PermissionRefused("This site has switched off logs in JupyterLab.", "")
        check_points(points)
        if run is not None and not run.isdigit():
            raise UsageError("There is no such run.", "A run of a sweep has a number.")
        number, task = number_and_task(parse_id(text))
        try:
            run_dir = await self._folders.of(number)
        except JobNotFound:
            return await self._of_foreign(text, points)
        seen = await self._curves.followed(
            lambda followed: _look(
                followed, run_dir, number, task, run or task, points, self._contents_root
            )
        )
        rows = self._settled(number, run_dir, seen)
        return self._described(number, seen, rows) | {"job_id": text}

    async def _of_foreign(self, text: str, points: int) -> dict[str, object]:
        """Of a job that was not submitted by this product there is only its log."""
        files = await self._details.files(text)
        log = Path(files.stdout) if files.stdout else None
        seen = await self._curves.followed(
            lambda followed: _look_at_log(followed, text, log, points)
        )
        started = await self._details.started(text)
        return _answer(seen, [], "", _advanced(seen, {}, started), is_run=False) | {"job_id": text}

    def _settled(self, number: str, run_dir: Path, seen: _Seen) -> list[RecordedRun]:
        """The runs with the states that the list of jobs knows better than the folder."""
        rows = [
            RecordedRun(
                task=row.task,
                parameters=row.parameters,
                state=row.state,
                code=row.code,
                metrics=row.metrics,
                seconds=row.ended.get("total", row.ended.get("seconds")),
            )
            for row in seen.rows
        ]
        submit = Submit(number, "", str(run_dir), 0, True, seen.is_sweep, runs=tuple(rows))
        ids = [run_id(number, row.task) for row in rows]
        records = [self._jobs.history.known(each) for each in ids]
        ended = [record for record in records if record is not None]
        living = self._living()
        if living is not None and not ended and not any(job.holds(number) for job in living):
            living = None  # it has just left, or has just come: the folder says what there is
        (found,) = settled([submit], living, ended)
        # Where the list knows nothing yet, what the folder says is the newest word.
        pairs = zip(rows, found.runs, strict=True)
        return [old if new.state == "unknown" else new for old, new in pairs]

    def _living(self) -> Sequence[Job] | None:
        newest = self._jobs.newest
        if newest is None or time.time() - newest.taken_at > FRESH_SECONDS:
            return None
        return newest.value.jobs

    def _described(
        self, number: str, seen: _Seen, rows: Sequence[RecordedRun]
    ) -> dict[str, object]:
        names = {name for row in rows for name in row.metrics} | {each.name for each in seen.curves}
        metric = deciding(sorted(names)) or ""
        drawn = next((each for each in seen.curves if each.name == metric), None)
        runs = []
        for row in rows:
            own = run_id(number, row.task)
            best = _best(drawn, own) if drawn is not None else None
            runs.append(
                ShownRun(
                    id=own,
                    parameters=row.parameters,
                    state=row.state,
                    code=row.code,
                    metrics=row.metrics,
                    best=row.metrics.get(metric) if best is None else best,
                    seconds=row.seconds,
                )
            )
        progress: Progress | None
        if len(seen.looked_at) != 1:  # all runs of a sweep
            over = sum(row.state not in _OPEN for row in rows)
            progress = Progress("run", float(over), float(len(rows)), None)
        else:
            own = next(iter(seen.looked_at))
            found = next((row for row in rows if run_id(number, row.task) == own), None)
            runs_now = found is not None and found.state == "running"
            parameters = found.parameters if found is not None else {}
            progress = _advanced(seen, parameters, self._started(own) if runs_now else None)
        return _answer(seen, runs, metric, progress)

    def _started(self, job_id: str) -> float | None:
        """Since when a run, or the present part of it, is at work."""
        for job in self._living() or ():
            if job.phase is Phase.RUNNING and job.holds(job_id):
                return job.started
        return None


def _look(
    followed: FollowedRuns,
    run_dir: Path,
    number: str,
    task: str,
    run: str,
    points: int,
    root: str | None,
) -> _Seen:
    """What the folder of a job, or of its task, shows of a run; of all runs without one."""
    is_sweep = (run_dir / "parameters").is_dir()
    tasks = tasks_of(run_dir, run)
    looked_at = {run_id(number, each): followed.of(run_dir, each) for each in tasks}
    curves = curves_of(looked_at, points)
    shown = [(run_id(number, each), each) for each in tasks]
    figures, more = figures_of(run_dir / "output", shown, root)
    logs = [log for each in tasks for log in logs_of(run_dir, each)[-1:]]
    return _Seen(
        is_sweep=is_sweep,
        rows=[RunRow(run_dir, each) for each in tasks_of(run_dir, task)],
        looked_at=looked_at,
        curves=curves,
        figures=figures,
        more_figures=more,
        log=_end_of(max(logs, key=_written, default=None)),
    )


def _look_at_log(followed: FollowedRuns, job_id: str, log: Path | None, points: int) -> _Seen:
    looked_at = {} if log is None else {job_id: followed.of_log(log)}
    return _Seen(False, [], looked_at, curves_of(looked_at, points), [], 0, _end_of(log))


def _written(log: Path) -> float:
    try:
        return log.stat().st_mtime
    except OSError:
        return 0.0


def _end_of(log: Path | None) -> str:
    try:
        return read_piece(str(log), None, LOG_END_BYTES).text if log else ""
    except (OSError, NotALog):
        return ""


def _best(curve: Curve, run: str) -> float | None:
    values = [y for line in curve.lines if line.run == run for _, y in line.points]
    return (min if curve.better == "less" else max)(values, default=None)


def _answer(
    seen: _Seen,
    runs: Sequence[ShownRun],
    metric: str,
    progress: Progress | None,
    *,
    is_run: bool = True,
) -> dict[str, object]:
    return {
        "is_run": is_run,
        "is_sweep": seen.is_sweep,
        "runs": runs,
        "decided_by": metric,
        "better": ("less" if less_is_better(metric) else "more") if metric else None,
        "ended": bool(runs) and all(run.state not in _OPEN for run in runs),
        "progress": progress,
        "curves": seen.curves,
        "figures": seen.figures,
        "more_figures": seen.more_figures,
        "log": seen.log,
        "taken_at": time.time(),
    }


def _advanced(seen: _Seen, parameters: Mapping[str, Any], started: float | None) -> Progress | None:
    """How far the one run is that is looked at; None where it does not tell."""
    advance = next(iter(seen.looked_at.values())).advance if len(seen.looked_at) == 1 else None
    if advance is None or not advance.unit:
        return None
    of = advance.of
    if of is None and advance.unit == "epoch":
        of = all_epochs(parameters)
    return Progress(advance.unit, advance.done, of, advance.ends(started, of))
