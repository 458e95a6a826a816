"""salloc: ask for an allocation, wait for it, and with --no-shell leave it behind."""

from __future__ import annotations

import asyncio
import time

from jupyter_hpc.demo.layout import login_shell
from jupyter_hpc.demo.slurm.admission import Refused
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.environment import allocation_variables
from jupyter_hpc.demo.slurm.jobs import COMPLETED, PENDING, RUNNING, Job, Request
from jupyter_hpc.demo.slurm.request import build_request, read_options
from jupyter_hpc.demo.slurm.units import write_hostlist
from jupyter_hpc.demo.slurm.version import says_ready, version_line

UNABLE = "Unable to allocate resources"


async def salloc(call: Call, controller: Controller) -> int:
    """Answer one salloc."""
    options, command = read_options("salloc", call.arguments, call.environment)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    no_shell = "no-shell" in options
    name = "no-shell" if no_shell else "interactive"
    request = build_request(
        "salloc",
        options,
        controller.inventory,
        work_dir=call.work_dir,
        now=time.time(),
        name=name,
    )
    quiet = "quiet" in options
    try:
        job = controller.submit(request, job_from(call, request))
    except Refused as refusal:
        if refusal.detail:
            call.say(f"error: {refusal.detail}")
        call.say(f"error: Job submit/allocate failed: {refusal.reason}")
        return 1
    code = await wait_for_allocation(call, controller, job, quiet=quiet)
    if code is not None:
        return code
    if not quiet:
        call.say(f"Granted job allocation {job.id}")
        if says_ready(controller.inventory.slurm):
            call.say(f"Nodes {write_hostlist(job.node_names)} are ready for job")
    if no_shell:
        return 0
    argv = command or [login_shell()]
    code = await call.run_there(argv, allocation_variables(job, controller.inventory))
    if job.state == RUNNING:
        call.say(f"Relinquishing job allocation {job.id}")
        controller.finish(job, COMPLETED)
    return code


def job_from(call: Call, request: Request) -> Job:
    """What the command tells about itself, for Controller.submit."""
    return Job(0, request, host=call.host, client_pid=call.pid, submit_dir=call.work_dir)


async def wait_for_allocation(
    call: Call, controller: Controller, job: Job, *, quiet: bool
) -> int | None:
    """Wait until the job runs; None then, otherwise the exit code of a failure."""
    await asyncio.sleep(0)  # the scheduler's turn
    if job.state == RUNNING:
        return None
    immediate = job.request.immediate
    if immediate is None and not quiet:
        if call.program == "salloc":
            call.say(f"Pending job allocation {job.id}")
        call.say(f"job {job.id} queued and waiting for resources")
    deadline = None if immediate is None else time.time() + immediate
    if not await _started(call, job, deadline):
        if job.state == PENDING:
            controller.cancel(job)
            if deadline is not None and time.time() >= deadline:
                call.say("error: Unable to allocate resources: Connection timed out")
            else:
                call.say("Job aborted due to signal")
        else:
            call.say("Job has been cancelled")
            verb = "Job submit/allocate failed" if call.program == "salloc" else UNABLE
            call.say(f"error: {verb}: Job/step already completing or completed")
        return 1
    if immediate is None and not quiet:
        call.say(f"job {job.id} has been allocated resources")
    return None


async def _started(call: Call, job: Job, deadline: float | None) -> bool:
    """Wait while the job is pending; False if it will not be granted to this command.

    A command that is gone (killed with -9) is no reason to stop waiting: its job stays.
    """
    signals = asyncio.ensure_future(call.signals.get())
    try:
        while job.state == PENDING:
            changed = asyncio.ensure_future(job.changed.wait())
            timeout = None if deadline is None else max(0.0, deadline - time.time())
            await asyncio.wait(
                {changed, signals}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            changed.cancel()
            if signals.done() or (deadline is not None and time.time() >= deadline):
                break
    finally:
        signals.cancel()
    return job.state == RUNNING
