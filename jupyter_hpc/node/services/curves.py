"""The numbers of runs as curves, read from their folders while they grow."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jupyter_hpc.batch.runs.following import FollowedRun, FollowedRuns
from jupyter_hpc.errors import CommandTimeout, JobNotFound, PermissionRefused, UsageError
from jupyter_hpc.metrics import deciding, less_is_better
from jupyter_hpc.node.services.jobs import MAX_JOBS_AT_ONCE, parse_ids
from jupyter_hpc.node.services.offload import Offload

T = TypeVar("T")

#: At most so many curves are sent, the telling ones first.
MAX_CURVES = 24
#: So many points can be asked of one curve.
MAX_POINTS = 5000
#: The first look at a hundred long logs takes its time.
READ_SECONDS = 30.0
MAX_FOLDERS_KEPT = 500


@dataclass(frozen=True)
class CurveLine:
    """A number of one run: pairs of what is counted and its value, null where it is no number."""

    run: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    """One number of several runs. `x` is step, epoch, or line where nothing is counted."""

    name: str
    x: str
    #: less or more
    better: str
    lines: Sequence[CurveLine]


class RunFolders:
    """Where the runs of jobs are. Asked once: a run folder does not move."""

    def __init__(self, find_run: Callable[[str], Awaitable[str]]) -> None:
        self._find_run = find_run
        self._folders: OrderedDict[str, Path] = OrderedDict()

    async def of(self, number: str) -> Path:
        """The run folder of a job or an array by its number; JobNotFound if it is not ours."""
        if number not in self._folders:
            self._folders[number] = Path(await self._find_run(number))
            while len(self._folders) > MAX_FOLDERS_KEPT:
                self._folders.popitem(last=False)
        return self._folders[number]


class CurveService:
    """Reads curves; of a run that was looked at before only what is new."""

    def __init__(self, folders: RunFolders, offload: Offload, *, enabled: bool = True) -> None:
        self._folders = folders
        self._offload = offload
        self._enabled = enabled
        self._followed = FollowedRuns()
        self._reading = asyncio.Lock()

    async def read(self, ids: str, points: int) -> dict[str, object]:
        """The curves of these runs, separated by commas; of a whole sweep all its runs."""
        if not self._enabled:
            raise PermissionRefused("This site has switched off logs in JupyterLab.", "")
        check_points(points)
        found, unknown = [], None
        for job_id in dict.fromkeys(parse_ids(ids)):
            number, task = number_and_task(job_id)
            try:
                found.append((number, await self._folders.of(number), task))
            except JobNotFound as error:
                unknown = error
        if unknown is not None and not found:
            raise unknown
        return {"curves": await self.followed(lambda followed: _curves(followed, found, points))}

    async def followed(self, look: Callable[[FollowedRuns], T]) -> T:
        """What `look` makes of the runs that are followed, one look after the other."""
        async with self._reading:
            try:
                return await self._offload(
                    look, self._followed, timeout=READ_SECONDS, about="The folder of the runs"
                )
            except CommandTimeout:
                self._followed = FollowedRuns()  # a thread that hangs may still write to that one
                raise


def check_points(points: int) -> None:
    """UsageError for a number of points that no chart has."""
    if not 2 <= points <= MAX_POINTS:
        raise UsageError("There is no such curve.", f"Ask for 2 to {MAX_POINTS} points.")


def number_and_task(job_id: str) -> tuple[str, str]:
    """The job or array of an id as Slurm writes it, and its task; empty where it is not one."""
    number, _, task = job_id.partition("+")[0].partition("_")
    return number, task if task.isdigit() else ""


def tasks_of(run_dir: Path, task: str) -> list[str]:
    """The runs that a job or task stands for; one without a name where it is no sweep."""
    folder = run_dir / "parameters"
    if not folder.is_dir():
        return [""]
    if task:
        return [str(int(task))]
    found = sorted(int(file.stem) for file in folder.glob("*.json") if file.stem.isdigit())
    return [str(number) for number in found[:MAX_JOBS_AT_ONCE]]


def _curves(
    followed: FollowedRuns, asked: Iterable[tuple[str, Path, str]], points: int
) -> list[Curve]:
    runs = {
        run_id(number, task): followed.of(run_dir, task)
        for number, run_dir, wanted in asked
        for task in tasks_of(run_dir, wanted)
    }
    return curves_of(runs, points)


def run_id(number: str, task: str) -> str:
    """How a run is called: by its job, or as a task of it."""
    return f"{number}_{task}" if task else number


def curves_of(runs: dict[str, FollowedRun], points: int) -> list[Curve]:
    """The numbers of these runs, each with a line for every run that has it."""
    lines: dict[tuple[str, str], list[CurveLine]] = {}
    for name, run in runs.items():
        run.look()
        series = run.series(points)
        for number, found in series.curves.items():
            lines.setdefault((number, series.x), []).append(CurveLine(name, found))
    first = deciding([number for number, _ in lines])
    # What decides, then what most runs have, each in the order in which it was told.
    order = sorted(lines, key=lambda key: (key[0] != first, -len(lines[key])))
    return [
        Curve(number, x, "less" if less_is_better(number) else "more", lines[number, x])
        for number, x in order[:MAX_CURVES]
    ]
