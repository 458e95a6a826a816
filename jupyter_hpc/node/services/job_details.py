"""One job in detail: what Slurm knows, why it waits, how it ended, what it used."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_hpc.batch.runs.endings import Left, ending
from jupyter_hpc.batch.runs.gpu_use import gpu_use
from jupyter_hpc.batch.runs.inputs import unchanged_inputs
from jupyter_hpc.clusters.sections import Budget
from jupyter_hpc.errors import HpcError, JobNotFound
from jupyter_hpc.gpu.recording import read_recording
from jupyter_hpc.node.services.cache import Cached, Dated
from jupyter_hpc.node.services.gpus import check_points, described_history
from jupyter_hpc.node.services.identity import Identity
from jupyter_hpc.node.services.job_files import (
    JobFiles,
    RememberedFiles,
    files_of_detail,
    files_of_finished,
    with_run,
)
from jupyter_hpc.node.services.job_rows import clean
from jupyter_hpc.node.services.job_usage import RunningUsage
from jupyter_hpc.node.services.jobs import JobsService, parse_id
from jupyter_hpc.node.services.log_files import NotALog, read_piece
from jupyter_hpc.node.services.offload import Offload
from jupyter_hpc.node.values import problem_of, to_json
from jupyter_hpc.slurm.cost import Cost, finished_cost
from jupyter_hpc.slurm.efficiency import GpuUse, efficiency
from jupyter_hpc.slurm.job_advice import advise
from jupyter_hpc.slurm.models import FinishedJob, JobDetail, Phase
from jupyter_hpc.slurm.reasons import HELD_BY_USER, explain_reason
from jupyter_hpc.slurm.sstat import record_so_far

if TYPE_CHECKING:
    from jupyter_hpc.slurm.client import SlurmClient

#: A person who looks at one job gets news so often.
LIFETIME_SECONDS = 20.0
FLOOR_SECONDS = 10.0
MAX_JOBS_KEPT = 50

#: A job that started a moment ago has no steps to measure yet.
SETTLED_SECONDS = 10

#: Scripts are shown up to this size.
SCRIPT_BYTES = 256 * 1024


@dataclass(frozen=True)
class Found:
    """What Slurm said about a job: its living record, its finished one, or both."""

    detail: JobDetail | None
    finished: FinishedJob | None
    files: JobFiles
    estimated_start: float | None
    #: Why the finished record could not be had, where it should be there.
    problem: HpcError | None = None


class JobDetails:
    """Asks Slurm about the one job that somebody has opened."""

    def __init__(
        self,
        client: SlurmClient,
        jobs: JobsService,
        identity: Identity,
        offload: Offload,
        *,
        find_run: Callable[[str], Awaitable[str]],
        left_by: Callable[[str], Awaitable[Left | None]],
        gpu_flag: str = "gpus",
        budget: Budget | None = None,
        contents_root: str | None = None,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._identity = identity
        self._offload = offload
        self._find_run = find_run
        self._left_by = left_by
        self._gpu_flag = gpu_flag
        self._budget = budget or Budget()
        self._contents_root = contents_root
        self._usage = RunningUsage(client.usage)
        self._files = RememberedFiles()
        self._found: OrderedDict[str, Cached[Found]] = OrderedDict()

    def _cost(self, record: FinishedJob | None) -> Cost | None:
        """What the job has cost until now, by the rates of the profile."""
        if record is None:
            return None
        return finished_cost(record, self._budget.rates, self._budget.unit)

    async def view(self, text: str) -> dict[str, object]:
        """Everything that the job view shows."""
        dated = await self._current(parse_id(text))
        found = dated.value
        recording, use = await self._recording(found.files)
        record = found.finished or await self._so_far(found.detail)
        left = await self._left(found)
        return {
            "job": self._job(found),
            "finished": _phase(found) is Phase.ENDED,
            **_state(found, left),
            "reason": _reason(found, left),
            "estimated_start": found.estimated_start,
            "efficiency": efficiency(record, use) if record else None,
            "advice": advise(record, use, self._gpu_flag) if record else [],
            "cost": str(self._cost(record) or ""),
            "script": await self._script(found.files),
            "files": {
                "stdout": found.files.stdout,
                "stderr": found.files.stderr,
                "work_dir": found.files.work_dir,
                "contents_path": self._contents_path(found.files.work_dir),
                "run_dir": found.files.run_dir,
                "run_path": self._contents_path(found.files.run_dir),
                "recording": recording is not None,
                "inputs": await self._inputs(found),
            },
            "taken_at": dated.taken_at,
            "age": max(0.0, time.time() - dated.taken_at),
            "problem": problem_of(dated.problem or found.problem),
        }

    async def _inputs(self, found: Found) -> list[str]:
        """What lies among the results of a run that is under way and is none of them."""
        run_dir = found.files.run_dir
        if run_dir is None or _phase(found) is Phase.ENDED:
            return []
        output = Path(run_dir) / "output"
        return await self._offload(
            unchanged_inputs, output, timeout=10.0, about="The folder of the run"
        )

    async def files(self, text: str) -> JobFiles:
        """Where the job's files are. Asked once: a growing log is no reason to ask again."""
        job_id = parse_id(text)
        remembered = self._files.get(job_id)
        if remembered is not None and not remembered.guessed:
            return remembered
        return (await self._cached(job_id).get()).value.files

    async def started(self, text: str) -> float | None:
        """Since when a job runs; None for one that does not."""
        detail = (await self._current(parse_id(text))).value.detail
        return detail.started if detail is not None and detail.phase is Phase.RUNNING else None

    async def gpus(self, text: str, points: int) -> dict[str, object]:
        """The GPU history that the job recorded."""
        check_points(points)
        path = await self._find_recording(await self.files(text))
        if path is None:
            raise JobNotFound(
                "There is no GPU recording of this job.",
                "Jobs submitted with “Run as batch job” record their GPUs.",
            )
        try:
            view = await self._offload(
                read_recording, path, points, timeout=20.0, about="The recording"
            )
        except OSError as error:
            raise HpcError(f"{path} cannot be read: {error.strerror}.", "") from error
        return described_history(view, "recording", False, None)

    async def _current(self, job_id: str) -> Dated[Found]:
        """What is known; asked anew when the list of jobs has said otherwise meanwhile."""
        cached = self._cached(job_id)
        dated = await cached.get()
        listed, detail = self._jobs.state_of(job_id), dated.value.detail
        if listed is None or detail is None or detail.phase is Phase.ENDED:
            return dated
        if listed.taken_at <= dated.taken_at or listed.value == detail.state:
            return dated
        return await cached.get(newer_than=listed.taken_at)

    def _cached(self, job_id: str) -> Cached[Found]:
        if job_id not in self._found:
            self._found[job_id] = Cached(
                lambda: self._find(job_id), LIFETIME_SECONDS, floor=FLOOR_SECONDS
            )
            while len(self._found) > MAX_JOBS_KEPT:
                self._found.popitem(last=False)
        self._found.move_to_end(job_id)
        return self._found[job_id]

    async def _find(self, job_id: str) -> Found:
        # The waiting rest of an array has no record of its own; its array has.
        asked = job_id.partition("_[")[0]
        try:
            detail = await self._client.job_detail(asked)
        except JobNotFound as error:
            finished = await self._finished(asked, error)
            return Found(None, finished, await self._files_of(finished), None)
        if not self._identity.owns(detail.fields.get("UserId", detail.user)):
            raise _not_yours(job_id)
        files = await self._with_run(files_of_detail(detail))
        self._files.remember(files)
        ended, problem = None, None
        if detail.phase is Phase.ENDED:
            try:
                ended = await self._finished(detail.id, _not_yours(job_id))
            except HpcError as error:
                problem = None if isinstance(error, JobNotFound) else error
        return Found(detail, ended, files, await self._estimate(detail), problem)

    async def _finished(self, job_id: str, otherwise: HpcError) -> FinishedJob:
        for job in await self._client.finished([job_id]):
            if job.phase in (Phase.PENDING, Phase.RUNNING, Phase.ENDING):
                continue  # the database lags behind: that is not how it ended
            if job_id in (job.id, job.job_id) and self._identity.owns(job.user):
                self._jobs.history.remember(job)
                return job
        raise otherwise

    async def _left(self, found: Found) -> Left | None:
        """What a run of ours has left about its end, once it has one, or why it is held."""
        record = found.finished or found.detail
        if record is None or not (_phase(found) is Phase.ENDED or _is_held(found)):
            return None
        try:
            return await self._left_by(record.id.partition("_[")[0])
        except HpcError:
            return None  # Slurm's own word stands

    async def _files_of(self, finished: FinishedJob) -> JobFiles:
        remembered = self._files.get(finished.id)
        return remembered or await self._with_run(files_of_finished(finished))

    async def _with_run(self, files: JobFiles) -> JobFiles:
        try:
            return with_run(files, await self._find_run(files.job_id))
        except HpcError:
            return files  # not submitted by this product

    async def _estimate(self, detail: JobDetail) -> float | None:
        if detail.phase is not Phase.PENDING:
            return None
        try:
            estimate = await self._client.estimated_start(detail.id)
        except HpcError:
            return None
        return estimate.start if estimate else None

    async def _so_far(self, detail: JobDetail | None) -> FinishedJob | None:
        """What a running job has used until now, or one that has no record of its end yet."""
        if detail is None or detail.phase not in (Phase.RUNNING, Phase.ENDED):
            return None
        if detail.phase is Phase.ENDED:
            return record_so_far(detail, None) if detail.started else None
        number = detail.fields.get("JobId", detail.id)
        settled = (detail.run_time or 0) >= SETTLED_SECONDS
        return record_so_far(detail, await self._usage.of(number) if settled else None)

    def _job(self, found: Found) -> dict[str, object]:
        """The two records as one; the living one knows more, the finished one better."""
        job: dict[str, object] = {}
        if found.detail is not None:
            job |= to_json(found.detail)
            job["fields"] = {key: clean(text) for key, text in found.detail.fields.items()}
        if found.finished is not None:
            job |= to_json(found.finished)
            job.pop("usage")
        job["name"] = clean(str(job["name"]))
        job["phase"] = _phase(found).value
        return job

    async def _script(self, files: JobFiles) -> str | None:
        """The batch script: of our own runs as submitted, else as its file is now."""
        try:
            return await self._offload(_read_script, files, timeout=5.0, about="The job's folder")
        except (HpcError, OSError):
            return None

    async def _recording(self, files: JobFiles) -> tuple[Path | None, GpuUse | None]:
        try:
            path = await self._find_recording(files)
            if path is None:
                return None, None
            return path, await self._offload(gpu_use, path, timeout=10.0, about="The recording")
        except (HpcError, OSError):
            return None, None

    async def _find_recording(self, files: JobFiles) -> Path | None:
        return await self._offload(
            _first_file, files.recordings(), timeout=5.0, about="The job's folder"
        )

    def _contents_path(self, work_dir: str | None) -> str | None:
        if not work_dir or not self._contents_root:
            return None
        relative = os.path.relpath(work_dir, self._contents_root)
        if relative == os.pardir or relative.startswith(os.pardir + os.sep):
            return None
        return "" if relative == os.curdir else relative

    async def stop(self) -> None:
        """End what is under way."""
        found = [cached.stop() for cached in self._found.values()]
        await asyncio.gather(self._usage.stop(), *found)


