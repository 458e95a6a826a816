"""One trial at a time in this session: a notebook's script for a few epochs, measured.

It ends by itself in its time, when it is told to, with this server, and when nobody has asked
how far it is for a while: the dialog that wanted it is gone then.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from jupyter_hpc.batch.trial.here import (
    LocalTrial,
    Progress,
    check_session,
    memory_left,
    session_lock,
)
from jupyter_hpc.batch.trial.measured import Filled, Measured, fill
from jupyter_hpc.batch.trial.plan import Trial, Wanted, plan_trial
from jupyter_hpc.errors import AlreadyRunning, HpcError, UsageError
from jupyter_hpc.runner import LocalRunner
from jupyter_hpc.slurm.job_environment import JobEnvironment, read_job_environment
from jupyter_hpc.slurm.units import parse_walltime
from jupyter_hpc.text import duration
from jupyter_hpc.waiting import finish

if TYPE_CHECKING:
    from jupyter_hpc.batch.submit.submit import SubmitOptions
    from jupyter_hpc.node.services.batch import BatchService
    from jupyter_hpc.node.services.offload import Offload
    from jupyter_hpc.node.services.partitions import PartitionService

T = TypeVar("T")

#: Nobody asks for so long: the dialog is gone. A hidden tab asks once a minute.
_FORGOTTEN_SECONDS = 150.0
_LOOK_SECONDS = 0.3
#: To write the files of a trial, and to end it and remove them.
_FILES_SECONDS = 60.0


@dataclass
class _Now:
    """The trial that runs, or the last one."""

    id: str
    trial: Trial
    unit: int | None
    longest: int | None
    process: LocalTrial
    asked_at: float
    #: Anything but "running" is told when nothing of it is left.
    state: str = "running"
    is_unwanted: bool = False
    progress: Progress = field(default_factory=Progress)
    problem: HpcError | None = None
    measured: Measured | None = None
    filled: Filled | None = None


class TrialService:
    """Starts a trial, tells how far it is, and ends it."""

    def __init__(
        self,
        batch: BatchService,
        partitions: PartitionService,
        offload: Offload,
        environ: Mapping[str, str],
    ) -> None:
        self._batch, self._partitions, self._offload = batch, partitions, offload
        self._environ = environ
        self._starting = asyncio.Lock()
        self._now: _Now | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, body: object) -> dict[str, object]:
        """Begin one. UsageError says why there can be none, AlreadyRunning that there is one."""
        wanted = _wanted(body)
        job = read_job_environment(self._environ)
        if job is None:
            raise UsageError(
                "A trial runs in a job, and this JupyterLab is in none.",
                "Open it in a session (jupyter-hpc connect), or submit a short job.",
            )
        asked = body.get("request") if isinstance(body, dict) else None
        notebook, draft, options = await self._batch.read(asked)
        runner = LocalRunner()
        trial = await self._batch.apart(
            lambda: plan_trial(notebook, draft, options, runner, wanted)
        )
        check_session(trial, self._environ)
        async with self._starting:
            if self._now is not None and self._now.state == "running":
                raise AlreadyRunning(
                    "A trial runs in this session already, and two at once would measure each "
                    "other.",
                    "Wait for its end, or end it.",
                )
            longest = await self._longest(options)
            self._now = _Now(
                secrets.token_hex(8), trial, _unit(options), longest,
                await self._begin(trial, job), time.monotonic(),
            )  # fmt: skip
            self._task = asyncio.create_task(self._watch(self._now))
        return await self.look()

    async def look(self) -> dict[str, object]:
        """How far the trial is, or what came of the last one; whoever asks keeps it alive."""
        now = self._now
        if now is None:
            return {"id": "", "state": "none", "progress": None, "problem": None, "result": None}
        now.asked_at = time.monotonic()
        if now.state == "running":
            with contextlib.suppress(HpcError):
                found = await self._files(now.process.progress)
                if found.run:  # its folder may be on the way out
                    now.progress = found
        return _shown(now)

    async def end(self, trial_id: str) -> dict[str, object]:
        """End the trial of that id; another one goes on."""
        now, task = self._now, self._task
        if now is not None and task is not None and now.id == trial_id:
            now.is_unwanted = True
            await asyncio.wait((task,))
        return await self.look()

    async def stop(self) -> None:
        """End what runs."""
        if self._task is not None:
            await finish(self._task)

    async def _begin(self, trial: Trial, job: JobEnvironment) -> LocalTrial:
        given_up = threading.Event()

        def begin() -> LocalTrial:
            lock = session_lock(Path.home(), job.id)
            started = LocalTrial.start(trial, memory_left(job), lock)
            if given_up.is_set():
                started.end()
            return started

        try:
            return await self._files(begin)
        except BaseException:
            given_up.set()
            raise

    async def _watch(self, now: _Now) -> None:
        """Until it is over; nothing of it is left when that is told."""
        outcome = "ended"
        try:
            while not now.is_unwanted and now.process.running:
                if time.monotonic() - now.asked_at > _FORGOTTEN_SECONDS:
                    now.is_unwanted = True
                    now.problem = UsageError(
                        f"The trial was ended, because nobody had asked for it for "
                        f"{duration(_FORGOTTEN_SECONDS)}.",
                        "Leave the dialog open while it runs.",
                    )
                await asyncio.sleep(_LOOK_SECONDS)
            if not now.is_unwanted:
                outcome = await self._read(now)
        finally:
            # Not awaited away by a cancel: the server waits for this when it stops.
            ending = asyncio.ensure_future(self._files(now.process.end))
            while not ending.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((ending,))
            if not ending.cancelled():
                ending.exception()
            now.state = outcome

    async def _read(self, now: _Now) -> str:
        """What came of it, in a word."""
        try:
            now.progress = await self._files(now.process.progress)
            now.measured = await self._files(now.process.result)
            now.filled = fill(
                now.measured,
                now.trial.total,
                processes=now.trial.processes,
                unit=now.unit,
                longest=now.longest,
            )
            if now.trial.job.request.memory is None:  # it is left to the cluster
                now.filled = replace(now.filled, memory="")
        except HpcError as error:
            now.problem = error
        return "done" if now.problem is None else "failed"

    async def _files(self, work: Callable[[], T]) -> T:
        return await self._offload(work, timeout=_FILES_SECONDS, about="The folder of the trial")

    async def _longest(self, options: SubmitOptions) -> int | None:
        """Seconds of the longest job of the partition; None where nobody knows."""
        with contextlib.suppress(HpcError):
            name = options.request.partition
            for each in await self._partitions.known():
                if each.name == name or (name is None and each.default):
                    return each.max_time
        return None


def _wanted(body: object) -> Wanted:
    table = body if isinstance(body, dict) else {}
    found = Wanted()
    for name in ("epochs", "seconds"):
        value = table.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            raise UsageError(f"{name!r} has to be a whole number.", "")
        found = replace(found, **{name: int(value)})
    return found


def _unit(options: SubmitOptions) -> int | None:
    """Of a chain the length of its parts is chosen, and their number is asked for."""
    return parse_walltime(options.request.time or "") if options.chain else None


def _shown(now: _Now) -> dict[str, object]:
    trial, problem = now.trial, now.problem
    result = None
    if now.measured is not None and now.filled is not None:
        result = {
            **asdict(now.filled),
            "message": now.measured.sentence(trial.total),
            "notes": list(trial.notes),
            "measured": asdict(now.measured),
        }
    told = problem and {"message": problem.message, "hint": problem.hint}
    wanted = {"wanted": trial.wanted.epochs, "limit": trial.wanted.seconds}
    return {
        "id": now.id,
        "state": now.state,
        "progress": {**asdict(now.progress), **wanted},
        "problem": told,
        "result": result,
    }
