"""`submit --trial "2 epochs"`: a short run fills time, memory and parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jupyter_hpc.batch.submit.choices import Choices
from jupyter_hpc.batch.submit.drafts import read_draft
from jupyter_hpc.batch.submit.submit import SubmitOptions
from jupyter_hpc.batch.trial.here import LocalTrial, check_session, memory_left, session_lock
from jupyter_hpc.batch.trial.measured import Measured, fill
from jupyter_hpc.batch.trial.plan import Trial, plan_trial, read_wanted
from jupyter_hpc.cli.hosts import Host
from jupyter_hpc.cli.trial_jobs import Teller, in_short_job
from jupyter_hpc.cli.trial_sessions import in_open_session
from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.job_environment import JobEnvironment, read_job_environment
from jupyter_hpc.text import printable, printable_lines

_LOOK_SECONDS = 0.5


async def tried(
    programs: Sequence[str],
    choices: Choices,
    options: SubmitOptions,
    given: Mapping[str, Any],
    host: Host,
    client: SlurmClient,
) -> SubmitOptions:
    """The options with what a trial says of time, memory and parts, where nobody has said it."""
    wanted = read_wanted(given["trial"])
    if len(programs) != 1 or not programs[0].endswith(".ipynb"):
        raise UsageError(
            "A trial runs one notebook as a script.", "Leave --trial out, and give --time."
        )
    path = Path(programs[0])
    draft = await read_draft(path, options, host.runner)
    trial = await plan_trial(path, draft, options, host.runner, wanted)
    epochs, total = trial.wanted.epochs, trial.total
    click.echo(f"Trying {epochs} of {total} epochs in a folder of its own.", err=True)
    measured = await _measured(trial, choices, options, host, client)
    click.echo(printable(measured.sentence(total)), err=True)
    for note in trial.notes:
        click.echo(printable(note), err=True)
    # Where the parts of a chain are given, each has its share.
    share = -(-total // (options.chain or 1))
    filled = fill(measured, share, processes=trial.processes, unit=options.chain_unit)
    request = options.request
    if given["mem"] is None and request.memory is not None:
        request = replace(request, memory=filled.memory)
    if options.chain_unit is not None:
        parts = filled.chain or 1
        click.echo(f"That makes {parts} part{'s' * (parts > 1)}.", err=True)
        options = replace(options, chain=filled.chain, chain_unit=None)
        request = replace(request, time=filled.time)
    elif given["time_"] is None:
        request = replace(request, time=filled.time)
    asked = " ".join(filter(None, [f"--time {request.time}", f"--mem {request.memory}"]))
    click.echo(printable_lines(f"Asked for: {asked}"), err=True)
    return replace(options, request=request)


async def _measured(
    trial: Trial, choices: Choices, options: SubmitOptions, host: Host, client: SlurmClient
) -> Measured:
    job = read_job_environment(os.environ) if host.here else None
    if job is None:
        found = None if host.here else await in_open_session(trial, choices, options, host)
        return found or await in_short_job(trial, choices, options, host, client)
    check_session(trial, os.environ)
    return await _in_session(trial, job)


async def _in_session(trial: Trial, job: JobEnvironment) -> Measured:
    """Here, in this job: it ends with this command, whatever ends that."""
    teller = Teller()
    lock = session_lock(Path.home(), job.id)
    running = LocalTrial.start(trial, memory_left(job), lock)
    try:
        while running.running:
            teller.progress(running.progress())
            await asyncio.sleep(_LOOK_SECONDS)
        return running.result()
    finally:
        running.end()