def _phase(found: Found) -> Phase:
    if found.detail is not None:
        return found.detail.phase
    return found.finished.phase if found.finished else Phase.UNKNOWN


def _state(found: Found, left: Left | None) -> dict[str, str | None]:
    if _phase(found) is not Phase.ENDED:
        return {"state_text": None, "state_advice": None}
    finished, detail = found.finished, found.detail
    record = finished or detail
    if record is None:
        return {"state_text": None, "state_advice": None}
    known = ending(record, left)
    return {"state_text": known.text, "state_advice": known.advice}


def _is_held(found: Found) -> bool:
    return found.detail is not None and found.detail.reason == HELD_BY_USER


def _reason(found: Found, left: Left | None) -> dict[str, str] | None:
    detail = found.detail
    if detail is None or detail.phase is not Phase.PENDING or not detail.reason:
        return None
    if left is not None and left.held and _is_held(found):  # by the run itself
        return {"code": clean(detail.reason), "text": clean(left.rest), "advice": ""}
    explained = explain_reason(detail.reason)
    return {"code": clean(detail.reason), "text": explained.text, "advice": explained.advice}


def _not_yours(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"There is no job {job_id} of yours.", "It may have ended long ago, or be another user's."
    )


def _first_file(paths: list[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _read_script(files: JobFiles) -> str | None:
    frozen = sorted(Path(files.run_dir).glob("*.sbatch")) if files.run_dir else []
    path = str(frozen[0]) if frozen else _script_path(files.script or "")
    # "sbatch <(…)" and "sbatch /dev/stdin" name files of another process
    if not path or path.startswith(("/dev/", "/proc/")):
        return None
    try:
        text = read_piece(path, 0, SCRIPT_BYTES).text
    except NotALog:
        return None
    return text if text.startswith("#!") else None


def _script_path(command: str) -> str:
    """The script of a command with or without its arguments: the longest beginning that exists.

    Slurm names both, divided by blanks, up to 24.05; a path may have blanks of its own.
    """
    words = command.split(" ")
    beginnings = (" ".join(words[:end]) for end in range(len(words), 0, -1))
    return next((path for path in beginnings if Path(path).is_file()), "")
