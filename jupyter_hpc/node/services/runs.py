"""All runs that were ever submitted: the list, what they hold, and what can be done with them."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_hpc.batch.job.files import stem
from jupyter_hpc.batch.runs.again import choices_again, sources_of
from jupyter_hpc.batch.runs.archive import zipped
from jupyter_hpc.batch.runs.deletion import Holding, Named, delete, holdings
from jupyter_hpc.batch.runs.registry import RecordedRun, Submit, all_runs
from jupyter_hpc.batch.submit.results import results_of
from jupyter_hpc.errors import HpcError, JobNotFound, PermissionRefused, UsageError
from jupyter_hpc.metrics import deciding, less_is_better
from jupyter_hpc.node.services.cache import Cached
from jupyter_hpc.node.services.job_actions import ActionResult, Outcome
from jupyter_hpc.node.values import problem_of
from jupyter_hpc.text import printable

if TYPE_CHECKING:
    from jupyter_hpc.node.services.offload import Offload
    from jupyter_hpc.runner import Runner
    from jupyter_hpc.slurm.client import SlurmClient

LIFETIME_SECONDS = 20.0
FLOOR_SECONDS = 5.0
#: So many runs are deleted at once.
MAX_RUNS = 200
#: Of a piece of an archive that is being made.
_PIECE_SECONDS = 60.0
#: A larger notebook is not compared.
_MAX_NOTEBOOK_BYTES = 50_000_000

_RUN_ID = re.compile(r"\d{1,12}(_\d{1,6})?")

#: What names a run that is to be deleted.
_NAMED = ("id", "run_dir", "mark")

#: So many numbers can be chosen from.
_MAX_METRICS = 100

#: Submits, and why Slurm was not asked about them.
Found = tuple[list[Submit], HpcError | None]


class RunsService:
    """The runs of this user, as their folders and Slurm tell of them."""

    def __init__(
        self,
        runner: Runner,
        client: SlurmClient,
        offload: Offload,
        *,
        contents_root: str | None,
        poll_seconds: float = 0.0,
        enabled: bool = True,
        may_delete: bool = True,
    ) -> None:
        self._runner = runner
        self._client = client
        self._offload = offload
        self._root = contents_root
        self._enabled = enabled
        self._may_delete = may_delete
        self._changed_at: float | None = None
        #: What was deleted since the list was read, by its id.
        self._deleted: set[str] = set()
        floor = max(FLOOR_SECONDS, poll_seconds)
        self._found: Cached[Found] = Cached(self._look, LIFETIME_SECONDS, floor=floor)

    async def _look(self) -> Found:
        deleted = set(self._deleted)
        found = await all_runs(self._runner, self._client)
        self._deleted -= deleted
        return found

    def note_change(self) -> None:
        """Something was submitted: what was read before does not count any more."""
        self._changed_at = time.time()

    async def read(self) -> dict[str, object]:
        """Every submit with its runs, the newest first."""
        self._check_enabled()
        dated = await self._found.get(newer_than=self._changed_at)
        submits, problem = dated.value
        return {
            "submits": [self._described(each) for each in self._left(submits)],
            "metrics": _metrics(submits),
            "taken_at": dated.taken_at,
            "age": max(0.0, time.time() - dated.taken_at),
            "problem": problem_of(dated.problem or problem),
        }

    async def contents(self, text: str) -> dict[str, object]:
        """What would be deleted with these runs; all runs of a sweep are the sweep."""
        self._check_enabled()
        ids = await self._as_submits(_ids(text))
        return {"runs": await holdings(self._runner, self._client, ids)}

    async def delete(self, body: object) -> ActionResult:
        """Delete runs that are still what the request names; what was refused says why."""
        self._check_enabled()
        if not self._may_delete:
            raise PermissionRefused(
                "This site has switched off changing jobs from JupyterLab.",
                "Delete the folder of the run in a terminal.",
            )
        named = _named(body)
        try:
            done = await delete(self._runner, self._client, named)
        finally:
            self.note_change()
        self._deleted |= {each.id for each in done if not each.message}
        return _summed_up([_outcome(each) for each in done])

    async def again(self, run_id: str) -> dict[str, object]:
        """What the dialog begins with to run this one again."""
        self._check_enabled()
        submit, task = await self._find(_ids(run_id)[0])
        notebook = Path(submit.folder, submit.notebook) if submit.folder else None
        frozen = Path(submit.run_dir, Path(submit.notebook).name)
        is_here, has_frozen, changed = await self._offload(
            _compared, notebook, frozen, timeout=10.0, about="The folder of the notebook"
        )
        return {
            "path": self._path(notebook) if notebook and is_here else None,
            "frozen": self._path(frozen) if has_frozen else None,
            "changed": changed,
            "recorded": bool(submit.choices),
            "choices": choices_again(submit, task),
        }

    async def archive(self, run_id: str) -> tuple[str, AsyncIterator[bytes]]:
        """The name of a zip file with the results of a run, and its pieces."""
        self._check_enabled()
        submit, _ = await self._find(_ids(run_id)[0])
        results = await results_of(self._runner, run_id)
        name = f"{stem(submit.notebook) or 'run'}-{run_id}"
        return f"{name}.zip", self._pieces(zipped(results, name))

    async def _pieces(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            piece = await self._offload(
                next, pieces, None, timeout=_PIECE_SECONDS, about="The folder of the run"
            )
            if piece is None:
                return
            if piece:
                yield piece

    async def stop(self) -> None:
        """End what is under way."""
        await self._found.stop()

    def _check_enabled(self) -> None:
        if not self._enabled:
            raise PermissionRefused(
                "This site has switched off batch jobs in JupyterLab.",
                "`jupyter-hpc runs` in a terminal lists your runs.",
            )

    def _left(self, submits: list[Submit]) -> Iterator[Submit]:
        """The submits without what was deleted since they were read."""
        for each in submits:
            runs = tuple(run for run in each.runs if _id_of(each, run) not in self._deleted)
            if each.job_id not in self._deleted:
                yield dataclasses.replace(each, runs=runs)

    async def _find(self, run_id: str) -> tuple[Submit, str]:
        """The submit of a run, and the run's number in its sweep."""
        job_id, _, task = run_id.partition("_")
        for each in (await self._found.get(newer_than=self._changed_at)).value[0]:
            runs = {run.task for run in each.runs}
            if each.job_id == job_id and (not task or not each.is_sweep or task in runs):
                return each, task if each.is_sweep else ""
        raise JobNotFound(f"There is no run {run_id}.", "It may have been deleted meanwhile.")

    async def _as_submits(self, ids: list[str]) -> list[str]:
        whole: list[str] = []
        for each in (await self._found.get(newer_than=self._changed_at)).value[0]:
            of_it = [_id_of(each, run) for run in each.runs]
            if each.job_id in ids or (of_it and set(of_it) <= set(ids)):
                whole.append(each.job_id)
        return [*whole, *(run_id for run_id in ids if run_id.partition("_")[0] not in whole)]

    def _described(self, submit: Submit) -> dict[str, object]:
        notebook = Path(submit.folder, submit.notebook) if submit.folder else None
        return {
            "job_id": submit.job_id,
            "notebook": submit.notebook,
            "path": self._path(notebook),
            "run_dir": submit.run_dir,
            "run_path": self._path(Path(submit.run_dir)) if submit.is_there else None,
            "submitted": submit.submitted,
            "is_there": submit.is_there,
            "is_sweep": submit.is_sweep,
            "parts": submit.parts,
            "swept": submit.swept,
            "runs": [{"id": _id_of(submit, run), **vars(run)} for run in submit.runs],
        }

    def _path(self, path: Path | None) -> str | None:
        """As the file browser names it; None for what it does not show."""
        if path is None or not self._root:
            return None
        relative = os.path.relpath(path, self._root)
        return None if relative.split(os.sep)[0] == os.pardir else relative


