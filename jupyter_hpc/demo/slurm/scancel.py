"""scancel: end jobs, array tasks and steps, or signal them."""

from __future__ import annotations

import re

from jupyter_hpc.demo.slurm.call import Call
from jupyter_hpc.demo.slurm.controller import Controller
from jupyter_hpc.demo.slurm.jobs import RUNNING, STATES, Job
from jupyter_hpc.demo.slurm.options import BadCommand, parse, table
from jupyter_hpc.demo.slurm.request import signal_number
from jupyter_hpc.demo.slurm.steps import send_to_step
from jupyter_hpc.demo.slurm.version import version_line

OPTIONS = table(
    {
        "account": "A:",
        "batch": "b",
        "full": "f",
        "jobname": "n:",
        "name": "n:",
        "me": "",
        "partition": "p:",
        "qos": "q:",
        "quiet": "Q",
        "signal": "s:",
        "state": "t:",
        "user": "u:",
        "verbose": "v",
        "version": "V",
    }
)
_JOB = re.compile(r"\d+(?:_(?:\d+|\[[\d,:-]+\]))?(?:\.\w+)?")


async def scancel(call: Call, controller: Controller) -> int:
    """Answer one scancel; jobs that have ended are no error, as in Slurm."""
    pairs, words = parse("scancel", call.arguments, OPTIONS)
    options = dict(pairs)
    if "version" in options:
        call.out(version_line(controller.inventory.slurm))
        return 0
    filters = {"account", "jobname", "name", "me", "partition", "qos", "state", "user"}
    if not words and not filters & set(options):
        raise BadCommand("scancel: error: No job identification provided")
    for word in words:
        if not _JOB.fullmatch(word):
            raise BadCommand(f"scancel: error: Invalid job id {word}")
    number = None
    if "signal" in options:
        number = signal_number(options["signal"])
        if number is None:
            raise BadCommand(f"scancel: error: Unknown job signal: {options['signal']}")
    for word in words or [""]:
        text, _, step = word.partition(".")
        jobs = controller.jobs.find(text) if text else list(controller.jobs)
        for job in jobs:
            if not job.done and _matches(job, options, controller):
                _act(controller, job, step, number, options)
    return 0


def _matches(job: Job, options: dict[str, str], controller: Controller) -> bool:
    request = job.request
    state = options.get("state", "").upper()
    state = {code: name for name, code in STATES.items()}.get(state, state)
    return (
        options.get("account", request.account) == request.account
        and options.get("jobname", request.name) == request.name
        and options.get("name", request.name) == request.name
        and options.get("partition", request.partition) == request.partition
        and options.get("qos", request.qos) == request.qos
        and options.get("user", controller.inventory.user) == controller.inventory.user
        and (not state or job.state == state)
    )


def _act(
    controller: Controller, job: Job, step: str, number: int | None, options: dict[str, str]
) -> None:
    if step:
        for found in job.steps:
            if found.id == step and found.state == RUNNING:
                if number is None:
                    controller.cancel_step(found)
                else:
                    send_to_step(found, number)
    elif number is None or job.state != RUNNING:
        controller.cancel(job)
    elif "full" in options:
        controller.signal_everything(job, number)
    else:
        controller.signal_job(job, number, batch_only="batch" in options)
