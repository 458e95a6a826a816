"""A trial as a short job of its own, for where no session is: asked for, looked at, taken away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jupyter_hpc.batch.job.files import encoded, stem
from jupyter_hpc.batch.job.model import BatchJob, Step
from jupyter_hpc.batch.job.script import script_text
from jupyter_hpc.batch.submit.snapshot import Send, create_run_folder, remove_run_folder
from jupyter_hpc.batch.trial.plan import PLAN, PROGRAM, Trial, Wanted
from jupyter_hpc.errors import HpcError, SubmitRejected
from jupyter_hpc.runner import Runner
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.models import Request
from jupyter_hpc.slurm.units import format_walltime, parse_walltime

#: For the environment of the job and for copies, beside the time of the trial itself.
_BESIDE_SECONDS = 300
_LEAST_SECONDS = 60.0
#: So much of the end of the log is brought.
_LOG_BYTES = 8000

#: Prints how far the trial in the run folder $1 is and what came of it, each followed by a null
#: byte.
_LOOK = r"""
for file in progress.json trial.json; do
    cat -- "$1/output/$file" 2> /dev/null
    printf '\0'
done
"""

#: Deletes the folder of a trial, and the one around it if nothing else is there.
_REMOVE = r"""
[ -e "$1/$2" ] || exit 0
rm -rf -- "$1" && rmdir -- "$(dirname -- "$1")" 2> /dev/null
[ ! -e "$1" ]
"""


def trial_request(
    request: Request, short: Request | None, wanted: Wanted, least: str | None = None
) -> tuple[Request, Wanted]:
    """What a trial's job asks for: one process, for minutes, where the preset `short` says.

    Of a preset only where it runs is taken, and none with other GPUs: these are measured.
    `least` is the shortest job that the site takes.
    """
    alone = replace(request, nodes=1, tasks=1, tasks_per_node=None)
    if (request.tasks or 1) > 1 and request.gpus:
        alone = replace(alone, gpus=1)  # each process has one
    seconds = int(wanted.seconds) + _BESIDE_SECONDS
    if short is not None and (short.gpus, short.gpu_type) == (request.gpus, request.gpu_type):
        place = {name: getattr(short, name) for name in ("partition", "account", "qos")}
        alone = replace(alone, constraint=short.constraint, extra=short.extra, **place)
        seconds = min(seconds, parse_walltime(short.time or "") or seconds)
    shortest = (parse_walltime(least) if least else None) or 0
    limit = max(seconds, shortest)
    fits = min(wanted.seconds, max(_LEAST_SECONDS, limit - _BESIDE_SECONDS))
    minutes = -(-limit // 60)
    return replace(alone, time=format_walltime(minutes * 60)), replace(wanted, seconds=fits)


def trial_job(trial: Trial, request: Request, wanted: Wanted) -> tuple[BatchJob, dict[str, bytes]]:
    """The job of a trial, and all files of its run folder."""
    run_dir = trial.job.run_dir
    job = replace(
        trial.job,
        request=replace(request, name=f"{request.name or stem(trial.job.notebook)[:34]}-trial"),
        steps=(Step(PROGRAM, "python", (f"{run_dir}/{PLAN}",)),),
        folder=None,
        parameters={},
    )
    plan = {**json.loads(trial.files[PLAN]), "seconds": wanted.seconds}
    files = {
        **trial.files,
        PLAN: encoded(json.dumps(plan)),
        _script_name(job): encoded(script_text(job)),
    }
    return job, files


def _script_name(job: BatchJob) -> str:
    return f"{stem(job.notebook)}.sbatch"


async def submit_trial(
    job: BatchJob,
    files: Mapping[str, bytes],
    runner: Runner,
    client: SlurmClient,
    send: Send | None,
) -> str:
    """Put it into the queue; its number. SubmitRejected if Slurm does not take it.

    Other errors say that it may be there all the same.
    """
    await create_run_folder(runner, job.run_dir, files, send)
    try:
        return (await client.submit_file(f"{job.run_dir}/{_script_name(job)}")).job_id
    except SubmitRejected:
        await remove_run_folder(runner, job.run_dir)
        raise
    except HpcError as error:
        error.hint = (
            f"{error.hint} The job of the trial may be in the queue all the same, for "
            f"{job.request.time} at most: jupyter-hpc jobs lists it."
        ).strip()
        raise


async def look(runner: Runner, run_dir: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """How far it is, and what came of it; {} for what is not there yet."""
    done = await runner.run(["sh", "-c", _LOOK, "sh", run_dir])
    told = [_table(text) for text in done.stdout.split("\0")]
    return (told[0], told[1]) if len(told) > 1 else ({}, {})


async def end_of_log(runner: Runner, run_dir: str, job_id: str) -> str:
    """What the job itself printed last."""
    path = f"{run_dir}/logs/{job_id}.out"
    return (await runner.run(["tail", "-c", str(_LOG_BYTES), "--", path])).stdout


async def remove_trial(runner: Runner, run_dir: str) -> bool:
    """Delete what a trial that is over has left; whether nothing is left."""
    return (await runner.run(["sh", "-c", _REMOVE, "sh", run_dir, PLAN])).ok


def _table(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
