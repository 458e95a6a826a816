"""srun: run a step in a job, or get an allocation for just one step."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence

from jupyter_hpc.demo.slurm.admission import Refused
from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.environment import exported
from jupyter_hpc.demo.slurm.jobs import COMPLETED, FAILED, PENDING, RUNNING, Job, Step
from jupyter_hpc.demo.slurm.options import BadCommand
from jupyter_hpc.demo.slurm.request import build_request, read_gpus, read_options
from jupyter_hpc.demo.slurm.salloc import job_from, wait_for_allocation
from jupyter_hpc.demo.slurm.step_output import StepFiles
from jupyter_hpc.demo.slurm.step_watch import StepWatch
from jupyter_hpc.demo.slurm.steps import find_program
from jupyter_hpc.demo.slurm.version import version_line
from jupyter_hpc.demo.spawner import SpawnFailed

#: Exit codes of a task whose program cannot be executed, by errno.
CANNOT_EXECUTE = {2: 2, 13: 13}


async def srun(call: Call, controller: Controller) -> int:
    """Answer one srun."""
    options, command = read_options("srun", call.arguments, call.environment)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    if not command:
        raise BadCommand("srun: fatal: No command given to execute.")
    number = options.get("jobid") or call.environment.get("SLURM_JOB_ID")
    if number:
        job = _existing_job(number, controller)
        return await _run_step(call, controller, job, options, command)
    request = build_request(
        "srun",
        options,
        controller.inventory,
        work_dir=call.work_dir,
        now=time.time(),
        name=os.path.basename(command[0]),
    )
    try:
        job = controller.submit(request, job_from(call, request))
    except Refused as refusal:
        if refusal.detail:
            call.say(f"error: {refusal.detail}")
        call.say(f"error: Unable to allocate resources: {refusal.reason}")
        return 1
    code = await wait_for_allocation(call, controller, job, quiet="quiet" in options)
    if code is not None:
        return code
    sized = {"ntasks": str(request.tasks), **options}
    code = await _run_step(call, controller, job, sized, command)
    controller.finish(job, COMPLETED if code == 0 else FAILED, (code & 0xFF, 0))
    return code


def _existing_job(number: str, controller: Controller) -> Job:
    job = controller.jobs.by_id(int(number)) if number.isdigit() else None
    hint = f"srun: Check SLURM_JOB_ID environment variable. Expired or invalid job {number}"
    unable = f"srun: error: Unable to confirm allocation for job {number}"
    if job is None or job not in controller.jobs.remembered():
        raise BadCommand(f"{unable}: Invalid job id specified", hint)
    if job.state == PENDING:
        raise BadCommand(f"{unable}: Job is pending execution", hint)
    if job.state != RUNNING:
        raise BadCommand(f"srun: error: Slurm job {number} has expired", hint)
    return job


def _unable(job: Job, reason: str, *before: str) -> BadCommand:
    return BadCommand(*before, f"srun: error: Unable to create step for job {job.id}: {reason}")


def _size(call: Call, job: Job, options: Mapping[str, str]) -> tuple[int, int, tuple[str, ...]]:
    """Tasks, CPUs and nodes of the step; BadCommand if the job does not have them."""
    names = job.node_names
    if "nodelist" in options:
        wanted = options["nodelist"].split(",")
        if any(name not in names for name in wanted):
            raise _unable(job, "Requested node configuration is not available")
        names = tuple(name for name in names if name in wanted)
    count = int(options.get("nodes", "0").partition("-")[0] or 0)
    if count > len(names):
        raise BadCommand(f"srun: error: Only allocated {len(names)} nodes asked for {count}")
    per_node = int(options.get("ntasks-per-node") or 0)
    given = options.get("ntasks") or call.environment.get("SLURM_NTASKS")
    tasks = int(given) if given else (count or len(names)) * (per_node or 1)
    names = names[: min(count or len(names), tasks)]
    available = sum(share.cpus for share in job.shares if share.node in names)
    per_task = options.get("cpus-per-task") or call.environment.get("SRUN_CPUS_PER_TASK") or "1"
    cpus = tasks * int(per_task)
    if cpus > available:
        raise _unable(job, "More processors requested than permitted")
    # Without --exact a step takes all CPUs that the job has on its nodes.
    exact = "exact" in options or "cpus-per-task" in options
    return tasks, cpus if exact else available, names


def _gpus(job: Job, options: Mapping[str, str], nodes: Sequence[str]) -> int | None:
    """GPUs of the step on each node, None for all; BadCommand if the job does not have them."""
    refusal = "Invalid generic resource (gres) specification"
    held = [len(share.gpus) for share in job.shares if share.node in nodes]
    if options.get("gres", "").lower() == "none":
        return 0
    asked, _ = read_gpus("srun", options)
    if asked is None:
        # What was asked for the job counts for the step: job-wide GPUs are not on some nodes.
        if job.request.gpu_words[0] == "gpus" and len(nodes) < len(job.shares):
            raise _unable(job, refusal)
        return None
    if not any(share.gpus for share in job.shares):
        before = "srun: error: Step requested GRES but job doesn't have GRES"
        raise _unable(job, refusal, before)
    count = -(-asked.count // len(nodes)) if asked.per == "job" else asked.count
    if count > min(held):
        raise _unable(job, refusal)
    return count


async def _run_step(
    call: Call,
    controller: Controller,
    job: Job,
    options: Mapping[str, str],
    command: Sequence[str],
) -> int:
    tasks, cpus, nodes = _size(call, job, options)
    gpus = _gpus(job, options, nodes)
    overlap = "overlap" in options or bool(call.environment.get("SLURM_OVERLAP"))
    if not overlap and not await _room(call, job, cpus):
        return 1
    step = job.new_step(options.get("job-name") or os.path.basename(command[0]), tasks, cpus, nodes)
    step.overlap, step.gpus = overlap, gpus
    work_dir = os.path.join(call.work_dir, options.get("chdir", ""))
    if not await asyncio.to_thread(os.path.isdir, work_dir):
        call.err(
            f"slurmstepd-{nodes[0]}: error: couldn't chdir to `{work_dir}': "
            "No such file or directory: going to /tmp instead"
        )
    files = StepFiles(call, step, options, work_dir)
    codes = await _start_tasks(call, controller, step, options, command, files, work_dir)
    files.start_input()
    watch = StepWatch(call, controller, step)
    results = await controller.launcher.wait(step)
    await files.finish()
    watch.stop()
    started = [task for task in range(tasks) if task not in codes]
    codes.update(zip(started, results, strict=True))
    controller.launcher.close(step, list(codes.values()))
    job.notify()
    watch.report(codes, quiet="quiet" in options)
    return max((code if code >= 0 else 128 - code for code in codes.values()), default=0)


async def _start_tasks(
    call: Call,
    controller: Controller,
    step: Step,
    options: Mapping[str, str],
    command: Sequence[str],
    files: StepFiles,
    work_dir: str,
) -> dict[int, int]:
    """Start every task; the exit codes of those whose program cannot be executed."""
    environment = exported(call.environment, options.get("export"))
    environment.setdefault("SLURM_UMASK", "0022")
    # An srun inside a job keeps the job's name for its tasks, one from outside gives its own.
    name = call.environment.get("SLURM_JOB_NAME") or step.name
    failed: dict[int, int] = {}
    for task in range(step.tasks):
        opened = await files.open(task)
        try:
            await controller.launcher.start_task(
                step, task, command, environment, work_dir, opened, name
            )
        except SpawnFailed as error:
            failed[task] = CANNOT_EXECUTE.get(error.errno, 1)
            program = find_program(command[0], environment, work_dir)
            call.err(f"slurmstepd-{step.nodes[0]}: error: execve(): {program}: {error.reason}")
        finally:
            files.close_task(opened)
    return failed


async def _room(call: Call, job: Job, cpus: int) -> bool:
    """Wait until the steps that do not share leave enough CPUs; False if that ends early."""
    announced = False
    while True:
        used = sum(s.cpus for s in job.steps if s.state == RUNNING and not s.overlap)
        if used + cpus <= job.cpus:
            break
        if not announced:
            call.say(
                f"Job {job.id} step creation temporarily disabled, retrying "
                "(Requested nodes are busy)"
            )
            announced = True
        waits = {
            asyncio.ensure_future(job.changed.wait()),
            gone := asyncio.ensure_future(call.gone.wait()),
            signalled := asyncio.ensure_future(call.signals.get()),
        }
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        ended = gone.done() or signalled.done() or job.state != RUNNING
        for waiting in waits:
            waiting.cancel()
        if ended:
            call.say(f"Cancelled pending step for job {job.id}")
            return False
    if announced:
        call.say(f"Step created for job {job.id}")
    return True
