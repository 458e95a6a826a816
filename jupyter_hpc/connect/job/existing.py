"""A session whose job exists: what to do about one with other resources than those asked for.

Asked is given, or said: the difference is shown, and the person decides between using the
job, replacing it and opening a further session. Without a person, nothing is decided.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass, replace
from enum import Enum

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.request import given_members, request_for, session_of
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.ssh.prompts import Field, Prompter, Question
from jupyter_hpc.errors import (
    PromptNeeded,
    UsageError,
)
from jupyter_hpc.slurm.client import SlurmClient
from jupyter_hpc.slurm.differences import differences
from jupyter_hpc.slurm.models import Job, Request
from jupyter_hpc.slurm.shape import same_shape

_log = logging.getLogger(__name__)

_MAX_TRIES = 3


class Choice(Enum):
    """The value is what a person types."""

    USE = "u"
    REPLACE = "r"
    FURTHER = "f"


@dataclass(frozen=True)
class Mismatch:
    """The job of session `name` is not what `options` ask for."""

    name: str
    job_id: str
    differences: tuple[str, ...]
    options: ConnectOptions
    request: Request  #: what is asked for, as Slurm would get it
    may_replace: bool = True  #: the demo ends with its own session

    @property
    def text(self) -> str:
        return (
            f"Job {self.job_id} of {self.name} exists, and is not what is asked for: "
            f"{', '.join(self.differences)}."
        )

    @property
    def commands(self) -> str:
        """The ways on, as commands."""
        words = " ".join(_words(self.options))
        replace = (
            f"  Replace it: jupyter-hpc stop {self.name}, then: "
            f"jupyter-hpc connect {self.name} {words}\n"
        )
        return (
            f"Use it: jupyter-hpc connect {self.name}\n"
            f"{replace if self.may_replace else ''}"
            f"  A further one: jupyter-hpc connect {self.name} --new {words}"
        )


def mismatch(profile: Profile, options: ConnectOptions, name: str, job: Job) -> Mismatch | None:
    """How the job differs from what was asked for on the command line; None if it does not."""
    given = given_members(profile, options.preset, options.overrides)
    allocation = profile.allocation_for(options.preset, options.overrides)
    request = request_for(profile, allocation, job.name)
    found = differences(given, request, job)
    return Mismatch(name, job.job_id, tuple(found), options, request) if found else None


async def shape_of(
    slurm: SlurmClient, profile: Profile, options: ConnectOptions, job: Job
) -> Request:
    """What a job was asked for that this connect has found, so that the next one is like it.

    The command line has no say where the person has set it aside to use the job as it is.
    """
    bare = replace(options, preset=None, overrides={})
    aside = mismatch(profile, options, session_of(job.name), job) is not None
    asked = bare if aside else options
    try:
        allocation = profile.allocation_for(asked.preset, asked.overrides)
    except UsageError:  # the site takes nothing without an option or a preset
        allocation = profile.allocation_for(options.preset, options.overrides)
    request = request_for(profile, allocation, job.name)
    shape = same_shape(await slurm.job_detail(job.job_id), request)
    if profile.slurm.gpu_flag == "none":
        shape = replace(shape, gpus=request.gpus, gpu_type=request.gpu_type)
    return shape


async def choose(found: Mismatch, prompter: Prompter) -> Choice:
    """What the person wants; UsageError with the three commands where nobody can answer."""
    unanswered = UsageError(found.text, found.commands)
    if not prompter.can_ask:
        raise unanswered
    replace = ", replace it (r)," if found.may_replace else ""
    field = Field(f"Use it (u){replace} or open a further one beside it (f)? [u]", echo=True)
    choices = {each.value for each in Choice if found.may_replace or each is not Choice.REPLACE}
    text = found.text
    for _ in range(_MAX_TRIES):
        try:
            (answer,) = await prompter.ask(Question(found.name, (field,), text=text))
        except PromptNeeded:
            raise unanswered from None
        typed = answer.strip().lower()[:1] or Choice.USE.value
        if typed in choices:
            return Choice(typed)
        text = f"Please type {'u, r' if found.may_replace else 'u'} or f."
    raise unanswered


def _words(options: ConnectOptions) -> list[str]:
    """The resources as they stood on the command line."""
    words = ["--preset", options.preset] if options.preset else []
    for member, value in options.overrides.items():
        option = "--mem" if member == "memory" else f"--{member.replace('_', '-')}"
        words += [option, str(value)]
    return [shlex.quote(word) for word in words]
