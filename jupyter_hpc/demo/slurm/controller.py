"""The living jobs: submitted, started, limited, signalled, ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from jupyter_hpc.demo.slurm import admission
from jupyter_hpc.demo.slurm.inventory import Inventory
from jupyter_hpc.demo.slurm.jobs import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PENDING,
    RUNNING,
    TIMEOUT,
    ArrayTask,
    Job,
    Request,
    Share,
    Step,
)
from jupyter_hpc.demo.slurm.jobtable import JobTable
from jupyter_hpc.demo.slurm.scheduling import expected, look_at_queue, priority
from jupyter_hpc.demo.slurm.steps import Launcher, send_to_step
from jupyter_hpc.demo.spawner import SpawnFailed
from jupyter_hpc.waiting import within

log = logging.getLogger(__name__)

#: The "signal" that Slurm shows for a job whose output cannot be opened.
CANNOT_LAUNCH = 53
#: Seconds a requeued job waits before it may start again.
REQUEUE_DELAY_SECONDS = 5.0


class Controller:
    """slurmctld and slurmdbd in one: the one place where jobs change."""

    def __init__(
        self,
        inventory: Inventory,
        launcher: Launcher,
        first_id: int = 1,
        on_id: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.inventory = inventory
        self.launcher = launcher
        self.jobs = JobTable(first_id, inventory.min_job_age, on_id)
        self.started = time.time()
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._scheduled = False
        self._stopping = False

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._stopping:
            log.error("A task of the demo's controller failed", exc_info=task.exception())

    async def stop(self) -> None:
        """End the controller's own work; the processes are the reaper's business."""
        self._stopping = True
        if self._alarm:
            self._alarm.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- submission --------------------------------------------------------------------

    def submit(
        self,
        request: Request,
        origin: Job,
        tasks: Sequence[int] = (),
        task_step: int = 1,
        task_limit: int | None = None,
    ) -> Job:
        """Accept a job like `origin`, or one per array task; Refused if it cannot be."""
        living = [job for job in self.jobs if not job.done]
        admission.check(request, len(tasks) or 1, living, self.inventory)
        number = self.jobs.new_id()
        now = time.time()
        made = []
        numbers: Sequence[int | None] = tasks or [None]
        for task in numbers:
            job = replace(
                origin,
                id=number,
                request=request,
                submit=now,
                eligible=max(now + self.inventory.queue_delay, request.begin),
                held="JobHeldUser" if request.hold else "",
                steps=[],
                changed=asyncio.Event(),
            )
            if task is not None:
                job.has_own_id = False
                job.array = ArrayTask(
                    number, task, len(tasks), tasks[0], tasks[-1], task_step, task_limit
                )
            made.append(job)
        self.jobs.add(made)
        self.schedule()
        return made[0]

    def estimate(self, request: Request) -> tuple[int, float, tuple[Share, ...]]:
        """Job number, start and places that the request would get; Refused as by submit."""
        admission.check(request, 1, (job for job in self.jobs if not job.done), self.inventory)
        number = self.jobs.new_id()
        found = expected(request, list(self.jobs), self.inventory, time.time())
        if found is None:
            raise admission.Refused(admission.NOT_AVAILABLE)
        return number, *found

    # --- the queue ---------------------------------------------------------------------

    def priority(self, job: Job) -> int:
        return priority(job, self.inventory)

    def schedule(self) -> None:
        """Look at the queue, soon and once, however often this is called."""
        if not self._scheduled and not self._stopping:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._schedule_now)

    def _schedule_now(self) -> None:
        self._scheduled = False
        now = time.time()
        moment = look_at_queue(list(self.jobs), self.inventory, now, self._start)
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        if moment:
            delay = max(0.01, moment - now)
            self._alarm = asyncio.get_running_loop().call_later(delay, self.schedule)

    # --- life of a job -----------------------------------------------------------------

    def _start(self, job: Job, shares: tuple[Share, ...]) -> None:
        self.jobs.give_own_id(job)
        job.shares = shares
        job.state, job.reason = RUNNING, "None"
        job.start, job.end, job.signalled = time.time(), 0.0, False
        job.notify()
        self._in_background(self._watch_limits(job, job.restarts))
        if job.script is not None:
            self._in_background(self._run_batch(job, job.restarts))

    async def _run_batch(self, job: Job, run: int) -> None:
        try:
            step = await self.launcher.start_batch(job)
            code = (await self.launcher.wait(step))[0]
        except SpawnFailed as error:
            step = job.steps[-1]
            interpreter = (job.script or b"").partition(b"\n")[0].decode("utf-8", "replace")[2:]
            what = f"bad interpreter({interpreter.strip()}): {error.reason}"
            self.launcher.write_error(step, f"execve(): {what}")
            code = 2
        except OSError as error:
            log.info("Job %s could not be started: %s", job.id, error)
            step = job.steps[-1]
            code = -CANNOT_LAUNCH
        self.launcher.close(step, [code])
        if job.restarts != run:
            return
        job.script_exit = step.exit
        if code == 0:
            self.finish(job, COMPLETED)
        else:
            reason = "NonZeroExitCode" if code > 0 else "JobLaunchFailure"
            self.finish(job, FAILED, step.exit, reason)

    def finish(
        self,
        job: Job,
        state: str,
        result: tuple[int, int] = (0, 0),
        reason: str = "None",
        by: int | None = None,
    ) -> None:
        """Decide how the job ends; its processes are ended, then its share is free."""
        if job.state not in (PENDING, RUNNING):
            return
        was_running = job.state == RUNNING
        self.jobs.give_own_id(job)
        job.state, job.exit, job.cancelled_by = state, result, by
        job.end = time.time()
        if was_running:
            job.reason = reason
            job.completing = True
            self._in_background(self._end_processes(job))
        else:
            self.schedule()
        job.notify()

    async def _end_processes(self, job: Job) -> None:
        """TERM, a while of patience, KILL; then the job is over."""
        running = [step for step in job.steps if step.state == RUNNING]
        why = " DUE TO TIME LIMIT" if job.state == TIMEOUT else ""
        for step in running:
            step.ends_as = CANCELLED
            self.launcher.announce_end(step, why)
            send_to_step(step, signal.SIGTERM)
        waits = [p.ended for step in running for p in step.processes if not p.ended.done()]
        if waits:
            await asyncio.wait(waits, timeout=self.inventory.kill_wait)
        if running:
            await self.launcher.kill_job(job)
        job.completing = False
        job.end = time.time()
        job.notify()
        self.schedule()

    async def _watch_limits(self, job: Job, run: int) -> None:
        """Send --signal in time, and end the job at its limit; the limit may be changed."""
        while job.state == RUNNING and job.restarts == run:
            end = job.start + job.request.time_limit
            wanted = job.request.signal
            moment = end
            if wanted and not job.signalled:
                moment = min(end, max(job.start, end - wanted.seconds))
            delay = moment - time.time()
            if delay > 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(job.changed.wait(), delay)
            elif wanted and not job.signalled and moment < end:
                job.signalled = True
                self.signal_job(job, wanted.number, batch_only=wanted.batch_only)
            else:
                self.finish(job, TIMEOUT, (0, 0), "TimeLimit")

    # --- what people do to jobs --------------------------------------------------------

    def signal_job(self, job: Job, number: int, *, batch_only: bool) -> None:
        """Signal the batch shell only, or the steps only."""
        for step in job.steps:
            if step.state == RUNNING and (step.id == "batch") == batch_only:
                send_to_step(step, number)

    def signal_everything(self, job: Job, number: int) -> None:
        """Signal every process of the job."""
        self._in_background(self.launcher.signal_job(job, number))

    def cancel(self, job: Job) -> None:
        if job.state in (PENDING, RUNNING):
            self.finish(job, CANCELLED, by=self.inventory.uid)

    def cancel_step(self, step: Step) -> None:
        """Kill one step; its job goes on."""
        step.ends_as = f"{CANCELLED} by {self.inventory.uid}"
        self.launcher.announce_end(step, "")
        send_to_step(step, signal.SIGKILL)

    def hold(self, job: Job) -> None:
        if job.state == PENDING or job.goes_back:
            self.jobs.give_own_id(job)
            job.held = job.reason = "JobHeldUser"
            self.schedule()

    def release(self, job: Job) -> None:
        if job.held:
            job.held, job.reason = "", "None"
            self.schedule()

    def requeue(self, job: Job) -> None:
        """End what runs and put the job back; it may start again after a while."""
        self._in_background(self._requeue(job))

    async def _requeue(self, job: Job) -> None:
        job.goes_back = True
        self.finish(job, CANCELLED)
        while job.completing:
            await job.changed.wait()
        job.goes_back = False
        job.state, job.reason = PENDING, job.held or "BeginTime"
        job.restarts += 1
        job.shares, job.steps, job.exit, job.cancelled_by = (), [], (0, 0), None
        job.script_exit = None
        job.start = job.end = 0.0
        job.next_step = 0
        job.eligible = time.time() + REQUEUE_DELAY_SECONDS
        job.notify()
        self.schedule()

    def change(self, job: Job, **values: Any) -> None:
        """Change the request of a living job."""
        job.request = replace(job.request, **values)
        job.notify()
        self.schedule()
