"""A session whose job exists with other resources than those asked for: what to do about it.

Asked is given, or said: the difference is shown, and the person decides between using the
job, replacing it and opening a further session. Without a person, nothing is decided.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from enum import Enum

from jupyter_hpc.clusters import Profile
from jupyter_hpc.connect.job.request import given_members, request_for
from jupyter_hpc.connect.options import ConnectOptions
from jupyter_hpc.connect.ssh.prompts import Field, Prompter, Question
from jupyter_hpc.errors import (
    PromptNeeded,
    UsageError,
)
from jupyter_hpc.slurm.differences import differences
from jupyter_hpc.slurm.models import Job, Request

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
