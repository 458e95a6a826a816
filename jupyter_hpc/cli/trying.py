"""`submit --trial "2 epochs"`: a short run in the session fills time, memory and parts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jupyter_hpc.batch.job.model import Environment
from jupyter_hpc.batch.submit.answers import checked_settings
from jupyter_hpc.batch.submit.drafts import read_draft, refused
from jupyter_hpc.batch.submit.submit import SubmitOptions
from jupyter_hpc.batch.submit.trial import epochs_of
from jupyter_hpc.batch.verify.trial_run import trial_run
from jupyter_hpc.cli.hosts import Host
from jupyter_hpc.errors import UsageError
from jupyter_hpc.slurm.units import format_walltime
from jupyter_hpc.text import printable, printable_lines


async def tried(
    programs: Sequence[str], options: SubmitOptions, given: Mapping[str, Any], host: Host
) -> SubmitOptions:
    """The options with what a trial says of time, memory and parts, where nobody has said it."""
    epochs = _epochs(given["trial"])
    if len(programs) != 1 or not programs[0].endswith(".ipynb") or options.mode != "script":
        raise UsageError(
            "A trial runs one notebook as a script.", "Leave --trial out, and give --time."
        )
    if not host.here or "SLURM_JOB_ID" not in os.environ:
        raise UsageError(
            "A trial runs in a session, since a login node is not for work.",
            "Run it in a terminal of JupyterLab; or submit a short run, whose log says "
            "`epoch 1`, `epoch 2`, and then the whole with --chain auto --unit T.",
        )
    path = Path(programs[0])
    draft = await read_draft(path, options, host.runner)
    if not draft.conversion.ok:
        raise refused(draft.conversion)
    settings = checked_settings(draft.conversion, options.settings)
    name, total = epochs_of(draft.conversion, settings)
    click.echo(f"Trying {epochs} of {total} epochs in a folder of its own.", err=True)
    measured = await trial_run(
        path,
        draft.conversion,
        host.runner,
        settings,
        name,
        min(epochs, total),
        python=_python(options.environment),
    )
    click.echo(printable(measured.sentence(total)), err=True)
    request = options.request
    if given["mem"] is None and request.memory is not None:
        request = replace(request, memory=measured.memory_request())
    if options.chain_unit is not None:
        parts = measured.parts(total, options.chain_unit)
        if not parts:
            raise UsageError(
                "One epoch of the trial took longer than one part.", "Give a longer --unit."
            )
        chain = parts if parts > 1 else None
        click.echo(f"That makes {parts} part{'s' * (parts > 1)}.", err=True)
        options = replace(options, chain=chain, chain_unit=None)
    elif given["time_"] is None:
        request = replace(request, time=format_walltime(measured.time_limit(total)))
    asked = " ".join(filter(None, [f"--time {request.time}", f"--mem {request.memory}"]))
    click.echo(printable_lines(f"Asked for: {asked}"), err=True)
    return replace(options, request=request)


def _epochs(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*(?:epochs?)?\s*", text)
    if found is None or int(found[1]) < 1:
        raise UsageError(
            f"--trial {printable(text, 40)} is no number of epochs.", 'Write --trial "2 epochs".'
        )
    return int(found[1])


def _python(environment: Environment) -> str:
    """The Python of the job, where it is a folder here; else the one that runs now."""
    for prefix in (environment.venv, environment.conda):
        if prefix and os.access(os.path.join(prefix, "bin", "python"), os.X_OK):
            return os.path.join(prefix, "bin", "python")
    return sys.executable
