"""Everything that a report shows of a job, put together from its run folder and from Slurm."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import math
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jupyter_hpc.batch.runs.endings import ending_of, record_of
from jupyter_hpc.batch.runs.gpu_use import in_words
from jupyter_hpc.batch.runs.program import ask_runs
from jupyter_hpc.batch.runs.registry import RecordedRun, Submit, settled, submit_of
from jupyter_hpc.errors import HpcError, JobNotFound
from jupyter_hpc.gpu.history import HistoryView
from jupyter_hpc.gpu.recording import RecordedUse, readings, recording_of, use_of
from jupyter_hpc.metrics import deciding, less_is_better
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.efficiency import Efficiency, efficiency
from jupyter_hpc.slurm.job_advice import Advice, advise
from jupyter_hpc.slurm.models import FinishedJob, Job, JobDetail, Phase
from jupyter_hpc.slurm.sstat import record_so_far

#: A curve has at most so many points.
POINTS = 600
#: What a recording may come to when it is unpacked.
_MAX_RECORD_BYTES = 64_000_000

Points = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Picture:
    """A figure; `data` is base64, and None where it is too large for a page or no picture."""

    name: str
    kind: str
    size: int
    data: str | None


@dataclass(frozen=True)
class ReportedRun:
    """One run with what it has left."""

    run: RecordedRun
    #: What the curves count: step, epoch, or line where nothing is counted.
    x: str = "line"
    curves: Mapping[str, Points] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()
    gpus: HistoryView | None = None
    use: RecordedUse | None = None
    log: str = ""


@dataclass(frozen=True)
class Report:
    """A submit, one of its runs, or a job that is not ours and has no runs."""

    job_id: str
    version: str
    made: int
    submit: Submit | None
    #: The best one first, where a number decides.
    runs: tuple[ReportedRun, ...]
    #: The number by which runs are compared; empty where none is known.
    decided_by: str
    #: What Slurm knows: of a sweep, the longest of its runs.
    record: FinishedJob | None
    #: How it ended, in a sentence; empty while it is not over.
    ending: str
    efficiency: Efficiency | None
    advice: tuple[Advice, ...]
    script: str
    #: What has measured the use, in words, where it was neither we nor Slurm.
    measured_by: str = ""
    #: What the jobs found installed, with the runs that it is of; see runtime/job/installed.py.
    environments: tuple[Mapping[str, Any], ...] = ()


async def gather(
    runner: Runner, client: SlurmClient, job_id: str, *, version: str, gpu_flag: str
) -> Report:
    """The report of a job, a task, or a whole sweep; JobNotFound if nobody knows it.

    `version` is our own, `gpu_flag` the spelling of the site's GPUs.
    """
    number, _, task = job_id.partition("_")
    asked = (runner, "The run cannot be read", "report", number, task, str(POINTS))
    found = json.loads(await ask_runs(*asked))
    submit, runs = await asyncio.to_thread(_runs, found) if found else (None, [])
    records = await _records(client, job_id)
    if submit is None and not records:
        raise JobNotFound(
            f"Slurm knows no job {job_id} of yours, and no run of it is here.",
            "`jupyter-hpc runs` lists every run that was ever submitted.",
        )
    if submit is not None:
        living, finished = await _living(client, records), [*records]
        (submit,) = settled([submit], living, finished)
        runs = [replace(each, run=run) for each, run in zip(runs, submit.runs, strict=True)]
    metric = deciding(list(dict.fromkeys(name for each in runs for name in _numbers(each)))) or ""
    record = max(records, key=lambda each: each.elapsed or 0, default=None)
    telling = runs[0] if len(runs) == 1 else _run_of(runs, record)
    use = in_words(telling.use) if telling is not None and telling.use is not None else None
    by_site = None
    if use is None and record is not None and record.phase is Phase.ENDED:
        with contextlib.suppress(HpcError):
            by_site = await client.site_use(record.id)
    if by_site is not None and record is not None:
        record, use = by_site.put_into(record), by_site.gpus
    ended = (await ending_of(runner, client, job_id))[0]
    return Report(
        job_id=job_id,
        version=version,
        made=int(time.time()),
        submit=submit,
        runs=tuple(_ranked(runs, metric)),
        decided_by=metric,
        record=record,
        ending=ended,
        efficiency=efficiency(record, use) if record else None,
        advice=tuple(advise(record, use, gpu_flag)) if record else (),
        script=str(found.get("script", "")),
        measured_by="jobstats, which the site runs" if by_site is not None else "",
        environments=tuple(found.get("environments", ())),
    )


async def _records(client: SlurmClient, job_id: str) -> list[FinishedJob]:
    """What Slurm knows of the job, or of each task that has begun; none once it has forgotten."""
    try:
        found = [each for each in await client.finished([job_id]) if each.started]
        if own := [each for each in found if each.holds(job_id)]:
            return own
    except HpcError:
        pass  # no accounting
    record = await record_of(client, job_id)
    return (
        [record_so_far(record, None) if isinstance(record, JobDetail) else record] if record else []
    )


async def _living(client: SlurmClient, records: Sequence[FinishedJob]) -> list[Job] | None:
    if records and all(each.phase is Phase.ENDED for each in records):
        return []
    try:
        return await client.my_jobs()
    except HpcError:
        return None


def _runs(found: Mapping[str, Any]) -> tuple[Submit, list[ReportedRun]]:
    own = ("x", "curves", "pictures", "record", "log")
    rows = [{name: row.pop(name) for name in own} for row in found["runs"]]
    submit = submit_of(found)
    return submit, [_reported(run, row) for run, row in zip(submit.runs, rows, strict=True)]


def _reported(run: RecordedRun, row: Mapping[str, Any]) -> ReportedRun:
    found = list(readings(_unpacked(row["record"])))
    return ReportedRun(
        run=run,
        x=row["x"],
        curves=row["curves"],
        pictures=tuple(Picture(**each) for each in row["pictures"]),
        gpus=recording_of(found, POINTS) if found else None,
        use=use_of(found) if found else None,
        log=row["log"],
    )


def _unpacked(data: str) -> str:
    """A recording as it was packed on the cluster; empty where there is none that can be read."""
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(data), _MAX_RECORD_BYTES)
    except (binascii.Error, ValueError, zlib.error):
        return ""
    return content.decode("utf-8", "replace")


def _numbers(each: ReportedRun) -> dict[str, float]:
    """What the run reached: of what was drawn the best, of all else the last."""
    reached = dict(each.run.metrics)
    for name, points in each.curves.items():
        known = [y for _, y in points if math.isfinite(y)]
        if known:
            reached[name] = min(known) if less_is_better(name) else max(known)
    return reached


def best_of(each: ReportedRun, metric: str) -> float | None:
    """The best value of that number in a run; None if it has none."""
    return _numbers(each).get(metric)


def _ranked(runs: Sequence[ReportedRun], metric: str) -> list[ReportedRun]:
    """The best first; those without the number keep their order at the end."""

    def place(each: ReportedRun) -> tuple[bool, float]:
        value = best_of(each, metric)
        if value is None or math.isnan(value):
            return True, 0.0
        return False, value if less_is_better(metric) else -value

    return sorted(runs, key=place) if metric else list(runs)


def _run_of(runs: Sequence[ReportedRun], record: FinishedJob | None) -> ReportedRun | None:
    task = record.id.partition("_")[2] if record is not None else ""
    return next((each for each in runs if each.run.task == task), None)