def _metrics(submits: list[Submit]) -> list[dict[str, str]]:
    """The numbers that runs have reached: that which decides first, then those of most runs."""
    counts = Counter(name for each in submits for run in each.runs for name in run.metrics)
    names = [name for name, _ in counts.most_common(_MAX_METRICS)]
    first = deciding(names)
    names.sort(key=lambda name: name != first)
    return [{"name": name, "better": "less" if less_is_better(name) else "more"} for name in names]


def _compared(notebook: Path | None, frozen: Path) -> tuple[bool, bool, bool]:
    """Whether the notebook is there, what was frozen of it, and whether their code differs."""
    now = _sources(notebook) if notebook is not None else None
    then = _sources(frozen)
    is_here = notebook is not None and notebook.is_file()
    return is_here, frozen.is_file(), now is not None and then is not None and now != then


def _sources(path: Path) -> list[str] | None:
    try:
        if path.stat().st_size > _MAX_NOTEBOOK_BYTES:
            return None
        return sources_of(path.read_bytes())
    except OSError:
        return None


def _id_of(submit: Submit, run: RecordedRun) -> str:
    return f"{submit.job_id}_{run.task}" if run.task else submit.job_id


def _ids(text: str) -> list[str]:
    ids = list(dict.fromkeys(text.split(",")))
    for run_id in ids:
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(
                f"{printable(run_id, 60)!r} is not a run.", "It looks like 1234 or 1234_5."
            )
    if len(ids) > MAX_RUNS:
        raise UsageError(f"{len(ids)} runs are too many at once.", f"Name at most {MAX_RUNS}.")
    return ids


def _named(body: object) -> list[Named]:
    runs = body.get("runs") if isinstance(body, Mapping) else None
    if not isinstance(runs, list) or not runs:
        raise UsageError("The request names no runs.", "Give each with id, run_dir and mark.")
    named = []
    for each in runs:
        given = [each.get(name) for name in _NAMED] if isinstance(each, dict) else []
        words = [word for word in given if isinstance(word, str) and word and "\0" not in word]
        if len(words) < len(_NAMED):
            raise UsageError("A run has to have id, run_dir and mark.", "Ask for its contents.")
        named.append(Named(*words))
    _ids(",".join(each.id for each in named))
    return named


def _outcome(done: Holding) -> Outcome:
    said = done.message or f"Run {done.id} is deleted."
    return Outcome(done.id, not done.message, said, done.hint)


def _summed_up(outcomes: list[Outcome]) -> ActionResult:
    left = [each for each in outcomes if not each.ok]
    if left:
        message = f"{len(left)} of {len(outcomes)} runs were not deleted: {left[0].message}"
        return ActionResult(
            left[0].message if len(outcomes) == 1 else message, left[0].hint, tuple(outcomes)
        )
    message = outcomes[0].message if len(outcomes) == 1 else f"{len(outcomes)} runs are deleted."
    return ActionResult(message, "", tuple(outcomes))
